#!/usr/bin/env bash
# Sweeps on a real Ray cluster of this machine, with a head and two nodes, one of which is killed in the middle; and a
# search by Optuna: ci/sweep.sh [FILE]. Prints what it saw, and writes it to FILE. 5 minutes.
#
# The same cells run here, as commands and on the cluster: the rows must be the same. The same search runs twice, and on
# the cluster: the best options must be the same.
set -euo pipefail
cd "$(dirname "$0")/.."

usable() {
    python3 -c 'import ensurepip, sys; sys.exit(sys.version_info < (3, 11))' 2>/dev/null
}
usable || ci/install.sh python
if ! usable; then
    echo "sweep: no Python 3.11 or later with venv (ci/install.sh python installs it): skipped"
    exit 77
fi
mkdir -p "${CARGO_TARGET_DIR:=target}/sweep"
export CARGO_TARGET_DIR
folder=$(cd "$CARGO_TARGET_DIR/sweep" && pwd)
# Paths of sockets must be short.
work=$(mktemp -d /tmp/sweep.XXXX)
export RAY_USAGE_STATS_ENABLED=0
nodes=()
finish() {
    # Each node is a process group of its own.
    for node in ${nodes[@]+"${nodes[@]}"}; do kill -TERM -- "-$node" 2>/dev/null || true; done
    for node in ${nodes[@]+"${nodes[@]}"}; do
        for _ in $(seq 20); do
            ! kill -0 -- "-$node" 2>/dev/null || sleep 0.5
        done
        kill -KILL -- "-$node" 2>/dev/null || true
    done
    rm -rf "$work"
}
trap finish EXIT

cargo build --quiet --locked --profile gate -p everybuddy-cli
program=$CARGO_TARGET_DIR/gate/everybuddy
python3 -m venv "$folder/venv"
python=$folder/venv/bin/python3
"$python" -m pip install --quiet --disable-pip-version-check --upgrade 'pip>=25.1'
if ! (cd python && "$python" -m pip install --quiet --group sweep); then
    echo "sweep: pip has no Ray or Optuna for $(python3 --version): skipped"
    exit 77
fi

say() {
    echo "$*" | tee -a "$work/report"
}

start() { # NAME OPTION...: starts a node and waits for it. Nodes that start at the same time would share sockets.
    local log=$work/$1.log
    shift
    setsid "$folder/venv/bin/ray" start --object-store-memory=80000000 --disable-usage-stats --block "$@" >"$log" 2>&1 &
    nodes+=($!)
    # Its end is no news.
    disown $!
    for _ in $(seq 240); do
        ! grep -q 'Ray runtime started' "$log" || return 0
        sleep 0.5
    done
    cat "$log"
    echo "sweep: a node of Ray did not start"
    exit 1
}

cells() { # FOLDER: the number of finished cells.
    find "$1" -name '*.parquet' ! -name '.*' 2>/dev/null | wc -l
}

cat >"$work/grid.toml" <<'TOML'
command = "simulate"
systems = ["bs", "is", "lis-31", "lbs-31"]
workloads = ["burst:in-order", "handover"]
machines = ["x5570"]
cpus = [2, 4, 8]
seeds = 2
[options]
batch = [7, 31]
[arguments]
shrink = 2
TOML
say "$("$python" -c 'import optuna, ray; print("Ray", ray.__version__, "and Optuna", optuna.__version__)')"
say "$(cd "$work" && "$program" sweep grid.toml --cells here --json here.jsonl | sed 's/ in .*//'), here"

# Some of the cells as commands, the others when all are joined.
"$program" sweep "$work/grid.toml" --cells "$work/commands" --print-commands >"$work/lines"
sed -n 'p;n' "$work/lines" | tr '\n' '\0' | xargs -0 -P 2 -n 1 sh -c
say "$(cells "$work/commands") of $(wc -l <"$work/lines") cells as commands"
"$program" sweep "$work/grid.toml" --cells "$work/commands" --json "$work/commands.jsonl" >/dev/null
cmp "$work/here.jsonl" "$work/commands.jsonl"
say "commands: the same rows as here"

port=$("$python" -c 'import socket; own = socket.socket(); own.bind(("", 0)); print(own.getsockname()[1])')
start head --head --port="$port" --num-cpus=0 --include-dashboard=false --temp-dir="$work/ray"
start one --address="127.0.0.1:$port" --num-cpus=1
start two --address="127.0.0.1:$port" --num-cpus=1
ray=(--ray "127.0.0.1:$port")
"$program" sweep "$work/grid.toml" --cells "$work/cluster" "${ray[@]}" --python "$python" --json "$work/cluster.jsonl" >"$work/out" 2>&1 &
sweep=$!
until [ "$(cells "$work/cluster")" -ge 10 ]; do
    kill -0 $sweep || { cat "$work/out"; exit 1; }
    sleep 0.1
done
raylet=$(pgrep -P "${nodes[1]}" raylet)
kill -KILL "$raylet"
say "Ray: one of two nodes was killed after $(cells "$work/cluster") cells"
wait $sweep || { cat "$work/out"; exit 1; }
say "Ray: $(sed 's/ in .*//' "$work/out")"
cmp "$work/here.jsonl" "$work/cluster.jsonl"
[ "$(cells "$work/cluster")" = "$(cells "$work/here")" ]
say "Ray: the same rows as here, nothing lost and nothing twice"

cat >"$work/search.toml" <<'TOML'
command = "simulate"
systems = ["lbs-31", "lis-31"]
traces = ["sysbench_mt_cut"]
machines = ["x5570"]
cpus = [4]
[options]
batch = { min = 1, max = 63, log = true }
high = { min = 64, max = 512, step = 64 }
[arguments]
shrink = 10
TOML
search() { # NAME OPTION...
    local name=$1
    shift
    "$program" sweep "$work/search.toml" --cells "$work/search-$name" --python "$python" --seed 7 --trials 24 \
        --minimize latency:p99:allocate --subject-to 'metadata_bytes_per_frame<9' "$@" \
        --json "$work/search-$name.jsonl" >"$work/search-$name.txt"
}
search first
search second
search cluster "${ray[@]}"
say "Optuna, latency:p99:allocate on sysbench_mt_cut, 4 simulated CPUs, metadata_bytes_per_frame<9:"
tee -a "$work/report" <"$work/search-first.txt"
for other in second cluster; do
    cmp "$work/search-first.txt" "$work/search-$other.txt"
    cmp "$work/search-first.jsonl" "$work/search-$other.jsonl"
done
say "Optuna: the same systems again, and on the cluster"
[ $# = 0 ] || cp "$work/report" "$1"
