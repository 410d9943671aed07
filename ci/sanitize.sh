#!/usr/bin/env bash
# The tests of allocators and pools under AddressSanitizer: what `unsafe` indexing and placing could break. Needs a
# nightly toolchain; 4 minutes. (ci/test.sh runs the code of
# the systems under loom and shuttle. The pool is not among it.)
set -euo pipefail
cd "$(dirname "$0")/.."

target=$(rustc -vV | sed -n 's/^host: //p')
export RUSTFLAGS="-Zsanitizer=address" ASAN_OPTIONS=detect_leaks=0
export CARGO_TARGET_DIR=${CARGO_TARGET_DIR:-target}/sanitize
cargo +nightly test --locked --target "$target" -p everybuddy -p everybuddy-suite -p everybuddy-workload -p everybuddy-pool --lib --tests
