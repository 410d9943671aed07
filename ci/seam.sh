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
cargo build --quiet --release --locked -p everybuddy-example-instructions --bin hit_cost --bin paths
program=${CARGO_TARGET_DIR:-target}/release/hit_cost

instructions() { # WHO: instructions of a pair, from the difference of two runs
    local few many
    few=$(valgrind --tool=callgrind --callgrind-out-file=/dev/null "$program" count "$1" 10000 2>&1 |
        sed -n 's/.*Collected : //p')
    many=$(valgrind --tool=callgrind --callgrind-out-file=/dev/null "$program" count "$1" 20000 2>&1 |
        sed -n 's/.*Collected : //p')
    echo $(((many - few) / 10000))
}

hand=$(instructions hand)
echo "pair of allocation and release, order 0, a hit: instructions"
printf '  %-24s %5d\n' "by hand" "$hand"
for system in lbs-31 lbs-31+check=off lbs-31+percpu=locked spring linux-6; do
    count=$(instructions "$system")
    printf '  %-24s %5d\n' "$system" "$count"
    if [ "$system" = lbs-31 ] && [ $((count * 10)) -gt $((hand * 11)) ]; then
        echo "seam: lbs-31 takes $count instructions a pair, hand-written code $hand" >&2
        exit 1
    fi
done

# What the simulator takes an access for depends on the number of accesses, which is the same on every host.
table=lab/simulate/src/work.tsv
if ! diff <(cut -f 1,2,3,5 $table | tail -n +2) <("${CARGO_TARGET_DIR:-target}/release/paths" --accesses); then
    echo "seam: paths make other accesses than in $table (above): run \`ci/work.sh $table\`" >&2
    exit 1
fi
echo "seam: the accesses of all paths are those of $table"
