#!/usr/bin/env bash
# Puts defects into the allocators, one at a time, and explores the scopes that must find them: ci/defects.sh [NAME...].
# Without a defect, the same scopes must find nothing. 5 minutes.
#
# The defects of ci/defects.tsv are compiled into one program, in a copy of the sources, and an environment variable
# selects one of them. What the explorer prints about each, as tests, lies in target/defects. The table list.tsv there
# has the shortest finding of each: its number of steps, and how many transitions, or schedules of pairs, came before it.
set -euo pipefail
cd "$(dirname "$0")/.."
export CARGO_TERM_COLOR=never

. ci/switches.sh
output=$PWD/target/defects
switches ci/defects.tsv "$output"
CARGO_TARGET_DIR=$output/build cargo build --locked --profile gate \
    --manifest-path "$output/tree/Cargo.toml" -p everybuddy-explore
cp "$output/build/gate/everybuddy-explore" "$output/program"

[ $# -gt 0 ] || mapfile -t names < <(list ci/defects.tsv | cut -f1)
[ $# = 0 ] || names=("$@")
bad=0
printf 'defect\ttext\tscope\tfinding\tsteps\tafter\tunit\n' >"$output/list.tsv"
for name in "${names[@]}"; do
    scope=$(list ci/defects.tsv | awk -F '\t' -v name="$name" '$1 == name { print $5 }')
    if ! "$output/program" "$scope" >"$output/without.txt"; then
        echo "defects: $scope finds something without a defect"
        bad=1
    fi
    if EVERYBUDDY_DEFECT=$name "$output/program" "$scope" >"$output/$name.txt"; then
        echo "defects: $name: not found"
        bad=1
    else
        found=$(sed -nE '/^  .*, times [0-9]+\):$/ { s/^ *//; p; q }' "$output/$name.txt")
        echo "defects: $name: found: $found"
        [[ $found =~ ^(.*)\ \(steps\ ([0-9]+),\ first\ after\ ([0-9]+), ]]
        unit=transitions
        [[ $scope != *pairs=* ]] || unit=schedules
        text=$(list ci/defects.tsv | awk -F '\t' -v name="$name" '$1 == name { print $6 }')
        printf '%s\t' "$name" "$text" "$scope" "${BASH_REMATCH[@]:1:3}" >>"$output/list.tsv"
        echo "$unit" >>"$output/list.tsv"
    fi
done
exit $bad
