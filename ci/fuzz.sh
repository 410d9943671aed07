#!/usr/bin/env bash
# Fuzzing: ci/fuzz.sh [SECONDS [TARGET...]]. Ten minutes for each reader of a file by default, two at a time; 55 minutes
# for all. The corpus of a target is checks/fuzz/corpus/TARGET.tar.gz, and its seeds and former failures lie in the folder
# checks/fuzz/corpus/TARGET. What reaches new code is packed, as few and as small inputs as suffice. The canary, a rule that does
# not hold, runs first: a fuzzer that misses it would find nothing else. Needs a nightly toolchain and cargo-fuzz
# (installed where missing). The gate replays the corpus.
set -euo pipefail
cd "$(dirname "$0")/.."

seconds=${1:-600}
shift || true
targets=("$@")
if [ ${#targets[@]} = 0 ]; then
    mapfile -t targets < <(sed -n 's/^name = "\(.*\)"/\1/p' checks/fuzz/Cargo.toml | grep -vx -e everybuddy-fuzz -e canary)
fi
most_bytes=65536
kept_bytes=180000 # of a target's inputs

command -v cargo-fuzz >/dev/null || cargo install cargo-fuzz --locked
host=$(rustc -vV | sed -n 's/^host: //p')
export CARGO_TARGET_DIR=${CARGO_TARGET_DIR:-$PWD/checks/fuzz/target}
cargo +nightly fuzz build --fuzz-dir checks/fuzz
programs=$CARGO_TARGET_DIR/$host/release

work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT

# The sanitizer reserves address space without limit; leaks are not what is looked for.
export ASAN_OPTIONS=detect_leaks=0:allocator_may_return_null=0
limits=(-max_len=$most_bytes -timeout=20 -rss_limit_mb=4096 -print_final_stats=1)

if "$programs/canary" -seed=1 -runs=2000000 -max_total_time=120 -dict=checks/fuzz/dictionaries/canary.dict \
    -max_len=200 -artifact_prefix="$work/" >"$work/canary.log" 2>&1; then
    echo "fuzz: the canary was not found: the fuzzer sees nothing of the program" >&2
    tail -5 "$work/canary.log" >&2
    exit 1
fi
grep -q "the canary sings" "$work/canary.log" || { tail -20 "$work/canary.log" >&2; exit 1; }
echo "fuzz: canary found"

fuzz() { # TARGET: fuzzes it; its findings stay in checks/fuzz/artifacts
    local target=$1 dictionary=()
    [ -f "checks/fuzz/dictionaries/$target.dict" ] && dictionary=(-dict="checks/fuzz/dictionaries/$target.dict")
    local known=$work/known/$target least=$work/least/$target
    mkdir -p "checks/fuzz/artifacts/$target" "checks/fuzz/corpus/$target" "$work/$target" "$known" "$least" "$work/packed/$target"
    [ ! -f "checks/fuzz/corpus/$target.tar.gz" ] || tar -xzf "checks/fuzz/corpus/$target.tar.gz" -C "$known"
    if ! "$programs/$target" "$work/$target" "checks/fuzz/corpus/$target" "$known" "${limits[@]}" "${dictionary[@]}" \
        -max_total_time="$seconds" -artifact_prefix="checks/fuzz/artifacts/$target/" >"$work/$target.log" 2>&1; then
        echo "fuzz: $target fails; what it found is in checks/fuzz/artifacts/$target" >&2
        grep -e panicked -e ERROR -A3 "$work/$target.log" | head -20 >&2
        return 1
    fi
    # Of all inputs the fewest that reach what all reach.
    "$programs/$target" -merge=1 -max_len=$most_bytes "$least" "checks/fuzz/corpus/$target" "$known" "$work/$target" \
        >"$work/$target.merge.log" 2>&1 || { tail -5 "$work/$target.merge.log" >&2; return 1; }
    # The loose inputs are not packed.
    for loose in "checks/fuzz/corpus/$target"/*; do
        [ ! -f "$loose" ] || rm -f "$least/$(sha1sum <"$loose" | cut -d' ' -f1)"
    done
    # The smallest come first, as far as there is room for them.
    find "$least" -type f -printf '%s %p\n' | sort -n | while read -r size input; do
        room=$((${room:-$kept_bytes} - size))
        [ $room -lt 0 ] || cp "$input" "$work/packed/$target/"
    done
    # The same inputs make the same archive.
    find "$work/packed/$target" -type f -printf "%f\n" | LC_ALL=C sort | tar --mtime=@0 --owner=0 --group=0 --numeric-owner \
        --format=ustar -C "$work/packed/$target" -cf - -T - | gzip -9n >"checks/fuzz/corpus/$target.tar.gz.new"
    mv "checks/fuzz/corpus/$target.tar.gz.new" "checks/fuzz/corpus/$target.tar.gz"
    runs=$(sed -n 's/^stat::number_of_executed_units: *//p' "$work/$target.log")
    echo "fuzz: $target: $runs inputs in $seconds s, $(find "$work/packed/$target" -type f | wc -l) packed"
}

failed=0
running=0
for target in "${targets[@]}"; do
    if [ $running = 2 ]; then
        wait -n || failed=1
        running=$((running - 1))
    fi
    fuzz "$target" &
    running=$((running + 1))
done
while [ $running -gt 0 ]; do
    wait -n || failed=1
    running=$((running - 1))
done

size=$(du -sb checks/fuzz/corpus | cut -f1)
echo "fuzz: the corpus has $size bytes"
if [ "$size" -gt 2000000 ]; then
    echo "fuzz: the corpus is larger than 2 MB: drop its largest inputs" >&2
    failed=1
fi
exit $failed
