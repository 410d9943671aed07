#!/usr/bin/env bash
# What each mechanism of `everybuddy` earns: ci/mechanisms.sh [NAME...]. 15 minutes.
#
# The changes of ci/mechanisms.tsv, each of which switches a mechanism off, are compiled into one program, in a copy of
# the sources. A row has, without it, the instructions per pair in some loads (examples/instructions/src/bin/loads.rs),
# the requests for 16 frames that are refused of 20,000, the blocks of 2 MiB that are whole in aged memory, and the
# tenths of a percent of memory that one CPU does not get after all others fell silent. `/8`: of eight CPUs, one calls;
# `*8`: all of them, in one thread. The last columns are the lines of code that would go, and the unit tests that fail.
# The switches themselves cost some instructions, in all rows alike. `three-quarters-of-a-list` leaves a quarter of each list.
#  The table is target/mechanisms/table.txt.
set -euo pipefail
cd "$(dirname "$0")/.."
export CARGO_TERM_COLOR=never

. ci/switches.sh
output=$PWD/target/mechanisms
switches ci/mechanisms.tsv "$output"
run() { # what cargo does in the copy
    CARGO_TARGET_DIR=$output/build cargo "$1" --quiet --locked --manifest-path "$output/tree/Cargo.toml" "${@:2}"
}
run build --profile counted -p everybuddy-example-instructions --bin loads
run test --profile gate -p everybuddy --lib --no-run

counted=(relief:{700,900,995} relief:900/8 'relief:900*8' 'relief:995*4' steady:500 burst:{0,3,9} exit:3/8 'handover:0*2' full:9
    hot:9/2 bulk:9/2)
aged=(aged:400 aged:400/8 'aged:400*8')
silent=(silent:64\*{2,8,64} silent:1024\*{2,8,64})
row() { # NAME: a row without this mechanism
    local counts="$output/counts"
    valgrind --tool=callgrind --callgrind-out-file="$counts" --combine-dumps=yes --dump-line=no \
        --toggle-collect='loads::measured::*' --dump-before='loads::finish' --zero-before='loads::discard' \
        "$output/build/counted/loads" "${counted[@]}" >"$output/lines" 2>/dev/null
    sed -n 's/^totals: //p' "$counts" | head -n "${#counted[@]}" >"$output/totals"
    printf '%s' "$1"
    paste "$output/lines" "$output/totals" | awk -F '\t' '{ printf "\t%.0f", $NF / $2 }'
    awk -F '[\t ,\\]]+' '/^relief:995/ { printf "\t%d", $7 }' "$output/lines"
    "$output/build/counted/loads" "${aged[@]}" | awk -F '\t' '{ printf "\t%d", $4 }'
    "$output/build/counted/loads" "${silent[@]}" | awk -F '\t' '{ printf "\t%d", $5 }'
    printf '\t%s\t' "$2"
    run test --profile gate -p everybuddy --lib everybuddy:: 2>/dev/null |
        sed -nE 's/^test result:.* ([0-9]+) failed.*/\1/p' || true
}

[ $# -gt 0 ] || mapfile -t names < <(list ci/mechanisms.tsv | cut -f1 | awk '!seen[$0]++')
[ $# = 0 ] || names=("$@")
{
    printf 'without'
    printf '\t%s' "${counted[@]}" refused:995 'refused:995*4' "${aged[@]}" "${silent[@]}" lines tests
    echo
    row - 0
    for name in "${names[@]}"; do
        lines=$(list ci/mechanisms.tsv | awk -F '\t' -v name="$name" '$1 == name && !seen++ { print $5 }')
        EVERYBUDDY_DEFECT=$name row "$name" "$lines"
    done
} | tee "$output/table.tsv"
column -t -s $'\t' "$output/table.tsv" >"$output/table.txt"
