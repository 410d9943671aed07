#!/usr/bin/env bash
# The instructions that an access of the simulator stands for: ci/work.sh [FILE]. Counts the instructions of a call
# natively, with callgrind, and the accesses of the same call on the virtual machine. Prints a table, and writes it to
# FILE. Needs valgrind (installed where missing) and python3; 10 minutes.
#
# The median of the last column is the constant `INSTRUCTIONS` of crates/everybuddy-simulate/src/cell.rs.
set -euo pipefail
cd "$(dirname "$0")/.."

ci/install.sh valgrind
systems=bs,lbs-1,lbs-31,linux-6,is,lis-1,lis-31,spring,spring-core,delay-2
workloads=hot:order0,burst:in-order,batch,steady:50
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
cargo build --quiet --release --locked -p everybuddy-cli
program=${CARGO_TARGET_DIR:-target}/release/everybuddy
"$program" bench --instructions --workloads $workloads --systems $systems --json "$work/native.jsonl" >/dev/null
"$program" simulate --cpus 1 --think 0 --shrink 16 --memory 1GiB --workloads $workloads --systems $systems \
    --json "$work/simulated.jsonl" >/dev/null
python3 - "$work" <<'PYTHON' | tee "${1:-/dev/null}"
import json, statistics, sys

def rows(name, metric):
    for line in open(f"{sys.argv[1]}/{name}.jsonl"):
        row = json.loads(line)
        if row["metric"] == metric:
            yield (row["system"], row["source"]), row["value"]

accesses = dict(rows("simulated", "accesses"))
print("system\tworkload\tinstructions\taccesses\tinstructions / access")
ratios = []
for (system, workload), instructions in rows("native", "instructions"):
    of = accesses[system, workload]
    ratios.append(instructions / of)
    print(f"{system}\t{workload}\t{instructions:.1f}\t{of:.2f}\t{instructions / of:.2f}")
print(f"median of {len(ratios)}\t\t\t\t{statistics.median(ratios):.2f}")
print(f"least\t\t\t\t{min(ratios):.2f}")
print(f"most\t\t\t\t{max(ratios):.2f}")
PYTHON
