# Part of ci/linux.sh: a kernel whose page allocator is replaced. Its functions and variables are used here.
# shellcheck shell=bash disable=SC2154,SC2034

# Unpacks, patches and builds a kernel in a folder, as far as something has changed.
build_kernel() { # VERSION FOLDER OBJECT CONFIGURATIONS TARGET [ARCHITECTURE]
    local tree=$2/linux-source-$1 tarball=$sources/linux-source-$1.tar.xz object=$3 config=$2/wanted target=$5
    local make=(make -C "$tree")
    [ $# -lt 6 ] || make+=("ARCH=$6")
    mkdir -p "$2"
    (cd linux/replacement && cat $4) >"$config"
    if [ ! -e "$tree/.unpacked" ] || [ "$(cat "$tree/.unpacked")" != "$(stat -c %Y-%s "$tarball")" ]; then
        rm -rf "$tree"
        tar -C "$2" -xf "$tarball"
        stat -c %Y-%s "$tarball" >"$tree/.unpacked"
    fi
    linux/replacement/apply.sh "$tree" "$object"
    # Processors with AMX have more registers than fit. No process of a user-mode Linux 6.12 would start there.
    if grep -qs 'HOST_FP_SIZE, 2696' "$tree/arch/x86/um/user-offsets.c"; then
        sed -i 's/HOST_FP_SIZE, 2696/HOST_FP_SIZE, 12288/' "$tree/arch/x86/um/user-offsets.c"
    fi
    if ! cmp -s "$config" "$tree/.wanted"; then
        {
            "${make[@]}" -s tinyconfig
            cat "$config" >>"$tree/.config"
            "${make[@]}" -s olddefconfig
        } >"$work/kernel.log" 2>&1
        # An option that another one forbids is dropped silently.
        if grep '^CONFIG_' "$config" | grep -vxFf "$tree/.config" >&2; then
            echo "linux: these options of linux/replacement/{${4// /,}} do not hold in the kernel's configuration" >&2
            exit 1
        fi
        cp "$config" "$tree/.wanted"
    fi
    "${make[@]}" -j"$(nproc)" "$target" >"$work/kernel.log" 2>&1 || {
        tail -n 40 "$work/kernel.log" >&2
        exit 1
    }
    # Signal handlers of a user-mode Linux have all registers on their stack.
    if grep -i warning "$work/kernel.log" | grep -v '^arch/um/.*frame size' >&2; then
        echo "linux: the build of the kernel has warnings" >&2
        exit 1
    fi
}

# Copies stress-ng with its libraries to $work, if it is installed; `stress` says so.
stress_ng() {
    local program library
    stress=
    program=$(command -v stress-ng) || return 0
    rm -rf "$work/stress-ng" "$work/lib"
    mkdir "$work/lib"
    cp "$program" "$work/stress-ng"
    for library in $(ldd "$program" | grep -oE '/[^ ]+'); do cp "$library" "$work/lib/"; done
    stress=yes
}

main_systems="off bs lbs-31 linux-6 lis-1 spring everybuddy"

# Boots a user-mode kernel that is built in a folder, seven times with each system, in turns.
times() { # FOLDER VERSION [OPTIONS]
    local tree=$1/linux-source-$2 round system log logs=()
    shift 2
    rm -f "$tree"-times-*.log
    root times '' <linux/guest/times
    for round in 1 2 3 4 5 6 7; do
        for system in $main_systems; do
            log=$tree-times-$round-$system.log
            # -R: random addresses could leave a gap in the kernel's memory.
            timeout 60 setarch "$(uname -m)" -R "$tree/linux" mem=512M initrd="$work/root-times.cpio" con=null \
                con0=fd:0,fd:1 everybuddy="$system" "$@" </dev/null >"$log" 2>&1 || true
            logs+=("$log")
        done
    done
    python3 ci/linux-times.py "$tree.jsonl" "${logs[@]}" | tee "$tree.txt"
    cat "$tree.jsonl" >>"$output/bench.jsonl"
    cat "$tree.txt" >>"$output/times.txt"
}

# The kernel as a program on this machine: 6.12, which has one CPU then, and 7.2 with two, if its source is installed.
if [ "$mode" = times ]; then
    mkdir -p "$output"
    rm -f "$output/bench.jsonl" "$output/times.txt"
    build_object um
    build_kernel 6.12 "$work/um" "$work/everybuddy-um.o" config-um linux um
    times "$work/um" 6.12
    if [ -e "$sources/linux-source-7.2.tar.xz" ]; then
        build_kernel 7.2 "$work/um-7.2" "$work/everybuddy-um.o" 'config-um config-um-smp' linux um
        times "$work/um-7.2" 7.2 ncpus=2 seccomp=on
    else
        echo "linux: no source of Linux 7.2 (ci/install.sh linux-7.2): skipped"
    fi
    echo "linux: times passed in $SECONDS s"
    exit
fi

build_object
build_kernel "$version" "$work" "$work/everybuddy.o" "$configs" bzImage
image=$work/linux-source-$version/arch/x86/boot/bzImage
gcc -O2 -Wall -Werror -static -o "$work/storm" linux/guest/storm.c
common="console=ttyS0 panic=-1 nokaslr mitigations=off"

if [ "$mode" = replacement ]; then
    shift
    selected=${*:-$main_systems nonsense}
    selected=${selected/#all/off $(systems | paste -sd' ') nonsense}
    logs=()
    for system in $selected; do
        # On a busy host the time stamp counter was measured wrongly, and the clock jumped 20 s: an RCU stall.
        append="$common tsc=unstable page_poison=1 everybuddy=$system"
        # A machine that hangs or panics is a row of the table, too.
        (boot "replacement-$system" 400 storm -smp 2 <linux/guest/storms) || true
        logs+=("$work/replacement-$system.log")
    done
    mkdir -p "$output"
    python3 ci/linux-replacement.py "$version" "${logs[@]}" | tee "$output/replacement.txt"
    echo "linux: replacement passed in $SECONDS s"
    exit
fi

# Load for a long time, all systems at the same time.
if [ "$mode" = soak ]; then
    minutes=${2:-5}
    shift $(($# < 2 ? $# : 2))
    stress_ng
    logs=()
    running=()
    append="$common tsc=unstable page_poison=1 everybuddy="
    for system in ${*:-spring everybuddy}; do
        (
            append+=$system
            { echo "minutes=$minutes" && cat linux/guest/soak; } |
                boot "soak-$system" $((minutes * 60 + 900)) "storm${stress:+ stress-ng lib}" -smp 2
        ) &
        running+=($!)
        logs+=("$work/soak-$system.log")
    done
    for job in "${running[@]}"; do wait "$job" || echo "linux: a machine of the soak failed" >&2; done
    mkdir -p "$output"
    python3 ci/linux-soak.py "${logs[@]}" | tee "$output/soak.txt"
    echo "linux: soak passed in $SECONDS s"
    exit
fi

# Three times, because most boots must have the same numbers. Zeroing and poisoning of pages would hide the rest.
mkdir -p "$output"
logs=()
for run in 1 2 3; do
    for system in $main_systems; do
        append="$common quiet init_on_alloc=0 everybuddy=$system"
        boot "paths-$run-$system" 400 storm -smp 1 -icount shift=0,sleep=off <linux/guest/paths
        logs+=("$work/paths-$run-$system.log")
    done
done
python3 ci/linux-paths.py "$output/bench.jsonl" "${logs[@]}" | tee "$output/paths.txt"
echo "linux: paths passed in $SECONDS s"
