#!/usr/bin/env bash
# The long tests, not part of the gate: ci/stress.sh [PART...], all parts by default.
#
#   operations  10^8 operations on two threads over a shadow bitmap, for every system
#   refusals    requests for one frame on two and three threads: while they ask for no more than all frames, none is
#               refused as exhausted, in any system; 10 minutes
#   programs    all programs of seven steps on tiny memory; a thousand rounds of domains that are divided and merged;
#               500 rounds of requests that must find what others are giving back
#   schedules   all models with the bounds and budgets that are too long for the gate; the virtual machine with other
#               interleavings; then the models of the protocol between CPUs, of buddy spaces, of domains, of Serewa's
#               queues and of batches with one or two preemptions more
set -euo pipefail
cd "$(dirname "$0")/.."

loom() { # PREEMPTIONS FILTER...: the models under loom with another bound.
    local preemptions=$1
    shift
    LOOM_MAX_PREEMPTIONS=$preemptions cargo test --profile gate --locked -p everybuddy-model --test loom -- "$@"
}

operations() {
    EVERYBUDDY_OPERATIONS=${EVERYBUDDY_OPERATIONS:-100000000} \
        cargo test --release --locked -p everybuddy-workload --test shadow -- --nocapture
}

refusals() {
    EVERYBUDDY_ROUNDS=${EVERYBUDDY_ROUNDS:-1500} cargo test --release --locked -p everybuddy-suite --test all -- \
        one_frame_is_exhausted_only_if_all_are_asked_for
}

programs() {
    cargo test --release --locked -p everybuddy-suite --test all -- --ignored --nocapture
    EVERYBUDDY_ROUNDS=500 cargo test --release --locked -p everybuddy-suite --test all -- a_request_fails_only_when_all_is_held
}

schedules() {
    EVERYBUDDY_BOUNDS=full cargo test --profile gate --locked -p everybuddy-model
    cargo test --profile gate --locked -p everybuddy-sim --test all -- --ignored
    loom 4 protocol::linux:: protocol::linux_locked:: protocol::linux6:: --skip two_askers_and_a_running_cpu
    loom 4 spaces::inverse:: spaces::inverse_single:: --skip three_cpus_take_all_frames
    loom 3 both_exchange a_space_is_picked_up two_cpus_run_through \
        spaces::inverse::three_cpus spaces::inverse_single::three_cpus
    loom 3 zone::batches_ zone::full_lists_
    # Serewa's queues with a preemption more.
    loom 3 serewa::{ring,shared,tight,three_tight,parts_tight}:: --skip services_work
    # Of domains: three CPUs that merge with two preemptions, two CPUs with three.
    loom 2 domains::idle::one_collects domains::idle::three_cpus domains::shared::two_cpus_collect \
        domains::ticket::one_collects
    loom 3 domains::core::two_cpus_collect domains::idle::two_cpus domains::idle::one_settles domains::lists::
}

[ $# -gt 0 ] || set -- operations refusals programs schedules
for part in "$@"; do
    case $part in
    operations | refusals | programs | schedules) "$part" ;;
    *)
        sed -n '2,/^set /s/^# \{0,1\}//p' "$0" >&2
        exit 2
        ;;
    esac
done
