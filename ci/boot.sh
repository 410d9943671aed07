#!/usr/bin/env bash
# Boots examples/boot in QEMU, without hardware support: a kernel whose page frames come from the allocators, on 5 CPUs.
#
#   ci/boot.sh [--arch ARCH]             every system, each with the properties of all its variants; 6 minutes
#   ci/boot.sh [--arch ARCH] SYSTEM...   only these, such as `spring` or `lbs-31+batch=7`, with the kernel's report
#   ci/boot.sh [--arch ARCH] --build     only builds the kernel
#
# ARCH is x86_64 (the default), aarch64 or riscv64. It fails if the kernel reports a failure, or does not end in time. Logs
# are in target/boot. It needs QEMU and the compiler's target; without them it exits with 77.
set -euo pipefail
cd "$(dirname "$0")/.."

arch=x86_64
if [ "${1:-}" = --arch ]; then
    arch=${2:-}
    shift 2
fi
tool=boot-$arch
# The machine, and how it ends with the kernel's code: 33 after success.
case $arch in
x86_64)
    tool=boot
    target=x86_64-unknown-none
    # As in ci/linux.sh, without cmpxchg16b.
    machine=(-cpu "max,cx16=off" -device "isa-debug-exit,iobase=0xf4,iosize=4")
    ;;
aarch64)
    target=aarch64-unknown-none-softfloat
    machine=(-machine "virt,gic-version=2" -cpu max -semihosting-config "enable=on,target=native")
    ;;
riscv64)
    target=riscv64imac-unknown-none-elf
    machine=(-machine virt -semihosting-config "enable=on,target=native")
    ;;
*)
    sed -n '2,/^set /s/^# \{0,1\}//p' "$0" | sed '/^set /d' >&2
    exit 2
    ;;
esac
qemu=qemu-system-$arch

has_tools() {
    [ -d "$(rustc --print sysroot)/lib/rustlib/$target/lib" ] && command -v "$qemu" >/dev/null
}
has_tools || ci/install.sh "$tool" || true
if ! has_tools; then
    echo "boot: no $qemu, or no target $target of the compiler (ci/install.sh $tool): skipped"
    exit 77
fi

CARGO_TARGET_DIR=$(realpath -m "${CARGO_TARGET_DIR:-target}/boot")
export CARGO_TARGET_DIR
logs=$CARGO_TARGET_DIR
started=$SECONDS
(
    cd examples/boot # Its configuration has the flags of the linker.
    cargo fmt --check
    cargo clippy --release --locked --quiet --target "$target" -- -D warnings
    cargo build --release --locked --quiet --target "$target"
)
kernel=$CARGO_TARGET_DIR/$target/release/boot
if [ "${1:-}" = --build ]; then
    echo "boot: the kernel for $arch was built in $((SECONDS - started)) s: $kernel"
    exit
fi

systems=("$@")
is_short=
if [ $# = 0 ]; then
    # The names of all systems, as SYSTEMS.md lists them.
    mapfile -t systems < <(sed -n 's/^| `\([a-z0-9-]*\)` | .* > .*/\1/p' SYSTEMS.md)
    is_short=yes
fi

failed=()
for system in "${systems[@]}"; do
    log=$logs/$arch-${system//[^a-z0-9+=-]/_}.log
    status=0
    timeout 600 "$qemu" -accel tcg "${machine[@]}" -smp 5 -m 64 -nodefaults -display none -no-reboot -serial stdio \
        -kernel "$kernel" -append "system=$system cpus=5 suite=variants" </dev/null >"$log" 2>&1 || status=$?
    if [ "$status" = 33 ] && grep -q '^boot: passed' "$log"; then
        if [ -n "$is_short" ]; then
            printf 'boot: %-20s %s\n' "$system" "$(awk '
                $1 == "random" { printf "%8d allocations", $2 }
                $1 == "interrupts" { printf "%6d in interrupts", $2 }
                $1 == "conformance" { printf "%4d properties of %2d variants", $2, $4 }' "$log")"
        else
            cat "$log"
        fi
        continue
    fi
    case $status in
    124) reason="the kernel did not end in time" ;;
    35) reason="the kernel reported a failure" ;;
    *) reason="QEMU ended with $status" ;;
    esac
    echo "boot: $system: $reason; the end of $log:" >&2
    tail -n 20 "$log" >&2
    failed+=("$system")
done
if [ ${#failed[@]} -gt 0 ]; then
    echo "boot: FAILED on $arch: ${failed[*]}" >&2
    exit 1
fi
echo "boot: ${#systems[@]} systems passed on 5 CPUs of $arch, in $((SECONDS - started)) s with the build"
