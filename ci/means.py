#!/usr/bin/env python3
"""Prints the geometric mean of each contender over the cells of a benchmark, smallest first.

    ci/means.py bench.jsonl

A cell is a workload, an operation and a number of threads; its value is the median time in nanoseconds. Only contenders
count that have nearly all cells, and only cells that all of these have. `floor` and `timer` allocate nothing.
"""

import collections
import math
import sys

import rows

NO_ALLOCATORS = {"floor", "floor+table", "timer"}


def main():
    if len(sys.argv) != 2:
        sys.exit(__doc__)
    cells = collections.defaultdict(dict)
    for row in rows.read(sys.argv[1]):
        # `@` marks the rows of single rounds.
        if (row["metric"], row["statistic"]) == ("latency", "p50") and "@" not in row["experiment"]:
            name = "+".join(filter(None, [row["system"], row["options"]]))
            cells[row["source"], row["operation"], row["cpus"]][name] = row["value"]
    names = {name for cell in cells.values() for name in cell} - NO_ALLOCATORS
    if not names:
        sys.exit(f"{sys.argv[1]}: no median times; `everybuddy bench --json FILE` writes them")
    has = {name: sum(name in cell for cell in cells.values()) for name in names}
    names = {name for name in names if has[name] >= 0.95 * len(cells)}
    common = [cell for cell in cells.values() if names <= cell.keys()]
    means = {name: math.exp(sum(math.log(cell[name]) for cell in common) / len(common)) for name in names}
    print(f"geometric means of {len(common)} cells, ns\n")
    for name in sorted(names, key=means.get):
        print(f"  {name:<26}{means[name]:8.2f}")


main()
