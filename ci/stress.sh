#!/usr/bin/env bash
# The long tests: 10^8 operations on two threads over a shadow bitmap for every system, all programs of seven
# steps on tiny memory, and the exhaustive models. Takes about half an hour; not part of ci/test.sh.
set -euo pipefail
cd "$(dirname "$0")/.."

EVERYBUDDY_OPERATIONS=${EVERYBUDDY_OPERATIONS:-100000000} \
    cargo test --release --locked -p everybuddy-workload --test shadow -- --nocapture
cargo test --release --locked -p everybuddy --test oracle -- --ignored --nocapture
cargo test --release --locked -p everybuddy-model -- --ignored --nocapture
