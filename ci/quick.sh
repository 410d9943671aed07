#!/usr/bin/env bash
# For daily work: 3 minutes on 2 CPUs from a fresh clone, less than one afterwards. It checks the format and the rules of
# tidy, and runs the tests of the allocators, the workloads, the traces and the page, and the canaries of the models.
# Neither the program nor the models are checked: that is done by the gate.
set -euo pipefail
cd "$(dirname "$0")/.."

gate=(--locked --profile gate)
cargo fmt --all --check
cargo run --quiet "${gate[@]}" -p xtask -- tidy
cargo test "${gate[@]}" -p everybuddy -p everybuddy-suite -p everybuddy-workload -p everybuddy-trace -p everybuddy-page -p xtask
cargo test "${gate[@]}" -p everybuddy-model canary
echo "quick: passed in $SECONDS s"
