#!/usr/bin/env bash
# Mutation testing of the allocators: changes one operator, condition or return value at a time, and reports the changes
# that no test notices.
#
#   ci/mutants.sh                   a fixed sample: every twelfth mutant of all, about 300; two and a half hours
#   ci/mutants.sh FOLDER [K/N]      all mutants of a folder of crates/everybuddy/src, or every Nth of them from the Kth on
#   ci/mutants.sh . 0/1             all mutants, about 3,550; 30 hours
#
# Each mutant takes about half a minute. They are tested in pieces of about 60, and a piece that is done at this commit is
# not repeated. The results are files in target/mutants/COMMIT; `missed.txt` of a piece lists what no test noticed. The
# script fails only if the tests fail without a mutant, if there is no mutant, or if it could not run. Needs cargo-mutants
# (installed where missing).
set -euo pipefail
cd "$(dirname "$0")/.."

folder=${1:-.}
if [ $# = 0 ]; then shard=0/12; else shard=${2:-0/1}; fi
ci/install.sh mutants
case $folder in
.) pattern='crates/everybuddy/src/**/*.rs' ;;
*) pattern="crates/everybuddy/src/$folder/**/*.rs" ;;
esac
# Every Nth mutant, so that a shard is a sample of all files.
selection=(--package everybuddy --file "$pattern" --sharding round-robin)
mutants=$(cargo mutants --list "${selection[@]}" --shard "$shard" | wc -l)
if [ "$mutants" = 0 ]; then
    echo "mutants: $pattern has no mutants in shard $shard" >&2
    exit 1
fi
pieces=$(((mutants + 59) / 60))
echo "mutants: $mutants of $pattern, shard $shard, in $pieces pieces"
name=${folder//\//-}
output=target/mutants/$(git rev-parse --short HEAD)/${name/#./all}-${shard//\//of}

for piece in $(seq 0 $((pieces - 1))); do
    part=$output/$piece
    [ ! -e "$part/done" ] || continue
    mkdir -p "$part"
    status=0
    # A shard of the shard. The unit tests and the merged program: one program to link for each mutant. The first test that
    # fails ends a trial; the test program has that option on a stable compiler only with this variable. A mutant that a
    # property catches need not be shrunk.
    RUSTC_BOOTSTRAP=1 PROPTEST_MAX_SHRINK_ITERS=0 cargo mutants "${selection[@]}" \
        --shard "$((${shard%/*} + piece * ${shard#*/}))/$((${shard#*/} * pieces))" --jobs 2 \
        --output "$part" --profile test --timeout 60 --no-shuffle --colors never \
        -- --lib --test all -- -Zunstable-options --fail-fast || status=$?
    # 2: some were missed; 3: some took too long. Both are results.
    if [ "$status" -gt 3 ] || [ "$status" = 1 ]; then
        exit "$status"
    fi
    touch "$part/done"
done
for kind in caught missed timeout unviable; do
    printf 'mutants: %s: %d\n' "$kind" "$(cat "$output"/*/mutants.out/$kind.txt 2>/dev/null | wc -l)"
done
