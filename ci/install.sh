#!/usr/bin/env bash
# Installs what the checks need beyond Rust itself: ci/install.sh [TOOL...], by default what the gate needs: cc, lints and
# valgrind. The program and its tests need nothing but Rust and a C compiler. Where apt cannot install a tool,
# or there is no root, the checks that use it say so and skip.
#
#   cc         a C compiler, the linker and the headers of the C library: Rust links with them
#   lints      rustfmt and clippy, which a minimal toolchain lacks
#   valgrind   counts instructions
#   chromium   opens the page
#   nightly    a nightly compiler, for fuzzing and sanitizers
#   fuzz       cargo-fuzz
#   mutants    cargo-mutants
#   i686       the standard library and the linker for 32-bit x86
#   arm64      the standard library, the linker and an emulator for 64-bit ARM
#   targets    `core` for architectures that are only type-checked: RISC-V with floating point, and one that is big-endian
#   wasm       the standard library for WebAssembly
#   musl       the standard library for static programs, and what compiles and runs their C: ci/release.sh
#   kernel     a compiler and the sources of its `core`, Debian's rustc-web and rust-web-src
#   linux      a virtual machine, Debian's 6.12 cloud kernel with its headers and its source, what a build of it needs, and
#              what a first process needs
#   linux-7.2  the source of Linux 7.2 from Debian's sid, for a user-mode kernel with several CPUs
#   protoc     decodes timelines
#   c          C++ and clang with their sanitizers, pkg-config, and cbindgen, which generates the header for C
#   make       builds jemalloc
#   boot       a virtual machine, and the compiler's target for kernels; boot-aarch64 and boot-riscv64: of these architectures
#   ostd       the nightly compiler that examples/ostd names
#   deny       cargo-deny, which checks the dependencies
#   book       mdBook, which renders the book
#   semver     cargo-semver-checks, which compares the interfaces of libraries; only ci/publish.sh with a tag needs it
#   python     Python with virtual environments; ci/python.sh and ci/sweep.sh install their packages in one
#   cluster    GNU parallel and Slurm, which run the cells of a sweep
#   full       all of these except semver and linux-7.2
set -euo pipefail

# The version of cbindgen that generates crates/everybuddy-c/include/everybuddy.h.
CBINDGEN=0.29.4
# The version of mdBook that renders the book.
MDBOOK=0.5.4
# The version of cargo-deny, whose configuration deny.toml is.
DENY=0.20.2
# The version of cargo-semver-checks: an older one may not read what the compiler writes.
SEMVER_CHECKS=0.51.0

packages() { # COMMAND PACKAGE...: installs packages if the command is missing.
    local command=$1
    shift
    command -v "$command" >/dev/null && return
    if [ "$(id -u)" != 0 ] || ! command -v apt-get >/dev/null; then
        echo "install: no $command, and no root with apt to install it: its checks are skipped" >&2
        return
    fi
    export DEBIAN_FRONTEND=noninteractive
    apt-get update -qq && apt-get install -y -qq --no-install-recommends "$@" ||
        echo "install: apt could not install $*: its checks are skipped" >&2
}

[ $# -gt 0 ] || set -- cc lints valgrind
[ "$1" != full ] || set -- cc lints valgrind chromium nightly fuzz mutants i686 arm64 targets wasm musl kernel linux protoc c make boot boot-aarch64 boot-riscv64 ostd python book deny cluster
for tool in "$@"; do
    case $tool in
    cc) packages cc gcc libc6-dev ;;
    lints)
        if ! cargo fmt --version >/dev/null 2>&1 || ! cargo clippy --version >/dev/null 2>&1; then
            rustup component add rustfmt clippy
        fi
        ;;
    valgrind) packages valgrind valgrind ;;
    chromium) command -v google-chrome >/dev/null || packages chromium chromium fonts-dejavu-core ;;
    nightly) rustup toolchain list | grep -q '^nightly' || rustup toolchain install nightly --profile minimal ;;
    fuzz) command -v cargo-fuzz >/dev/null || cargo install cargo-fuzz --locked ;;
    mutants) command -v cargo-mutants >/dev/null || cargo install cargo-mutants --locked ;;
    i686)
        rustup target add i686-unknown-linux-gnu
        packages x86_64-linux-gnu-gcc gcc
        echo 'int main(void) { return 0; }' | cc -m32 -x c - -o /dev/null 2>/dev/null || packages no-m32 gcc-multilib
        ;;
    arm64)
        rustup target add aarch64-unknown-linux-gnu
        packages aarch64-linux-gnu-gcc gcc-aarch64-linux-gnu libc6-dev-arm64-cross
        packages qemu-aarch64 qemu-user
        ;;
    targets) rustup target add riscv64gc-unknown-none-elf s390x-unknown-linux-gnu ;;
    wasm) rustup target list --installed | grep -qx wasm32-unknown-unknown || rustup target add wasm32-unknown-unknown ;;
    musl)
        rustup target add x86_64-unknown-linux-musl aarch64-unknown-linux-musl
        packages musl-gcc musl-tools
        packages aarch64-linux-gnu-gcc gcc-aarch64-linux-gnu libc6-dev-arm64-cross
        packages qemu-aarch64-static qemu-user-static
        ;;
    linux-7.2)
        [ ! -e /usr/src/linux-source-7.2.tar.xz ] || continue
        # From another release, so with lists of its own; apt checks its signature.
        folder=$(mktemp -d)
        chmod 755 "$folder"
        keys=/usr/share/keyrings/debian-archive-keyring.gpg
        echo "deb [signed-by=$keys] http://deb.debian.org/debian sid main" >"$folder/sid.list"
        mkdir -p "$folder/lists/partial" "$folder/cache/archives/partial"
        options=(-qq -o "Dir::Etc::SourceList=$folder/sid.list" -o Dir::Etc::SourceParts=/dev/null
            -o "Dir::State::Lists=$folder/lists" -o "Dir::Cache=$folder/cache" -o APT::Sandbox::User=root)
        if ! apt-get "${options[@]}" update || ! (cd "$folder" && apt-get "${options[@]}" download linux-source-7.2); then
            echo "install: apt could not download linux-source-7.2 of Debian's sid: its checks are skipped" >&2
            continue
        fi
        dpkg-deb -x "$folder"/linux-source-7.2_*.deb "$folder/root"
        mv "$folder/root/usr/src/linux-source-7.2.tar.xz" /usr/src/
        rm -rf "$folder"
        ;;
    protoc) packages protoc protobuf-compiler ;;
    c)
        packages c++ g++
        packages clang clang libclang-rt-dev
        packages pkg-config pkg-config
        # The header of another version may differ.
        cbindgen --version 2>/dev/null | grep -q " $CBINDGEN\$" || cargo install cbindgen --locked --version "$CBINDGEN"
        ;;
    book)
        # It needs neither a server nor a watch of files.
        mdbook --version 2>/dev/null | grep -q " v$MDBOOK\$" ||
            cargo install mdbook --locked --version "$MDBOOK" --no-default-features --features search
        ;;
    deny) cargo deny --version 2>/dev/null | grep -q " $DENY\$" || cargo install cargo-deny --locked --version "$DENY" ;;
    semver)
        cargo semver-checks --version 2>/dev/null | grep -q " $SEMVER_CHECKS\$" ||
            cargo install cargo-semver-checks --locked --version "$SEMVER_CHECKS"
        ;;
    make) packages make make ;;
    boot)
        packages qemu-system-x86_64 qemu-system-x86
        rustup target add x86_64-unknown-none
        ;;
    boot-aarch64)
        packages qemu-system-aarch64 qemu-system-arm
        rustup target add aarch64-unknown-none-softfloat
        ;;
    boot-riscv64)
        # The firmware is a package of its own in newer releases.
        packages qemu-system-riscv64 qemu-system-misc opensbi
        rustup target add riscv64imac-unknown-none-elf
        ;;
    # rustup installs it when it is first called there.
    ostd) (cd "$(dirname "$0")/../examples/ostd" && cargo --version >/dev/null) ;;
    python) python3 -c 'import ensurepip' 2>/dev/null || packages no-venv python3 python3-venv ;;
    cluster)
        packages parallel parallel
        packages slurmctld slurm-wlm
        ;;
    linux)
        packages qemu-system-x86_64 qemu-system-x86
        packages busybox busybox-static
        packages cpio cpio
        packages make make
        packages flex flex
        packages bison bison
        packages bc bc
        packages xz xz-utils
        packages patch patch
        packages debootstrap debootstrap
        packages dbench dbench
        packages sysbench sysbench
        [ -e /usr/include/gelf.h ] || packages libelf libelf-dev
        [ -e /usr/src/linux-source-6.12.tar.xz ] || packages linux-source linux-source-6.12
        packages /boot/vmlinuz-6.12 linux-headers-6.12-cloud-amd64 linux-image-6.12-cloud-amd64
        ;;
    kernel) packages /usr/bin/rustc rustc-web rust-web-src ;;
    *)
        sed -n '2,/^set /s/^# \{0,1\}//p' "$0" >&2
        exit 2
        ;;
    esac
done
