#!/usr/bin/env bash
# What the platform seam costs natively: instructions of a pair of hits, through the seam and by hand.
#
# Counts repeat, so they are gated: the seam may cost at most a tenth more than hand-written code (the code of
# the miss beside it costs some registers). Times don't repeat and are only printed: run the example itself.
set -euo pipefail
cd "$(dirname "$0")/.."

if ! command -v valgrind >/dev/null; then
    echo "seam: no valgrind (ci/install.sh installs it): skipped"
    exit 77
fi
cargo build --quiet --profile counted --locked -p everybuddy-example-instructions --bin hit_cost --bin loads
program=${CARGO_TARGET_DIR:-target}/counted/hit_cost

instructions() { # WHO [VERB]: instructions of a pair, from the difference of two runs
    local few many
    few=$(valgrind --tool=callgrind --callgrind-out-file=/dev/null "$program" "${2:-count}" "$1" 10000 2>&1 |
        sed -n 's/.*Collected : //p')
    many=$(valgrind --tool=callgrind --callgrind-out-file=/dev/null "$program" "${2:-count}" "$1" 20000 2>&1 |
        sed -n 's/.*Collected : //p')
    echo $(((many - few) / 10000))
}

hand=$(instructions hand)
echo "pair of allocation and release, order 0, a hit: instructions"
printf '  %-24s %5d\n' "by hand" "$hand"
for system in lbs-31 lbs-31+percpu=locked spring linux-6; do
    count=$(instructions "$system")
    printf '  %-24s %5d\n' "$system" "$count"
    if [ "$system" = lbs-31 ] && [ $((count * 10)) -gt $((hand * 11)) ]; then
        echo "seam: lbs-31 takes $count instructions a pair, hand-written code $hand" >&2
        exit 1
    fi
done

# A run of one frame is a block: a pair may take a fifth more than one that names the order.
echo "the same pair of a block, by its order and by its count"
for system in lbs-31 lbs-31+percpu=locked spring linux-6 bs llfree everybuddy; do
    by_order=$(instructions "$system")
    by_count=$(instructions "$system" count-run)
    printf '  %-24s %5d %5d\n' "$system" "$by_order" "$by_count"
    if [ $((by_count * 5)) -gt $((by_order * 6)) ]; then
        echo "seam: $system takes $by_count instructions a pair by count, $by_order by order" >&2
        exit 1
    fi
done

# After memory was full (per mille in use), a pair may take at most 1.1 times these counts. Above 90 %, fit must serve, and
# no request may be refused.
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
valgrind --tool=callgrind --callgrind-out-file="$folder/dumps" --combine-dumps=yes --dump-line=no \
    --toggle-collect='loads::measured::*' --dump-before='loads::finish' --zero-before='loads::discard' \
    "${CARGO_TARGET_DIR:-target}/counted/loads" relief:{700,800,900,980,990} >"$folder/levels" 2>/dev/null
sed -n 's/^totals: //p' "$folder/dumps" | head -n "$(wc -l <"$folder/levels")" >"$folder/counts"
echo "pair of a free and an allocation after memory was full: level, instructions, refusals by order"
paste "$folder/levels" "$folder/counts" | awk -F '\t' '
    BEGIN { usual["relief:700"] = 252; usual["relief:800"] = 228; usual["relief:900"] = 222
        usual["relief:980"] = 229; usual["relief:990"] = 314 }
    {
        each = $NF / $2
        printf "  %-11s %5d  %s\n", $1, each, $3
        if (each > 1.1 * usual[$1]) { print "seam: more than 1.1 times " usual[$1]; bad = 1 }
        if ($3 != "[0, 0, 0, 0, 0]") { print "seam: requests are refused"; bad = 1 }
        levels++
    }
    END { exit bad || levels != 5 }' || { echo "seam: a shortage costs too much (above)" >&2; exit 1; }

# What the simulator takes an access for depends on the calls and on the number of accesses, which are the same on every
# host.
table=lab/simulate/src/work.tsv
accesses() {
    cargo run --quiet --profile counted --locked -p everybuddy-example-instructions --features accesses --bin accesses
}
if ! diff <(awk -F '\t' -v OFS='\t' 'NR > 1 { print $1, $2, $3, $6, $5 }' $table) <(accesses); then
    echo "seam: paths are other calls, or make other accesses, than in $table (above): run \`ci/work.sh $table\`" >&2
    exit 1
fi
echo "seam: the calls and accesses of all paths are those of $table"
