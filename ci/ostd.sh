#!/usr/bin/env bash
# Compiles the guide of everybuddy-adapters for OSTD with OSTD itself (examples/ostd). A few minutes at first. It needs rustup,
# which installs the nightly compiler that examples/ostd/rust-toolchain.toml names; without it, it exits with 77.
set -euo pipefail
cd "$(dirname "$0")/../examples/ostd"

# Installs the compiler if it is missing.
if ! command -v rustup >/dev/null || ! cargo --version >/dev/null; then
    echo "ostd: no rustup, or it cannot install the nightly compiler: skipped"
    exit 77
fi
CARGO_TARGET_DIR=$(realpath -m "${CARGO_TARGET_DIR:-../../target}/ostd")
export CARGO_TARGET_DIR
cargo check --locked --quiet
echo "ostd: the code of the guide of everybuddy-adapters compiles with OSTD $(cargo pkgid ostd | sed 's/.*[@#]//')"
