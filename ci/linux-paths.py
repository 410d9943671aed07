"""Instructions of whole paths through Linux, from logs of virtual machines, as an aligned table: linux-paths.py ROWS LOG...

ROWS is written: the same as JSON lines, in the format of all results. Each system has three logs; the median counts. Fails
if a kernel reported anything, if it used another allocator than that of its log, if a request failed, if a machine does
not count instructions, or if no two logs of a system agree to a thousandth.
"""

import json
import re
import statistics
import sys

from linux_faults import found_in

output, *paths = sys.argv[1:]
COLUMNS = {"pair order=0": "pair, order 0", "pair order=3": "order 3", "pair order=9": "order 9", "fault": "page fault"}
runs = {}
faults = []
release = "unknown"
for path in paths:
    text = open(path, encoding="utf-8", errors="replace").read()
    name = re.search(r"paths-\d-(.*)\.log", path).group(1)
    found = dict(re.findall(r"^(pair order=\d+|fault) ticks=([0-9.]+)", text, re.MULTILINE))
    runs.setdefault(name, []).append([float(found.get(key, "nan")) for key in COLUMNS])
    faults.extend(f"{path}: {fault}" for fault in found_in(text))
    if "own allocator is used" in text:
        faults.append(f"{path}: {name} was not booted")
    faults.extend(f"{path}: {key} failed" for key, ticks in found.items() if float(ticks) <= 0)
    clock = re.search(r"clock ticks=(\d+) instructions=(\d+)", text)
    if not clock or abs(int(clock[1]) - int(clock[2])) > int(clock[2]) / 1000:
        faults.append(f"{path}: this machine does not count instructions")
    booted = re.search(r"guest: Linux (\S+)", text)
    release = booted[1] if booted else release

table = [["allocator", *COLUMNS.values()]]
same = total = 0
rows = []
for name, found in runs.items():
    known = "linux" if name == "off" else name
    line = [known]
    for key, *values in zip(COLUMNS, *found):
        value = statistics.median(values)
        line.append(f"{value:.1f}")
        total += 1
        same += len(set(values)) == 1
        if sum(abs(other - value) <= value / 1000 for other in values) < 2:
            faults.append(f"{name}, {key}: {values} in the boots")
        source, _, order = key.partition(" order=")
        rows.append({
            "experiment": "linux-paths", "source": source, "system": known.partition("+")[0],
            "options": known.partition("+")[2], "platform": f"linux:replacement {release}", "cpus": 1, "seed": None,
            "operation": "all", "order": int(order or 0), "metric": "instructions", "statistic": "mean",
            "value": value, "unit": "1", "expected": None, "simulated": True,
        })
    table.append(line)

print(f"Instructions of whole paths in Linux {release}, counted by QEMU. `linux`: its own lists, in the same binary.")
print("A pair is alloc_pages() and __free_pages(), in turn. A page fault of anonymous memory zeroes the page, too.")
widths = [max(map(len, column)) for column in zip(*table)]
for line in table:
    print(line[0].ljust(widths[0]), *(cell.rjust(width) for cell, width in zip(line[1:], widths[1:])), sep="  ")
print(f"{same} of {total} numbers were the same in all boots, and at least two boots agree in each other one.")
with open(output, "w", encoding="utf-8") as file:
    for row in rows:
        file.write(json.dumps(row, separators=(",", ":")) + "\n")
for fault in faults:
    print(f"linux: {fault}", file=sys.stderr)
sys.exit(bool(faults))
