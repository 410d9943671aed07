#!/usr/bin/env bash
# The allocators on other architectures: their tests on 32-bit x86, and on 64-bit ARM in user-mode QEMU; a type check
# for RISC-V without an operating system and for a big-endian machine. 15 minutes, most of them in QEMU. Pointers and
# `usize` have 32 bits on the first. QEMU on x86-64 executes ARM's code, but orders memory like its host: loom checks
# the orderings.
# ci/install.sh i686 arm64 targets installs what is needed; a part that lacks something is left out, and the script ends
# with 77.
set -euo pipefail
cd "$(dirname "$0")/.."

if [ "$(uname -m)" != x86_64 ]; then
    echo "architectures: these tests run on x86-64 only: skipped"
    exit 77
fi
ci/install.sh i686 arm64 targets
missing=()

step() {
    echo "architectures: $* ($SECONDS s)"
}

if echo 'int main(void) { return 0; }' | cc -m32 -x c - -o /dev/null 2>/dev/null; then
    step "tests on 32-bit x86"
    cargo test --locked --profile gate --target i686-unknown-linux-gnu -p everybuddy -p everybuddy-suite -p everybuddy-workload
else
    missing+=("cc for 32 bits (gcc-multilib)")
fi

if command -v aarch64-linux-gnu-gcc >/dev/null && command -v qemu-aarch64 >/dev/null; then
    step "tests on 64-bit ARM"
    export CARGO_TARGET_AARCH64_UNKNOWN_LINUX_GNU_LINKER=aarch64-linux-gnu-gcc
    export CARGO_TARGET_AARCH64_UNKNOWN_LINUX_GNU_RUNNER="qemu-aarch64 -L /usr/aarch64-linux-gnu"
    cargo test --locked --profile gate --target aarch64-unknown-linux-gnu -p everybuddy -p everybuddy-suite --lib --test all
else
    missing+=("a linker for ARM or qemu-aarch64")
fi

# Only `core` is needed, so no linker.
for target in riscv64gc-unknown-none-elf s390x-unknown-linux-gnu; do
    step "type check for $target"
    cargo check --locked --target "$target" -p everybuddy -p everybuddy-adapters \
        --features everybuddy-adapters/e820,everybuddy-adapters/fdt,everybuddy-adapters/limine \
        --features everybuddy-adapters/multiboot2,everybuddy-adapters/uefi
done

if [ ${#missing[@]} -gt 0 ]; then
    echo "architectures: without $(printf '%s, ' "${missing[@]}" | sed 's/, $//'): the rest passed: skipped"
    exit 77
fi
echo "architectures: passed in $SECONDS s"
