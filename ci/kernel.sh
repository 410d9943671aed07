#!/usr/bin/env bash
# Compiles the allocators as a kernel would: without standard library, heap, SSE, red zone and unwinding. Fails if the
# object needs anything that a kernel does not have.
#
#   ci/kernel.sh               examples/kernel, with the `core` of the installed compiler; seconds
#   ci/kernel.sh full          also for x86_64-unknown-none, with `core` built from Debian's rust-web-src; a minute
#   ci/kernel.sh object FILE [um]
#                              all systems as one object for Linux (crates/everybuddy-kernel), in the same way, or for
#                              user-mode Linux. The built `core` stays in the folder of FILE; 55 s of CPU at first, then 30
#   ci/kernel.sh inspect OBJECT PERMITTED
#                              only checks a linked object, which may need the symbols that the pattern permits
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
memory='^(memcpy|memmove|memset|memcmp|bcmp|strlen)$'

# Fails if a linked object refers to a symbol that no pattern permits, or contains what a kernel must not execute: an
# instruction on vector or floating-point registers, the red zone.
inspect() { # OBJECT PERMITTED
    local unexpected vectors
    size "$1" | awk 'NR == 2 { print "  bytes of code " $1 ", data " $2 ", bss " $3 }'
    nm -u "$1" | awk '{ print "  undefined " $2 }'
    unexpected=$(nm -u "$1" | awk '{ print $2 }' | grep -vE "$memory|$2" || true)
    if [ -n "$unexpected" ]; then
        printf 'kernel: a kernel does not have these symbols:\n%s\n' "$unexpected" >&2
        exit 1
    fi
    # Without the addresses, some of which look like `fadd`.
    vectors=$(objdump -d --no-show-raw-insn "$1" | cut -f2- |
        grep -cE '%[xyz]mm|%mm[0-7]|%st\b|-0x[0-9a-f]+\(%rsp\)|^f(i?ld|i?st|add|sub|mul|div|init)[a-z0-9]*\s*$' || true)
    if [ "$vectors" != 0 ]; then
        echo "kernel: $vectors instructions use vector or floating-point registers, or the red zone" >&2
        exit 1
    fi
}

if [ "${1:-}" = inspect ]; then
    inspect "$2" "$3"
    exit
fi

# Compiles both crates, links what the entry reaches, and checks it.
check() { # NAME COMPILER [FLAGS]
    local name=$1 compiler=$2
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
    inspect "$folder/$name/linked.o" '4core9panicking|4core5slice5index[0-9]+slice_[a-z_]*fail'
}

refuse() {
    cat "$folder/warnings" >&2
    exit 1
}

# The library of Debian's compiler, of its own version: others may be installed beside it.
library() {
    echo "/usr/src/rustc-$(/usr/bin/rustc --version 2>/dev/null | cut -d' ' -f2)/library"
}

# Builds `core` for x86_64-unknown-none into a folder, and sets `bare` to the flags that use it.
core() { # FOLDER [FLAGS]
    local core=$1
    shift
    [ -d "$(library)/core" ] || ci/install.sh kernel
    if [ ! -d "$(library)/core" ]; then
        echo "kernel: no rust-web-src, and no root with apt to install it: skipped" >&2
        exit 77
    fi
    bare=(--target x86_64-unknown-none --sysroot /nonexistent -L "$core" "$@")
    [ ! -e "$core/done" ] || return 0
    mkdir -p "$core"
    # Features of the compiler's own library, which only a nightly compiler, or one that is told so, builds.
    RUSTC_BOOTSTRAP=1 /usr/bin/rustc "${flags[@]}" "${bare[@]}" --cap-lints allow --crate-type rlib --crate-name core \
        --out-dir "$core" "$(library)/core/src/lib.rs"
    # Crates without the standard library name this one; its functions stay undefined here.
    echo '#![feature(compiler_builtins)] #![compiler_builtins] #![no_std]' |
        RUSTC_BOOTSTRAP=1 /usr/bin/rustc "${flags[@]}" "${bare[@]}" --cap-lints allow --crate-type rlib \
            --crate-name compiler_builtins --out-dir "$core" -
    touch "$core/done"
}

if [ "${1:-}" = object ]; then
    object=$(realpath -m "$2")
    # What Linux expects of each function: returns and indirect calls through its thunks, and landing pads.
    linux=(-Zfunction-return=thunk-extern -Zretpoline-external-thunk -Zcf-protection=branch -Zplt=yes)
    # A user-mode Linux is a program: it has no such thunks, and lies where programs lie.
    [ "${3:-}" != um ] || linux=(-C code-model=small -Zplt=yes)
    core=$(dirname "$object")/core${3:+-$3}-$(/usr/bin/rustc --version | cut -d' ' -f2)
    core "$core" "${linux[@]}"
    echo "kernel: everybuddy-kernel for x86_64-unknown-none, $(/usr/bin/rustc --version)"
    export RUSTC_BOOTSTRAP=1 # For the flags of Linux.
    compile=(/usr/bin/rustc "${flags[@]}" "${bare[@]}" --cap-lints allow --remap-path-prefix "$PWD/=" --crate-type rlib
        --out-dir "$folder")
    "${compile[@]}" --crate-name everybuddy crates/everybuddy/src/lib.rs
    "${compile[@]}" --crate-name everybuddy_kernel --extern everybuddy="$folder/libeverybuddy.rlib" \
        crates/everybuddy-kernel/src/lib.rs
    # Links what the functions of the header reach, also of `core`, into few sections.
    header=crates/everybuddy-kernel/include/everybuddy_kernel.h
    mapfile -t calls < <(grep '^[a-z]' "$header" | grep -v '^static inline' | grep -oE '\beverybuddy_[a-z_]+\(' | tr -d '(' |
        grep -vxE 'everybuddy_(panic|interrupts_off|interrupts_restore)' | sort -u)
    cat >"$folder/sections" <<'SECTIONS'
SECTIONS {
    .text : { *(.text .text.*) }
    .rodata : { *(.rodata .rodata.*) }
    .data.rel.ro : { *(.data.rel.ro .data.rel.ro.*) }
    .data : { *(.data .data.*) }
    .bss : { *(.bss .bss.*) }
    /DISCARD/ : { *(.comment) }
}
SECTIONS
    # In two steps, because the linker collects no garbage while it joins sections.
    ld -r --gc-sections -e "${calls[0]}" "${calls[@]/#/--undefined=}" -o "$folder/reached.o" \
        "$folder/libeverybuddy_kernel.rlib" "$folder/libeverybuddy.rlib" "$core/libcore.rlib"
    ld -r -T "$folder/sections" -o "$folder/linked.o" "$folder/reached.o"
    # The names of other functions stay, for stack traces, but are local.
    objcopy --strip-debug --wildcard --keep-global-symbol='everybuddy_*' "$folder/linked.o"
    inspect "$folder/linked.o" '^(everybuddy_(panic|interrupts_off|interrupts_restore)|__x86_return_thunk|__x86_indirect_thunk_[a-z0-9]+)$'
    if readelf -SW "$folder/linked.o" | grep -q '\.eh_frame'; then
        echo "kernel: the object has tables for unwinding" >&2
        exit 1
    fi
    # A module has no table of addresses (GOT): its loader knows only these kinds.
    if readelf -rW "$folder/linked.o" | grep -oE 'R_X86_64_[A-Z0-9_]+' |
        grep -vxE 'R_X86_64_(64|32|32S|PC32|PC64|PLT32)' >&2; then
        echo "kernel: Linux cannot load modules with such references" >&2
        exit 1
    fi
    mv "$folder/linked.o" "$object"
    exit
fi

# The host's target has no soft floats of its own: the compiler warns about these features.
check host rustc -C target-feature=-mmx,-sse,-sse2,-sse3,+soft-float

[ "${1:-}" = full ] || exit 0
core "$folder/core"
check x86_64-unknown-none /usr/bin/rustc "${bare[@]}"
