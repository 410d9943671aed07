#!/usr/bin/env bash
# All tests: the test command of the README.
#
# Release for what explores many states or replays traces, with debug assertions for what guards invariants.
set -euo pipefail
cd "$(dirname "$0")/.."

# The allocators with debug assertions: the structures' own tests of what they are told.
cargo test --locked -p everybuddy -p everybuddy-workload -p everybuddy-sim -p everybuddy-trace \
    -p everybuddy-record -p everybuddy-peers -p everybuddy-example-kernel -p xtask
# The laboratory's own arithmetic: hardly optimized, since every system is compiled into it, which takes minutes.
cargo test --locked -p everybuddy-measure -p everybuddy-papers
cargo test --locked -p everybuddy-cli --lib
# Models, replays and the program as users run it.
cargo test --locked --release -p everybuddy-model -p everybuddy-workload
cargo test --locked --release -p everybuddy-cli --test '*'
# The page, in a browser.
ci/page.sh
