# Part of ci/linux.sh: a kernel whose page allocator is replaced. Its functions and variables are used here.
# shellcheck shell=bash disable=SC2154,SC2034

# Unpacks, patches and builds the kernel, as far as something has changed. Leaves the image in `image`.
build_kernel() {
    local tree=$work/linux-source-6.12
    if [ ! -e "$tree/.unpacked" ] || [ "$(cat "$tree/.unpacked")" != "$(stat -c %Y-%s $tarball)" ]; then
        rm -rf "$tree"
        tar -C "$work" -xf $tarball
        stat -c %Y-%s $tarball >"$tree/.unpacked"
    fi
    linux/replacement/apply.sh "$tree" "$work/everybuddy.o"
    if ! cmp -s linux/replacement/config "$tree/.wanted"; then
        {
            make -C "$tree" -s tinyconfig
            cat linux/replacement/config >>"$tree/.config"
            make -C "$tree" -s olddefconfig
        } >"$work/kernel.log" 2>&1
        # An option that another one forbids is dropped silently.
        if grep '^CONFIG_' linux/replacement/config | grep -vxFf "$tree/.config" >&2; then
            echo "linux: these options of linux/replacement/config do not hold in the kernel's configuration" >&2
            exit 1
        fi
        cp linux/replacement/config "$tree/.wanted"
    fi
    make -C "$tree" -j"$(nproc)" bzImage >"$work/kernel.log" 2>&1 || {
        tail -n 40 "$work/kernel.log" >&2
        exit 1
    }
    if grep -iE 'warning' "$work/kernel.log" >&2; then
        echo "linux: the build of the kernel has warnings" >&2
        exit 1
    fi
    image=$tree/arch/x86/boot/bzImage
    gcc -O2 -Wall -Werror -static -o "$work/storm" linux/guest/storm.c
}

main_systems="off bs lbs-31 linux-6 lis-1 spring everybuddy"
build_object
build_kernel
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
    python3 ci/linux-replacement.py "${logs[@]}" | tee "$output/replacement.txt"
    echo "linux: replacement passed in $SECONDS s"
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
