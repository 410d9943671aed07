#!/usr/bin/env bash
# The allocators inside Linux: a module for Debian's kernel, in a virtual machine without hardware support.
#
#   ci/linux.sh module [FOLDER]   tests every system in a machine with two CPUs, then counts the instructions per call in a
#                                 machine with one, next to Linux's alloc_pages; 5 minutes. FOLDER gets the table, its rows
#                                 and a line per tested system
#   ci/linux.sh smoke             two systems, fewer operations, nothing is installed; a minute
#   ci/linux.sh replacement [SYSTEM...]
#                                 a 6.12 kernel whose page allocator is replaced: builds it, boots each system (`all`: every
#                                 one of SYSTEMS.md), runs checked loads until memory is exhausted, and prints a table; 15
#                                 minutes, most of them to build the kernel at first
#   ci/linux.sh demo [SYSTEM [COMMAND]]
#                                 boots a small Debian on that kernel, by default with `everybuddy`: a shell on a terminal,
#                                 else COMMAND of bash, or commands that show the machine; half an hour at first, then a
#                                 minute
#   ci/linux.sh paths [FOLDER]    instructions of whole paths of that kernel, by system; FOLDER gets the table and its rows
#   ci/linux.sh loads [FOLDER]    instructions of whole loads on that kernel, and the share of the allocator: processes, files,
#                                 a compiler; 30 minutes
#   ci/linux.sh reporting [FOLDER]
#                                 gives free memory back to the host by a balloon device: how much the machine holds then
#   ci/linux.sh latencies [FOLDER]
#                                 instructions of single calls while files are compiled, by system; 15 minutes, most of them to
#                                 build a kernel with hooks for that
#   ci/linux.sh hints [FOLDER]    refills and drains of the lists of `spring`, with hints and without them
#   ci/linux.sh advise [FOLDER]   what `everybuddy advise` predicts from a recording of four CPUs, next to what Debian's kernel
#                                 does with three values of its setting; 15 minutes, most of them to build the program.
#                                 FOLDER gets the table and its rows
#   ci/linux.sh soak [MINUTES [SYSTEM...]]
#                                 the same kernel under load for 5 minutes, or as many as given, by default `spring` and
#                                 `everybuddy` at the same time; with stress-ng if that is installed
#   ci/linux.sh faults [SYSTEM...]
#                                 lets requests for pages and for objects fail in a machine with four CPUs, also while
#                                 memory is exhausted and CPUs go offline, and checks that no page is lost; the kernel
#                                 checks its accesses (KASAN) and its locks; 15 minutes for each system, and 20 to build
#   ci/linux.sh times [FOLDER]    times of whole paths of kernels that run as programs of this machine, with one CPU: 6.12,
#                                 and 7.2 compiled for several (ci/install.sh linux-7.2); FOLDER gets the tables and their
#                                 rows; 6 minutes, most of them to build the kernels
#   ci/linux.sh programs [FOLDER] speedups of whole programs over Linux's own allocator in such a kernel; 20 minutes
#
# It fails on any BUG, WARNING or failed check of the kernel log that is not expected, and if an expected one is missing.
# It needs QEMU, the headers of a Debian 6.12 cloud kernel with the kernel itself, busybox, cpio and Debian's Rust, for a
# replacement also Debian's source of Linux (installed by apt where missing, except for `smoke`). Everything is built in
# target/linux, or in the folder EVERYBUDDY_LINUX. With EVERYBUDDY_KERNEL=7.2, `replacement`, `paths` and `soak` use that
# version (ci/install.sh linux-7.2), in a folder of its own. EVERYBUDDY_CONFIG=debug adds checks of locks and preemption.
set -euo pipefail
cd "$(dirname "$0")/.."

mode=${1:-module}
# The hooks of this kernel would lengthen the paths of the other one.
[ "$mode" != latencies ] || EVERYBUDDY_CONFIG=timing
[ "$mode" != reporting ] || EVERYBUDDY_CONFIG=reporting
[ "$mode" != faults ] || EVERYBUDDY_CONFIG=faults
version=${EVERYBUDDY_KERNEL:-6.12}
work=${EVERYBUDDY_LINUX:-$PWD/target/linux}
[ "$version" = 6.12 ] || work=$work/$version
# Its configurations.
configs=config
[ -z "${EVERYBUDDY_CONFIG:-}" ] || { work=$work/$EVERYBUDDY_CONFIG && configs+=" config-$EVERYBUDDY_CONFIG"; }
[ "$mode" != faults ] || configs="config config-debug config-faults"
mkdir -p "$work"
work=$(realpath "$work")
output=$work/results
case $mode in module | paths | loads | reporting | latencies | hints | advise | times | programs) output=${2:-$output} ;; esac
# Sources of kernels, as Debian packs them.
sources=/usr/src

# The newest kernel whose image and headers are both there.
kernel() {
    local headers release
    for headers in $(printf '%s\n' /usr/src/linux-headers-6.12.*-cloud-amd64 | sort -rV); do
        release=${headers#/usr/src/linux-headers-}
        if [ -e "/boot/vmlinuz-$release" ]; then
            echo "$release"
            return
        fi
    done
}

lacks() {
    command -v qemu-system-x86_64 >/dev/null || echo qemu-system-x86_64
    command -v busybox >/dev/null || echo busybox
    command -v cpio >/dev/null || echo cpio
    command -v make >/dev/null || echo make
    [ -n "$(kernel)" ] || echo "the headers of a 6.12 cloud kernel"
    case $mode in replacement | demo | paths | loads | reporting | latencies | hints | times | programs | soak | faults)
        [ -e "$sources/linux-source-$version.tar.xz" ] || echo "linux-source-$version"
        for tool in flex bison bc xz patch; do command -v $tool >/dev/null || echo $tool; done
        [ -e /usr/include/gelf.h ] || echo libelf-dev
        case $mode in demo | loads) command -v debootstrap >/dev/null || echo debootstrap ;; esac
        [ "$mode" != programs ] || for tool in dbench sysbench; do command -v $tool >/dev/null || echo $tool; done
        ;;
    esac
    [ -d "/usr/src/rustc-$(/usr/bin/rustc --version 2>/dev/null | cut -d' ' -f2)/library/core" ] || echo rust-web-src
}

case $mode in
module | replacement | demo | paths | loads | reporting | latencies | hints | advise | times | programs | soak | faults) [ -z "$(lacks)" ] || ci/install.sh linux kernel ;;
smoke) ;;
*)
    sed -n '2,/^set /s/^# \{0,1\}//p' "$0" >&2
    exit 2
    ;;
esac
if [ "$(uname -m)" != x86_64 ] || [ -n "$(lacks)" ]; then
    echo "linux: no $(lacks | paste -sd, | sed 's/,/, /g') (ci/install.sh linux kernel), or not x86-64: skipped"
    exit 77
fi
release=$(kernel)

# Builds the object, which takes most of the time, if a source of it has changed.
build_object() { # [um]
    local sources object=$work/everybuddy${1:+-$1}.o stamp=$work/everybuddy${1:+-$1}.sources
    sources=$(sha256sum ci/kernel.sh
        find crates/everybuddy/src crates/everybuddy-kernel/src -type f -print0 | sort -z | xargs -0 sha256sum)
    if [ ! -e "$object" ] || [ "$(cat "$stamp" 2>/dev/null)" != "$sources" ]; then
        ci/kernel.sh object "$object" "$@"
        echo "$sources" >"$stamp"
    fi
}

# Builds the module and the program that maps its device.
build() {
    build_object
    rm -rf "$work/module"
    mkdir -p "$work/module"
    cp linux/module/* linux/everybuddy_*.h crates/everybuddy-kernel/include/everybuddy_kernel.h "$work/module"
    cp "$work/everybuddy.o" "$work/module/allocators.o"
    # Kbuild wants to know how each object was made.
    echo "savedcmd_$work/module/allocators.o := true" >"$work/module/.allocators.o.cmd"
    make -C "/usr/src/linux-headers-$release" M="$work/module" KCFLAGS=-Werror modules >"$work/build.log" 2>&1 || {
        cat "$work/build.log" >&2
        exit 1
    }
    # Warnings of modpost and objtool do not fail a build.
    if grep -iE 'warning|error' "$work/build.log" >&2; then
        echo "linux: the build of the module has warnings" >&2
        exit 1
    fi
    strip --strip-debug "$work/module/everybuddy.ko"
    gcc -O2 -Wall -Werror -static -o "$work/map" linux/guest/map.c
}

# Copies a program with its libraries to $work.
copy_program() { # FILE
    local library
    rm -rf "$work/lib"
    mkdir "$work/lib"
    cp "$1" "$work/"
    for library in $(ldd "$1" | grep -oE '/[^ ]+'); do cp "$library" "$work/lib/"; done
}

# The program whose loads check the page allocator.
build_storm() {
    gcc -O2 -Wall -Werror -static -o "$work/storm" linux/guest/storm.c
}

# Without cmpxchg16b: after it, QEMU 7.2 once had bits of another register in the flags. An interrupt saved and restored
# them, and the guest ended in a double fault.
cpu=max,cx16=off

# What boots, and its command line. After an oops, memory may be corrupt: the machine ends then. Linux's
# test of its timer fails on a busy host.
image=/boot/vmlinuz-$release
common="console=ttyS0 oops=panic panic=-1 nokaslr mitigations=off no_timer_check"
append="$common quiet init_on_alloc=0"

# Its memory in MiB.
memory=512

# Archives that Linux unpacks after the first file system.
archives=()

# Packs a first file system: the steps on standard input, and files of $work.
root() { # NAME FILES
    local root=$work/root-$1 file
    rm -rf "$root"
    mkdir -p "$root/bin"
    cp "$(command -v busybox)" "$root/bin/busybox"
    cp linux/guest/init "$root/init"
    for file in $2; do cp -r "$work/$file" "$root/"; done
    cat >"$root/steps"
    (cd "$root" && find . | cpio -o -H newc --quiet | cat - "${archives[@]}") >"$root.cpio"
}

# Sets `machine` to the command that boots the kernel with a first file system.
set_machine() { # NAME [QEMU OPTIONS]
    machine=(qemu-system-x86_64 -accel tcg -cpu "$cpu" -m "$memory" -nodefaults -nographic -no-reboot
        -kernel "$image" -initrd "$work/root-$1.cpio" -append "$append" "${@:2}")
}

# Boots the kernel with the steps on standard input and files of $work, and leaves its log in $work/NAME.log.
boot() { # NAME SECONDS FILES [QEMU OPTIONS]
    local name=$1 seconds=$2 files=$3
    shift 3
    rm -f "$work/$name.log"
    root "$name" "$files"
    set_machine "$name" -serial stdio "$@"
    timeout "$seconds" "${machine[@]}" </dev/null 2>"$work/qemu-$name.log" | stdbuf -oL tr -d '\r' >"$work/$name.log" || true
    if ! grep -q '^guest: done' "$work/$name.log"; then
        echo "linux: the machine did not finish its steps, for which it had $seconds s; the end of $work/$name.log:" >&2
        tail -n 30 -- "$work/$name.log" "$work/qemu-$name.log" >&2
        exit 1
    fi
}

# Checks what the kernel printed between two steps: nothing that is not expected, and all that is.
check() { # LOG
    awk '
        function fault(text) { print "linux: " step ": " text; faults++ }
        # Ends a step: an expected line that did not come, or one of the others that did.
        function finish(  key) {
            if (step == "") return
            for (key in wanted) if (!(key in seen)) fault("the log lacks: " key)
            if (warnings != wanted_warnings) fault(warnings + 0 " warnings instead of " wanted_warnings)
            step = ""
        }
        function want(text) { wanted[text] = 1 }
        /guest: load / {
            finish()
            sub(/.*guest: load /, "")
            step = $0
            split("", wanted); split("", seen); warnings = wanted_warnings = is_refused = 0
            name = $1
            loads++
            if (step ~ /leak=1/) { want("leaks 1 frames"); is_refused = 1 }
            else if (name == "nonsense") { want("no system has this name"); want("Invalid argument"); is_refused = 1 }
            else if (step ~ /stop=1/) { want("stopped by everybuddy_stop"); want("kernel BUG at"); is_refused = 1 }
            else {
                want("built system=" name " ")
                want("unloaded system=" name " ")
                if (step ~ / test=/) want("passed system=" name " ")
                if (step ~ / bench=/) want("bench allocator=" name " ")
                if (step ~ / misuse=1/) { want("refused system=" name " "); want("eb_misuse+0x"); wanted_warnings = 2 }
                if (map) want("mapped 4096 pages")
            }
            next
        }
        /guest: (end|done)/ { finish(); next }
        { for (key in wanted) if (index($0, key)) seen[key] = 1 }
        /WARNING: / { warnings++ }
        /FAILED|kernel BUG at|BUG: |Oops|general protection|soft lockup|rcu.*stall|Out of memory/ {
            if (!is_refused) fault($0)
        }
        END {
            finish()
            if (!loads) fault("no step was run")
            exit faults > 0
        }' map="$2" "$1"
}

# The names of all systems, as SYSTEMS.md lists them.
systems() {
    sed -n 's/^| `\([a-z0-9-]*\)` | .* > .*/\1/p' SYSTEMS.md
}

echo "linux: $release, $(qemu-system-x86_64 --version | head -1)"
case $mode in replacement | demo | paths | loads | reporting | latencies | hints | times | programs | soak | faults)
    source ci/linux-replacement.sh
    exit
    ;;
esac
# Debian's kernel as it is.
if [ "$mode" = advise ]; then
    cargo build --release --locked --quiet -p everybuddy-cli
    mkdir -p "$output"
    program=${CARGO_TARGET_DIR:-target}/release/everybuddy
    copy_program "$program"
    build_storm
    memory=2048
    { echo "fractions='8 16 32 0'" && cat linux/guest/advise; } |
        boot advise 900 'everybuddy storm lib' -smp 4 -serial "file:$work/load.parquet"
    "$program" advise "$work/load.parquet" --json "$work/predicted.jsonl" >"$output/advice.txt"
    python3 ci/linux-advise.py "$work/predicted.jsonl" "$work/advise.log" "$output/advise.jsonl" | tee "$output/advise.txt"
    echo "linux: advise passed in $SECONDS s"
    exit
fi
build

if [ "$mode" = smoke ]; then
    boot smoke 120 'module/everybuddy.ko map' -smp 2 <<'STEPS'
load everybuddy mib=32 test=5000 misuse=1
load linux-6 mib=32 test=5000 misuse=1
load bs mib=32 test=100 leak=1
load nonsense
STEPS
    check "$work/smoke.log" 1
    echo "linux: smoke test passed in $SECONDS s"
    exit
fi

{
    for system in bs lbs-31 linux-6 lis-1 spring everybuddy; do
        echo "load $system test=200000 misuse=1 bench=20 threads=2"
    done
    for system in $(systems | grep -vxE 'bs|lbs-31|linux-6|lis-1|spring|everybuddy'); do
        echo "load $system test=20000 misuse=1"
    done
    echo "load linux-6+order=9 test=20000"
    echo "load bs test=1000 leak=1"
    echo "load nonsense"
    echo "echo 0 >/proc/sys/kernel/panic_on_oops"
    echo "load bs stop=1"
} >"$work/steps"
boot correctness 1200 'module/everybuddy.ko map' -smp 2 <"$work/steps"
check "$work/correctness.log" 1
mkdir -p "$output"
grep -oE '(passed|unloaded) system=.*' "$work/correctness.log" >"$output/correctness.txt"
echo "linux: $(grep -c '^passed' "$output/correctness.txt") systems passed on two CPUs"

systems | sed 's/$/ bench=101/; s/^/load /' >"$work/steps"
boot instructions 1200 module/everybuddy.ko -smp 1 -icount shift=0,sleep=off <"$work/steps"
check "$work/instructions.log" ""
python3 ci/linux.py "$release" "$work/instructions.log" "$output/bench.jsonl" | tee "$output/instructions.txt"
echo "linux: passed in $SECONDS s"
