"""Predictions of `everybuddy advise` next to what Linux did, as an aligned table: linux-advise.py PREDICTED LOG ROWS.

PREDICTED are the rows of `everybuddy advise --json` for a recording of the load in the guest; LOG has counts of the same
load with other values of vm.percpu_pagelist_high_fraction, which Linux's own tracepoints gave. ROWS is written: the counts
as JSON lines, in the format of all results, with the predictions as `expected`. Fails if a count of a value that was set
differs from its prediction by more than a factor of 1.3. Two values are shown, and not judged. With 0, the default, Linux
shortens lists of CPUs that are idle, which the replay does not. With 8, lists keep nearly all that the load frees: few
frames move, and their number follows from which CPUs the tasks run on. It differs by a factor of 3 between two boots.
"""

import json
import re
import sys

from linux_faults import found_in, show, write

FACTOR = 1.3
SHOWN = (0, 8)
EVENTS = {"allocate": "mm_page_alloc_zone_locked", "free": "mm_page_pcpu_drain"}

predicted_path, path, output = sys.argv[1:]
text = open(path, encoding="utf-8", errors="replace").read()
faults = found_in(text)
release = re.search(r"guest: Linux (\S+) with (\d+) CPUs", text)
counts = {}
for fraction, event, orders in re.findall(r"guest: count (\d+) (\w+) (.*)", text):
    counts[int(fraction), event] = dict(map(int, own.split("=")) for own in orders.split()).get(0, 0)
predicted = {}
for line in open(predicted_path, encoding="utf-8"):
    row = json.loads(line)
    if row["metric"] == "moved_frames":
        fraction = re.search(r"fraction=(\d+)", row["options"])
        predicted[int(fraction[1]) if fraction else 0, row["operation"]] = row

table = [["fraction", "frames", "predicted", "counted", "counted / predicted", ""]]
rows = []
judged = 0
for (fraction, operation), row in sorted(predicted.items()):
    counted = counts.get((fraction, EVENTS[operation]))
    if counted is None:
        continue
    ratio = counted / max(row["value"], 1)
    is_close = 1 / FACTOR <= ratio <= FACTOR
    if fraction not in SHOWN:
        judged += 1
        if not is_close:
            faults.append(f"fraction {fraction}, {operation}: {ratio:.2f} times the prediction")
    name = "refilled" if operation == "allocate" else "drained"
    verdict = "not judged" if fraction in SHOWN else "" if is_close else "off"
    table.append([fraction or "0, default", name, f"{row['value']:.0f}", counted, f"{ratio:.2f}", verdict])
    rows.append(row | {
        "platform": f"linux:qemu {release[1] if release else 'unknown'}", "cpus": int(release[2]) if release else 0,
        "seed": None, "value": counted, "expected": row["value"], "experiment": f"advise:{fraction}", "simulated": True,
    })
if judged < 4:
    faults.append(f"{judged} counts instead of 4")
write(output, rows)
print("Single frames that moved between the zone and the lists of 4 CPUs, in a load that a recording of it predicts.")
show(table, faults)
