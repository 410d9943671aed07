#!/usr/bin/env bash
# How rules of the simulator change the reproduced numbers: ci/papers.sh [FOLDER]. Three experiments run with all rules,
# then without overlapping loads, then also with a charge for each hit of the first cache. The table shows which share
# of the paper's orders is kept, the root mean square of ln(here / paper), the same after one factor for all cells, and
# how many claims hold. A second run continues in FOLDER. The table is FOLDER/papers-rules.txt. The machine of Porter's
# patch waits for each load anyway. An hour on two CPUs.
set -euo pipefail
folder=$(realpath -m "${1:-target/papers}")
cd "$(dirname "$0")/.."

everybuddy=${EVERYBUDDY:-}
if [ -z "$everybuddy" ]; then
    cargo build --quiet --release --locked -p everybuddy-cli
    everybuddy=${CARGO_TARGET_DIR:-target}/release/everybuddy
fi
everybuddy=$(realpath "$everybuddy")
mkdir -p "$folder"

# Each line: what the model does instead, and how the file of a machine says so.
rules='all rules|
a load that misses costs its whole latency|s/^window = [1-9].*/window = 1/
and a hit of the first cache costs its cycles, too|s/^window = [1-9].*/window = 0/; s/^l1.cycles = 0/l1.cycles = 1/'

# Runs an experiment without a rule, unless that is done.
run() { # NAME CHANGE FOLDER
    local experiment machine
    experiment=lab/papers/src/${1//-/_}/experiment.toml
    machine=$(sed -n 's/^platform = "sim:\(.*\)"$/\1/p' "$experiment")
    mkdir -p "$3"
    if [ ! -f "$3/$1.jsonl" ]; then
        sed "$2" "machines/$machine.toml" >"$3/$machine.toml"
        sed "s#^platform = .*#platform = \"sim:$3/$machine.toml\"#" "$experiment" >"$3/$1.toml"
        # A claim that fails is a result, too.
        "$everybuddy" reproduce "$3/$1.toml" --cells "$3/cells" --json "$3/new.jsonl" >"$3/$1.txt" || [ $? = 1 ]
        mv "$3/new.jsonl" "$3/$1.jsonl"
    fi
}

# Prints the lines of an experiment without a rule.
line() { # NAME RULE FOLDER
    python3 - "$@" <<'END'
import collections, json, re, sys
name, rule, folder = sys.argv[1:]
rows = [json.loads(line) for line in open(f"{folder}/{name}.jsonl")]
found = collections.defaultdict(dict)
for row in rows:
    if row["system"] == "all systems" and row["source"] == "mean":
        found[row["operation"]][row["metric"], row["statistic"]] = row["value"]
words = r"^(pass|known deviation|FAIL|inconclusive)\b"
verdicts = collections.Counter(re.findall(words, open(f"{folder}/{name}.txt").read(), re.M))
for operation, own in found.items() or [("", {})]:
    orders, error, scaled = (
        f"{own[key]:{form}}" if key in own else ""
        for key, form in ((("orders_kept", "rate"), ".0%"), (("log_error", "value"), ".2f"), (("log_error", "scaled"), ".2f"))
    )
    claims = f"{verdicts['pass']} of {verdicts.total()}"
    print(f"{name:24} {rule:50} {operation:9} {orders:>6} {error:>6} {scaled:>10} {claims}")
END
}

{
    printf '%-24s %-50s %-9s %6s %6s %10s %s\n' experiment rule calls orders error "one factor" "claims hold"
    for name in table-1 lock-variants-simulated spring-programs; do
        number=0
        while IFS='|' read -r rule change; do
            number=$((number + 1))
            run "$name" "$change" "$folder/$number"
            line "$name" "$rule" "$folder/$number"
        done <<<"$rules"
    done
} | tee "$folder/papers-rules.txt"
