#!/usr/bin/env bash
# Compares the times of two builds of the program: `bench` of the old one and of the new one, in interleaved rounds.
# Fails if the median ratio new/old of all cells is outside 0.97 to 1.03, or if every round of a cell lies above 1.10.
#
#   ci/bench-pair.sh OLD NEW [ROUNDS [BENCH OPTIONS]]     OLD and NEW are programs `everybuddy`; 16 rounds by default
#
# A round of all systems and workloads takes about two minutes. Run it on a quiet machine.
# A cell is one number of a table: a workload, a system, a number of threads, an operation. Its ratio is the median over
# the rounds, its interval the least and the largest. The contender `floor`, which is the measuring loop without an
# allocator, is reported apart. CELLS=FILE writes all cells as tab-separated values.
set -euo pipefail

if [ $# -lt 2 ]; then
    sed -n '2,/^set /s/^# \{0,1\}//p' "$0" >&2
    exit 2
fi
old=$(realpath "$1")
new=$(realpath "$2")
rounds=${3:-16}
shift $(($# < 3 ? $# : 3))
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT

# Runs one round of a program, and appends its times: WHICH, round, cell, time.
run() { # WHICH PROGRAM ROUND [BENCH OPTIONS]
    local which=$1 program=$2 round=$3 all=()
    shift 3
    # Without systems, all of them: an older program has no --all, and takes all.
    case " $* " in
        *" --systems"*) ;;
        *) [[ $("$program" bench --help) != *--all\ * ]] || all=(--all) ;;
    esac
    if ! "$program" bench --rounds 1 "${all[@]}" "$@" --csv "$folder/rows.csv" >/dev/null 2>"$folder/errors"; then
        cat "$folder/errors" >&2
        return 1
    fi
    awk -F , -v which="$which" -v round="$round" '
        NR == 1 { for (i = 1; i <= NF; i++) column[$i] = i; next }
        $column["statistic"] == "p50" && ($column["metric"] == "latency" || $column["metric"] == "start_time") {
            options = $column["options"]
            name = $column["system"] (options == "" ? "" : "+" options)
            print which "\t" round "\t" $column["source"] " " name " " $column["cpus"] "T " $column["operation"] \
                "\t" $column["value"]
        }' "$folder/rows.csv" >>"$folder/times"
}

: >"$folder/times"
for round in $(seq "$rounds"); do
    # Whoever is first in a round is second in the next.
    if [ $((round % 2)) = 1 ]; then
        run old "$old" "$round" "$@"
        run new "$new" "$round" "$@"
    else
        run new "$new" "$round" "$@"
        run old "$old" "$round" "$@"
    fi
    echo "round $round of $rounds done" >&2
done

# The ratios of each cell, a line for each round in which both programs measured it, in ascending order.
awk -F '\t' -v OFS='\t' '
    { times[$1, $2, $3] = $4; cells[$3]; if ($2 > rounds) rounds = $2 }
    END {
        for (cell in cells) for (round = 1; round <= rounds; round++)
            if (times["old", round, cell] > 0 && times["new", round, cell] > 0)
                print cell, times["new", round, cell] / times["old", round, cell]
    }' "$folder/times" | sort -t "$(printf '\t')" -k1,1 -k2,2g >"$folder/ratios"
for which in old new; do
    awk -F '\t' -v which=$which '$1 == which { print $3 }' "$folder/times" | sort -u >"$folder/$which"
done
{
    printf 'cell\trounds\tleast\tmedian\tlargest\n'
    awk -F '\t' -v OFS='\t' '
        function put() {
            middle = n % 2 ? ratios[(n + 1) / 2] : (ratios[n / 2] + ratios[n / 2 + 1]) / 2
            print cell, n, ratios[1], middle, ratios[n]
        }
        $1 != cell { if (n) put(); cell = $1; n = 0 }
        { ratios[++n] = $2 }
        END { if (n) put() }' "$folder/ratios"
} >"$folder/cells"
if [ -n "${CELLS:-}" ]; then
    cp "$folder/cells" "$CELLS"
fi

tail -n +2 "$folder/cells" | sort -t "$(printf '\t')" -k4,4g | awk -F '\t' \
    -v rounds="$rounds" -v gone="$(comm -23 "$folder/old" "$folder/new")" \
    -v added="$(comm -13 "$folder/old" "$folder/new" | wc -l)" '
    function show(line) { split(line, c, "\t"); printf "  %-56s %6.3f  (%.3f to %.3f, %d rounds)\n", c[1], c[4], c[3], c[5], c[2] }
    function middle(list, n) { return n % 2 ? list[(n + 1) / 2] : (list[n / 2] + list[n / 2 + 1]) / 2 }
    $1 ~ / floor / { floor[++floors] = $4; next }
    { line[++n] = $0; ratio[n] = $4; if ($3 > 1.10) slower[++slow] = $0; if ($5 < 0.90) fast++ }
    END {
        if (!n) { print "bench-pair: no cell was measured by both programs"; exit 1 }
        print "ratio of times, new / old; least and largest of the rounds"
        print "the five cells that gained and lost most:"
        for (i = 1; i <= n; i++) if (i <= 5 || i > n - 5) show(line[i])
        total = middle(ratio, n)
        printf "cells: %d, of %d rounds; median ratio %.3f; floor %s\n", n, rounds, total, \
            floors ? sprintf("%.3f", middle(floor, floors)) : "not measured"
        printf "cells whose whole interval lies above 1.10: %d; below 0.90: %d\n", slow, fast
        for (i = 1; i <= slow; i++) show(slower[i])
        if (added) printf "cells that only the new program has: %d\n", added
        if (gone != "") printf "cells that the new program lost:\n%s\n", gone
        exit total < 0.97 || total > 1.03 || slow > 0 || gone != ""
    }'
