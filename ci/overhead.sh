#!/usr/bin/env bash
# What recording costs: each program runs untraced and recorded, in turns, PAIRS times (default 9).
# Needs root, tracefs, gcc, make, python3 and tar; without root or tracefs it exits with 77. Prints a row of
# lab/record/README.md for each program.
#
#   sudo ci/overhead.sh                    three programs of its own
#   sudo ci/overhead.sh -- make -B -j2     any other
set -euo pipefail
cd "$(dirname "$0")/.."

if [ "$(id -u)" != 0 ]; then
    echo "overhead: recording needs root: skipped"
    exit 77
fi
if [ ! -d /sys/kernel/tracing/events ] && [ ! -d /sys/kernel/debug/tracing/events ]; then
    echo "overhead: no tracefs (mount -t tracefs none /sys/kernel/tracing): skipped"
    exit 77
fi
pairs=${PAIRS:-9}
everybuddy=${EVERYBUDDY:-target/release/everybuddy}
[ -x "$everybuddy" ] || cargo build --quiet --release --locked -p everybuddy-cli
everybuddy=$(realpath "$everybuddy")
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT

# Ratio of a pair, and nanoseconds for each event of it; then the medians and quartiles of all pairs.
measure() {
    local name=$1
    shift
    "$@" >/dev/null 2>&1 # The first run reads files that the others find in memory.
    : >"$folder/rows"
    for _ in $(seq "$pairs"); do
        "$everybuddy" record --overhead --force -o "$folder/pair.parquet" -- "$@" >/dev/null 2>"$folder/said"
        tr -s ' \n' ' ' <"$folder/said" | tr -d , | awk '{
            if (match($0, /[0-9.]+ s recorded/)) traced = substr($0, RSTART, RLENGTH) + 0
            if (match($0, /[0-9.]+ s untraced/)) plain = substr($0, RSTART, RLENGTH) + 0
            if (match($0, /[0-9]+ events of the whole/)) events = substr($0, RSTART, RLENGTH) + 0
            if (match($0, /[0-9]+ allocations/)) pages = substr($0, RSTART, RLENGTH) + 0
            lost = $0 !~ /lost events none/
            if (!traced || !plain || !events || !pages) {
                print "overhead: the summary of the command lacks a number: " $0 > "/dev/stderr"
                exit 1
            }
            print traced / plain, plain, traced, events, (traced - plain) * 1e9 / events, pages, lost
        }' >>"$folder/rows"
    done
    local ratio plain events each pages lost
    ratio=$(quartiles 1 "%.3f (%.3f to %.3f)")
    plain=$(quartiles 2 "%.2f")
    events=$(quartiles 4 "%d")
    pages=$(quartiles 6 "%d")
    each=$(quartiles 5 "%.0f (%.0f to %.0f)")
    lost=$(awk '{ sum += $7 } END { print sum }' "$folder/rows")
    echo "| $name | $plain s | $ratio | $events | $pages | $each ns | $lost of $pairs |"
}

# Median, lower and upper quartile of a column.
quartiles() {
    sort -g -k"$1,$1" "$folder/rows" | awk -v column="$1" -v format="$2\n" '
        { value[NR] = $column }
        END { printf format, value[int((NR + 1) / 2)], value[int((NR + 3) / 4)], value[int((3 * NR + 3) / 4)] }'
}

echo "| program | untraced | recorded / untraced | events | allocations | for each event | lost in |"
echo "|---|---|---|---|---|---|---|"
if [ "${1:-}" = "--" ]; then
    shift
    measure "\`$*\`" "$@"
    exit
fi

mkdir "$folder/c"
for file in $(seq 24); do
    {
        echo "#include <stdio.h>"
        for number in $(seq 120); do
            echo "static int g$number(int a) { int s = 0; for (int i = 0; i < a; i++) s += i * $number ^ a; return s; }"
        done
        echo "int f$file(int a) { return 0$(for number in $(seq 120); do echo -n " + g$number(a)"; done); }"
    } >"$folder/c/f$file.c"
done
printf 'all: %s\n%%.o: %%.c\n\tgcc -O1 -c $< -o $@\n' "$(cd "$folder/c" && echo f*.c | sed 's/\.c/.o/g')" >"$folder/c/Makefile"
cat >"$folder/job.py" <<'PYTHON'
import random
random.seed(1)
for _ in range(8):
    rows = [(random.random(), str(i)) for i in range(150000)]
    rows.sort()
    print(sum(len(text) for _, text in rows))
PYTHON
python=$(python3 -c 'import sys; print(sys.executable)')
measure "gcc: 24 files, two at a time" make -s -B -j2 -C "$folder/c"
measure "python3: builds and sorts lists" "$python" "$folder/job.py"
measure "tar: packs /usr/include 4 times" \
    sh -c "for i in 1 2 3 4; do tar -cf $folder/pack.tar -C /usr include; done"
