#!/usr/bin/env bash
# The simulator against this host, on one CPU and on two: ci/host.sh FOLDER [LOADS]. Measures the host, measures the loads
# on it and predicts them, and writes host.toml, rows.jsonl, and the comparison as host.md and host.jsonl into the
# folder. An existing host.toml in the folder is used instead of a new measurement. It takes ten minutes on a quiet
# machine, and refuses a busy one. Needs two CPUs and python3.
set -euo pipefail
folder=$(realpath "${1:?"usage: ci/host.sh FOLDER [LOADS]"}")
loads=${2:-burst:random,batch,handover,steady:50}
cd "$(dirname "$0")/.."

everybuddy=${EVERYBUDDY:-}
if [ -z "$everybuddy" ]; then
    cargo build --quiet --release --locked -p everybuddy-cli
    everybuddy=${CARGO_TARGET_DIR:-target}/release/everybuddy
fi
mkdir -p "$folder"
[ -f "$folder/host.toml" ] || "$everybuddy" machines --measure -o "$folder/host.toml" >/dev/null
# All systems but `magazines`, whose hits say how long an instruction takes.
systems=${SYSTEMS:-$("$everybuddy" systems --json | python3 -c '
import json, sys
names = [json.loads(line)["name"] for line in sys.stdin]
print(",".join(name for name in names if name != "magazines"))')}
"$everybuddy" scaling --machine "$folder/host.toml" --workloads "$loads" --systems "$systems" --cpus 1,2 \
    --json "$folder/rows.jsonl" >/dev/null
python3 ci/host.py "$folder/rows.jsonl" "$folder/host.jsonl" >"$folder/host.md"
cat "$folder/host.md"
