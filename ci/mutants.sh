#!/usr/bin/env bash
# Mutation testing of the allocators: changes one operator, condition or return value at a time, and reports the changes
# that no test notices.
#
#   ci/mutants.sh [FOLDER [K/N]]    FOLDER of crates/everybuddy/src, all of it by default; K/N is one shard of N
#
# About half a minute for each mutant, 5 hours for everything. It resumes: mutants that were caught before at this commit
# are not tried again. The result lies in target/mutants/FOLDER: `missed.txt` lists what no test noticed. It fails only if
# the tests fail without a mutant, or if it could not run. Needs cargo-mutants (installed where missing).
set -euo pipefail
cd "$(dirname "$0")/.."

folder=${1:-.}
shard=${2:-0/1}
ci/install.sh mutants
output=target/mutants/$(git rev-parse --short HEAD)/${folder//\//-}-${shard//\//of}
mkdir -p "$output"
status=0
# The unit tests and the merged program: one program to link for each mutant.
cargo mutants --package everybuddy --file "crates/everybuddy/src/$folder/**/*.rs" --shard "$shard" --iterate \
    --output "$output" --profile test --timeout 180 --no-shuffle --colors never \
    -- --lib --test all || status=$?
# 2: some were missed; 3: some took too long. Both are results.
if [ "$status" -gt 3 ] || [ "$status" = 1 ]; then
    exit "$status"
fi
for kind in caught missed timeout unviable; do
    printf 'mutants: %s: %d\n' "$kind" "$(cat "$output/mutants.out/$kind.txt" 2>/dev/null | wc -l)"
done
