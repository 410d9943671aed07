#!/usr/bin/env bash
# Mutation testing of the allocators: changes one operator, condition or return value at a time, and reports the changes
# that no test notices.
#
#   ci/mutants.sh                   a fixed sample: every twelfth mutant of all, about 300; two and a half hours
#   ci/mutants.sh FOLDER [K/N]      all mutants of a folder of crates/everybuddy/src, or every Nth of them from the Kth on
#   ci/mutants.sh . 0/1             all mutants, about 3,550; 30 hours
#
# Each mutant takes about half a minute. It resumes: mutants that were caught before at this commit are not tried again.
# The results are files in target/mutants/COMMIT; `missed.txt` lists what no test noticed. It fails only if the tests fail
# without a mutant, if there is no mutant, or if it could not run. Needs cargo-mutants (installed where missing).
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
selection=(--package everybuddy --file "$pattern" --shard "$shard" --sharding round-robin)
mutants=$(cargo mutants --list "${selection[@]}" | wc -l)
if [ "$mutants" = 0 ]; then
    echo "mutants: $pattern has no mutants in shard $shard" >&2
    exit 1
fi
echo "mutants: $mutants of $pattern, shard $shard"
name=${folder//\//-}
output=target/mutants/$(git rev-parse --short HEAD)/${name/#./all}-${shard//\//of}
mkdir -p "$output"
status=0
# The unit tests and the merged program: one program to link for each mutant.
cargo mutants "${selection[@]}" --iterate --output "$output" --profile test --timeout 180 --no-shuffle \
    --colors never -- --lib --test all || status=$?
# 2: some were missed; 3: some took too long. Both are results.
if [ "$status" -gt 3 ] || [ "$status" = 1 ]; then
    exit "$status"
fi
for kind in caught missed timeout unviable; do
    printf 'mutants: %s: %d\n' "$kind" "$(cat "$output/mutants.out/$kind.txt" 2>/dev/null | wc -l)"
done
