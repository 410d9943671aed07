"""Times of whole paths through a user-mode Linux, from logs of its boots, as an aligned table: linux-times.py ROWS LOG...

ROWS is written: the same as JSON lines, in the format of all results. The systems are booted in turns. The time of a boot is
the least of its rounds; ratios to Linux's own allocator are formed within turns. Fails if a boot has no times, or if what
`check` says is not `ok`, or if the kernel reported anything.
"""

import re
import statistics
import sys

from linux_faults import found_in, write

output, *paths = sys.argv[1:]
ORDERS = (0, 3, 9)
turns = {}
faults = []
release, cpus = "unknown", 0
for path in paths:
    text = open(path, encoding="utf-8", errors="replace").read()
    turn, name = re.search(r"times-(\d+)-(.*)\.log", path).groups()
    known = "linux" if name == "off" else name
    rounds = []
    for part in re.findall(r"clock ticks=.*?tick ps=\d+", text, re.DOTALL):
        length = int(re.search(r"tick ps=(\d+)", part)[1]) / 1000
        ticks = dict(re.findall(r"pair order=(\d+) ticks=([0-9.]+)", part))
        rounds.append([float(ticks[str(order)]) * length for order in ORDERS])
    checks = re.findall(r"^(ok: zone|ok: off|FAILED)", text, re.MULTILINE)
    is_replaced = f"system={name} frames=" in text
    if len(rounds) != 3 or "FAILED" in checks or checks.count("ok: off" if known == "linux" else "ok: zone") < 2:
        faults.append(f"{path}: no times, or a check failed")
    if any(0 in values for values in rounds):
        faults.append(f"{path}: an allocation failed")
    faults += [f"{path}: {line}" for line in found_in(text)]
    if is_replaced == (known == "linux"):
        faults.append(f"{path}: booted another allocator")
    booted = re.search(r"guest: Linux (\S+) with (\d+)", text)
    release, cpus = (booted[1], int(booted[2])) if booted else (release, cpus)
    if rounds:
        turns.setdefault(known, {})[turn] = [min(values) for values in zip(*rounds)]

for fault in faults:
    print(f"linux: {fault}", file=sys.stderr)
if faults:
    sys.exit(1)
table = [["allocator", *(f"order {order}{what}" for order in ORDERS for what in (" (ns)", " / linux"))]]
rows = []
for name, found in turns.items():
    line = [name]
    for at, order in enumerate(ORDERS):
        nanoseconds = [values[at] for values in found.values()]
        ratios = [values[at] / turns["linux"][turn][at] for turn, values in found.items() if turn in turns["linux"]]
        line += [f"{statistics.median(nanoseconds):.1f}", f"{statistics.median(ratios):.2f}"]
        common = {
            "experiment": "linux-times", "source": f"pair{release.split('.')[0]}", "system": name.partition("+")[0],
            "options": name.partition("+")[2], "platform": f"linux:um {release}", "cpus": cpus, "seed": None,
            "operation": "all", "order": order, "expected": None, "simulated": False,
        }
        for metric, unit, values in (("latency", "ns", nanoseconds), ("latency_over_linux", "1", ratios)):
            for statistic, value in (("p50", statistics.median(values)), ("min", min(values)), ("max", max(values))):
                rows.append(common | {"metric": metric, "statistic": statistic, "value": value, "unit": unit})
    table.append(line)

print(f"Times of whole paths in a user-mode Linux {release} with {cpus} CPU{'s' * (cpus > 1)}. `linux`: its own lists, in the same binary.")
print(f"A pair is alloc_pages() and __free_pages(), in turn. Medians of {len(turns['linux'])} boots in turns.")
widths = [max(map(len, column)) for column in zip(*table)]
for line in table:
    print(line[0].ljust(widths[0]), *(cell.rjust(width) for cell, width in zip(line[1:], widths[1:])), sep="  ")
write(output, rows)
