#!/usr/bin/env bash
# The allocators on another architecture: their tests on 32-bit x86. 3 minutes. Pointers and `usize` have 32 bits there.
# Needs the standard library for that target and a linker (ci/install.sh i686); without them it exits with 77.
set -euo pipefail
cd "$(dirname "$0")/.."

target=i686-unknown-linux-gnu
if [ "$(uname -m)" != x86_64 ]; then
    echo "architectures: the tests of $target run on x86-64 only: skipped"
    exit 77
fi
ci/install.sh i686
if ! echo 'int main(void) { return 0; }' | cc -m32 -x c - -o /dev/null 2>/dev/null; then
    echo "architectures: cc cannot link for 32 bits (gcc-multilib): skipped"
    exit 77
fi
cargo test --locked --profile gate --target "$target" -p everybuddy -p everybuddy-workload
