#!/usr/bin/env bash
# Format, clippy, documentation, and the rules of `xtask tidy`. About two minutes from a clean clone.
set -euo pipefail
cd "$(dirname "$0")/.."

cargo fmt --all --check
cargo clippy --workspace --all-targets --locked -- -D warnings
# What only `--features peers` compiles.
cargo clippy -p everybuddy-cli --features peers --all-targets --locked -- -D warnings
RUSTDOCFLAGS="-D warnings" cargo doc --workspace --no-deps --document-private-items --locked --quiet
cargo run --quiet --locked -p xtask -- tidy
