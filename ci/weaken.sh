#!/usr/bin/env bash
# Weakens the memory orderings of the allocators, one at a time, and runs the loom models that cover them. If no model
# needs an ordering, either the ordering is stronger than necessary, or a model is missing.
#
#   ci/weaken.sh [K/N]      all changes, or every Nth of them from the Kth on; half an hour for all
#   WEAKEN_ONLY=REGEX ...   only the places that match, such as `^llfree/` or `queue.rs:fill`
#   WEAKEN_BOUNDS='1 2' ... with these bounds after those of the gate; minutes for each change that survives
#
# Shards can run at the same time, once the program is built: they add to the same list.
#
# Each `Acquire` and `Release` becomes `Relaxed`; each `AcqRel` becomes `Acquire`, `Release` and `Relaxed`. All changes are
# compiled into one program, in a copy of the sources, and an environment variable selects one of them. The models
# run with the bounds of the gate. WEAKEN_BOUNDS can name further numbers of preemptions, with many more schedules, for
# the changes that survive. The first model that fails ends a trial. An interrupted run is resumed:
# target/weaken/COMMIT/list.tsv has one line for each trial, verdicts.tsv the last one of each change.
#
#   caught      a model failed
#   survived    all models passed, and at least one executed the operation
#   unreached   no model executed the operation
#   slow        a model exceeded its time limit, and none failed
#
# ci/weaken-known.tsv lists the changes that are known to survive, with the reason for each. The script fails if another
# one survives, or if a listed one is caught with the bounds of the gate.
set -euo pipefail
cd "$(dirname "$0")/.."
export CARGO_TERM_COLOR=never

shard=${1:-0/1}
limit=60 # seconds for one model
commit=$(git rev-parse --short HEAD)
[ -z "$(git status --porcelain -- crates)" ] || commit=$commit-changed
output=$PWD/target/weaken/$commit
tree=$PWD/target/weaken/tree
list=$output/list.tsv
mkdir -p "$output"
touch "$list"

# A place is FILE:FUNCTION:NUMBER, where the number counts the orderings of the function. Only then is it stable.
if [ ! -e "$output/program" ]; then
    rm -rf "$tree"
    mkdir -p "$tree"
    git ls-files -coz --exclude-standard Cargo.toml Cargo.lock crates lab checks examples | xargs -0 cp -P --parents -t "$tree"
    source=$tree/crates/everybuddy/src
    : >"$output/places"
    while read -r file; do
        awk -v file="${file#"$source/"}" -v places="$output/places" -v number="$(wc -l <"$output/places")" '
            /^ *\/\// { print; next }
            match($0, /fn [a-z_0-9]+/) { name = substr($0, RSTART + 3, RLENGTH - 3) }
            {
                line = ""
                rest = $0
                while (match(rest, /Ordering::(AcqRel|Acquire|Release)/)) {
                    found = substr(rest, RSTART, RLENGTH)
                    line = line substr(rest, 1, RSTART - 1) "crate::weaken::at(" number ", " found ")"
                    rest = substr(rest, RSTART + RLENGTH)
                    sub(/.*::/, "", found)
                    print number++ "\t" file ":" name ":" ++count[name] "\t" found >>places
                }
                print line rest
            }' "$file" >"$file.new"
        mv "$file.new" "$file"
    done < <(grep -rlE 'Ordering::(AcqRel|Acquire|Release)' "$source" | grep -v /tests/ | LC_ALL=C sort)
    cat >>"$source/lib.rs" <<'RUST'
#[cfg(not(test))]
extern crate std;
#[allow(missing_docs)]
pub mod weaken {
    use core::sync::atomic::Ordering;
    use std::string::String;
    use std::sync::{Once, OnceLock};
    /// Returns the ordering of a place: another one at the place that the environment names.
    pub fn at(place: usize, ordering: Ordering) -> Ordering {
        static CHANGE: OnceLock<Option<(usize, Ordering)>> = OnceLock::new();
        static REACHED: Once = Once::new();
        let change = CHANGE.get_or_init(|| {
            let text: String = std::env::var("WEAKEN").ok()?;
            let (place, to) = text.split_once(' ')?;
            let to = match to {
                "Acquire" => Ordering::Acquire,
                "Release" => Ordering::Release,
                _ => Ordering::Relaxed,
            };
            Some((place.parse().ok()?, to))
        });
        match change {
            Some((changed, to)) if *changed == place => {
                REACHED.call_once(|| {
                    if let Ok(file) = std::env::var("WEAKEN_REACHED") {
                        let _ = std::fs::write(file, "");
                    }
                });
                *to
            }
            _ => ordering,
        }
    }
}
RUST
    # What does not depend on the copy is compiled once, into the ordinary target folder.
    CARGO_TARGET_DIR=${CARGO_TARGET_DIR:-$PWD/target} cargo test --locked --profile gate --no-run \
        --manifest-path "$tree/Cargo.toml" -p everybuddy-model --test loom --message-format json >"$output/messages"
    # The next build of the copy replaces cargo's file, also if it is of another commit.
    cp "$(sed -n 's/.*"executable":"\([^"]*loom[^"]*\)".*/\1/p' "$output/messages" | tail -1)" "$output/program.new"
    mv "$output/program.new" "$output/program"
fi
program=$output/program

# The models that cover a file, the cheapest first.
filters() { # FILE
    case $1 in
    lock/spin.rs) echo canary::the_spin zone:: ;;
    lock/queued.rs) echo locks:: zone:: ;;
    reporting.rs) echo reporting:: ;;
    lock/ticket.rs) echo locks:: spaces::inverse_ticket domains::ticket ;;
    zone/pool.rs) echo spaces::inverse_single spaces::inverse:: spaces::standard spaces::lazy spaces::sharded ;;
    zone/*) echo domains:: ;;
    everybuddy/*) echo everybuddy::an_old everybuddy::a_frame everybuddy::a_spent everybuddy::a_cpu_asks everybuddy:: ;;
    llfree/*) echo llfree:: ;;
    nbbs/*) echo nbbs:: ;;
    serewa/*) echo serewa::tight serewa::ring serewa::three serewa::parts serewa:: ;;
    percpu/magazines.rs) echo protocol::magazines_depot protocol::magazines ;;
    percpu/linux.rs) echo protocol::linux_tight protocol::linux_plain protocol::bypass ;;
    percpu/linux6.rs) echo protocol::linux6:: ;;
    percpu/predictive.rs) echo protocol::spring_tight protocol::spring_plain protocol::spring_runs ;;
    percpu/drain.rs) echo protocol::linux_tight protocol::spring_plain protocol::linux6:: protocol::linux_plain everybuddy::a_cpu_asks everybuddy:: ;;
    *) echo none ;;
    esac
}

"$program" --list 2>/dev/null | sed -n 's/: test$//p' >"$output/models.$$"
mv "$output/models.$$" "$output/models"
# Without the model of three concurrent CPUs, which takes too long.
selected() { # FILE: the models, once each.
    local filter
    for filter in $(filters "$1"); do
        grep -F "$filter" "$output/models" || true
    done | awk '!/two_askers_and_a_running_cpu/ && !seen[$0]++'
}

awk -F '\t' -v OFS='\t' '
    $3 == "AcqRel" { print $1, $2, $3, "Acquire"; print $1, $2, $3, "Release" }
    { print $1, $2, $3, "Relaxed" }' "$output/places" >"$output/changes.$$"
mv "$output/changes.$$" "$output/changes"
echo "weaken: $(wc -l <"$output/places") orderings, $(wc -l <"$output/changes") changes, shard $shard"

tried() { # NAME CHANGE BOUND: whether the list has it, or a verdict of a smaller bound that no larger one changes.
    awk -F '\t' -v name="$1" -v change="$2" -v bound="$3" '
        $1 == name && $2 == change && ($3 == bound || $4 == "caught" || $4 == "unreached") { found = 1 }
        END { exit !found }' "$list"
}

# Runs a model with a change, or without one if it is empty.
run() { # BOUND MODEL CHANGE
    local bound=()
    [ "$1" = gate ] || bound=("LOOM_MAX_PREEMPTIONS=$1")
    env "${bound[@]}" WEAKEN="$3" WEAKEN_REACHED="$output/reached.$$" \
        timeout "$limit" "$program" --exact "$2" >"$output/model.$$.log" 2>&1
}

# Returns whether a model passes without a change: some need more preemptions to see what they are about.
passes() { # BOUND MODEL
    local file=$output/passes-$1-${2//:/-} status=0
    if [ ! -e "$file" ]; then
        run "$1" "$2" "" || status=$?
        [ $status = 124 ] && status=0
        echo $status >"$file.$$" && mv "$file.$$" "$file"
    fi
    [ "$(cat "$file")" = 0 ]
}

# Prints the verdict and the model that caused it.
try() { # PLACE TO BOUND MODEL...
    local place=$1 to=$2 bound=$3 model status slow=
    shift 3
    rm -f "$output/reached.$$"
    for model in "$@"; do
        status=0
        run "$bound" "$model" "$place $to" || status=$?
        case $status in
        0) ;;
        124) slow=$model ;;
        *)
            passes "$bound" "$model" || continue
            printf 'caught\t%s\n' "$model"
            return
            ;;
        esac
    done
    if [ ! -e "$output/reached.$$" ]; then
        printf 'unreached\t-\n'
    elif [ -n "$slow" ]; then
        printf 'slow\t%s\n' "$slow"
    else
        printf 'survived\t-\n'
    fi
}

for bound in gate ${WEAKEN_BOUNDS:-}; do
    number=0
    while IFS=$'\t' read -r place name from to; do
        number=$((number + 1))
        [ $(((number - 1) % ${shard#*/})) = "${shard%/*}" ] || continue
        [[ $name =~ ${WEAKEN_ONLY:-} ]] || continue
        ! tried "$name" "$from to $to" "$bound" || continue
        mapfile -t models < <(selected "${name%%:*}")
        printf '%s\t%s to %s\t%s\t%s\n' "$name" "$from" "$to" "$bound" \
            "$(try "$place" "$to" "$bound" "${models[@]}")" | tee -a "$list"
    done <"$output/changes"
done

# A line for a place that is gone.
gone=$(grep -v '^#' ci/weaken-known.tsv | cut -f 1 | sort -u | comm -23 - <(cut -f 2 "$output/changes" | sort -u))

# The last verdict of each change. Other shards write this file, too.
{
    printf 'place\tchange\tpreemptions\tverdict\tmodel\n'
    awk -F '\t' -v OFS='\t' '
        !(($1, $2) in line) { order[++n] = $1 SUBSEP $2 }
        { line[$1, $2] = $0 }
        END { for (i = 1; i <= n; i++) print line[order[i]] }' "$list"
} >"$output/verdicts.$$"
mv "$output/verdicts.$$" "$output/verdicts.tsv"
for verdict in caught survived unreached slow; do
    printf 'weaken: %s: %d\n' "$verdict" "$(awk -F '\t' -v verdict=$verdict '$4 == verdict' "$output/verdicts.tsv" | wc -l)"
done
awk -F '\t' '
    /^#/ { next }
    FILENAME ~ /known/ { known[$1, $2] = 1; next }
    FNR == 1 { next }
    $4 == "caught" && $3 == "gate" && ($1, $2) in known { print "weaken: " $1 ", " $2 ": listed as known to survive, but caught"; bad = 1 }
    $4 != "caught" && !(($1, $2) in known) { print "weaken: " $1 ", " $2 ": " $4 ", and not listed"; bad = 1 }
    END { exit bad }' ci/weaken-known.tsv "$output/verdicts.tsv"
[ -z "$gone" ] || { echo "weaken: listed, but gone: $gone" >&2; exit 1; }
