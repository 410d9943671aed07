"""Instructions of whole paths through Linux, from logs of virtual machines, as an aligned table: linux-paths.py ROWS LOG...

ROWS is written: the same as JSON lines, in the format of all results. Each system has one or two logs of each state. Fails if a
kernel reported anything, if it used another allocator than that of its log, if a request failed, if a machine does not
count instructions, if a used one has not as much memory free as it should, or if two logs differ by over a hundredth.
"""

import re
import statistics
import sys

from linux_faults import found_in, write

output, *paths = sys.argv[1:]
# What a log says, and the column of the table.
PAIR, BULK = "pair order=0", "bulk pages=64"
FRESH = {PAIR: "pair, order 0", "pair order=3": "order 3", "pair order=9": "order 9", BULK: "of a bulk", "fault": "page fault"}
USED = {PAIR: "pair, order 0", BULK: "of a bulk"}
runs = {}
faults = []
release = "unknown"
for path in paths:
    text = open(path, encoding="utf-8", errors="replace").read()
    state, cpus, name = re.search(r"paths-([a-z]+)-?(\d*)-\d-(.*)\.log", path).groups()
    columns = FRESH if state == "fresh" else USED
    found = dict(re.findall(r"^((?:pair|bulk) \w+=\d+|fault) ticks=([0-9.]+)", text, re.MULTILINE))
    runs.setdefault((state, int(cpus or 1)), {}).setdefault(name, []).append(
        [float(found.get(key, "nan")) for key in columns]
    )
    faults.extend(f"{path}: {fault}" for fault in found_in(text))
    if "own allocator is used" in text:
        faults.append(f"{path}: {name} was not booted")
    faults.extend(f"{path}: {key} failed" for key in columns if not float(found.get(key, 0)) > 0)
    clock = re.search(r"clock ticks=(\d+) instructions=(\d+)", text)
    if not clock or abs(int(clock[1]) - int(clock[2])) > int(clock[2]) / 1000:
        faults.append(f"{path}: this machine does not count instructions")
    memory = re.search(r"memory free=(\d+) low=(\d+) high=(\d+)", text)
    free, low, high = map(int, memory.groups()) if memory else (0, 0, 0)
    if (state == "used") != (low < free <= high):
        faults.append(f"{path}: {free} pages are free; the watermarks are {low} and {high}")
    booted = re.search(r"guest: Linux (\S+)", text)
    release = booted[1] if booted else release

rows = []
same = total = 0


def show(title, table):
    """Prints an aligned table below its title."""
    print(f"\n{title}")
    widths = [max(map(len, column)) for column in zip(*table)]
    for line in table:
        print(line[0].ljust(widths[0]), *(cell.rjust(width) for cell, width in zip(line[1:], widths[1:])), sep="  ")


print(f"Instructions of whole paths in Linux {release}, counted by QEMU. `linux`: its own lists, in the same binary.")
print("A pair is alloc_pages() and __free_pages(), in turn; the pages of a bulk, 64, are allocated by one call and freed")
print("one by one, and a page of them is shown. A page fault of anonymous memory zeroes the page, too.")
for (state, cpus), systems in runs.items():
    columns = FRESH if state == "fresh" else USED
    table = [["allocator", *columns.values()]]
    for name, found in systems.items():
        known = "linux" if name == "off" else name
        line = [known]
        for key, *values in zip(columns, *found):
            value = statistics.median(values)
            line.append(f"{value:.1f}")
            total += len(values) > 1
            same += len(values) > 1 and len(set(values)) == 1
            if max(values) - min(values) > value / 100:
                faults.append(f"{name}, {state}, {key}: {values} in the boots")
            source, _, order = key.partition(" order=")
            source = source.partition(" ")[0]
            rows.append({
                "experiment": "linux-paths", "source": source if state == "fresh" else f"{source}:{state}",
                "system": known.partition("+")[0], "options": known.partition("+")[2],
                "platform": f"linux:replacement {release}", "cpus": cpus, "seed": None, "operation": "all",
                "order": int(order or 0), "metric": "instructions", "statistic": "mean", "value": value, "unit": "1",
                "expected": None, "simulated": True,
            })
        table.append(line)
    show({
        "fresh": f"Much memory is free; {cpus} CPU:",
        "used": f"The page cache has all memory, free pages are between the watermarks, cpusets are on; {cpus} CPUs:",
    }[state], table)
far = len(faults) or "none"
print(f"\n{same} of {total} numbers of two boots were the same; of the others, {far} differ by more than a hundredth.")
write(output, rows)
for fault in faults:
    print(f"linux: {fault}")
sys.exit(bool(faults))
