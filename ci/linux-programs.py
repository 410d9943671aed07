"""Times of whole programs in a user-mode Linux, from logs of its boots, as an aligned table: linux-programs.py ROWS LOG...

ROWS is written: the same as JSON lines, in the format of all results. The systems are booted in turns, and speedups over
Linux's own allocator are formed within turns. Fails if a program did not run or printed something other than in the other
boots, or if the kernel reported anything.
"""

import math
import re
import statistics
import sys

from linux_faults import aligned, found_in, write

PROGRAMS = ["mab", "find_text", "config", "compile", "disassemble", "write_zeros", "fork_and_exec", "map_and_unmap",
            "write_memory", "serve_files"]
# The 97.5th percentile of Student's distribution, by degrees of freedom.
STUDENT = {1: 12.71, 2: 4.303, 3: 3.182, 4: 2.776, 5: 2.571, 6: 2.447, 7: 2.365, 8: 2.306, 9: 2.262, 10: 2.228, 11: 2.201}

output, *paths = sys.argv[1:]
times, sums, faults = {}, {}, []
release, cpus = "unknown", 0
for path in paths:
    text = open(path, encoding="utf-8", errors="replace").read()
    turn, name = re.search(r"programs-(\d+)-(.*)\.log", path).groups()
    known = {"off": "linux", "again": "linux again"}.get(name, name)
    is_own = name in ("off", "again")
    found = re.findall(r"^program (\w+) us=(\d+) sum=(\d+)", text, re.MULTILINE)
    checks = re.findall(r"^(ok: zone|ok: off|FAILED)", text, re.MULTILINE)
    if [program for program, _, _ in found] != PROGRAMS:
        faults.append(f"{path}: not all programs ran")
    if "FAILED" in checks or checks.count("ok: off" if is_own else "ok: zone") < 2:
        faults.append(f"{path}: a check failed")
    if (f"system={name} frames=" in text) == is_own:
        faults.append(f"{path}: booted another allocator")
    faults += [f"{path}: {line}" for line in found_in(text)]
    for program, microseconds, printed in found:
        times.setdefault(program, {}).setdefault(known, {})[turn] = int(microseconds)
        if sums.setdefault(program, printed) != printed:
            faults.append(f"{path}: {program} printed something other than in other boots")
    booted = re.search(r"guest: Linux (\S+) with (\d+)", text)
    release, cpus = (booted[1], int(booted[2])) if booted else (release, cpus)

rows = []
systems = [system for system in next(iter(times.values()), {}) if system != "linux"]
table = [["program", "linux (s)", *systems]]
for program, by_system in times.items():
    own = by_system.get("linux", {})
    line = [program, f"{statistics.mean(own.values()) / 1e6:.2f}" if own else "none"]
    for system in systems:
        ratios = [own[turn] / time for turn, time in by_system.get(system, {}).items() if turn in own]
        if len(ratios) < max(2, len(own)):
            faults.append(f"{program}: not all turns have {system}")
            continue
        mean = statistics.mean(ratios)
        half = STUDENT.get(len(ratios) - 1, 2.201) * statistics.stdev(ratios) / math.sqrt(len(ratios))
        line.append(f"{mean:.3f} ± {half:.3f}" + ("*" if abs(mean - 1) > half else " "))
        common = {
            "experiment": "linux-programs", "source": program, "system": system.replace(" ", "-").partition("+")[0],
            "options": system.partition("+")[2], "platform": f"linux:um {release}", "cpus": cpus, "seed": None,
            "operation": "all", "order": None, "metric": "speedup_over_linux", "unit": "1", "expected": None,
            "simulated": False,
        }
        rows += [common | {"statistic": statistic, "value": value} for statistic, value in (("mean", mean), ("ci95", half))]
    table.append(line)

for fault in faults:
    print(f"linux: {fault}", file=sys.stderr)
if faults:
    sys.exit(1)
turns = len(next(iter(times.values()))["linux"])
print(f"Speedup of whole programs over Linux's own allocator, in a user-mode Linux {release} with {cpus} CPUs; one instance")
print(f"for each CPU. Mean and 95% confidence interval of {turns} boots, in turns that begin with another system each.")
print("*: the interval does not contain 1, as one of 20 does by chance. `linux again`: the same allocator, as a control.")
aligned(table)
write(output, rows)
