#!/usr/bin/env bash
# Format, clippy, documentation, and the rules of `xtask tidy`. About two minutes from a fresh clone.
set -euo pipefail
cd "$(dirname "$0")/.."

cargo fmt --all --check
# The profile is that of the tests: what runs while compiling is compiled once. The tests that need a browser, whose
# driver is as large as everything else, are checked by ci/page.sh. The feature `plain` is compiled nowhere else here.
cargo clippy --workspace --all-targets --features everybuddy-cli/peers,everybuddy-example-instructions/accesses,everybuddy-suite/plain --locked --profile gate \
    -- -D warnings
RUSTDOCFLAGS="-D warnings" cargo doc --workspace --no-deps --document-private-items --locked --profile gate --quiet
cargo run --quiet --locked --profile gate -p xtask -- tidy
# Each path that can break a long check exists.
ci/full.sh --since HEAD >/dev/null
