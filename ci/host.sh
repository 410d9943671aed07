#!/usr/bin/env bash
# The simulator against this host, on one CPU and on two: ci/host.sh FOLDER [LOADS]. Measures the host, measures the loads
# on it and predicts them, and writes host.toml, rows.jsonl, and the comparison as host.md and host.jsonl into the
# folder. An existing host.toml in the folder is used instead of a new measurement. It takes a minute on a quiet machine,
# and refuses a busy one. Needs two CPUs and python3.
#
#   RULES=1 ci/host.sh FOLDER [LOADS]
#
# then predicts again without each rule of the model, by another host.toml, and writes which cells leave the bounds as
# rules.txt. Three minutes more.
set -euo pipefail
folder=$(realpath "${1:?"usage: ci/host.sh FOLDER [LOADS]"}")
loads=${2:-burst:random,batch,handover}
cd "$(dirname "$0")/.."

everybuddy=${EVERYBUDDY:-}
if [ -z "$everybuddy" ]; then
    cargo build --quiet --release --locked -p everybuddy-cli
    everybuddy=${CARGO_TARGET_DIR:-target}/release/everybuddy
fi
mkdir -p "$folder"
[ -f "$folder/host.toml" ] || "$everybuddy" machines --measure -o "$folder/host.toml" >/dev/null
# All systems, and Linux's lists with their locks. `magazines` is left out, whose hits say how long an instruction takes,
# and `serewa`: its services disturb every section of two threads.
systems=${SYSTEMS:-$("$everybuddy" systems --json | python3 -c '
import json, sys
names = [json.loads(line)["name"] for line in sys.stdin]
print(",".join([name for name in names if name not in ("magazines", "serewa")] + ["linux-6+percpu=locked"]))')}
"$everybuddy" scaling --machine "$folder/host.toml" --workloads "$loads" --systems "$systems" --cpus 1,2 \
    --json "$folder/rows.jsonl" >/dev/null
python3 ci/host.py "$folder/rows.jsonl" "$folder/host.jsonl" | tee "$folder/host.md"
[ -n "${RULES:-}" ] || exit 0

# Each line: what the model does instead, and how host.toml says so.
rules='all rules
a load that misses costs its whole latency|s/^window = [0-9].*/window = 1/
and a hit of the first cache costs its cycles, too|s/^window = [0-9].*/window = 0/
waiters spin|s/^waiters = "back.*/waiters = "spin"/
a store waits for its line|s/^store_buffer = [0-9].*/store_buffer = 0/
an atomic operation costs what its instructions do|s/^locked = [0-9].*/locked = 0/
a line that others have, too, is got like a modified one|s/^\(.*\)\.upgrade = [0-9].*/\1.upgrade = MODIFIED/'
modified=$(sed -n 's/^near.modified = \([0-9]*\)$/\1/p' "$folder/host.toml")
while IFS='|' read -r name change; do
    own=$folder/without.toml
    sed -e "$change" -e "s/MODIFIED/$modified/" "$folder/host.toml" >"$own"
    "$everybuddy" scaling --predict --machine "$own" --workloads "$loads" --systems "$systems" --cpus 1,2 \
        --json "$folder/without.jsonl" >/dev/null
    python3 ci/host.py "$folder/rows.jsonl" "$folder/summary.jsonl" "$folder/without.jsonl" >"$folder/without.md"
    echo "$name:"
    sed -n 's/^\([12] CPUs: .*\)/  \1/p' "$folder/without.md"
    awk -F ' *[|] *' 'NF == 8 && $3 + 0 {
        bound = $3 == 1 ? 1.5 : 2
        if ($7 > bound || $7 < 1 / bound) printf "%s %s@%s %s; ", $4, $2, $3, $7
    }' "$folder/without.md" | fold -s -w 110 | sed 's/^/    /; s/[; ]*$//'
    echo
done <<<"$rules" | tee "$folder/rules.txt"
