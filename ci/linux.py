"""The instructions per call in the log of a virtual machine, as an aligned table: linux.py RELEASE LOG ROWS.

ROWS is written: the same as JSON lines, in the format of all results.
Fails if the machine does not count instructions, if the counts of alloc_pages next to one system and to
another differ by more than a tenth, or if a system is missing a workload.
"""

import re
import statistics
import sys

from linux_faults import write

release, path, output = sys.argv[1:]
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
names = list(dict.fromkeys(["floor", *(row["allocator"] for row in rows)]))
known = {}
for row in rows:
    key = row["allocator"], row["workload"], row["order"], row["burst"]
    values = [float(row[name]) for name in ("allocate", "free", "p50", "p99")]
    known.setdefault(key, []).append(values)
# The floor and alloc_pages are measured again next to each system. The state of Linux's lists differs a little.
for key, runs in known.items():
    allocates = [run[0] for run in runs]
    if max(allocates) > 1.1 * min(allocates):
        faults.append(f"{' '.join(key)}: from {min(allocates)} to {max(allocates)} in several runs")
    known[key] = [statistics.median(values) for values in zip(*runs)]
# What remains without the loop of the benchmark, which a compiler may change. Single calls have no loop.
floors = {key[1:]: values[:2] for key, values in known.items() if key[0] == "floor"}
for key, (allocate, free, *single) in known.items():
    of_loop = floors.get(key[1:], (0, 0))
    known[key] = [round(allocate - of_loop[0], 1), round(free - of_loop[1], 1), *single]
names.remove("floor")

table = [["", *(f"order {order}" for _, order, _ in workloads for _ in range(3))], ["allocator"]]
for workload, _, burst in workloads:
    table[1] += ["pair" if workload == "pair" else f"allocate {burst}", "p99"]
    table[1] += ["free"]
for name in names:
    line = [name]
    for workload in workloads:
        entry = known.get((name, *workload))
        if entry is None:
            faults.append(f"{name} lacks the workload {' '.join(workload)}")
            continue
        allocate, free, _, p99 = entry
        is_pair = workload[0] == "pair"
        line += [f"{allocate:.1f}", "" if is_pair else f"{p99:.0f}", "" if is_pair else f"{free:.1f}"]
    table.append(line)
# A pair has only a sum.
table = [[cell for column, cell in enumerate(line) if any(row[column] for row in table[2:])] for line in table]
widths = [max(map(len, column)) for column in zip(*table)]
print(f"Instructions per call in Linux {release}, counted by QEMU, without the loop around. `pair`: an allocation and its free.")
print("`allocate N` and `free`: N blocks are allocated, then freed. `p99`: the 99th percentile of single allocations there.")
for line in table:
    print(line[0].ljust(widths[0]), *(cell.rjust(width) for cell, width in zip(line[1:], widths[1:])), sep="  ")
entries = []
for (name, workload, order, _), (allocate, free, p50, p99) in known.items():
    if name == "floor":
        continue
    system, _, options = name.partition("+")
    calls = [("allocate", "p50", p50), ("allocate", "p99", p99)]
    sums = [("all", "mean", allocate)] if workload == "pair" else [("allocate", "mean", allocate), ("free", "mean", free)]
    for operation, statistic, value in sums + calls:
        entry = {
            "experiment": "linux", "source": workload, "system": system, "options": options,
            "platform": f"linux:module {release}", "cpus": 1, "seed": None, "operation": operation,
            "order": int(order), "metric": "instructions", "statistic": statistic, "value": value, "unit": "1",
            "expected": None, "simulated": True,
        }
        entries.append(entry)
write(output, entries)
if not rows:
    faults.append("no row")
for fault in faults:
    print(f"linux: {fault}", file=sys.stderr)
sys.exit(bool(faults))
