"""What hints gain in a kernel, from logs of virtual machines, as an aligned table: linux-hints.py ROWS LOG...

ROWS is written: the same as JSON lines, in the format of all results. Each log is of a system with its hints, or of the
same system without. Fails if a log has a fault, if a kernel used hints where it should not or the reverse, or if the
machines did not execute the same loads.
"""

import re
import sys

from linux_faults import found_in, show, write

LOADS = ["map", "exec", "files"]
COUNTERS = ["refills", "drains", "contended"]

table = [["system", "hints", "load", "pages allocated", *COUNTERS, "refills per 1000 pages"]]
rows = []
faults = []
output, *paths = sys.argv[1:]
for path in paths:
    text = open(path, encoding="utf-8", errors="replace").read()
    name = re.search(r"hints-(.*)\.log", path).group(1)
    is_hinted = not name.endswith("-unhinted")
    system = name.removesuffix("-unhinted")
    hints = "on" if is_hinted else "off"
    own = found_in(text)
    release = re.search(r"guest: Linux (\S+)", text)
    if set(re.findall(r"^hints (\w+)", text, re.MULTILINE)) != {hints}:
        own.append(f"the kernel does not have its hints {hints}")
    if len(re.findall(r"^storm: \w+ passed", text, re.MULTILINE)) != len(LOADS):
        own.append("a load failed")
    if "\nok: zone " not in text:
        own.append("the metadata were not checked")
    # The counters run from boot, so a load is the difference to the one before.
    marks = []
    for part in text.split("guest: load ")[1:]:
        pages = int(re.search(r"pages=(\d+)", part)[1])
        counts = [sum(map(int, re.findall(rf"\b{what}=(\d+)", part.partition("\npostponed=")[0]))) for what in COUNTERS]
        marks.append((part.split()[0], [pages, *counts]))
    if [load for load, _ in marks] != ["boot", *LOADS]:
        own.append("the counts of a load are missing")
    for (_, before), (load, after) in zip(marks, marks[1:]):
        pages, *counts = [late - early for early, late in zip(before, after)]
        rate = 1000 * counts[0] / pages
        table.append([system, hints, load, pages, *counts, f"{rate:.2f}"])
        for metric, value in zip(["pages", *COUNTERS, "refills_per_1000_pages"], [pages, *counts, rate]):
            rows.append({
                "experiment": "linux-hints", "source": load, "system": system.partition("+")[0],
                "options": "" if is_hinted else "unhinted",
                "platform": f"linux:qemu {release[1] if release else 'unknown'}", "cpus": 1, "seed": None,
                "operation": "all", "order": None, "metric": metric, "statistic": "count", "value": value, "unit": "1",
                "expected": None, "simulated": True,
            })
    faults += [f"{name}: {fault}" for fault in own[:8]]

print("Refills and drains of per-CPU lists with hints and without them, in the same loads on one CPU; each acquires a lock.")
if not faults:
    write(output, rows)
show(table, faults)
