#!/usr/bin/env bash
# A smoke test of the forms that no other step of the gate reaches: a kernel that boots on `everybuddy`, the Python that the
# program and the package run, and the sources of the book. Parts of ci/full.sh check them in full: boot, python, sweep,
# book. Half a minute, and another to compile the kernel. A form whose tool is missing is skipped, with the reason.
set -euo pipefail
cd "$(dirname "$0")/.."

fail() {
    echo "forms: $*" >&2
    exit 1
}

echo "forms: a kernel boots"
status=0
ci/boot.sh everybuddy || status=$?
[ $status = 0 ] || [ $status = 77 ] || fail "the kernel does not boot"

echo "forms: the sources of the book"
cargo run --quiet --locked --profile gate -p xtask -- book

echo "forms: Python"
if ! command -v python3 >/dev/null; then
    echo "forms: no python3: Python is skipped"
    exit
fi
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
for file in python/src/everybuddy/*.py; do
    python3 - "$file" "$folder" <<'PYTHON'
import py_compile, sys
py_compile.compile(sys.argv[1], cfile=sys.argv[2] + "/compiled", doraise=True)
PYTHON
done
# The program's own Python runs, and ends with a message if its library is missing or no cluster answers.
cargo build --quiet --locked --profile gate -p everybuddy-cli
program=$(realpath "${CARGO_TARGET_DIR:-target}")/gate/everybuddy
cat >"$folder/grid.toml" <<'TOML'
command = "simulate"
systems = ["bs"]
workloads = ["burst:in-order"]
machines = ["x5570"]
cpus = [1]
seeds = 1
[arguments]
shrink = 500
TOML
for how in "--ray 127.0.0.1:1" "--minimize latency:p99:allocate --trials 1"; do
    status=0
    # shellcheck disable=SC2086 # Several arguments.
    "$program" sweep "$folder/grid.toml" $how --python python3 >"$folder/output" 2>&1 || status=$?
    cat "$folder/output"
    # With Optuna the search succeeds; without it, and without a cluster, the error says what is missing.
    [ $status = 0 ] || { [ $status = 2 ] && grep -qE "has no (Ray|Optuna)|no cluster answers" "$folder/output"; } ||
        fail "sweep $how ends with $status"
done
