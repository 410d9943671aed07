#!/usr/bin/env bash
# Mutation testing of the allocators: changes one operator, condition or return value at a time, and runs the tests that
# execute the changed code. If no test fails, the code is wrong in a way that no test notices, or the change has no effect.
#
#   ci/mutants.sh                   a fixed sample: every twelfth mutant of all
#   ci/mutants.sh FOLDER [K/N]      all mutants of a folder of crates/everybuddy/src, or every Nth of them from the Kth on
#   ci/mutants.sh . 0/1             all mutants
#   MUTANTS=FILE ci/mutants.sh ...  only those of them that the first column of FILE names: after a change of the tests,
#                                   ci/mutants-known.tsv
#
# cargo-mutants lists the mutants (installed where missing). All of them are compiled into one program, in a copy of the
# sources (`xtask mutants`), and an environment variable selects one. First each test runs without a mutant and records
# which mutants it reaches. A trial then runs only these tests: first those that take less than a second, together, and
# later the others, one by one. The first test that fails ends a trial. Two trials run at a time. An interrupted run is
# resumed: target/mutants/COMMIT/NAME/list.tsv has one line for each trial.
#
#   caught       a test failed, or the program crashed
#   timeout      the tests took several times as long as without a mutant
#   survived     all tests passed that reach the mutant
#   unreached    no test reached it
#   unviable     it does not compile
#   uncompiled   it cannot be selected while the program runs: it is in a constant, in a `const fn` or in a macro, or the
#                function returns an unnamed type
#
# verdicts.tsv has one line for each mutant. ci/mutants-known.tsv lists the mutants that are known to survive, with the
# reason for each. The script fails if another one survives, or if a listed one is caught. Most time is spent on mutants
# that survive, since all tests run that reach them, and on the build. Coalesce takes about 20 minutes.
set -euo pipefail
cd "$(dirname "$0")/.."
export CARGO_TERM_COLOR=never
export CARGO_TARGET_DIR=${CARGO_TARGET_DIR:-$PWD/target}

folder=${1:-.}
if [ $# = 0 ]; then shard=0/12; else shard=${2:-0/1}; fi
ci/install.sh mutants
case $folder in
.) pattern='crates/everybuddy/src/**/*.rs' ;;
*) pattern="crates/everybuddy/src/$folder/**/*.rs" ;;
esac
name=${folder//\//-}
commit=$(git rev-parse --short HEAD)
[ -z "$(git status --porcelain -- crates)" ] || commit=$commit-changed
work=$PWD/target/mutants
output=$work/$commit/${name/#./all}-${shard//\//of}${MUTANTS:+-named}
mkdir -p "$output/reached" "$output/tests"
touch "$output/list.tsv"
export output tree=$work/tree

# The program and what its tests reach, once.
if [ ! -e "$output/all" ]; then
    # A name is FILE: DESCRIPTION: NUMBER, where the number counts equal descriptions in a file. Only then is it stable.
    cargo mutants --list --colors never --package everybuddy --file "$pattern" |
        awk -v shard="$shard" -v names="${MUTANTS:-}" -v OFS='\t' '
            BEGIN {
                split(shard, part, "/")
                while (names != "" && (getline line <names) > 0) named[substr(line, 1, index(line "\t", "\t") - 1)] = 1
            }
            {
                split($1, place, ":")
                file = place[1]
                sub(/^crates\/everybuddy\/src\//, "", file)
                description = substr($0, length($1) + 2)
                name = file ": " description ": " ++count[file, description]
                if ((NR - 1) % part[2] == part[1] && (names == "" || name in named)) print NR, place[1], place[2], place[3], description, name
            }' >"$work/selected"
    if [ ! -s "$work/selected" ]; then
        echo "mutants: $pattern has no mutants in shard $shard" >&2
        exit 1
    fi
    rm -rf "$tree"
    mkdir -p "$tree"
    git ls-files -coz --exclude-standard Cargo.toml Cargo.lock crates examples xtask | xargs -0 cp -P --parents -t "$tree"
    sed -i 's/^#!\[no_std\]$/&\n#![allow(warnings, arithmetic_overflow, unconditional_panic)]/' "$tree/crates/everybuddy/src/lib.rs"
    cat >>"$tree/crates/everybuddy/src/lib.rs" <<'RUST'
#[cfg(not(test))]
extern crate std;
#[allow(missing_docs)]
pub mod mutants {
    use core::sync::atomic::{AtomicBool, AtomicUsize, Ordering::Relaxed};
    use std::io::Write;
    const UNREAD: usize = usize::MAX;
    const RECORDING: usize = usize::MAX - 1;
    static SELECTED: AtomicUsize = AtomicUsize::new(UNREAD);
    static REACHED: [AtomicBool; 1 << 16] = [const { AtomicBool::new(false) }; 1 << 16];
    /// Returns whether the environment selects a mutant.
    #[inline]
    pub fn is(mutant: usize) -> bool {
        let selected = SELECTED.load(Relaxed);
        selected == mutant || (selected >= RECORDING && slow(mutant, selected))
    }
    #[cold]
    #[inline(never)]
    fn slow(mutant: usize, selected: usize) -> bool {
        if selected == UNREAD {
            let number = std::env::var("MUTANT").ok().and_then(|text| text.parse().ok()).unwrap_or(0);
            let is_recording = std::env::var_os("MUTANTS_REACHED").is_some();
            SELECTED.store(if is_recording { RECORDING } else { number }, Relaxed);
            return is(mutant);
        }
        if !REACHED[mutant].swap(true, Relaxed) {
            let path = std::env::var_os("MUTANTS_REACHED").unwrap();
            let mut file = std::fs::File::options().create(true).append(true).open(path).unwrap();
            file.write_all(std::format!("{mutant}\n").as_bytes()).unwrap();
        }
        false
    }
}
RUST
    cargo run -q --locked -p xtask -- mutants "$work"
    # What does not depend on the copy is compiled once, into the ordinary target folder.
    cargo test --locked --profile gate --no-run --manifest-path "$tree/Cargo.toml" -p everybuddy --lib --test all \
        --message-format json >"$output/messages"
    cp "$work/selected" "$work/places" "$output"
    program() { sed -n "s/.*\"executable\":\"\([^\"]*\/$1-[^\"]*\)\".*/\1/p" "$output/messages"; }
    cp "$(program everybuddy)" "$output/lib"
    cp "$(program all)" "$output/all"
fi
echo "mutants: $(wc -l <"$output/places") of $pattern, shard $shard"

# The first test that fails ends a trial; the test program has that option on a stable compiler only with this variable.
# A mutant that a property catches need not be shrunk, and is caught again by the same cases.
export RUSTC_BOOTSTRAP=1 PROPTEST_MAX_SHRINK_ITERS=0 PROPTEST_DISABLE_FAILURE_PERSISTENCE=1 PROPTEST_RNG_SEED=1
export EVERYBUDDY_ROUNDS=2
tests() { # SECONDS PROGRAM TEST...: runs tests one after the other. `timeout` ends their process group.
    local limit=$1 program=$2
    shift 2
    (
        cd "$tree/crates/everybuddy"
        ulimit -c 0 -v 12000000
        timeout -k 5 "$limit" "$output/$program" -Zunstable-options --fail-fast --test-threads 1 --exact "$@" 2>&1
    )
}

record() { # PROGRAM TEST: records what a test reaches, and prints the milliseconds that it takes.
    local start=${EPOCHREALTIME/./} file=$output/reached/$1.$2
    if ! MUTANTS_REACHED=$file tests 600 "$1" "$2" >"$output/record.$1.$2"; then
        cat "$output/record.$1.$2" >&2
        echo "mutants: $2 fails without a mutant" >&2
        return 255
    fi
    rm "$output/record.$1.$2"
    printf '%s\t%s\t%s\n' "$(((${EPOCHREALTIME/./} - start) / 1000))" "$1" "$2"
}

try() { # NUMBER PASS NAME: prints the verdict and the test that caused it.
    local number=$1 pass=$2 name=$3 log=$output/trial.$1 verdict=survived test=- status time program
    [ -s "$output/tests/$number" ] || verdict=unreached
    : >"$log"
    while read -r time program tests; do
        status=0
        # shellcheck disable=SC2086 # Names of tests.
        MUTANT=$number tests "$((10 + time / 200))" "$program" $tests >"$log" || status=$?
        [ "$status" != 0 ] || continue
        verdict=caught
        [ "$status" != 124 ] && [ "$status" != 137 ] || verdict=timeout
        test=$(sed -nE 's/^test ([^ ]+) \.\.\. ?(FAILED.*)?$/\1/p' "$log" | tail -1)
        break
    done < <(groups "$number" "$pass")
    rm "$log"
    printf '%s\t%s\t%s\t%s\n' "$name" "$pass" "$verdict" "${test:--}"
}

# The shorter the tests of a call are, the sooner a mutant that runs forever is recognized.
groups() { # NUMBER PASS: milliseconds, program and tests of each call.
    awk -F '\t' -v pass="$2" '
        (pass == "quick") != ($1 < 1000) { next }
        pass == "slow" { print $1, $2, $3; next }
        {
            call = ($1 < 20 ? 1 : $1 < 100 ? 2 : 3) " " ($2 == "lib" ? 1 : 2)
            program[call] = $2
            time[call] += $1
            tests[call] = tests[call] " " $3
        }
        END {
            for (level = 1; level <= 3; level++) {
                for (which = 1; which <= 2; which++) {
                    call = level " " which
                    if (call in time) print time[call], program[call], tests[call]
                }
            }
        }' "$output/tests/$1" 2>/dev/null || true
}
export -f tests record try groups

if [ ! -e "$output/recorded" ]; then
    rm -f "$output/reached"/*
    for program in lib all; do
        (cd "$tree/crates/everybuddy" && "$output/$program" --list) | sed -n "s/: test$//; t found; d; :found s/^/$program /p"
    done >"$output/names"
    xargs -P 2 -L 1 bash -c 'record "$@"' record <"$output/names" >"$output/times"
    # For each mutant, the tests that reach it, the shortest first.
    rm -f "$output/tests"/*
    sort -n "$output/times" | while IFS=$'\t' read -r time program test; do
        file=$output/reached/$program.$test
        [ ! -e "$file" ] || sed "s/$/\t$time\t$program\t$test/" "$file"
    done | sort -s -n -k 1,1 | awk -F '\t' -v OFS='\t' -v folder="$output/tests" '
        $1 != last { close(folder "/" last); last = $1 }
        { print $2, $3, $4 >folder "/" $1 }'
    touch "$output/recorded"
fi

for pass in quick slow; do
    awk -F '\t' -v pass="$pass" '
        FILENAME ~ /list.tsv$/ { if ($3 != "survived" || $2 == pass || $2 == "slow") tried[$1] = 1; next }
        $4 == "compiled" && !($2 in tried) { print $1; print pass; print $2 }' "$output/list.tsv" "$output/places" |
        xargs -r -d '\n' -P 2 -n 3 bash -c 'try "$@"' try | tee -a "$output/list.tsv"
done

# The last verdict of each mutant.
awk -F '\t' -v OFS='\t' '
    FILENAME ~ /list.tsv$/ { verdict[$1] = $3 OFS $4; next }
    { print $2, $3, $2 in verdict ? verdict[$2] : $4 OFS $5 }' "$output/list.tsv" "$output/places" >"$output/verdicts.tsv"
for verdict in caught timeout survived unreached unviable uncompiled; do
    printf 'mutants: %s: %d\n' "$verdict" "$(awk -F '\t' -v verdict=$verdict '$3 == verdict' "$output/verdicts.tsv" | wc -l)"
done
awk -F '\t' '
    /^#/ { next }
    FILENAME ~ /known/ { known[$1] = 1; next }
    $3 == "caught" && $1 in known { print "mutants: " $1 ": listed as known to survive, but caught"; bad = 1 }
    ($3 == "survived" || $3 == "unreached") && !($1 in known) { print "mutants: " $1 ": " $3 ", and not listed"; bad = 1 }
    END { exit bad }' ci/mutants-known.tsv "$output/verdicts.tsv"
