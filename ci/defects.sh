#!/usr/bin/env bash
# Puts defects into the allocators, one at a time, and explores the scopes that must find them: ci/defects.sh [NAME...].
# Without a defect, the same scopes must find nothing. 5 minutes.
#
# The defects of ci/defects.tsv are compiled into one program, in a copy of the sources, and an environment variable
# selects one of them. What the explorer prints about each, as tests, lies in target/defects. The table list.tsv there
# has the shortest finding of each: its number of steps, and how many transitions, or schedules of pairs, came before it.
set -euo pipefail
cd "$(dirname "$0")/.."
export CARGO_TERM_COLOR=never

output=$PWD/target/defects
tree=$output/tree
rm -rf "$tree"
mkdir -p "$tree"
git ls-files -coz --exclude-standard Cargo.toml Cargo.lock crates lab checks examples |
    xargs -0 cp -P --parents -t "$tree"
source=$tree/crates/everybuddy/src

# The text of a line, of which columns are separated by tabs.
list() {
    grep -v '^#' ci/defects.tsv
}
while IFS=$'\t' read -r name file from to _; do
    FROM=$from TO=$to perl -0pi -e '
        $n = s/\Q$ENV{FROM}\E/$ENV{TO}/g;
        END { exit($n == 1 ? 0 : 1) }' "$source/$file" || {
        echo "defects: $name: the text does not occur once in $file" >&2
        exit 1
    }
done < <(list)
# The macro stands before all modules.
cat >"$output/macro" <<'RUST'
#[cfg(not(test))]
extern crate std;
macro_rules! defect {
    ($name:literal) => {{
        static IS_ON: std::sync::OnceLock<bool> = std::sync::OnceLock::new();
        *IS_ON.get_or_init(|| std::env::var("EVERYBUDDY_DEFECT").is_ok_and(|name| name == $name))
    }};
}
RUST
awk -v macro="$output/macro" '/^mod api;/ { while ((getline line <macro) > 0) print line } { print }' \
    "$source/lib.rs" >"$output/lib.rs"
mv "$output/lib.rs" "$source/lib.rs"
# A target folder of its own: the copy has the same packages, and cargo would take one for the other.
CARGO_TARGET_DIR=$output/build cargo build --locked --profile gate \
    --manifest-path "$tree/Cargo.toml" -p everybuddy-explore
cp "$output/build/gate/everybuddy-explore" "$output/program"

[ $# -gt 0 ] || mapfile -t names < <(list | cut -f1)
[ $# = 0 ] || names=("$@")
bad=0
printf 'defect\ttext\tscope\tfinding\tsteps\tafter\tunit\n' >"$output/list.tsv"
for name in "${names[@]}"; do
    scope=$(list | awk -F '\t' -v name="$name" '$1 == name { print $5 }')
    if ! "$output/program" "$scope" >"$output/without.txt"; then
        echo "defects: $scope finds something without a defect"
        bad=1
    fi
    if EVERYBUDDY_DEFECT=$name "$output/program" "$scope" >"$output/$name.txt"; then
        echo "defects: $name: not found"
        bad=1
    else
        found=$(sed -nE '/^  .*, times [0-9]+\):$/ { s/^ *//; p; q }' "$output/$name.txt")
        echo "defects: $name: found: $found"
        [[ $found =~ ^(.*)\ \(steps\ ([0-9]+),\ first\ after\ ([0-9]+), ]]
        unit=transitions
        [[ $scope != *pairs=* ]] || unit=schedules
        text=$(list | awk -F '\t' -v name="$name" '$1 == name { print $6 }')
        printf '%s\t' "$name" "$text" "$scope" "${BASH_REMATCH[@]:1:3}" >>"$output/list.tsv"
        echo "$unit" >>"$output/list.tsv"
    fi
done
exit $bad
