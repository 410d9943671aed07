#!/usr/bin/env python3
"""Compares the rows of two runs: what is not a time must be the same.

    ci/same-rows.py OLD.jsonl NEW.jsonl [FRAMES]

Rows (`everybuddy compare --json FILE`, for instance) are matched by everything but their value. Metrics that were
renamed are matched by their new names. Left out are times, and what depends on how far services on threads of their
own are. Metadata may grow by 1 KiB and 64 bytes per CPU, of at
least FRAMES managed frames (2048: 8 MiB, the smallest memory of a replay). Metrics that only the new run has are listed, and are not
differences. Prints the number of rows that were compared, and every difference; exit code 1 if there is any.
"""

import collections
import sys

import rows as stored

# The name of a metric in rows before, and now. A rename may depend on the experiment.
RENAMED = {"lock_wait": "lock_polls", "ghost_wait": "ghost_polls"}
RENAMED_IN = {("odd-sizes", "live_frames"): "live_share"}
# Of these experiments, `lock_wait` is a time and keeps its name.
TIMED_LOCKS = {"lock-hold"}

# Metrics whose values are times, or follow from times.
TIMES = {
    "latency", "throughput", "start_time", "background_time", "background_work", "total_work", "total_work_over_bs",
    "latency_over_bs", "latency_over_watermark", "latency_disturbed", "calls_disturbed", "lock_wait", "lock_hold",
    "locks_disturbed", "time_ratio", "time_share", "sections", "sections_dropped", "rounds_disturbed",
}
# Systems whose services run on threads of their own: what they count depends on the machine.
SERVED = ("serewa",)
METADATA = "metadata_bytes_per_frame"
KEY = ("experiment", "source", "system", "options", "platform", "cpus", "seed", "operation", "order", "metric",
       "statistic", "unit", "simulated")


def read(path):
    """Returns the rows of a file by their keys, metrics by their new names."""
    rows = {}
    for row in stored.read(path):
        experiment = row["experiment"].split("@")[0]
        metric = row["metric"]
        row["metric"] = RENAMED_IN.get((experiment, metric), metric)
        if experiment not in TIMED_LOCKS:
            row["metric"] = RENAMED.get(row["metric"], row["metric"])
        key = tuple(row[column] for column in KEY)
        if key in rows:
            sys.exit(f"{path}: two rows are the same but for their values: {key}")
        rows[key] = (row["value"], row["expected"])
    return rows


def is_compared(key):
    """Tells whether a row's value must repeat."""
    row = dict(zip(KEY, key))
    return row["metric"] not in TIMES and row["system"] not in SERVED and row["system"] not in ("timer", "floor")


def grew(old, new, cpus, managed):
    """Tells whether metadata grew by more than it may."""
    return (new - old) * managed > 1024 + 64 * cpus


def main():
    """Compares two files."""
    if len(sys.argv) not in (3, 4):
        sys.exit(__doc__)
    old, new = read(sys.argv[1]), read(sys.argv[2])
    # Fewest frames that a replay manages, unless said otherwise: 8 MiB.
    managed = int(sys.argv[3]) if len(sys.argv) == 4 else 2048
    known = {key[KEY.index("metric")] for key in old}
    added = collections.Counter(
        key[KEY.index("metric")] for key in new if key[KEY.index("metric")] not in known
    )
    compared, differences = 0, []
    for key in sorted(set(old) | set(new), key=str):
        row = dict(zip(KEY, key))
        if not is_compared(key) or row["metric"] in added:
            continue
        if key not in old or key not in new:
            differences.append(f"only in {'new' if key in new else 'old'}: {key}")
            continue
        compared += 1
        (before, expected), (after, expects) = old[key], new[key]
        if row["metric"] == METADATA and not grew(before, after, row["cpus"], managed):
            continue
        if (before, expected) != (after, expects):
            differences.append(f"{before} -> {after}: {key}")
    for difference in differences[:200]:
        print(difference)
    if added:
        print("metrics that only the new run has:", ", ".join(f"{name} ({count})" for name, count in added.items()))
    print(f"compared {compared} rows of {len(old)} and {len(new)}: {len(differences)} differences")
    sys.exit(1 if differences else 0)


main()
