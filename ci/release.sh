#!/usr/bin/env bash
# Files for users without a compiler: static programs with manual pages, completions and all licences, Debian packages,
# wheels, and the page that reads logs. They are left in target/release-files. 25 minutes, most of them to compile.
#
#   ci/release.sh                    everything, and then `check`
#   ci/release.sh memory             only what has `everybuddy-memory`: 5 minutes
#   ci/release.sh check              runs each file in an empty root, where nothing but it is installed
#   ci/release.sh twice              builds `everybuddy-memory` in two folders and compares all files byte by byte
#
# Two builds of one commit by one compiler are equal: no path, no time and no order of a folder is in a file. What the
# tools lack for (a compiler for C, a linker, Python) is said and left out, and the script exits with 77. MAINTAINER sets
# the field of that name in the Debian packages.
set -euo pipefail
cd "$(dirname "$0")/.."

MACHINES=(x86_64 aarch64)
# Where node_exporter reads metrics: as its own documentation has it, and in Debian's package prometheus-node-exporter.
METRICS=/var/lib/node_exporter/textfile
METRICS_DEBIAN=/var/lib/prometheus/node-exporter
# An administrator may have to copy it by hand.
LARGEST_MEMORY=$((3 << 20))

version=$(sed -n '0,/^version = /s/^version = "\(.*\)"/\1/p' Cargo.toml)
home=$(sed -n 's/^repository = "\(.*\)"/\1/p' Cargo.toml)
SOURCE_DATE_EPOCH=$(git log -1 --format=%ct)
export SOURCE_DATE_EPOCH LC_ALL=C TZ=UTC
umask 022
target=${CARGO_TARGET_DIR:-target}
mkdir -p "$target"
target=$(cd "$target" && pwd)
files=$target/release-files
work=$target/release-work
missing=()

step() {
    echo "release: $* ($SECONDS s)"
}

fail() {
    echo "release: $*" >&2
    exit 1
}

# Everything is built in a folder of its own: other flags would compile the other builds' dependencies again.
configure() {
    local cargo=${CARGO_HOME:-$HOME/.cargo} rust host
    rust=$(rustc --print sysroot)
    host=$(rustc -vV | sed -n 's/^host: //p')
    ci/install.sh musl
    EVERYBUDDY_COMMIT=$(git rev-parse --short=10 HEAD)
    export EVERYBUDDY_COMMIT
    # Messages of panics name files.
    export RUSTFLAGS="--remap-path-prefix=$PWD=/everybuddy --remap-path-prefix=$cargo=/cargo --remap-path-prefix=$rust=/rust"
    export CFLAGS="-ffile-prefix-map=$cargo=/cargo" CARGO_INCREMENTAL=0 CARGO_PROFILE_RELEASE_STRIP=true
    export CARGO_TARGET_DIR=$target/release-build
    # Rust has the C library of a static program, and a linker for all processors.
    export CARGO_TARGET_AARCH64_UNKNOWN_LINUX_MUSL_LINKER=$rust/lib/rustlib/$host/bin/rust-lld
    export CC_aarch64_unknown_linux_musl=aarch64-linux-gnu-gcc
}

compile() { # PACKAGE MACHINE
    cargo build --quiet --release --locked -p "$1" --target "$2-unknown-linux-musl"
}

program() { # NAME MACHINE: prints the path of a program.
    echo "$CARGO_TARGET_DIR/$2-unknown-linux-musl/release/$1"
}

# Manual pages and completions, which are the same for all processors.
manual() { # NAME
    rm -rf "$work/$1"
    mkdir -p "$work/$1"
    if [ "$1" = everybuddy-memory ]; then
        cargo run --quiet --release --locked -p everybuddy-memory --example manual \
            --target "$(uname -m)-unknown-linux-musl" -- "$work/$1"
        return
    fi
    local everybuddy
    everybuddy=$(program everybuddy "$(uname -m)")
    "$everybuddy" man "$work/$1" 2>/dev/null
    # The program of that name has it.
    rm -f "$work/$1/everybuddy-memory.1"
    "$everybuddy" completions bash >"$work/$1/everybuddy.bash"
    "$everybuddy" completions fish >"$work/$1/everybuddy.fish"
    "$everybuddy" completions zsh >"$work/$1/_everybuddy"
}

archive() { # NAME PACKAGE MACHINE
    local name=$1-$version-$3-unknown-linux-musl folder
    folder=$work/$name
    rm -rf "$folder"
    mkdir -p "$folder/man" "$folder/completions"
    install -m 755 "$(program "$1" "$3")" "$folder/"
    install -m 644 "$work/$1"/*.1 "$folder/man/"
    install -m 644 "$work/$1"/{*.bash,*.fish,_*} "$folder/completions/"
    install -m 644 LICENSE-MIT LICENSE-APACHE "$folder/"
    install -m 644 docs/install.md "$folder/README.md"
    ci/licences.py "$2" "$3-unknown-linux-musl" >"$folder/THIRD-PARTY.txt"
    if [ "$1" = everybuddy-memory ]; then
        install -Dm 644 -t "$folder/systemd" lab/memory/systemd/*
    fi
    tar --sort=name --format=ustar --owner=0 --group=0 --numeric-owner --mtime="@$SOURCE_DATE_EPOCH" \
        -C "$work" -cf - "$name" | gzip -9n >"$files/$name.tar.gz"
}

# A unit that is installed is neither enabled nor started: that is the administrator's choice.
debian() { # NAME MACHINE SUMMARY
    local architecture=${2/x86_64/amd64} root=$work/$1-$2-debian folder=$work/$1-$version-$2-unknown-linux-musl unit suggests
    architecture=${architecture/aarch64/arm64}
    if ! command -v dpkg-deb >/dev/null; then
        missing+=("dpkg-deb")
        return
    fi
    rm -rf "$root"
    install -Dm 755 "$folder/$1" "$root/usr/bin/$1"
    install -Dm 644 -t "$root/usr/share/man/man1" "$folder"/man/*
    gzip -9n "$root"/usr/share/man/man1/*
    install -Dm 644 "$folder/completions/$1.bash" "$root/usr/share/bash-completion/completions/$1"
    install -Dm 644 "$folder/completions/$1.fish" "$root/usr/share/fish/vendor_completions.d/$1.fish"
    install -Dm 644 "$folder/completions/_$1" "$root/usr/share/zsh/vendor-completions/_$1"
    mkdir -p "$root/usr/share/doc/$1"
    {
        printf 'Everybuddy is licensed under the MIT licence or the Apache License 2.0, as you choose.\n'
        printf 'The latter is in /usr/share/common-licenses/Apache-2.0 and below.\n\n'
        cat LICENSE-MIT "$folder/THIRD-PARTY.txt"
    } >"$root/usr/share/doc/$1/copyright"
    for unit in "$folder"/systemd/*; do
        [ -e "$unit" ] || continue
        mkdir -p "$root/usr/lib/systemd/system"
        sed "s:/usr/local/bin/:/usr/bin/:; s:$METRICS\\b:$METRICS_DEBIAN:g" "$unit" >"$root/usr/lib/systemd/system/$(basename "$unit")"
    done
    suggests=$([ ! -e "$folder/systemd" ] || echo prometheus-node-exporter)
    mkdir "$root/DEBIAN"
    cat >"$root/DEBIAN/control" <<EOF
Package: $1
Version: $version
Architecture: $architecture
Maintainer: ${MAINTAINER:-The contributors of Everybuddy <nobody@repository.invalid>}
Section: admin
Priority: optional
${suggests:+Suggests: $suggests
}Installed-Size: $(du -ks --apparent-size "$root/usr" | cut -f1)
Homepage: $home
Description: $3
 A static program, which needs no other package.
EOF
    dpkg-deb --root-owner-group -Zxz --build "$root" "$files/$1_${version}_$architecture.deb" >/dev/null
}

# The wheel has the static program: it runs with every C library.
wheel() {
    if ! python3 -c 'import ensurepip' 2>/dev/null; then
        missing+=("Python with virtual environments (ci/install.sh python)")
        return
    fi
    step "wheel"
    local venv=$work/venv name
    [ -e "$venv/bin/maturin" ] || { python3 -m venv --clear "$venv" && "$venv/bin/pip" install --quiet \
        --disable-pip-version-check maturin==1.16.0 wheel==0.45.1; }
    rm -rf "$work/wheel"
    (cd python && "$venv/bin/maturin" build --quiet --locked --release --target x86_64-unknown-linux-musl --auditwheel skip \
        --out "$work/wheel")
    name=$(cd "$work/wheel" && "$venv/bin/wheel" tags --remove \
        --platform-tag manylinux_2_17_x86_64.musllinux_1_1_x86_64 ./*.whl | tail -1)
    mv "$work/wheel/$name" "$files/"
}

memory() {
    step "everybuddy-memory"
    manual everybuddy-memory
    local machine
    for machine in "${MACHINES[@]}"; do
        compile everybuddy-memory "$machine"
        archive everybuddy-memory everybuddy-memory "$machine"
        debian everybuddy-memory "$machine" "which large blocks of memory a Linux machine has"
    done
}

everybuddy() {
    local machine machines=() own
    own=$(uname -m)
    for machine in "$own" "${MACHINES[@]}"; do
        # A compression library is in C.
        if [ "$machine" != x86_64 ] && ! command -v "$machine-linux-gnu-gcc" >/dev/null; then
            missing+=("compiler for C for $machine")
        elif [[ " ${machines[*]} " != *" $machine "* ]]; then
            step "everybuddy for $machine"
            compile everybuddy-cli "$machine"
            machines+=("$machine")
        fi
    done
    manual everybuddy
    for machine in "${machines[@]}"; do
        archive everybuddy everybuddy-cli "$machine"
        debian everybuddy "$machine" "laboratory of page-frame allocators"
    done
    wheel
}

page() {
    step "page"
    ci/paste.sh write "$files/everybuddy-memory.html"
}

sums() {
    (cd "$files" && sha256sum -- * >"$work/sums" && mv "$work/sums" SHA256SUMS)
}

# Runs a command in a folder as the whole file system. The folder's `proc` has copies, so that there is something to read.
inside() { # ROOT COMMAND...
    local root=$1
    shift
    mkdir -p "$root/proc"
    cp /proc/buddyinfo /proc/zoneinfo "$root/proc/"
    if [ "$(id -u)" = 0 ]; then chroot "$root" "$@"; else unshare -r chroot "$root" "$@"; fi
}

# Runs a program for a processor in an empty root, and demands its version and an answer.
try() { # ROOT MACHINE PROGRAM
    local run=() code=0 words=()
    if [ "$2" != "$(uname -m)" ]; then
        if ! command -v "qemu-$2-static" >/dev/null; then
            missing+=("qemu-$2-static (ci/install.sh musl)")
            return
        fi
        cp "$(command -v "qemu-$2-static")" "$1/"
        run=("/qemu-$2-static")
    fi
    [[ $3 == *everybuddy-memory ]] || words=(memory)
    inside "$1" "${run[@]}" "$3" --version | grep -q " $version\$" || fail "$3 for $2 has another version"
    inside "$1" "${run[@]}" "$3" "${words[@]}" --need 1x4KiB,movable >"$work/answer" || code=$?
    # Copies have no classes, and other numbers each time.
    [[ $code =~ ^[0134]$ ]] || fail "$3 for $2 ended with $code: $(cat "$work/answer")"
    grep -q '^[a-z ]*: ' "$work/answer" || fail "$3 for $2 answered: $(cat "$work/answer")"
    echo "  $3, $2: $(cat "$work/answer")"
}

# The units run the program that is there, write metrics where node_exporter of that system reads them, and say what is
# wrong without that folder. Users read the folder's name in docs/install.md.
units() { # ROOT FOLDER-OF-UNITS FOLDER-OF-PROGRAM FOLDER-OF-METRICS MACHINE
    local unit command paths code=0
    for unit in "$2"/*.service; do
        command=$(sed -n 's/^ExecStart=//p' "$unit")
        [ "${command%% *}" = "$3/everybuddy-memory" ] || fail "$unit runs ${command%% *}, not $3/everybuddy-memory"
        grep -q '^CapabilityBoundingSet=' "$unit" || fail "$unit keeps all capabilities"
    done
    unit=$2/everybuddy-memory.service
    command=$(sed -n 's/^ExecStart=//p' "$unit")
    paths=$(sed -n 's/^ReadWritePaths=//p' "$unit")
    [[ $command == *" --prometheus $4/everybuddy_memory.prom" ]] || fail "$unit writes another file than $4/everybuddy_memory.prom"
    [ "$paths" = "-$4" ] || fail "$unit may write in $paths, not in -$4, which may be missing"
    grep -qF "\`$4\`" docs/install.md || fail "docs/install.md does not name $4"
    [ "$5" = "$(uname -m)" ] && [ "$3" = /usr/bin ] || return 0
    # shellcheck disable=SC2086 # The command has words.
    inside "$1" $command >/dev/null 2>"$work/said" || code=$?
    [ $code = 2 ] && grep -q "$4/everybuddy_memory.prom: its folder does not exist" "$work/said" ||
        fail "without $4 the unit ended with $code: $(cat "$work/said")"
    mkdir -p "$1$4"
    # shellcheck disable=SC2086
    inside "$1" $command >/dev/null
    grep -q '^everybuddy_memory_free_blocks' "$1$4/everybuddy_memory.prom" || fail "$unit wrote no metrics"
}

check() {
    step "sums"
    (cd "$files" && sha256sum --quiet -c SHA256SUMS)
    local file name machine root=$work/root architecture
    step "archives in an empty root"
    for file in "$files"/*.tar.gz; do
        rm -rf "$root"
        mkdir -p "$root"
        tar -xzf "$file" -C "$root"
        name=$(basename "$file" .tar.gz)
        machine=${name%-unknown-linux-musl}
        machine=${machine##*-}
        try "$root" "$machine" "/$name/${name%-"$version"-*}"
        grep -q '^ *MIT License\|Permission is hereby granted' "$root/$name/THIRD-PARTY.txt" || fail "$name has no licences"
        [ "${name%%-"$version"*}" != everybuddy-memory ] ||
            [ "$(stat -c %s "$root/$name/everybuddy-memory")" -lt $LARGEST_MEMORY ] || fail "$name is too large"
        [ ! -e "$root/$name/systemd" ] || units "$root" "$root/$name/systemd" /usr/local/bin "$METRICS" "$machine"
        # A path of this machine would make builds differ.
        ! grep -rqF -e "$PWD/" -e "${CARGO_HOME:-$HOME/.cargo}/" "$root/$name" || fail "$name names a folder of this machine"
    done
    step "Debian packages in an empty root"
    for file in "$files"/*.deb; do
        [ -e "$file" ] || continue
        rm -rf "$root"
        mkdir -p "$root/var/lib/dpkg/info" "$root/var/lib/dpkg/updates"
        touch "$root/var/lib/dpkg/status"
        architecture=$(dpkg-deb --field "$file" Architecture)
        machine=${architecture/amd64/x86_64}
        name=$(dpkg-deb --field "$file" Package)
        dpkg --root="$root" --log=/dev/null --force-not-root --force-architecture --install "$file" >/dev/null
        try "$root" "${machine/arm64/aarch64}" "/usr/bin/$name"
        [ ! -e "$root/etc/systemd" ] || fail "$file enables a unit"
        [ ! -e "$root/usr/lib/systemd/system" ] ||
            units "$root" "$root/usr/lib/systemd/system" /usr/bin "$METRICS_DEBIAN" "${machine/arm64/aarch64}"
    done
    step "wheel in a new environment"
    for file in "$files"/*.whl; do
        [ -e "$file" ] || continue
        rm -rf "$work/user"
        python3 -m venv "$work/user"
        "$work/user/bin/pip" install --quiet --disable-pip-version-check --no-index --no-deps "$file"
        env -i PATH="$work/user/bin" everybuddy --version | grep -q " $version\$" || fail "the wheel's command does not run"
    done
}

# Another folder, so that a path in a file would show.
twice() {
    [ -z "$(git status --porcelain)" ] || echo "release: changes that are not committed are not compared"
    local one=$work/one two=$work/another/folder folder commit
    rm -rf "$one" "$two"
    for folder in "$one" "$two"; do
        mkdir -p "$folder"
        git clone --quiet . "$folder/copy"
    done
    commit=$(git -C "$one/copy" rev-parse --short HEAD)
    for folder in "$one" "$two"; do
        (cd "$folder/copy" && env -u CARGO_TARGET_DIR -u SOURCE_DATE_EPOCH ci/release.sh memory)
    done
    diff -r "$one/copy/target/release-files" "$two/copy/target/release-files" || fail "two builds differ"
    cat "$one/copy/target/release-files/SHA256SUMS"
    rm -rf "$one" "$work/another"
    step "two builds of $commit are equal"
}

mkdir -p "$work"
case ${1:-} in
'' | memory)
    rm -rf "$files"
    mkdir -p "$files"
    configure
    memory
    [ -n "${1:-}" ] || { everybuddy; page; }
    sums
    check
    (cd "$files" && ls -l | awk 'NR > 1 { print "  " $5, $9 }')
    ;;
check | twice) $1 ;;
*)
    sed -n '2,/^set /s/^# \{0,1\}//p' "$0" >&2
    exit 2
    ;;
esac
if [ ${#missing[@]} -gt 0 ]; then
    printf 'release: no %s: the rest passed: skipped\n' "${missing[@]}"
    exit 77
fi
step "passed"
