#!/usr/bin/env bash
# Compiles examples/kernel as a kernel would: an object without standard library, heap, SSE and red zone. Fails if it
# needs anything that a kernel does not have: symbols other than functions that panic and functions on memory.
#
#   ci/kernel.sh         with the `core` of the installed compiler; seconds
#   ci/kernel.sh full    also for x86_64-unknown-none, with `core` built from Debian's rust-web-src; a minute
set -euo pipefail
cd "$(dirname "$0")/.."

if [ "$(uname -m)" != x86_64 ]; then
    echo "kernel: the code model and the target features are those of x86-64: skipped"
    exit 77
fi
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT

# What every kernel says to the compiler. Bitcode would only be read by plugins of the linker.
flags=(--edition 2024 -O -C panic=abort -C codegen-units=1 -C embed-bitcode=no -C force-unwind-tables=no
    -C no-redzone=yes -C code-model=kernel -C relocation-model=static)

# Compiles both crates, links what the entry reaches, and checks what is undefined.
check() { # NAME COMPILER [FLAGS]
    local name=$1 compiler=$2 unexpected vectors
    shift 2
    echo "kernel: $name, $("$compiler" --version)"
    mkdir "$folder/$name"
    # Only its warnings about these flags are silenced: clippy sees the crates otherwise.
    "$compiler" "${flags[@]}" "$@" --cap-lints allow --crate-type rlib --crate-name everybuddy --emit link,obj \
        --out-dir "$folder/$name" crates/everybuddy/src/lib.rs 2>"$folder/warnings" || refuse
    "$compiler" "${flags[@]}" "$@" --cap-lints allow --crate-type lib --crate-name kernel --emit obj \
        --extern everybuddy="$folder/$name/libeverybuddy.rlib" --out-dir "$folder/$name" \
        examples/kernel/src/lib.rs 2>"$folder/warnings" || refuse
    ld -r --gc-sections -e kernel_main -o "$folder/$name/linked.o" "$folder/$name/kernel.o" "$folder/$name/everybuddy.o"
    # Symbols of code that the entry does not reach stay in the table until then.
    strip --strip-unneeded "$folder/$name/linked.o"
    size "$folder/$name/linked.o" | awk 'NR == 2 { print "  bytes of code " $1 ", data " $2 ", bss " $3 }'
    nm -u "$folder/$name/linked.o" | awk '{ print "  undefined " $2 }'
    unexpected=$(nm -u "$folder/$name/linked.o" | awk '{ print $2 }' |
        grep -vE '^(memcpy|memmove|memset|memcmp|bcmp)$|4core9panicking|4core5slice5index[0-9]+slice_[a-z_]*fail' || true)
    if [ -n "$unexpected" ]; then
        printf 'kernel: a kernel does not have these symbols:\n%s\n' "$unexpected" >&2
        exit 1
    fi
    vectors=$(objdump -d "$folder/$name/linked.o" | grep -cE '%[xyz]mm|%mm[0-7]|-0x[0-9a-f]+\(%rsp\)' || true)
    if [ "$vectors" != 0 ]; then
        echo "kernel: $vectors instructions use vector registers or the red zone" >&2
        exit 1
    fi
}

refuse() {
    cat "$folder/warnings" >&2
    exit 1
}

# The host's target has no soft floats of its own: the compiler warns about these features.
check host rustc -C target-feature=-mmx,-sse,-sse2,-sse3,+soft-float

[ "${1:-}" = full ] || exit 0
# The library of Debian's compiler, of its own version: others may be installed beside it.
library() {
    echo "/usr/src/rustc-$(/usr/bin/rustc --version 2>/dev/null | cut -d' ' -f2)/library"
}
if [ ! -d "$(library)/core" ]; then
    if [ "$(id -u)" != 0 ] || ! command -v apt-get >/dev/null; then
        echo "kernel: no rust-web-src, and no root with apt to install it: the full check is skipped" >&2
        exit 77
    fi
    apt-get update -qq
    apt-get install -y -qq --no-install-recommends rustc-web rust-web-src
fi
library=$(library)
bare=(--target x86_64-unknown-none --sysroot /nonexistent -L "$folder/bare-core")
mkdir "$folder/bare-core"
# Features of the compiler's own library, which only a nightly compiler, or one that is told so, builds.
export RUSTC_BOOTSTRAP=1
/usr/bin/rustc "${flags[@]}" "${bare[@]}" --cap-lints allow --crate-type rlib --crate-name core \
    --out-dir "$folder/bare-core" "$library/core/src/lib.rs"
# Crates without the standard library name this one; its functions stay undefined here.
echo '#![feature(compiler_builtins)] #![compiler_builtins] #![no_std]' |
    /usr/bin/rustc "${flags[@]}" "${bare[@]}" --cap-lints allow --crate-type rlib --crate-name compiler_builtins \
        --out-dir "$folder/bare-core" -
unset RUSTC_BOOTSTRAP
check x86_64-unknown-none /usr/bin/rustc "${bare[@]}"
