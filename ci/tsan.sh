#!/usr/bin/env bash
# All systems under ThreadSanitizer, on cells of plain memory: it reports what two CPUs access without an order between
# them. Several threads make all calls of the interface, exchange tokens and frames, and let memory come and go. Needs a
# nightly toolchain, on x86-64; 5 minutes.
#
#   ci/tsan.sh [FILTER...]      the tests whose names contain a filter, by default the one of all calls at once
#   EVERYBUDDY_SYSTEMS=... ...  the systems, separated by commas, by default those of everybuddy-suite
#   EVERYBUDDY_ROUNDS=N ...     each thread makes 10 N calls of each system; 48 by default, and 8 in the gate
#
# On the native platform a cell is an atomic with relaxed ordering, so no access of it is a race. The feature `plain` of
# everybuddy-suite replaces it. The records of frames stay atomics: other CPUs may read them at any time.
#
# The standard library is not instrumented. ThreadSanitizer sees how threads start and are joined, and whatever is
# compiled here: the atomics of `core`, and spin::Mutex. It does not see the standard library's locks and channels;
# ci/tsan-suppressions.txt lists what it says of these.
set -euo pipefail
cd "$(dirname "$0")/.."

target=x86_64-unknown-linux-gnu
if [ "$(rustc -vV | sed -n 's/^host: //p')" != "$target" ]; then
    echo "tsan: only x86-64 Linux is supported: skipped"
    exit 77
fi
ci/install.sh nightly

# What is not instrumented has no calls of the sanitizer; it is compatible otherwise.
export RUSTFLAGS="-Zsanitizer=thread -Cunsafe-allow-abi-mismatch=sanitizer"
export CARGO_TARGET_DIR=${CARGO_TARGET_DIR:-target}/tsan CARGO_PROFILE_GATE_DEBUG=line-tables-only
export TSAN_OPTIONS="halt_on_error=1 exitcode=66 history_size=4 suppressions=$PWD/ci/tsan-suppressions.txt"
export EVERYBUDDY_ROUNDS=${EVERYBUDDY_ROUNDS:-48}
run=(cargo +nightly run --quiet --locked --profile gate --target "$target" -p everybuddy-suite --features plain
    --example race)
test=(cargo +nightly test --locked --profile gate --target "$target" -p everybuddy-suite --features plain
    --test all)

# The canary: a run that does not see it sees nothing.
"${run[@]}" -- hint
status=0
"${run[@]}" -- value 2>/dev/null || status=$?
if [ "$status" != 66 ]; then
    echo "tsan: a race of two threads was not reported, so the run would show nothing" >&2
    exit 1
fi
echo "tsan: canary found"

[ $# -gt 0 ] || set -- mixed::
"${test[@]}" -- --test-threads 1 "$@"
if [ -z "${EVERYBUDDY_SYSTEMS:-}" ]; then
    # Its trees change owners without a lock, so a race there is rare.
    export EVERYBUDDY_SYSTEMS=everybuddy,everybuddy+tree=256KiB,everybuddy+order=12+tree=1MiB
    EVERYBUDDY_ROUNDS=$((10 * EVERYBUDDY_ROUNDS)) "${test[@]}" -- --test-threads 1 "$@"
fi
echo "tsan: no race"
