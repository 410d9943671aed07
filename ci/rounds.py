#!/usr/bin/env python3
"""Prints how long systems take in several runs of `compare`, as ratios to one of them: a ratio is formed in each run.

    ci/rounds.py SYSTEM RUN.jsonl...

RUN.jsonl is what `everybuddy compare --seed N --json RUN.jsonl` wrote. The time is the mean of an allocation and that of
a free together. A line has the median of the ratios, the least and the most. SYSTEM is faster if the most is below 1.
"""

import statistics
import sys

import rows

NO_ALLOCATORS = {"floor", "timer"}


def times(path):
    """Returns the time of each trace and system of a run."""
    parts = {}
    for row in rows.read(path):
        is_mean = (row["metric"], row["statistic"], row.get("order")) == ("latency", "mean", None)
        if is_mean and row["operation"] in ("allocate", "free") and row["system"] not in NO_ALLOCATORS:
            name = "+".join(filter(None, [row["system"], row["options"]]))
            parts.setdefault((row["source"], name), {})[row["operation"]] = row["value"]
    return {key: sum(own.values()) for key, own in parts.items() if len(own) == 2}


def main():
    if len(sys.argv) < 3:
        sys.exit(__doc__)
    base, runs = sys.argv[1], [times(path) for path in sys.argv[2:]]
    cells = [key for key in runs[0] if key[1] != base and all(key in run for run in runs)]
    if not all((trace, base) in run for trace, _ in cells for run in runs) or not cells:
        sys.exit(f"a run has no times of `{base}`, or no other system is in all runs")
    print(f"time of {base}, over that of a system; {len(runs)} runs\n")
    print(f"  {'trace':12} {'system':24} {'median':>6} {'least':>6} {'most':>6}")
    for trace, name in cells:
        ratios = [run[trace, base] / run[trace, name] for run in runs]
        numbers = [statistics.median(ratios), min(ratios), max(ratios)]
        print(f"  {trace:12} {name:24} " + " ".join(f"{number:6.2f}" for number in numbers))


if __name__ == "__main__":
    main()
