#!/usr/bin/env bash
# Sweeps on real clusters of this machine: by GNU parallel, as an array of Slurm with two nodes, and on Ray with a head
# and two nodes, one of which is killed in the middle; and a search by Optuna: ci/sweep.sh [FILE]. Prints what it saw,
# and writes it to FILE. 5 minutes.
#
# The same cells run here, as commands and on the clusters: the rows must be the same. The same search runs twice, and
# on Ray: the best options must be the same.
set -euo pipefail
cd "$(dirname "$0")/.."

usable() {
    python3 -c 'import ensurepip, sys; sys.exit(sys.version_info < (3, 11))' 2>/dev/null
}
usable || ci/install.sh python
ci/install.sh cluster
if ! usable; then
    echo "sweep: no Python 3.11 or later with venv (ci/install.sh python installs it): skipped"
    exit 77
fi
mkdir -p "${CARGO_TARGET_DIR:=target}/sweep"
# The program is called from other folders.
CARGO_TARGET_DIR=$(cd "$CARGO_TARGET_DIR" && pwd)
export CARGO_TARGET_DIR
folder=$CARGO_TARGET_DIR/sweep
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

daemon() { # LOG COMMAND...: starts a process group of its own.
    local log=$1
    shift
    setsid "$@" >"$log" 2>&1 &
    nodes+=($!)
    # Its end is no news.
    disown $!
}

start() { # NAME OPTION...: starts a node and waits for it. Nodes that start at the same time would share sockets.
    local log=$work/$1.log
    shift
    daemon "$log" "$folder/venv/bin/ray" start --object-store-memory=80000000 --disable-usage-stats --block "$@"
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

slurm() { # Runs the even commands as an array of jobs, on two nodes that this machine plays.
    local port name
    port=$(free_port)
    export SLURM_CONF=$work/slurm.conf
    mkdir "$work/state" "$work/spool.one" "$work/spool.two"
    cat >"$SLURM_CONF" <<CONF
ClusterName=check
SlurmctldHost=localhost
SlurmctldPort=$port
SlurmUser=$(id -un)
SlurmdUser=$(id -un)
AuthType=auth/none
CredType=cred/none
SlurmctldPidFile=$work/slurmctld.pid
SlurmdPidFile=$work/%n.pid
StateSaveLocation=$work/state
SlurmdSpoolDir=$work/spool.%n
ProctrackType=proctrack/linuxproc
TaskPlugin=task/none
SelectType=select/cons_tres
SelectTypeParameters=CR_CPU
MpiDefault=none
SlurmdParameters=config_overrides
NodeName=one NodeHostname=localhost NodeAddr=127.0.0.1 Port=$(free_port) CPUs=1
NodeName=two NodeHostname=localhost NodeAddr=127.0.0.1 Port=$(free_port) CPUs=1
PartitionName=all Nodes=ALL Default=YES
CONF
    daemon "$work/slurmctld.log" slurmctld -D
    for name in one two; do daemon "$work/$name.log" slurmd -D -N "$name"; done
    for _ in $(seq 60); do
        [ "$(sinfo --noheader --states=idle --format=%D 2>/dev/null)" != 2 ] || break
        sleep 0.5
    done
    # As docs/compare.md says, and in the folder where the file is.
    (cd "$work" && cp even commands.txt && timeout 120 sbatch --wait --output="$work/job.%a" \
        --array="1-$(wc -l <commands.txt)" --wrap 'sed -n "${SLURM_ARRAY_TASK_ID}p" commands.txt | sh') >/dev/null || {
        cat "$work"/slurmctld.log "$work"/one.log "$work"/job.*
        echo "sweep: Slurm did not run the commands"
        exit 1
    }
}

free_port() {
    "$python" -c 'import socket; own = socket.socket(); own.bind(("", 0)); print(own.getsockname()[1])'
}

# The first grid of the document, which says that it can be pasted.
awk '/^```/ { if (inside) exit; inside = $0 == "```toml"; next } inside' docs/compare.md >"$work/grid.toml"
say "$("$python" -c 'import optuna, ray; print("Ray", ray.__version__, "and Optuna", optuna.__version__)')"
say "$(cd "$work" && "$program" sweep grid.toml --cells here --json here.jsonl | tail -1 | sed 's/ in .*//'), here"

"$program" sweep "$work/grid.toml" --cells "$work/commands" --print-commands >"$work/all"
sed -n 'p;n' "$work/all" >"$work/odd"
sed -n 'n;p' "$work/all" >"$work/even"
if command -v parallel >/dev/null; then
    parallel --will-cite --jobs 2 <"$work/odd"
    say "GNU parallel: $(cells "$work/commands") of $(wc -l <"$work/all") cells"
else
    say "GNU parallel: not here, skipped"
fi
if command -v slurmctld >/dev/null; then
    slurm
    say "Slurm $(sinfo --version | cut -d' ' -f2): $(cells "$work/commands") of $(wc -l <"$work/all") cells"
else
    say "Slurm: not here, skipped"
fi
"$program" sweep "$work/grid.toml" --cells "$work/commands" --json "$work/commands.jsonl" | tail -1 | sed 's/ in .*//' >"$work/joined"
say "joined: $(cat "$work/joined")"
cmp "$work/here.jsonl" "$work/commands.jsonl"
say "commands: the same rows as here"

port=$(free_port)
start head --head --port="$port" --num-cpus=0 --include-dashboard=false --temp-dir="$work/ray"
start one --address="127.0.0.1:$port" --num-cpus=1
start two --address="127.0.0.1:$port" --num-cpus=1
ray=(--ray "127.0.0.1:$port")
status=0
"$program" sweep "$work/grid.toml" --cells "$work/dead" --ray 127.0.0.1:1 --python "$python" 2>"$work/out" || status=$?
if [ $status != 2 ] || ! grep -qi '^error: .*no cluster answers' "$work/out"; then
    cat "$work/out"
    echo "sweep: an address at which nothing listens ended with $status, and not with 2 and a message"
    exit 1
fi
say "Ray: an address at which nothing listens is an error"
"$program" sweep "$work/grid.toml" --cells "$work/cluster" "${ray[@]}" --python "$python" --json "$work/cluster.jsonl" >"$work/out" 2>&1 &
sweep=$!
until [ "$(cells "$work/cluster")" -ge 10 ]; do
    kill -0 $sweep || { cat "$work/out"; exit 1; }
    sleep 0.1
done
raylet=$(pgrep -P "${nodes[-2]}" raylet)
kill -KILL "$raylet"
say "Ray: one of two nodes was killed after $(cells "$work/cluster") cells"
wait $sweep || { cat "$work/out"; exit 1; }
say "Ray: $(tail -1 "$work/out" | sed 's/ in .*//')"
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
