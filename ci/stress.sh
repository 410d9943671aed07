#!/usr/bin/env bash
# The long tests: 10^8 operations on two threads over a shadow bitmap for every system, all programs of seven
# steps on tiny memory, a thousand rounds of domains that are divided and merged, and the models of the protocol
# between CPUs, of buddy spaces, of domains and of batches with a preemption or two more than in ci/test.sh.
# Not part of ci/test.sh.
set -euo pipefail
cd "$(dirname "$0")/.."

EVERYBUDDY_OPERATIONS=${EVERYBUDDY_OPERATIONS:-100000000} \
    cargo test --release --locked -p everybuddy-workload --test shadow -- --nocapture
cargo test --release --locked -p everybuddy --test oracle -- --ignored --nocapture
LOOM_MAX_PREEMPTIONS=4 cargo test --release --locked -p everybuddy-model --test protocol -- \
    --skip two_askers_and_a_running_cpu linux:: linux_locked:: linux6::
LOOM_MAX_PREEMPTIONS=4 cargo test --release --locked -p everybuddy-model --test spaces -- \
    inverse:: inverse_single:: --skip three_cpus_take_all_frames
LOOM_MAX_PREEMPTIONS=3 cargo test --release --locked -p everybuddy-model --test spaces -- \
    both_exchange a_space_is_picked_up two_cpus_run_through inverse::three_cpus inverse_single::three_cpus
LOOM_MAX_PREEMPTIONS=3 cargo test --release --locked -p everybuddy-model --test zone -- batches_ full_lists_
cargo test --release --locked -p everybuddy --test domains -- --ignored --nocapture
# Serewa's queues with a preemption more.
LOOM_MAX_PREEMPTIONS=3 cargo test --release --locked -p everybuddy-model --test serewa -- \
    ring:: shared:: tight:: --skip services_work
# Of domains: three CPUs that merge with two preemptions, two CPUs with three.
LOOM_MAX_PREEMPTIONS=2 cargo test --release --locked -p everybuddy-model --test domains -- \
    idle::one_collects idle::three_cpus shared::two_cpus_collect ticket::one_collects
LOOM_MAX_PREEMPTIONS=3 cargo test --release --locked -p everybuddy-model --test domains -- \
    core::two_cpus_collect idle::two_cpus idle::one_settles lists::
