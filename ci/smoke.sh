#!/usr/bin/env bash
# The first command of the README, as a newcomer runs it: it must end well and print every system.
set -euo pipefail
cd "$(dirname "$0")/.."

output=$(cargo run --quiet --release --locked -- compare)
for system in bs lbs-1 lbs-31 fixlazy-372 fixlazy-744 spring linux-6; do
    grep -q "^ $system " <<<"$output" || { echo "smoke: no row for $system" >&2; exit 1; }
done
echo "$output"
