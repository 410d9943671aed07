#!/usr/bin/env bash
# Explores every state of small memories, and pairs of operations under all schedules: ci/explore.sh [LIST...], all
# lists by default: gate, systems, options, larger, pairs. Half an hour. A scope takes at most eight minutes, three in the
# list `larger`, and two in `pairs`.
#
# target/explore/COMMIT.tsv has a row for each scope. An interrupted run is resumed: scopes with a row are not repeated.
# It fails if something is wrong. With all lists, it fails, too, if an exception of checks/explore/src/exceptions.rs
# was never found.
set -euo pipefail
cd "$(dirname "$0")/.."
export CARGO_TERM_COLOR=never

[ $# -gt 0 ] || set -- gate systems options larger pairs
commit=$(git rev-parse --short HEAD)
[ -z "$(git status --porcelain -- crates checks)" ] || commit=$commit-changed
mkdir -p target/explore
explore() {
    cargo run --locked --profile gate -p everybuddy-explore -- --out "target/explore/$commit.tsv" "$@"
}
# A finding (status 1) does not end the search.
for list in "$@"; do
    case $list in
    larger) minutes=3 ;;
    pairs) minutes=2 ;;
    *) minutes=8 ;;
    esac
    explore --minutes $minutes "$list" || [ $? = 1 ]
done
# Nothing is left to explore: all rows are judged together.
explore "$@"
