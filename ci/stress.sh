#!/usr/bin/env bash
# The long tests: 10^8 operations on two threads over a shadow bitmap for every system, all programs of seven
# steps on tiny memory, and the models of the protocol between CPUs with one preemption more than in ci/test.sh.
# Not part of ci/test.sh.
set -euo pipefail
cd "$(dirname "$0")/.."

EVERYBUDDY_OPERATIONS=${EVERYBUDDY_OPERATIONS:-100000000} \
    cargo test --release --locked -p everybuddy-workload --test shadow -- --nocapture
cargo test --release --locked -p everybuddy --test oracle -- --ignored --nocapture
LOOM_MAX_PREEMPTIONS=4 cargo test --release --locked -p everybuddy-model --test protocol -- \
    --skip two_askers_and_a_running_cpu linux:: linux_locked:: linux6::
