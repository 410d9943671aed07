#!/usr/bin/env bash
# Boots examples/boot in QEMU, without hardware support: a kernel whose page frames come from the allocators, on 5 CPUs.
#
#   ci/boot.sh               every system, each with the properties of all its variants; 6 minutes
#   ci/boot.sh SYSTEM...     only these, such as `spring` or `lbs-31+batch=7`, with the kernel's report
#
# It fails if the kernel reports a failure, or does not end in time. Logs are in target/boot. It needs QEMU and the
# compiler's target x86_64-unknown-none; without them it exits with 77.
set -euo pipefail
cd "$(dirname "$0")/.."

target=x86_64-unknown-none
has_target() {
    [ -d "$(rustc --print sysroot)/lib/rustlib/$target/lib" ]
}

if ! has_target || ! command -v qemu-system-x86_64 >/dev/null; then
    ci/install.sh boot || true
fi
if ! has_target || ! command -v qemu-system-x86_64 >/dev/null; then
    echo "boot: no qemu-system-x86_64, or no target $target of the compiler (ci/install.sh boot): skipped"
    exit 77
fi

CARGO_TARGET_DIR=$(realpath -m "${CARGO_TARGET_DIR:-target}/boot")
export CARGO_TARGET_DIR
logs=$CARGO_TARGET_DIR
(
    cd examples/boot # Its configuration has the flags of the linker.
    cargo fmt --check
    cargo clippy --release --locked --quiet -- -D warnings
    cargo build --release --locked --quiet
)
kernel=$CARGO_TARGET_DIR/$target/release/boot

systems=("$@")
is_short=
if [ $# = 0 ]; then
    # The names of all systems, as SYSTEMS.md lists them.
    mapfile -t systems < <(sed -n 's/^| `\([a-z0-9-]*\)` | .* > .*/\1/p' SYSTEMS.md)
    is_short=yes
fi

failed=()
for system in "${systems[@]}"; do
    log=$logs/${system//[^a-z0-9+=-]/_}.log
    status=0
    # As in ci/linux.sh, without cmpxchg16b. The exit device ends QEMU with 33 after success.
    timeout 600 qemu-system-x86_64 -accel tcg -cpu max,cx16=off -smp 5 -m 64 -nodefaults -display none -no-reboot \
        -serial stdio -device isa-debug-exit,iobase=0xf4,iosize=4 \
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
    echo "boot: FAILED: ${failed[*]}" >&2
    exit 1
fi
echo "boot: ${#systems[@]} systems passed on 5 CPUs"
