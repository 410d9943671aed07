#!/usr/bin/env bash
# Instructions of the hot paths of every system, counted by callgrind. Counts repeat exactly. About a minute.
#
#   ci/instructions.sh [OUTPUT.tsv]                  prints a table; writes the counts
#   ci/instructions.sh --against OLD.tsv [OUTPUT]    also fails if a path takes more than before: by more than
#                                                    2 instructions and 1 % of each operation
#   ci/instructions.sh --against-parent [OUTPUT]     the same against the counts that the parent commit contains, so
#                                                    that no change makes requests past the lists slower unnoticed
#
# examples/instructions/src/lib.rs defines the paths. PATHS=FILE counts another build of that program.
set -euo pipefail
cd "$(dirname "$0")/.."

old=
parent=
case ${1:-} in
--against)
    old=$(realpath "$2")
    shift 2
    ;;
--against-parent)
    # Of a commit, the parent is the one before; of changes that are not committed, the last commit.
    parent=HEAD
    if git diff --quiet HEAD -- crates examples/instructions; then parent=HEAD^; fi
    shift
    ;;
esac
if ! command -v valgrind >/dev/null; then
    echo "instructions: no valgrind (ci/install.sh installs it): skipped"
    exit 77
fi
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
if [ -n "$parent" ]; then
    old=$folder/parent
    if ! git show "$parent:lab/simulate/src/work.tsv" >"$old" 2>/dev/null; then
        echo "instructions: the parent commit is not here: skipped"
        exit 77
    fi
fi
program=${PATHS:-}
if [ -z "$program" ]; then
    cargo build --quiet --profile counted --locked -p everybuddy-example-instructions --bin paths
    program=${CARGO_TARGET_DIR:-target}/counted/paths
fi

# One line of the program's output belongs to one dump, in this order.
if ! valgrind --tool=callgrind --callgrind-out-file="$folder/dumps" --combine-dumps=yes --dump-line=no \
    --toggle-collect='everybuddy_example_instructions::measured::*' \
    --dump-before='everybuddy_example_instructions::finish' \
    --zero-before='everybuddy_example_instructions::discard' \
    "$program" >"$folder/paths" 2>"$folder/errors"; then
    cat "$folder/errors" >&2
    exit 1
fi
sed -n 's/^totals: //p' "$folder/dumps" | head -n "$(wc -l <"$folder/paths")" >"$folder/counts"
if [ "$(wc -l <"$folder/counts")" != "$(wc -l <"$folder/paths")" ]; then
    echo "instructions: callgrind's dumps do not match the paths" >&2
    exit 1
fi
{
    printf 'system\tpath\toperations\tinstructions\tcalls\n'
    paste <(cut -f 1-3 "$folder/paths") "$folder/counts" <(cut -f 4 "$folder/paths")
} >"$folder/table"
if [ -n "${1:-}" ]; then
    cp "$folder/table" "$1"
fi

# A row for each system, a column for each path: instructions per operation.
awk -F '\t' '
    NR == 1 { next }
    !($1 in systems) { systems[$1]; system_of[++rows] = $1 }
    !($2 in paths) { paths[$2]; path_of[++columns] = $2 }
    { each[$1, $2] = sprintf("%.0f", $4 / $3) }
    END {
        printf "instructions per operation\n%-40s", ""
        for (i = 1; i <= columns; i++) { split(path_of[i], words, " "); printf "%11s", words[1] }
        printf "\n%-40s", "system"
        for (i = 1; i <= columns; i++) { split(path_of[i], words, " "); printf "%11s", words[2] }
        print ""
        for (row = 1; row <= rows; row++) {
            printf "%-40s", system_of[row]
            for (i = 1; i <= columns; i++) printf "%11s", each[system_of[row], path_of[i]]
            print ""
        }
    }' "$folder/table"

[ -n "$old" ] || exit 0
awk -F '\t' '
    FNR == 1 { next }
    NR == FNR { old[$1, $2] = $4 / $3; next }
    {
        now = $4 / $3
        if (!(($1, $2) in old)) { added++; next }
        before = old[$1, $2]
        delete old[$1, $2]
        compared++
        slack = before / 100 > 2 ? before / 100 : 2
        if (now > before + slack) { worse++; printf "more: %-40s %-16s %10.2f -> %.2f\n", $1, $2, before, now }
        if (now < before - slack) { better++ }
    }
    END {
        for (key in old) { split(key, name, SUBSEP); gone++; printf "gone: %-40s %s\n", name[1], name[2] }
        printf "%d paths compared: %d take more, %d take less; %d new, %d gone\n", compared, worse, better, added, gone
        exit worse + gone > 0
    }' "$old" "$folder/table"
