"""Instructions of single calls of Linux's page allocator under load, from logs of virtual machines, as an aligned table:
linux-latencies.py ROWS LOG...

ROWS is written: the same as JSON lines, in the format of all results. Fails if a machine does not count instructions, if the
load printed something other than in the other machines, or if a kernel reported anything.
"""

import math
import re
import sys

from linux_faults import found_in, show, write

# The paper's slow band begins here, in cycles.
SLOW = 1000
CALLS = ["allocate", "free"]

output, *paths = sys.argv[1:]
table = [["allocator", "call", "calls", "mean", "deviation", "p50", "p99", "p99.9", f"above {SLOW}"]]
rows, faults, printed, release = [], [], set(), "unknown"
for path in paths:
    text = open(path, encoding="utf-8", errors="replace").read()
    name = re.search(r"latencies-(.*)\.log", path).group(1)
    known = "linux" if name == "off" else name
    own = found_in(text)
    clock = re.search(r"clock ticks=(\d+) instructions=(\d+)", text)
    if not clock or abs(int(clock[1]) - int(clock[2])) > int(clock[2]) / 1000:
        own.append("this machine does not count instructions")
    printed.update(re.findall(r"guest: compiled (.*)", text) or ["nothing"])
    if f"system {name}\n" not in text and (name != "off" or "\noff\n" not in text):
        own.append("booted another allocator")
    if "\nok: off" not in text and "\nok: zone " not in text:
        own.append("the metadata were not checked")
    booted = re.search(r"guest: Linux (\S+)", text)
    release = booted[1] if booted else release
    lines = [tuple(map(int, line)) for line in re.findall(r"^latency (\d+) (\d+) (\d+)", text, re.MULTILINE)]
    for at, call in enumerate(CALLS, 1):
        counts = [(line[0], line[at]) for line in lines if line[at]]
        calls = sum(count for _, count in counts)
        if calls < 1000:
            own.append(f"{calls} calls to {call}")
            continue
        mean = sum(ticks * count for ticks, count in counts) / calls
        deviation = math.sqrt(sum((ticks - mean) ** 2 * count for ticks, count in counts) / calls)

        def quantile(share):
            seen = 0
            for ticks, count in counts:
                seen += count
                if seen >= share * calls:
                    return ticks

        values = {
            "mean": mean, "stddev": deviation, "p50": quantile(0.5), "p99": quantile(0.99), "p99.9": quantile(0.999),
        }
        slow = sum(count for ticks, count in counts if ticks > SLOW) / calls
        table.append([known, call, calls, f"{mean:.0f}", f"{deviation:.0f}", *list(values.values())[2:], f"{100 * slow:.2f} %"])
        common = {
            "experiment": "linux-latencies", "source": "compile", "system": known.partition("+")[0],
            "options": known.partition("+")[2], "platform": f"linux:replacement {release}", "cpus": 1, "seed": None,
            "operation": call, "order": None, "expected": None, "simulated": True,
        }
        rows += [common | {"metric": "instructions", "statistic": key, "value": value, "unit": "1"} for key, value in values.items()]
        rows.append(common | {"metric": "calls_above_1000", "statistic": "share", "value": slow, "unit": "1"})
        rows.append(common | {"metric": "calls", "statistic": "count", "value": calls, "unit": "1"})
    faults += [f"{known}: {fault}" for fault in own[:8]]
if len(printed) > 1:
    faults.append(f"the load printed different things: {printed}")

print(f"Instructions of single calls in Linux {release} while cc1 compiles, counted by QEMU. `linux`: its own lists.")
if not faults:
    write(output, rows)
show(table, faults)
