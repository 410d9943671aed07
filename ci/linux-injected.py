"""What happened to kernels whose requests of memory failed, as an aligned table: linux-injected.py LOG...

Fails if nothing failed in a part, if a load or a check failed, if pages were lost, or if the kernel reported anything.
"""

import re
import sys

from linux_faults import found_in, show, unmixed

# Slabs and page tables of running processes vary by so many pages.
SLACK = 200
# The least pages of a full page cache, of 256 MiB. KASAN takes an eighth, and the kernel much.
CACHED = 20000
# Each part, with whether requests for pages and for objects fail in it, and its loads.
PARTS = {
    "refused": (True, False, ["refused"]),
    "pages": (True, False, ["tasks"]),
    "objects": (False, True, ["tasks"]),
    "both": (True, True, ["tasks"]),
    "pressure": (True, True, ["tasks", "hog"]),
    "offline": (True, True, ["tasks", "offline"]),
    "everyone": (True, True, ["everyone"]),
    "offline-everyone": (True, True, ["everyone", "offline"]),
}
# What the kernel says of its checks when it starts, and when the steps end.
CHECKED = ["KernelAddressSanitizer initialized", "Lock dependency validator:", "debug_locks: 1"]

table = [["system", *PARTS, "interrupts", "CPUs offline", "most pages lost", "seconds", "result"]]
faults = []
for path in sys.argv[1:]:
    log = open(path, encoding="utf-8", errors="replace").read()
    text = unmixed(log)
    name = re.search(r"faults-(.*)\.log", path).group(1)
    own = found_in(log)

    def need(what, holds):
        if not holds:
            own.append(what)

    built = log.count(f"system={name} frames=")
    need("does not boot with this system", (built == 0 if name == "off" else built >= 2) and "guest: Linux" in text)
    squeezed = re.sub(r" +", " ", log)
    for check in CHECKED:
        need(f"the kernel does not say: {check}", check in squeezed)
    # Each part, from its beginning on.
    beginnings = re.split(r"guest: part (\S+)\n", text)
    logs = dict(zip(beginnings[1::2], beginnings[2::2]))
    cells = []
    lost = []
    for part, (has_pages, has_objects, loads) in PARTS.items():
        own_log = logs.get(part, "")
        numbers = re.search(rf"guest: injected {part} (-?\d+) pages, (-?\d+) objects", own_log)
        pages, objects = map(int, numbers.groups()) if numbers else (0, 0)
        need(f"{part}: {pages} requests for pages failed", (pages > 0) == has_pages)
        need(f"{part}: {objects} requests for objects failed", (objects > 0) == has_objects)
        for load in loads:
            program = "storm" if load == "hog" else "endure"
            need(f"{part}: load {load}", re.search(rf"{program}: {load} passed", own_log))
        worked = re.search(r"endure: (\d+) loads done, (\d+) not", own_log)
        need(f"{part}: no load had a failure, or all had", part == "refused" or worked and "0" not in worked.groups())
        before_after = re.search(rf"guest: free pages {part} (\d+) (\d+)", own_log)
        lost.append(int(before_after[1]) - int(before_after[2]) if before_after else None)
        # Each part ends with a check, and so do the loads with CPUs that are offline, and all steps.
        checks = own_log.count("ok: zone ") if built else own_log.count("ok: off")
        wanted = 1 + ("offline" in loads) + (part == list(PARTS)[-1])
        need(f"{part}: {checks} zones were checked", checks == (built or 1) * wanted)
        cells.append(f"{pages}+{objects}")
    # Without a request that is served, a pair of any order takes no time. Neither do those of a bulk.
    ticks = re.findall(r"(?:pair order|bulk pages)=\d+ ticks=(\d+\.\d)\n", logs.get("refused", ""))
    need(f"not all ways to the allocator let a request fail: {ticks}", ticks == ["0.0"] * 4)
    cached = re.search(r"guest: cached (\d+)", logs.get("pressure", ""))
    need("the page cache is not full before the pressure", cached and int(cached[1]) > CACHED)
    everyone = logs.get("everyone", "")
    failed = re.findall(r"interrupts got \d+ pages, \d+ blocks, failed (\d+), (\d+)", everyone)
    missing = [int(pages) + int(blocks) for pages, blocks in failed]
    need("no request of an interrupt failed", sum(missing) > 0)
    need("pages were not counted", None not in lost)
    need(f"pages were lost: {lost}", all(pages is None or pages <= SLACK for pages in lost))
    for load in ("exec", "files", "map"):
        need(f"load {load}", text.count(f"storm: {load} passed") == 2)
    gone = [int(times) for times in re.findall(r"CPUs went offline (\d+) times", text)]
    killed = set(re.findall(r"Killed process \d+ \(([^)]*)\)", log)) - {"storm"}
    need(f"the kernel killed {', '.join(sorted(killed))}", not killed)
    need("the steps did not end", text.count("guest: done") == 1)
    own += re.findall(r".*everybuddy: free of page .*| misuses=[1-9].*", log)
    seconds = re.findall(r"^\[ *(\d+)\.\d{6}\]", log, re.MULTILINE)
    most = max((pages for pages in lost if pages is not None), default="")
    row = [name, *cells, sum(missing), sum(gone), most, seconds[-1] if seconds else ""]
    table.append([*row, "FAILED" if own else "passed"])
    faults += [f"{name}: {fault}" for fault in own[:12]]

print("Requests for pages + for objects that were made to fail, by part; those of interrupts when everyone's failed.")
show(table, faults)
