"""What happened to kernels with replaced page allocators under long load, as an aligned table: linux-soak.py LOG...

Fails if a kernel reported anything, if a load or a check failed, or if pages were lost.
"""

import re
import sys

from linux_faults import found_in, show, unmixed

# Slabs and page tables of running processes vary by so many pages, and caches of the kernel grow at first.
SLACK = 400
COLUMNS = ["minutes", "rounds", "processes", "hogs", "stress-ng", "pages back", "counters"]

table = [["system", *COLUMNS, "result"]]
faults = []
for path in sys.argv[1:]:
    text = open(path, encoding="utf-8", errors="replace").read()
    name = re.search(r"soak-(.*)\.log", path).group(1)
    own = []
    whole = unmixed(text)
    rounds = re.findall(r"guest: round (\d+) (\d+) s", whole)
    checks = re.findall(r"^ok: zone \w+ free=\d+ (.*)$", text, re.MULTILINE)
    zones = len(re.findall(rf"system={re.escape(name)} frames=", text))
    pages = [int(free) for free in re.findall(r"^(\d+)\r?$", text, re.MULTILINE)]
    # The first round fills caches.
    lost = pages[1] - pages[-1] if len(pages) > 2 else None
    passed = {load: len(re.findall(f"storm: {load} passed", whole)) for load in ("exec", "files", "map", "hog")}
    stress = text.count("guest: stress-ng passed")
    offline = text.count("is now offline")
    served = re.findall(r"interrupts got \d+ pages, \d+ blocks, failed (\d+, \d+)", text)
    if not rounds or "guest: done" not in text:
        own.append("the steps did not end")
    for load, times in passed.items():
        wanted = len(rounds) // 5 if load == "hog" else len(rounds)
        if times != wanted:
            own.append(f"load {load} passed {times} of {wanted} times")
    if name != "off" and (not zones or len(checks) != zones * len(rounds)):
        own.append(f"{len(checks)} checks of {zones} zones passed in {len(rounds)} rounds")
    if lost is None:
        own.append("too few rounds to see whether pages are lost")
    elif lost > SLACK:
        own.append(f"{lost} pages were lost")
    if ("guest: has stress-ng" in text or stress) and stress != len(rounds):
        own.append(f"stress-ng passed {stress} of {len(rounds)} times")
    if offline != len(rounds):
        own.append(f"a CPU went offline {offline} times in {len(rounds)} rounds")
    if len(served) != len(rounds) or set(served) != {"0, 0"}:
        own.append(f"interrupts were served in {served.count('0, 0')} of {len(rounds)} rounds")
    # Nothing here frees a page wrongly, so a refused free is a fault of the replacement or of its system.
    own += re.findall(r".*everybuddy: free of page .*|.*WARNING: .*|.* misuses=[1-9].*", text)
    killed = set(re.findall(r"Killed process \d+ \(([^)]*)\)", text)) - {"storm", "stress-ng", "stress-ng-vm", "stress-ng-mmap"}
    if killed:
        own.append(f"the kernel killed {', '.join(sorted(killed))}")
    own += found_in(text)
    minutes = f"{int(rounds[-1][1]) / 60:.0f}" if rounds else "0"
    counters = checks[-1] if checks else ""
    back = "" if lost is None else f"{-lost:+d}"
    row = [name, minutes, len(rounds), 100 * passed["exec"], passed["hog"], stress, back, counters]
    table.append([*row, "FAILED" if own else "passed"])
    faults += [f"{name}: {fault}" for fault in own[:8]]

show(table, faults)
