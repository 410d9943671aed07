#!/usr/bin/env bash
# The experiments that time nothing, whole: ci/experiments.sh [NAME...], all of them by default.
#
# It fails if a claim fails that is not known to. target/experiments/COMMIT has rows and what was printed; what passed
# there is not repeated, so that an interrupted run is resumed by the same command.
set -euo pipefail
cd "$(dirname "$0")/.."
export CARGO_TERM_COLOR=never

cargo build --quiet --release --locked
program=${CARGO_TARGET_DIR:-target}/release/everybuddy
commit=$(git rev-parse --short HEAD)
[ -z "$(git status --porcelain -- crates lab)" ] || commit=$commit-changed
folder=target/experiments/$commit
mkdir -p "$folder"

# One JSON object a line.
[ $# -gt 0 ] || mapfile -t names < <("$program" experiments --json | sed -n '/"timed":false/s/.*"name":"\([^"]*\)".*/\1/p')
[ $# = 0 ] || names=("$@")
failed=()
for name in "${names[@]}"; do
    [ ! -e "$folder/$name.jsonl" ] || continue
    started=$SECONDS
    if "$program" reproduce "$name" --json "$folder/$name.part" >"$folder/$name.txt"; then
        mv "$folder/$name.part" "$folder/$name.jsonl"
        echo "experiments: $name: passed in $((SECONDS - started)) s"
    else
        echo "experiments: $name: FAILED, see $folder/$name.txt"
        failed+=("$name")
    fi
done
[ ${#failed[@]} = 0 ] || { echo "experiments: FAILED: ${failed[*]}" >&2; exit 1; }
echo "experiments: ${#names[@]} passed"
