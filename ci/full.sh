#!/usr/bin/env bash
# The checks that take longer than the gate may: ci/full.sh [PART...] runs the parts named, or all of them. 13 hours.
#
# A part that has passed leaves target/full/PART.done with the commit. It is not repeated as long as that commit is
# checked out without changes; so an interrupted run is resumed by the same command. Changes of checks/fuzz/corpus, which fuzzing
# makes, do not count. A part that lacks a tool exits with 77: it is reported as skipped, and tried again by the next run.
# ci/full.sh --list prints the parts.
set -euo pipefail
cd "$(dirname "$0")/.."
export CARGO_TERM_COLOR=never

# Part, duration on 2 CPUs, command.
parts='
operations     20 min   ci/stress.sh operations
refusals       10 min   ci/stress.sh refusals
programs        5 min   ci/stress.sh programs
schedules      45 min   ci/stress.sh schedules
sanitize        4 min   ci/sanitize.sh
tsan            5 min   ci/tsan.sh
kernel          1 min   ci/kernel.sh full
linux           5 min   ci/linux.sh module
boot            7 min   ci/boot.sh
boot-aarch64   10 min   ci/boot.sh --arch aarch64
boot-riscv64   10 min   ci/boot.sh --arch riscv64
replacement    15 min   ci/linux.sh replacement
demo            5 min   ci/linux.sh demo
times           6 min   ci/linux.sh times
latencies      15 min   ci/linux.sh latencies
advise         15 min   ci/linux.sh advise
whole-programs 20 min   ci/linux.sh programs
soak           15 min   ci/linux.sh soak 10
faults        125 min   ci/linux.sh faults
architectures  15 min   ci/architectures.sh
c               5 min   ci/c.sh
page            4 min   ci/page.sh
play            6 min   ci/play.sh
paste           4 min   ci/paste.sh
overhead       10 min   ci/overhead.sh
readme          3 min   ci/smoke.sh
publish        35 min   ci/publish.sh
book           10 min   ci/book.sh
deny            1 min   ci/deny.sh
ostd            3 min   ci/ostd.sh
jemalloc        4 min   ci/jemalloc.sh
work            2 min   ci/work.sh
instructions    1 min   ci/instructions.sh --against-parent
experiments    30 min   ci/experiments.sh
python          5 min   ci/python.sh
sweep           5 min   ci/sweep.sh
timeline        5 min   ci/timeline.sh
explore        30 min   ci/explore.sh
defects        10 min   ci/defects.sh
weaken         30 min   ci/weaken.sh
mutants        60 min   ci/mutants.sh coalesce --shard 0/8 --sharding round-robin
fuzz           55 min   ci/fuzz.sh
'

if [ "${1:-}" = --list ]; then
    printf '%s\n' "$parts" | sed '/^$/d'
    exit
fi
commit=$(git rev-parse HEAD)
[ -z "$(git status --porcelain -- . ':!checks/fuzz/corpus')" ] || commit=$commit-changed-$(date +%s)
mkdir -p target/full
selected=("$@")
[ ${#selected[@]} -gt 0 ] || mapfile -t selected < <(awk 'NF { print $1 }' <<<"$parts")

failed=()
skipped=()
for part in "${selected[@]}"; do
    line=$(awk -v part="$part" '$1 == part' <<<"$parts")
    if [ -z "$line" ]; then
        echo "full: there is no part $part; ci/full.sh --list names them" >&2
        exit 2
    fi
    read -r _ number unit command <<<"$line"
    stamp=target/full/$part.done
    if [ "$(cut -d' ' -f1 "$stamp" 2>/dev/null)" = "$commit" ]; then
        echo "full: $part: passed already at this commit"
        continue
    fi
    echo "full: $part: $command (about $number $unit)"
    started=$SECONDS
    log=target/full/$part.log
    status=0
    # shellcheck disable=SC2086 # A command with its arguments.
    $command 2>&1 | tee "$log" || status=${PIPESTATUS[0]}
    case $status in
    0)
        echo "$commit $((SECONDS - started)) s" >"$stamp"
        echo "full: $part: passed in $((SECONDS - started)) s"
        ;;
    77)
        # The last line of a part that is skipped states the reason.
        echo "full: $part: skipped: $(tail -1 "$log" | sed "s/^$part: //; s/: skipped$//")"
        skipped+=("$part")
        ;;
    *)
        echo "full: $part: FAILED after $((SECONDS - started)) s, see $log"
        failed+=("$part")
        ;;
    esac
done
[ ${#skipped[@]} = 0 ] || echo "full: skipped: ${skipped[*]}"
if [ ${#failed[@]} -gt 0 ]; then
    echo "full: FAILED: ${failed[*]}"
    exit 1
fi
echo "full: passed: $((${#selected[@]} - ${#skipped[@]})) of ${#selected[@]} parts"
