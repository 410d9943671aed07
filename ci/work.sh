#!/usr/bin/env bash
# The instructions that accesses of the simulator stand for: ci/work.sh [FILE]. Counts the instructions of the paths of
# examples/instructions natively, with callgrind, and the accesses of the same paths on the virtual machine. Prints the
# difference to lab/simulate/src/work.tsv, or writes FILE. Fails if both did not make the same calls, compared by a
# digest of all calls up to each path; or if the accesses of a path differ from the table, or its instructions by more
# than 2 %. Then the table is out of date. Needs valgrind (installed where missing); two minutes.
#
#   ci/work.sh lab/simulate/src/work.tsv      rewrites the table
set -euo pipefail
cd "$(dirname "$0")/.."

ci/install.sh valgrind
if ! command -v valgrind >/dev/null; then
    echo "work: no valgrind: skipped"
    exit 77
fi
unset PATHS
table=lab/simulate/src/work.tsv
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
ci/instructions.sh "$folder/instructions" >/dev/null
cargo run --quiet --profile counted --locked -p everybuddy-example-instructions --features accesses --bin accesses \
    >"$folder/accesses"
awk -F '\t' -v OFS='\t' '
    NR == FNR { calls[$1, $2] = $4; accesses[$1, $2] = $5; next }
    FNR == 1 { print $1, $2, $3, $4, "accesses", $5; next }
    # The virtual machine does not run these.
    $1 ~ /^dyn:/ || $2 ~ /^(burst|handover) / { next }
    !(($1, $2) in accesses) { print "work: no accesses of " $1 ", " $2 >"/dev/stderr"; exit 1 }
    calls[$1, $2] != $5 { print "work: natively, other calls precede the end of " $1 ", " $2 >"/dev/stderr"; exit 1 }
    { print $1, $2, $3, $4, accesses[$1, $2], $5 }' "$folder/accesses" "$folder/instructions" >"$folder/table"
if [ -n "${1:-}" ]; then
    cp "$folder/table" "$1"
    echo "work: $(($(wc -l <"$1") - 1)) paths in $1"
    exit
fi
awk -F '\t' '
    FNR == 1 { next }
    NR == FNR { instructions[$1, $2] = $4; accesses[$1, $2] = $5; next }
    !(($1, $2) in accesses) { printf "new: %s %s\n", $1, $2; bad++; next }
    {
        before = instructions[$1, $2]
        off = $4 > before ? $4 - before : before - $4
        if ($5 != accesses[$1, $2] || off > before / 50) {
            printf "%s %s: %d instructions and %d accesses, in the table %d and %d\n", $1, $2, $4, $5, before, accesses[$1, $2]
            bad++
        }
        delete accesses[$1, $2]
        same++
    }
    END {
        for (key in accesses) { split(key, name, SUBSEP); printf "gone: %s %s\n", name[1], name[2]; bad++ }
        printf "work: %d paths compared, %d differ\n", same, bad
        exit bad > 0
    }' "$table" "$folder/table"
