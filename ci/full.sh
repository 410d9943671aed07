#!/usr/bin/env bash
# The checks that take longer than the gate may: ci/full.sh [PART...] runs the parts named, or all of them. 13 hours.
#
#   ci/full.sh --list              prints the parts, each with the paths that can break it
#   ci/full.sh --since [COMMIT]    prints for each part when it passed last, how many files that can break it have changed
#                                  since then, or since COMMIT, and whether to `run` it
#
# results/checks/passed.tsv has the last run of each part that passed, and how it ended later; commit it. A part that has
# passed is not repeated by a run of all parts, unless something but that file and the corpus of the fuzzer has changed
# since; so an interrupted run is resumed by the same command. Parts that are named always run. Nothing is recorded for a
# checkout with changes. A part that lacks a tool exits with 77: it is reported as skipped, and tried again by the next
# run.
set -euo pipefail
cd "$(dirname "$0")/.."
export CARGO_TERM_COLOR=never

allocators="crates/everybuddy checks/suite"
# What `everybuddy` and its experiments are made of.
program="crates/everybuddy checks/suite lab machines traces Cargo.lock"
guest="crates/everybuddy crates/everybuddy-kernel linux ci/kernel.sh ci/linux*"

# Part, duration on 2 CPUs, command | what can break it, besides the script of the command and Cargo.toml. The text of
# documents can break only parts that name some. The allocators have no dependencies.
parts="
operations     20 min   ci/stress.sh operations | $allocators lab/workload
refusals       10 min   ci/stress.sh refusals | $allocators lab/workload
programs        5 min   ci/stress.sh programs | $allocators lab/workload
schedules      45 min   ci/stress.sh schedules | $allocators checks/model lab/sim Cargo.lock
sanitize        4 min   ci/sanitize.sh | $allocators crates/everybuddy-pool lab/workload
tsan            5 min   ci/tsan.sh | $allocators ci/tsan-suppressions.txt
kernel          1 min   ci/kernel.sh full | crates/everybuddy crates/everybuddy-kernel examples/kernel
linux           5 min   ci/linux.sh module | $guest
boot            7 min   ci/boot.sh | $allocators crates/everybuddy-adapters examples/boot
boot-aarch64   10 min   ci/boot.sh --arch aarch64 | $allocators crates/everybuddy-adapters examples/boot
boot-riscv64   10 min   ci/boot.sh --arch riscv64 | $allocators crates/everybuddy-adapters examples/boot
replacement    15 min   ci/linux.sh replacement | $guest
demo            5 min   ci/linux.sh demo | $guest
times           6 min   ci/linux.sh times | $guest
latencies      15 min   ci/linux.sh latencies | $guest
advise         15 min   ci/linux.sh advise | $guest $program
whole-programs 20 min   ci/linux.sh programs | $guest
soak           15 min   ci/linux.sh soak 10 | $guest
faults        125 min   ci/linux.sh faults | $guest
architectures  15 min   ci/architectures.sh | $allocators crates/everybuddy-adapters lab/workload
c               5 min   ci/c.sh | crates/everybuddy crates/everybuddy-c examples/programs examples/instructions crates/everybuddy-c/*.md
page            4 min   ci/page.sh | lab/page lab/metrics lab/text crates/everybuddy Cargo.lock
play            6 min   ci/play.sh | lab/play lab/session $program
paste           4 min   ci/paste.sh | lab/memory lab/text Cargo.lock
overhead       10 min   ci/overhead.sh | $program
readme          3 min   ci/smoke.sh | $program
publish        35 min   ci/publish.sh | crates checks/suite lab machines traces crates/*.md lab/*.md Cargo.lock
book           10 min   ci/book.sh | docs book.toml checks/xtask crates $program *.md
deny            1 min   ci/deny.sh | deny.toml *Cargo.toml Cargo.lock
ostd            3 min   ci/ostd.sh | crates/everybuddy crates/everybuddy-adapters examples/ostd
jemalloc        4 min   ci/jemalloc.sh | crates/everybuddy crates/everybuddy-pool examples/jemalloc
work            2 min   ci/work.sh | $allocators crates/everybuddy-adapters lab/sim lab/simulate/src/work.tsv examples/instructions
instructions    1 min   ci/instructions.sh --against-parent | $allocators crates/everybuddy-adapters lab/sim examples/instructions
experiments    30 min   ci/experiments.sh | $program
python          5 min   ci/python.sh | python $program
sweep           5 min   ci/sweep.sh | $program
timeline        5 min   ci/timeline.sh | ci/timeline.py $program
explore        30 min   ci/explore.sh | crates/everybuddy checks/explore
defects        10 min   ci/defects.sh | crates/everybuddy checks/explore ci/defects.tsv
weaken         30 min   ci/weaken.sh | crates/everybuddy checks/model ci/weaken-known.tsv Cargo.lock
mutants        60 min   ci/mutants.sh coalesce --shard 0/8 --sharding round-robin | $allocators ci/mutants-known.tsv
fuzz           55 min   ci/fuzz.sh | crates/everybuddy lab/record lab/trace lab/memory lab/text checks/fuzz
"
passed=results/checks/passed.tsv
# What a run itself changes.
kept=(':!checks/fuzz/corpus' ":!$passed")
# Paths are patterns of git, and not of the shell.
set -f

# Prints the line of a part.
line_of() { # PART
    awk -v part="$1" '$1 == part' <<<"$parts"
}

# Sets `paths` to what can break a part.
set_paths() { # PART
    local line command
    line=$(line_of "$1")
    read -r _ _ _ command _ <<<"$line"
    read -ra paths <<<"${line#*|}"
    paths+=("$command" Cargo.toml)
    [[ " ${paths[*]} " == *'.md '* ]] || paths+=(':!*.md')
    paths+=("${kept[@]}")
}

# Prints a column of the last run of a part with a result, or nothing.
recorded() { # PART RESULT COLUMN
    awk -F'\t' -v part="$1" -v result="$2" -v column="$3" '$1 == part && $5 == result { print $column }' $passed
}

# Records a run: in the place of all former ones if it passed, and else of the last one with the same result.
record() { # PART COMMIT SECONDS RESULT
    local new
    new=$(awk -F'\t' -v part="$1" -v result="$4" 'NR > 1 && !($1 == part && (result == "passed" || $5 == result))' $passed
        printf '%s\t%s\t%s\t%s\t%s\n' "$1" "$2" "$(date -u +%F)" "$3" "$4")
    { head -1 $passed && LC_ALL=C sort <<<"$new"; } >target/full/passed.tsv
    mv target/full/passed.tsv $passed
}

# Prints how many files that can break a part differ from those of a commit, with those that git does not know yet.
changed() { # PART COMMIT
    local paths
    set_paths "$1"
    { git diff --name-only "$2" -- "${paths[@]}" && git ls-files -o --exclude-standard -- "${paths[@]}"; } | wc -l
}

# Prints which parts a change can break.
since() { # [COMMIT]
    local part path paths commit when count verdict
    if [ $# -gt 0 ] && ! git cat-file -e "$1^{commit}" 2>/dev/null; then
        echo "full: there is no commit $1" >&2
        exit 2
    fi
    printf '%-14s  %-33s  %7s  %s\n' part 'passed last' changed ''
    while read -r part; do
        set_paths "$part"
        for path in "${paths[@]}"; do
            if [[ $path != :!* ]] && [ -z "$(git ls-files -co --exclude-standard -- "$path" | head -1)" ]; then
                echo "full: $part: no file matches $path" >&2
                exit 1
            fi
        done
        commit=$(recorded "$part" passed 2)
        when='never recorded'
        [ -z "$commit" ] || when="$(recorded "$part" passed 3) ${commit:0:8}"
        [ -z "$(recorded "$part" failed 2)" ] || when+=', failed later'
        count=- verdict=run
        if git cat-file -e "${1:-$commit}^{commit}" 2>/dev/null; then
            count=$(changed "$part" "${1:-$commit}")
            [[ $count != 0 || $when == *failed* ]] || verdict=-
        fi
        printf '%-14s  %-33s  %7s  %s\n' "$part" "$when" "$count" "$verdict"
    done < <(awk 'NF { print $1 }' <<<"$parts")
}

case ${1:-} in
--list)
    sed '/^$/d' <<<"$parts"
    exit
    ;;
--since)
    since "${@:2}"
    exit
    ;;
esac
commit=$(git rev-parse HEAD)
is_clean=true
[ -z "$(git status --porcelain -- . "${kept[@]}")" ] || is_clean=false
$is_clean || echo "full: the checkout has changes: nothing is recorded"
mkdir -p target/full
selected=("$@")
[ ${#selected[@]} -gt 0 ] || mapfile -t selected < <(awk 'NF { print $1 }' <<<"$parts")

failed=()
skipped=()
for part in "${selected[@]}"; do
    line=$(line_of "$part")
    if [ -z "$line" ]; then
        echo "full: there is no part $part; ci/full.sh --list names them" >&2
        exit 2
    fi
    read -r _ number unit command <<<"${line%%|*}"
    before=$(recorded "$part" passed 2)
    if [ $# = 0 ] && $is_clean && [ -n "$before" ] && git diff --quiet "$before" -- . "${kept[@]}" 2>/dev/null; then
        echo "full: $part: passed already, and nothing has changed"
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
        result=passed
        echo "full: $part: passed in $((SECONDS - started)) s"
        ;;
    77)
        # The last line of a part that is skipped states the reason.
        result=skipped
        echo "full: $part: skipped: $(tail -1 "$log" | sed "s/^$part: //; s/: skipped$//")"
        skipped+=("$part")
        ;;
    *)
        result=failed
        echo "full: $part: FAILED after $((SECONDS - started)) s, see $log"
        failed+=("$part")
        ;;
    esac
    ! $is_clean || record "$part" "$commit" "$((SECONDS - started))" "$result"
done
[ ${#skipped[@]} = 0 ] || echo "full: skipped: ${skipped[*]}"
if [ ${#failed[@]} -gt 0 ]; then
    echo "full: FAILED: ${failed[*]}"
    exit 1
fi
echo "full: passed: $((${#selected[@]} - ${#skipped[@]})) of ${#selected[@]} parts"
