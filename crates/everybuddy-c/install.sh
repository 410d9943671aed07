#!/usr/bin/env bash
# Builds the library for C and installs it with its header and its pkg-config file: install.sh [PREFIX]. Without a
# prefix, the folder is target/everybuddy-c. Needs Rust and a C compiler.
set -euo pipefail
prefix=${1:-}
[ -z "$prefix" ] || prefix=$(mkdir -p "$prefix" && cd "$prefix" && pwd)
cd "$(dirname "$0")/../.."

target=$(mkdir -p "${CARGO_TARGET_DIR:-target}" && cd "${CARGO_TARGET_DIR:-target}" && pwd)
prefix=${prefix:-$target/everybuddy-c}
version=$(sed -n 's/^version = "\(.*\)"/\1/p' Cargo.toml)
# Programs find the shared library by this name. Before 1.0, each minor version has an interface of its own.
soname=libeverybuddy.so.${version%.*}

cargo rustc --quiet --locked --profile c -p everybuddy-c --lib --features runtime --crate-type staticlib,cdylib -- \
    -C "link-arg=-Wl,-soname,$soname"
mkdir -p "$prefix/include" "$prefix/lib/pkgconfig"
install -m 644 crates/everybuddy-c/include/everybuddy.h "$prefix/include"
install -m 644 "$target/c/libeverybuddy_c.a" "$prefix/lib/libeverybuddy.a"
install -m 755 "$target/c/libeverybuddy_c.so" "$prefix/lib/$soname"
ln -sf "$soname" "$prefix/lib/libeverybuddy.so"
sed "s|@PREFIX@|$prefix|; s|@VERSION@|$version|" crates/everybuddy-c/everybuddy.pc.in \
    >"$prefix/lib/pkgconfig/everybuddy.pc"
echo "installed in $prefix"
