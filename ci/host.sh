#!/usr/bin/env bash
# The simulator against this host, on one thread and on two: ci/host.sh FOLDER. 2 minutes and a build, on a quiet
# machine. Measures the host, then the same workloads natively and simulated, and writes host.toml, native.jsonl,
# simulated.jsonl, and the comparison as host.md and host.jsonl into the folder. Needs two CPUs and python3.
set -euo pipefail
folder=$(realpath "${1:?"usage: ci/host.sh FOLDER"}")
cd "$(dirname "$0")/.."

everybuddy=${EVERYBUDDY:-}
if [ -z "$everybuddy" ]; then
    cargo build --quiet --release --locked -p everybuddy-cli
    everybuddy=${CARGO_TARGET_DIR:-target}/release/everybuddy
fi
mkdir -p "$folder"
workloads=burst:in-order,burst:random,batch,steady:50,steady:90:mixed,handover
"$everybuddy" machines --measure -o "$folder/host.toml" >/dev/null
"$everybuddy" bench --workloads $workloads --threads 1,2 --json "$folder/native.jsonl" >/dev/null
"$everybuddy" simulate --machine "$folder/host.toml" --workloads $workloads --cpus 1,2 --think 0 --seeds 1 --shrink 4 \
    --memory 1GiB --json "$folder/simulated.jsonl" >/dev/null
python3 ci/host.py "$folder/native.jsonl" "$folder/simulated.jsonl" "$folder/host.jsonl" >"$folder/host.md"
cat "$folder/host.md"
