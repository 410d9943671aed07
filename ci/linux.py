"""The instructions per call in the log of a virtual machine, as an aligned table: linux.py RELEASE LOG.

Fails if the machine does not count instructions, if alloc_pages took other counts in another run of the same machine by
more than 1 %, or if a system is missing a workload.
"""

import re
import sys

release, path = sys.argv[1:]
lines = open(path, encoding="utf-8", errors="replace").read().splitlines()
fields = lambda line: dict(re.findall(r"(\w+)=(\S+)", line))
clocks = [fields(line) for line in lines if " clock ticks=" in line]
rows = [fields(line) for line in lines if " bench allocator=" in line]

faults = []
for clock in clocks:
    ticks, instructions = int(clock["ticks"]), int(clock["instructions"])
    if abs(ticks - instructions) > instructions / 1000:
        faults.append(f"{instructions} instructions took {ticks} ticks: this machine does not count them")

# Workloads in the order of the columns. A pair has only a sum.
workloads = list(dict.fromkeys((row["workload"], row["order"], row["burst"]) for row in rows))
names = list(dict.fromkeys(row["allocator"] for row in rows))
known = {}
for row in rows:
    key = row["allocator"], row["workload"], row["order"], row["burst"]
    value = float(row["allocate"]), float(row["free"])
    first = known.setdefault(key, (value, row))[0]
    # The floor and alloc_pages are measured again beside each system.
    if any(abs(a - b) > max(0.01 * b, 1) for a, b in zip(value, first)):
        faults.append(f"{' '.join(key)}: {value} in one run, {first} in another")

table = [["", *(f"order {order}" for _, order, _ in workloads for _ in range(2))]]
heads = ["allocator"]
for workload, _, burst in workloads:
    heads += ["pair", "most"] if workload == "pair" else [f"allocate {burst}", f"free {burst}"]
table = [["", *(f"order {order}" for _, order, _ in workloads for _ in range(2))], heads]
for name in names:
    line = [name]
    for workload in workloads:
        entry = known.get((name, *workload))
        if entry is None:
            faults.append(f"{name} lacks the workload {' '.join(workload)}")
            continue
        (allocate, free), row = entry
        line += [f"{allocate:.1f}", row["most"] if workload[0] == "pair" else f"{free:.1f}"]
    table.append(line)
widths = [max(len(line[column]) for line in table if column < len(line)) for column in range(len(heads))]
print(f"Instructions per call in Linux {release}, counted by QEMU. `pair`: an allocation and the free of its block, 512 times;")
print("`most`: the largest single allocation. `allocate N` and `free N`: N blocks are allocated, then freed.")
for line in table:
    first, *others = (cell.rjust(width) for cell, width in zip(line, widths))
    print(line[0].ljust(widths[0]), *others, sep="  ")
if not rows:
    faults.append("no row")
for fault in faults:
    print(f"linux: {fault}", file=sys.stderr)
sys.exit(bool(faults))
