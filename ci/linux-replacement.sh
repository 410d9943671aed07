# Part of ci/linux.sh: a kernel whose page allocator is replaced. Its functions and variables are used here.
# shellcheck shell=bash disable=SC2154,SC2034

# Takes out what a user-mode kernel for several CPUs does and no other on x86-64: a system call whenever interrupts are
# disabled, which masks those of other CPUs, also if one is booted; and a fence whenever a lock is released.
mend_user_mode() { # TREE
    local masks=$1/arch/um/os-Linux/smp.c barriers=$1/arch/x86/um/asm/barrier.h
    [ -e "$masks" ] || return 0
    sed -i 's/^\t__local_ipi_set(\([01]\));/\tif (uml_ncpus > 1)\n\t&/' "$masks"
    sed -i 's|^#include <asm-generic/barrier.h>|#include "../../../../mm/everybuddy_um_barriers.h"\n&|' "$barriers"
    if [ "$(grep -c 'uml_ncpus > 1' "$masks")" != 2 ] || ! grep -q everybuddy "$barriers"; then
        echo "linux: $1 has other masks or barriers than expected" >&2
        exit 1
    fi
}

# Unpacks, patches and builds a kernel in a folder, as far as something has changed.
build_kernel() { # VERSION FOLDER OBJECT CONFIGURATIONS TARGET [ARCHITECTURE]
    local tree=$2/linux-source-$1 tarball=$sources/linux-source-$1.tar.xz object=$3 config=$2/wanted target=$5
    local make=(make -C "$tree")
    [ $# -lt 6 ] || make+=("ARCH=$6")
    mkdir -p "$2"
    local stamp
    stamp=$(stat -c %Y-%s "$tarball")${6:+-$6}
    (cd linux/replacement && cat $4) >"$config"
    if [ ! -e "$tree/.unpacked" ] || [ "$(cat "$tree/.unpacked")" != "$stamp" ]; then
        rm -rf "$tree"
        tar -C "$2" -xf "$tarball"
        [ $# -lt 6 ] || mend_user_mode "$tree"
        echo "$stamp" >"$tree/.unpacked"
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

main_systems="off bs lbs-31 linux-6 lis-1 spring everybuddy"

# Boots a user-mode kernel several times with each system, in turns, and leaves the names of the logs in `logs`.
in_turns() { # KIND TREE TURNS MEMORY SYSTEMS [OPTIONS]
    local kind=$1 tree=$2 turns=$3 memory=$4 order=($5) turn system log
    shift 5
    logs=()
    rm -f "$tree-$kind"-*.log
    for turn in $(seq "$turns"); do
        for system in "${order[@]}"; do
            log=$tree-$kind-$turn-$system.log
            # -R: random addresses could leave a gap in the kernel's memory.
            timeout 300 setarch "$(uname -m)" -R "$tree/linux" mem="$memory" initrd="$work/root-$kind.cpio" con=null \
                con0=fd:0,fd:1 everybuddy="${system/#again/off}" "$@" </dev/null >"$log" 2>&1 || true
            logs+=("$log")
        done
        # Each turn begins with another system, so that none profits from its place.
        order=("${order[@]:1}" "${order[0]}")
    done
}

# Times pairs with a user-mode kernel that is built in a folder.
times() { # FOLDER VERSION [OPTIONS]
    local tree=$1/linux-source-$2
    shift 2
    root times '' <linux/guest/times
    in_turns times "$tree" 7 512M "$main_systems" "$@"
    python3 ci/linux-times.py "$tree.jsonl" "${logs[@]}" | tee "$tree.txt"
    cat "$tree.jsonl" >>"$output/bench.jsonl"
    cat "$tree.txt" >>"$output/times.txt"
}

# Builds 6.12 as a program of this machine, and 7.2 for several CPUs if its source is installed.
if [ "$mode" = times ] || [ "$mode" = programs ]; then
    mkdir -p "$output"
    build_object um
    has_newer=
    [ ! -e "$sources/linux-source-7.2.tar.xz" ] || has_newer=yes
    if [ -n "$has_newer" ]; then
        build_kernel 7.2 "$work/um-7.2" "$work/everybuddy-um.o" 'config-um config-um-smp' linux um
    fi
    if [ "$mode" = times ] || [ -z "$has_newer" ]; then
        build_kernel 6.12 "$work/um" "$work/everybuddy-um.o" config-um linux um
    fi
    # Uses of locks by CPUs that run together are counted in QEMU, not timed here: the host may suspend their holders.
    newer=(ncpus=2 seccomp=on)
    [ "$mode" != times ] || newer[0]=ncpus=1
fi
if [ "$mode" = times ]; then
    rm -f "$output/bench.jsonl" "$output/times.txt"
    times "$work/um" 6.12
    if [ -n "$has_newer" ]; then
        times "$work/um-7.2" 7.2 "${newer[@]}"
    else
        echo "linux: no source of Linux 7.2 (ci/install.sh linux-7.2): skipped"
    fi
    echo "linux: times passed in $SECONDS s"
    exit
fi
if [ "$mode" = programs ]; then
    tree=$work/um/linux-source-6.12
    [ -z "$has_newer" ] || tree=$work/um-7.2/linux-source-7.2
    build_storm
    cp linux/guest/programs.bash "$work/"
    root programs 'storm programs.bash' <linux/guest/programs
    options=("tree=$tree" ${has_newer:+"${newer[@]}"})
    # The policies of holding a lock, of which the last needs another lock.
    holds="lbs-31+hold=iteration lbs-31+lock=ticket lbs-31+lock=ticket+hold=when-contended"
    # The first boot reads files that the host does not have in memory yet.
    in_turns programs "$tree" 1 1536M off "${options[@]}"
    in_turns programs "$tree" "${PROGRAM_TURNS:-7}" 1536M "$main_systems $holds again" "${options[@]}"
    python3 ci/linux-programs.py "$output/programs.jsonl" "${logs[@]}" | tee "$output/programs.txt"
    echo "linux: programs passed in $SECONDS s"
    exit
fi

[ -e "$work/everybuddy.o" ] || echo "linux: builds the allocators and Linux $version; about 12 minutes with two CPUs"
build_object
build_kernel "$version" "$work" "$work/everybuddy.o" "$configs" bzImage
image=$work/linux-source-$version/arch/x86/boot/bzImage
build_storm

# A small Debian of this machine's release, with a C compiler, as the archive of a folder `debian`. Its packages come from
# Debian's mirror. What no program needs is left out.
build_debian() {
    local debian=$work/debian suite
    [ ! -e "$debian.cpio" ] || return 0
    suite=$(. /etc/os-release && echo "$VERSION_CODENAME")
    echo "linux: installs Debian $suite into $debian; about 4 minutes"
    rm -rf "$debian"
    debootstrap --variant=minbase --include=gcc,libc6-dev "$suite" "$debian" >"$work/debian.log" 2>&1 || {
        tail -n 20 "$work/debian.log" >&2
        exit 1
    }
    rm -rf "$debian"/var/{cache/apt,lib/apt/lists}/* "$debian"/usr/share/{doc,info,locale,man}/*
    (cd "$work" && find debian | cpio -o -H newc --quiet) >"$debian.unfinished"
    mv "$debian.unfinished" "$debian.cpio"
}

if [ "$mode" = demo ]; then
    system=${2:-everybuddy}
    build_debian
    cargo build --release --locked --quiet -p everybuddy-memory
    cp "${CARGO_TARGET_DIR:-target}/release/everybuddy-memory" "$work/"
    archives=("$work/debian.cpio")
    memory=2048
    append="$common quiet tsc=unstable everybuddy=$system"
    if [ $# -lt 3 ] && [ -t 0 ] && [ -t 1 ]; then
        root demo everybuddy-memory <linux/guest/demo
        set_machine demo -smp 2 -serial mon:stdio
        exec "${machine[@]}"
    fi
    cp linux/guest/demo.bash "$work/command"
    [ $# -lt 3 ] || echo "$3" >"$work/command"
    boot demo 600 'everybuddy-memory command' -smp 2 <linux/guest/demo
    # The firmware's control sequences come before it.
    sed -n '/guest: Linux/,/^guest: done/ { s/.*guest: Linux/guest: Linux/; p }' "$work/demo.log"
    python3 ci/linux-demo.py "$system" "$work/demo.log"
    echo "linux: demo passed in $SECONDS s"
    exit
fi

if [ "$mode" = replacement ]; then
    shift
    # Linux's own allocator with compaction, too, and a name that does not exist.
    selected=${*:-$main_systems compacted nonsense}
    selected=${selected/#all/off $(systems | paste -sd' ') compacted nonsense}
    logs=()
    for system in $selected; do
        # On a busy host the time stamp counter was measured wrongly, and the clock jumped 20 s: an RCU stall.
        append="$common tsc=unstable page_poison=1 everybuddy=${system/#compacted/off compacted}"
        # A machine that hangs or panics is a row of the table, too.
        (cat linux/guest/{free-pages,storms} | boot "replacement-$system" 400 storm -smp 2) || true
        logs+=("$work/replacement-$system.log")
    done
    mkdir -p "$output"
    python3 ci/linux-replacement.py "$version" "$output/replacement.jsonl" "${logs[@]}" | tee "$output/replacement.txt"
    echo "linux: replacement passed in $SECONDS s"
    exit
fi

# Load for a long time, all systems at the same time.
if [ "$mode" = soak ]; then
    minutes=${2:-5}
    shift $(($# < 2 ? $# : 2))
    stress=$(command -v stress-ng || true)
    [ -z "$stress" ] || copy_program "$stress"
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

# Requests that fail. Linux's own allocator must pass the same steps. A simulated CPU may wait long for another one.
# Before pages are counted, KASAN searches what it keeps of freed objects, which is a share of memory.
if [ "$mode" = faults ]; then
    shift
    memory=256
    gcc -O2 -Wall -Werror -static -o "$work/endure" linux/guest/endure.c
    logs=()
    for system in ${*:-off bs lbs-31 linux-6 llfree spring everybuddy}; do
        append="$common tsc=unstable rcupdate.rcu_cpu_stall_timeout=300 everybuddy=$system"
        (cat linux/guest/{free-pages,faults} | boot "faults-$system" 3000 'storm endure' -smp 4) || true
        logs+=("$work/faults-$system.log")
    done
    mkdir -p "$output"
    python3 ci/linux-injected.py "${logs[@]}" | tee "$output/faults.txt"
    echo "linux: faults passed in $SECONDS s"
    exit
fi

# Single calls while files of the kernel's configuration program are compiled, as figures 1 and 12 of [iBuddy] have them.
if [ "$mode" = latencies ]; then
    mkdir -p "$output"
    copy_program "$(gcc -print-prog-name=cc1)"
    rm -rf "$work/sources"
    mkdir "$work/sources"
    tree=$work/linux-source-$version
    for file in confdata expr menu symbol; do
        gcc -E -I"$tree/scripts/include" -I"$tree/scripts/kconfig" "$tree/scripts/kconfig/$file.c" -o "$work/sources/$file.i"
    done
    logs=()
    for system in $main_systems; do
        append="$common quiet init_on_alloc=0 everybuddy=$system"
        boot "latencies-$system" 400 'cc1 lib sources' -smp 1 -icount shift=0,sleep=off <linux/guest/latencies
        logs+=("$work/latencies-$system.log")
    done
    python3 ci/linux-latencies.py "$output/latencies.jsonl" "${logs[@]}" | tee "$output/latencies.txt"
    echo "linux: latencies passed in $SECONDS s"
    exit
fi

# What hints gain: the same loads with and without them, on one CPU, so that nothing else differs.
if [ "$mode" = hints ]; then
    mkdir -p "$output"
    logs=()
    for system in spring spring-unhinted; do
        append="$common quiet init_on_alloc=0 everybuddy=${system/%-unhinted/ everybuddy_hints=off}"
        boot "hints-$system" 400 storm -smp 1 -icount shift=0,sleep=off <linux/guest/hints
        logs+=("$work/hints-$system.log")
    done
    python3 ci/linux-hints.py "$output/hints.jsonl" "${logs[@]}" | tee "$output/hints.txt"
    echo "linux: hints passed in $SECONDS s"
    exit
fi

# Instructions of whole loads, counted by a plugin of QEMU: all of them, and those of the allocator. Two boots with one CPU;
# one with four, in which other counts matter.
if [ "$mode" = loads ]; then
    mkdir -p "$output"
    build_debian
    gcc -O2 -Wall -Werror -shared -fPIC -o "$work/instructions.so" linux/instructions.c
    tree=$work/linux-source-$version
    python3 ci/linux-loads.py parts "$tree/vmlinux" "$tree/mm" >"$work/parts"
    cp linux/guest/map.c "$work/"
    archives=("$work/debian.cpio")
    memory=2048
    # Otherwise a processor that clears pages byte by byte is simulated.
    cpu+=,erms=off,fsrm=off
    logs=()
    for boot in 1-1 1-2 4-1; do
        running=()
        for system in off lbs-31 everybuddy; do
            append="$common quiet norandmaps init_on_alloc=0 everybuddy=$system"
            boot "loads-$boot-$system" 1500 'storm map.c' -smp "${boot%-*}" -icount shift=0,sleep=off \
                -plugin "$work/instructions.so,parts=$work/parts,output=$work/loads-$boot-$system.counts" \
                <linux/guest/loads &
            running+=($!)
            logs+=("$work/loads-$boot-$system.log")
        done
        for job in "${running[@]}"; do wait "$job"; done
    done
    python3 ci/linux-loads.py table "$output/loads.jsonl" "${logs[@]}" | tee "$output/loads.txt"
    echo "linux: loads passed in $SECONDS s"
    exit
fi

# Free memory that goes back to the host. A second process watches how much memory the machine has.
if [ "$mode" = reporting ]; then
    mkdir -p "$output"
    logs=()
    for system in ${REPORTING_SYSTEMS:-off lbs-31 everybuddy}; do
        append="$common tsc=unstable everybuddy=$system"
        name=reporting-$system
        rm -f "$work/$name".{log,pid,held}
        python3 ci/linux-reporting.py watch "$work/$name" &
        watcher=$!
        boot "$name" 400 storm -smp 2 -device virtio-balloon-pci,free-page-reporting=on -pidfile "$work/$name.pid" \
            -trace ram_block_discard_range <linux/guest/reporting
        wait $watcher
        logs+=("$work/$name.log")
    done
    python3 ci/linux-reporting.py table "$output/reporting.jsonl" "${logs[@]}" | tee "$output/reporting.txt"
    echo "linux: reporting passed in $SECONDS s"
    exit
fi

# Twice, because both boots must have the same numbers. Zeroing and poisoning of pages would hide the rest. A used machine
# has as many CPUs as the number says, of which one works. With 64, a boot takes minutes, so there is only one.
mkdir -p "$output"
logs=()
for state in fresh-1 fresh-2 used-2-1 used-2-2 used-64-1; do
    case $state in
    fresh-*) cpus=1 memory=512 ;;
    used-2-*) cpus=2 memory=2048 ;;
    used-64-*) cpus=64 memory=2048 ;;
    esac
    for system in $main_systems; do
        append="$common quiet init_on_alloc=0 everybuddy=$system ${state%%-*}"
        boot "paths-$state-$system" 900 storm -smp $cpus -icount shift=0,sleep=off <linux/guest/paths
        logs+=("$work/paths-$state-$system.log")
    done
done
python3 ci/linux-paths.py "$output/bench.jsonl" "${logs[@]}" | tee "$output/paths.txt"
echo "linux: paths passed in $SECONDS s"
