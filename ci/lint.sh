#!/usr/bin/env bash
# Format, clippy, documentation, and the rules of `xtask tidy`. About two minutes from a fresh clone.
set -euo pipefail
cd "$(dirname "$0")/.."

cargo fmt --all --check
# With everything that is optional. The profile is that of the tests: what runs while compiling is compiled once.
cargo clippy --workspace --all-targets --features everybuddy-cli/peers,everybuddy-page/browser \
    --locked --profile gate -- -D warnings
RUSTDOCFLAGS="-D warnings" cargo doc --workspace --no-deps --document-private-items --locked --profile gate --quiet
cargo run --quiet --locked --profile gate -p xtask -- tidy
