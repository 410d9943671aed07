#!/usr/bin/env bash
# Two programs with a pool and with mmap, in one run each: the page cache of a store, and jemalloc with its extents in a
# pool. A third one grows and rests, with jemalloc's decay and with a pool that a timer empties. 4 minutes, of which 2
# compile jemalloc. Needs a C compiler and make; without them it exits with 77.
#
#   ci/jemalloc.sh [FILE]           also writes the numbers to FILE, as rows for documents (JSON lines)
#   ci/jemalloc.sh bursts [FILE]    only the third program
set -euo pipefail
cd "$(dirname "$0")/.."

ci/install.sh cc make
for tool in cc make; do
    if ! command -v "$tool" >/dev/null; then
        echo "jemalloc: no $tool: skipped"
        exit 77
    fi
done
part=all
if [ "${1:-}" = bursts ]; then
    part=bursts
    shift
fi
rows=${1:+$(realpath -m "$1")}
export CARGO_TARGET_DIR=${CARGO_TARGET_DIR:-target}/jemalloc
manifest=examples/jemalloc/Cargo.toml
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT

# The median, the least and the most, and how long jemalloc keeps free extents.
RATIOS='s/^(free extents kept for +([0-9]+) ms: )?with .*takes ([0-9.]+) times.*; ([0-9.]+) to ([0-9.]+)\)$/\3 \4 \5 \2/p'

# Runs a program, and notes the ratios that it prints: the median of the rounds, the least and the most.
compare() { # PROGRAM THREADS ARGUMENT...
    local program=$1 threads=$2 median least most keep statistic
    shift 2
    echo "$program, threads: $threads"
    cargo run --release --locked --quiet "$@" -- "$threads" | tee "$folder/output"
    sed -nE "$RATIOS" "$folder/output" |
        while read -r median least most keep; do
            for statistic in "p50 $median" "min $least" "max $most"; do
                printf '{"experiment":"pool","source":"%s","system":"mappings","options":"",' "$program${keep:+:$keep-ms}"
                printf '"platform":"native","cpus":%d,"seed":null,"operation":"all","order":null,' "$threads"
                printf '"metric":"time_over_pool","statistic":"%s","value":%s}\n' "${statistic% *}" "${statistic#* }"
            done
        done >>"$folder/rows"
}

cargo fmt --check --manifest-path "$manifest"
cargo clippy --release --locked --manifest-path "$manifest" -- -D warnings
if [ $part = all ]; then
    for threads in 1 4; do
        compare page_cache $threads -p everybuddy-pool --example page_cache
        compare jemalloc $threads --manifest-path "$manifest"
    done
    # Two numbers of threads, and jemalloc with two settings.
    [ "$(wc -l <"$folder/rows")" = 18 ] || {
        echo "jemalloc: the programs did not print their ratios" >&2
        exit 1
    }
fi
cargo run --release --locked --quiet --manifest-path "$manifest" --bin bursts | tee "$folder/output"
awk '
    function row(operation, metric, statistic, value) {
        printf "{\"experiment\":\"pool-bursts\",\"source\":\"%s-ms\",\"system\":\"%s\",\"options\":\"\",", $2, $1
        printf "\"platform\":\"native\",\"cpus\":1,\"seed\":null,\"operation\":\"%s\",\"order\":null,", operation
        printf "\"metric\":\"%s\",\"statistic\":\"%s\",\"value\":%.0f}\n", metric, statistic, value
    }
    $3 == "ms" {
        row("rounds", "resident", "mean", $4 * 1048576)
        row("rounds", "minor_faults", "count", $6)
        row("rest", "resident", "mean", $7 * 1048576)
        row("rest", "resident", "end", $9 * 1048576)
        row("all", "kernel_time", "sum", $11)
    }' "$folder/output" >"$folder/bursts"
[ "$(wc -l <"$folder/bursts")" = 60 ] || {
    echo "jemalloc: the third program did not print twelve rows" >&2
    exit 1
}
cat "$folder/bursts" >>"$folder/rows"
[ -z "$rows" ] || cp "$folder/rows" "$rows"
