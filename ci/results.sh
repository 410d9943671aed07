#!/usr/bin/env bash
# Makes committed results again that are of an older program, the oldest first: ci/results.sh [NAME...].
#
#   ci/results.sh --list [NAME...]     prints what is of an older program, with the time that it takes about
#   ci/results.sh [NAME...]            makes it again, and takes it over into results/. NAME is a run of
#                                      results/runs.tsv, a pattern such as 'simulated/*', or what runs need:
#                                      simulated, counted, native or linux
#   ci/results.sh --again=N [NAME...]  makes N runs that repeat again, at random, and compares each digit
#
# An interrupted command is resumed by the same command: what is done for this commit is in target/results. A native run
# waits until the CPUs are idle for 20 seconds. Runs `by hand` are only named. Needs python3; commit first. For each run, it
# names the command that shows what changed (`everybuddy rows`). At the end it writes the documents and the page of claims.
set -euo pipefail
cd "$(dirname "$0")/.."

if [ "${1:-}" != --list ]; then
    if [ -n "$(git status --porcelain -- crates lab)" ]; then
        echo "results: crates or lab have changes: commit them, so that rows name what made them" >&2
        exit 2
    fi
    # Other authors' allocators are in the tables of `bench`.
    cargo build --quiet --release --locked -p everybuddy-cli --features peers
    export EVERYBUDDY=${CARGO_TARGET_DIR:-$PWD/target}/release/everybuddy
fi
status=0
python3 ci/results.py "$@" || status=$?
if [ "${1:-}" != --list ]; then
    cargo run --quiet --locked --profile gate -p xtask -- docs
fi
exit $status
