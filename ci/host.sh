#!/usr/bin/env bash
# The simulator against this host, on one thread and on two, with all systems and the workloads of `bench`:
# ci/host.sh FOLDER [NATIVE.jsonl]. Measures the host, runs the workloads natively, unless a file has the rows of an
# earlier `everybuddy bench` on the same host, and simulates them. Writes host.toml, native.jsonl, simulated.jsonl, and
# the comparison as host.md and host.jsonl into the folder. It takes half an hour, and another half for `bench`, on a quiet
# machine. Needs two CPUs and python3. An existing host.toml in the folder is used instead of a new measurement.
set -euo pipefail
folder=$(realpath "${1:?"usage: ci/host.sh FOLDER [NATIVE.jsonl]"}")
native=${2:+$(realpath "$2")}
cd "$(dirname "$0")/.."

everybuddy=${EVERYBUDDY:-}
if [ -z "$everybuddy" ]; then
    cargo build --quiet --release --locked -p everybuddy-cli
    everybuddy=${CARGO_TARGET_DIR:-target}/release/everybuddy
fi
mkdir -p "$folder"
workloads=hot,burst,bulk,batch,steady,handover,fill,split,churn,aged-churn
[ -f "$folder/host.toml" ] || "$everybuddy" machines --measure -o "$folder/host.toml" >/dev/null
if [ -z "$native" ]; then
    native=$folder/native.jsonl
    "$everybuddy" bench --workloads $workloads --threads 1,2 --json "$native" >/dev/null
fi
"$everybuddy" simulate --machine "$folder/host.toml" --workloads $workloads --cpus 1,2 --think 0 --seeds 1 --shrink 64 \
    --memory 1GiB --json "$folder/simulated.jsonl" >/dev/null
python3 ci/host.py "$native" "$folder/simulated.jsonl" "$folder/host.jsonl" >"$folder/host.md"
cat "$folder/host.md"
