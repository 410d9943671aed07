#!/usr/bin/env bash
# Mutation testing of the allocators: cargo-mutants changes one operator, condition or return value at a time, and runs
# the allocators' tests. If no test fails, the tests do not notice this error, or the change has no effect.
#
#   ci/mutants.sh                      a fixed sample: every hundredth mutant of all
#   ci/mutants.sh PATH [OPTION...]     all mutants of a folder or file of crates/everybuddy/src; cargo-mutants' options
#   ci/mutants.sh coalesce --shard 0/8 --sharding round-robin
#
# ci/mutants-known.tsv lists the mutants that are known to survive, with the reason for each. The script fails if
# another one survives, or if a listed one is caught. A mutant takes a minute or more: the crate and its tests are
# compiled again. An interrupted run is resumed at the same commit: target/mutants/COMMIT/mutants.out has the verdicts.
set -euo pipefail
cd "$(dirname "$0")/.."
[ $# -gt 0 ] || set -- . --shard 0/100 --sharding round-robin
path=crates/everybuddy/src/$1
shift
ci/install.sh mutants
[ ! -d "$path" ] || path=$path/**/*.rs
path=${path//\/.\//\/}
commit=$(git rev-parse --short HEAD)
[ -z "$(git status --porcelain -- crates)" ] || commit=$commit-changed
output=target/mutants/$commit
mkdir -p "$output"
# Properties try the same cases for each mutant, and do not shrink what fails.
export PROPTEST_MAX_SHRINK_ITERS=0 PROPTEST_DISABLE_FAILURE_PERSISTENCE=1 PROPTEST_RNG_SEED=1 EVERYBUDDY_ROUNDS=2
export CARGO_TARGET_DIR=$PWD/target/mutants/build CARGO_INCREMENTAL=1 CARGO_TERM_COLOR=never

cargo mutants --list --colors never --package everybuddy --file "$path" >"$output/listed"
status=0
cargo mutants --iterate --colors never --package everybuddy --test-package everybuddy,everybuddy-suite --file "$path" \
    "$@" --output "$output" --profile gate --cargo-arg=--locked -- --lib --test all || status=$?
# 2: a mutant survived; 3: with one, the tests took several times as long as without.
case $status in 0 | 2 | 3) ;; *) exit "$status" ;; esac

# A name is FILE: DESCRIPTION: NUMBER, where the number counts equal descriptions in a file. Only then is it stable.
awk -F '\t' '
    FILENAME ~ /known/ { known[$1] = !/^#/; next }
    FILENAME ~ /listed/ {
        file = description = $0
        sub(/:.*/, "", file)
        sub(/^[^ ]* /, "", description)
        sub(/^crates\/everybuddy\/src\//, "", file)
        name[$0] = file ": " description ": " ++count[file, description]
        next
    }
    { verdict = "" }
    FILENAME ~ /missed/ && !known[name[$0]] { verdict = "survived, and not listed" }
    FILENAME ~ /caught/ && known[name[$0]] { verdict = "listed as known to survive, but caught" }
    verdict { print "mutants: " name[$0] ": " verdict; bad = 1 }
    END { exit bad }' ci/mutants-known.tsv "$output/listed" "$output"/mutants.out/{missed,caught}.txt
