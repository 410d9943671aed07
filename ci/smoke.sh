#!/usr/bin/env bash
# The first command of the README, as a newcomer runs it: it must end well, print every system and write the page.
set -euo pipefail
cd "$(dirname "$0")/.."

rm -f everybuddy-report.html
output=$(cargo run --quiet --release --locked -- compare)
for system in bs lbs-1 lbs-31 fixlazy-372 fixlazy-744 spring linux-6; do
    grep -q "^ $system " <<<"$output" || { echo "smoke: no row for $system" >&2; exit 1; }
done
size=$(stat -c %s everybuddy-report.html)
if [ "$size" -gt $((3 * 1024 * 1024)) ]; then
    echo "smoke: everybuddy-report.html has $size bytes, more than 3 MiB" >&2
    exit 1
fi
echo "$output"
echo "everybuddy-report.html: $size bytes"
