"""The results of booting a kernel with replaced page allocators, as aligned tables:
linux-replacement.py VERSION ROWS LOG...

ROWS is written: the first two tables as JSON lines, in the format of all results.

Fails if a system did not boot, if a load failed, if pages were lost, or if the kernel reported anything that is not expected.
"""

import re
import sys

from linux_faults import aligned, found_in, show, write

# Slabs and page tables of running processes vary by so many pages.
SLACK = 200
# The least share, in percent, of the single pages requested by interrupts that must be served while a task holds all pages
# that it may have.
SERVED = 95
# The pages that this task gets at least, of 512 MiB.
HELD = 50000
# The most free pages of its zone meanwhile, in low watermarks.
MOST = 3
COLUMNS = [
    "boots", "exec", "files", "map", "hog", "age", "locked", "interrupts", "reserve", "and blocks", "pages back", "counts", "hotplug", "misuse",
]
# When free blocks are counted.
LOADS = ["boot", "storms", "hog", "age", "freed"]

table = [["system", *COLUMNS, "result"]]
unusable = [["system", *(f"{load} (%)" for load in LOADS)]]
# What the systems count themselves, in all zones, from boot to the last check.
COUNTERS = ["refills", "drains", "contended", "reclaims", "nested", "postponed", "spares"]
counters = [["system", *COUNTERS]]
rows = []
faults = []
version, output, *paths = sys.argv[1:]


def common(name):
    """What all rows of a system have."""
    return {
        "experiment": "linux-loads", "system": name.partition("+")[0], "options": name.partition("+")[2],
        "platform": f"linux:qemu {version}", "cpus": 2, "seed": None, "operation": "all", "order": None, "unit": "1",
        "expected": None, "simulated": False,
    }


for path in paths:
    text = open(path, encoding="utf-8", errors="replace").read()
    name = re.search(r"replacement-(.*)\.log", path).group(1)
    is_replaced = name not in ("off", "compacted", "nonsense")
    own = []

    def need(what, holds, shown="yes"):
        if not holds:
            own.append(what)
        return shown if holds else "NO"

    def count(line):
        return len(re.findall(re.escape(line), text))

    built = count(f"system={name} frames=")
    is_named = count("no system has this name") == 1 and count("Linux's own allocator is used") == 1
    says = built >= 2 if is_replaced else built == 0 and is_named == (name == "nonsense")
    row = [name, need("does not boot", count(f"guest: Linux {version}.") == 1 and says)]
    for load, times in (("exec", 4), ("files", 2), ("map", 2), ("hog", 2), ("age", 1)):
        passed = count(f"storm: {load} passed")
        row.append(need(f"load {load}", passed == times, f"{passed} times"))
    need("killed another process than the hog", count("Out of memory: Killed process") == 2)
    need("killed another process than the hog", len(re.findall(r"Killed process \d+ \(storm\)", text)) == 2)
    locked = re.search(r"locked passed ([1-9]\d*) rounds, [1-9]\d* interrupted ones, [1-9]\d* drains", text)
    row.append(need("a task and an interrupt that share a lock made no progress", locked, locked and locked[1]))
    def requests(load):
        """Single pages and larger blocks that interrupts got, and those that they did not get."""
        found = re.search(rf"{load} got (\d+) pages, (\d+) blocks, failed (\d+), (\d+)", text)
        return list(map(int, found.groups())) if found else [0, 0, 0, 0]

    pages, blocks, *missing = requests("interrupts")
    row.append(need("interrupts", min(pages, blocks) > 0 and not any(missing), pages + blocks))
    pages, blocks, no_pages, no_blocks = requests("reserve")
    share = 100 * pages / max(pages + no_pages, 1)
    held = re.search(r"reserve: a task held (\d+) pages, others asked (\d+) times", text)
    need("the task that holds all pages got few", held and int(held[1]) > HELD)
    need("no task asks for more", held and int(held[2]) > 0)
    free = re.search(r"reserve got .* most free (\d+), low (\d+)", text)
    need("much memory was free beside the task that holds all pages", free and int(free[1]) <= MOST * int(free[2]))
    row.append(need(f"interrupts got {share:.1f} % of the single pages that they requested from the reserve", share >= SERVED, f"{share:.1f} %"))
    # A larger block may be missing although many pages are free: shown, and not judged.
    row.append(f"{100 * blocks / max(blocks + no_blocks, 1):.1f} %")
    pages = re.search(r"guest: free pages (\d+) (\d+)", text)
    lost = int(pages[1]) - int(pages[2]) if pages else None
    row.append(need("pages were lost", pages and lost < SLACK, pages and f"{-lost:+d}"))
    sums = re.search(r"guest: buddyinfo (\d+) vmstat (\d+)", text)
    # Other processes run between the two readings.
    agree = sums and abs(int(sums[1]) - int(sums[2])) < SLACK
    checked = count("ok: zone ") == 3 * built if is_replaced else count("ok: off") == 3
    row.append(need("counts of free pages differ", agree and checked))
    row.append(need("a CPU does not go offline", count("guest: offline") == 1 and count("guest: online") == 1))
    refused = re.findall(r"everybuddy: free of page .* refused: (.*)", text)
    reported = len(refused) == 2 and count("misuse+0x") >= 2
    row.append(need("misuse is not reported", reported if is_replaced else not refused, "2 reported" if is_replaced else ""))
    counted = re.findall(r"guest: blocks (\w+) (\d+) (\d+)", text)
    need("blocks were not counted", [load for load, _, _ in counted] == LOADS)
    if name != "nonsense":
        known = {"off": "linux", "compacted": "linux+compaction"}.get(name, name)
        indices = [1 - int(blocks) / int(free) for _, free, blocks in counted]
        unusable.append([known, *(f"{100 * index:.1f}" for index in indices)])
        for (load, _, _), index in zip(counted, indices):
            own_row = {"source": load, "order": 9, "metric": "unusable_index", "statistic": "value", "value": index}
            rows.append(common(known) | own_row)
    if is_replaced:
        last = text[text.rfind("guest: online"):]
        counts = [sum(map(int, re.findall(rf"\b{what}=(\d+)", last[last.find("ok: zone"):]))) for what in COUNTERS]
        counters.append([name, *counts])
        for what, value in zip(COUNTERS, counts):
            rows.append(common(name) | {"source": "loads", "metric": what, "statistic": "count", "value": value})
    need("the steps did not end", count("guest: done") == 1)
    own += found_in(text)
    table.append([*row, "FAILED" if own else "passed"])
    faults += [f"{name}: {fault}" for fault in own[:8]]

write(output, rows)
print("Free memory outside free blocks of 2 MiB and more, after each load. `linux+compaction`: compacted before each count.")
aligned(unusable)
print()
print("What the systems count, in all loads on two virtual CPUs. `contended`: locks that the other CPU held.")
aligned(counters)
print()
print(f"Linux {version} with each system in the place of its page allocator.")
show(table, faults)
