#!/usr/bin/env bash
# Builds the library for C and installs it with its header:
#
#   install.sh [PREFIX]                     with its pkg-config file, for programs
#   install.sh --kernel[=TARGET] [PREFIX]   a static library for kernels, which has no vector or floating-point registers,
#                                           red zone, unwinding or operating system. TARGET is x86_64-unknown-none by
#                                           default; RUSTFLAGS adds flags of the compiler
#
# Without a prefix, the folder is target/everybuddy-c. Needs Rust and a C compiler; a kernel needs the compiler's target,
# which `rustup target add TARGET` installs.
set -euo pipefail
kernel=
case ${1:-} in
--kernel) kernel=x86_64-unknown-none ;;
--kernel=*) kernel=${1#*=} ;;
-*)
    sed -n '2,/^set /s/^# \{0,1\}//p' "$0" >&2
    exit 2
    ;;
esac
[ -z "$kernel" ] || shift
prefix=${1:-}
[ -z "$prefix" ] || prefix=$(mkdir -p "$prefix" && cd "$prefix" && pwd)
cd "$(dirname "$0")/../.."

target=$(mkdir -p "${CARGO_TARGET_DIR:-target}" && cd "${CARGO_TARGET_DIR:-target}" && pwd)
prefix=${prefix:-$target/everybuddy-c}
version=$(sed -n 's/^version = "\(.*\)"/\1/p' Cargo.toml)
build=(cargo rustc --quiet --locked --profile c -p everybuddy-c --lib --features runtime)

if [ -n "$kernel" ]; then
    if [ ! -d "$(rustc --print sysroot)/lib/rustlib/$kernel/lib" ]; then
        echo "install: the compiler has no target $kernel: run rustup target add $kernel" >&2
        exit 2
    fi
    # The target leaves out the red zone, and has soft floats. These apply to all crates, as those of a kernel's own.
    flags="-C relocation-model=static -C force-unwind-tables=no"
    [ "$kernel" != x86_64-unknown-none ] || flags+=" -C code-model=kernel"
    RUSTFLAGS="$flags ${RUSTFLAGS:-}" "${build[@]}" --crate-type staticlib --target "$kernel"
    mkdir -p "$prefix/include" "$prefix/lib"
    install -m 644 "$target/$kernel/c/libeverybuddy_c.a" "$prefix/lib/libeverybuddy.a"
else
    # Programs find the shared library by this name. Before 1.0, each minor version has an interface of its own.
    soname=libeverybuddy.so.${version%.*}
    "${build[@]}" --crate-type staticlib,cdylib -- -C "link-arg=-Wl,-soname,$soname"
    mkdir -p "$prefix/include" "$prefix/lib/pkgconfig"
    install -m 644 "$target/c/libeverybuddy_c.a" "$prefix/lib/libeverybuddy.a"
    install -m 755 "$target/c/libeverybuddy_c.so" "$prefix/lib/$soname"
    ln -sf "$soname" "$prefix/lib/libeverybuddy.so"
    sed "s|@PREFIX@|$prefix|; s|@VERSION@|$version|" crates/everybuddy-c/everybuddy.pc.in \
        >"$prefix/lib/pkgconfig/everybuddy.pc"
fi
install -m 644 crates/everybuddy-c/include/everybuddy.h "$prefix/include"
echo "installed in $prefix"
