#!/usr/bin/env bash
# jemalloc with its extents in a pool: the same program with the pool and with mmap, in one run. 2 minutes, most of which
# compile jemalloc. Needs a C compiler and make; without them it exits with 77.
set -euo pipefail
cd "$(dirname "$0")/.."

ci/install.sh cc make
for tool in cc make; do
    if ! command -v "$tool" >/dev/null; then
        echo "jemalloc: no $tool: skipped"
        exit 77
    fi
done
export CARGO_TARGET_DIR=${CARGO_TARGET_DIR:-target}/jemalloc
manifest=examples/jemalloc/Cargo.toml
cargo fmt --check --manifest-path "$manifest"
cargo clippy --release --locked --manifest-path "$manifest" -- -D warnings
for threads in 1 4; do
    cargo run --release --locked --quiet --manifest-path "$manifest" -- "$threads"
done
