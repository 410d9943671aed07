"""Instructions of whole loads in Linux, counted by linux/instructions.c.

linux-loads.py parts VMLINUX FOLDER   prints where the page allocator lies in a kernel, whose objects are in FOLDER
linux-loads.py table ROWS LOG...      prints the counts of virtual machines as aligned tables; next to each log, a file
                                      that ends in `counts` has the counts of the plugin

ROWS is written: the same as JSON lines, in the format of all results. Fails if a log has a fault, if a kernel used another
allocator than that of its log, or if a load failed or compiled something else.
"""

import re
import statistics
import subprocess
import sys

from linux_faults import aligned, found_in, show, write

# Linux's own allocator; and what stands in the place of its lists.
OBJECTS = {"page_alloc.o": "allocator", "everybuddy.o": "allocator", "everybuddy_allocators.o": "allocator"}
# Sections with code that runs after boot.
SECTIONS = (".text", ".text.unlikely", ".text.hot", ".noinstr.text")
# Functions whose calls are counted, with the first part of their names that a compiler may extend.
CALLED = {"free_pcppages_bulk": "linux_drains", "queued_spin_lock_slowpath": "contended_spinlocks"}
LOADS = {"exec": "fork, exec", "pages": "page cache", "compile": "compiler"}


def tool(*command):
    return subprocess.run(command, check=True, capture_output=True, text=True).stdout


def parts(kernel, folder):
    """Prints the addresses of the allocator's code. The linker keeps the code of a section of an object together."""
    addresses = {}
    for line in tool("nm", kernel).splitlines():
        address, _, name = line.split()[-3:]
        addresses.setdefault(name, []).append(int(address, 16))
    for file, part in OBJECTS.items():
        path = f"{folder}/{file}"
        sections = {}
        for number, name, size in re.findall(r"\[ *(\d+)\] (\S+) +PROGBITS +\w+ \w+ (\w+)", tool("readelf", "-SW", path)):
            if name in SECTIONS and int(size, 16):
                sections[number] = (name, int(size, 16), set())
        symbols = re.findall(r": (\w+) +\d+ FUNC +\w+ +\w+ +(\d+) (\S+)", tool("readelf", "-sW", path))
        for value, number, name in symbols:
            # Of several functions with one name, it is unknown which one this is.
            if number in sections and len(addresses.get(name, [])) == 1:
                sections[number][2].add(addresses[name][0] - int(value, 16))
        for name, size, starts in sections.values():
            if len(starts) != 1:
                sys.exit(f"linux: {name} of {file} lies at {len(starts)} places in the kernel")
            start = starts.pop()
            print(f"{start:x} {start + size:x} {part}")
    for name, part in CALLED.items():
        if len(addresses.get(name, [])) != 1:
            sys.exit(f"linux: the kernel has no function {name}, or several")
        print(f"{addresses[name][0]:x} {addresses[name][0]:x} {part}")


def counts_of(text):
    """What a kernel has counted: pages, and the sums over all zones of what a system counts."""
    found = {}
    for name, pattern in (("pages_allocated", r"^pgalloc_\w+ (\d+)"), ("pages_freed", r"^pgfree (\d+)")):
        found[name] = sum(map(int, re.findall(pattern, text, re.MULTILINE)))
    zones = "\n".join(line for line in text.splitlines() if line.startswith("zone "))
    for name in ("refills", "drains", "contended"):
        found[name] = sum(map(int, re.findall(rf"\b{name}=(\d+)", zones)))
    return found


def differences(before, after):
    return {name: after[name] - before[name] for name in after}


def table(output, paths):
    """Prints both tables, and writes the rows."""
    runs = {}
    faults = []
    compiled = set()
    release = "unknown"
    for path in paths:
        text = open(path, encoding="utf-8", errors="replace").read()
        cpus, system = re.search(r"loads-(\d+)-\d+-(.*)\.log", path).groups()
        faults += [f"{path}: {fault}" for fault in found_in(text)]
        if "own allocator is used" in text or (system != "off") != ("\nok: zone " in text):
            faults.append(f"{path}: {system} was not booted, or not checked")
        booted = re.search(r"guest: Linux (\S+) with (\d+) CPUs", text)
        release = booted[1]
        compiled.add((cpus, re.search(r"guest: compiled (.*)", text)[1]))
        lines = open(path.removesuffix("log") + "counts", encoding="utf-8").read().splitlines()
        marks = [{name: int(value) for name, value in re.findall(r"(\w+)=(\d+)", line)} for line in lines]
        shown = [(part.split()[0], counts_of(part.partition("storm:")[0])) for part in text.split("guest: counts ")[1:]]
        passed = len(re.findall(r"^storm: count passed", text, re.MULTILINE))
        if len(marks) != len(shown) or passed != (2 if cpus == "1" else 1) * len(LOADS) or len(shown) != 2 * passed:
            faults.append(f"{path}: a load failed, or was not counted")
            continue
        for at in range(0, len(shown), 2):
            own = differences(marks[at], marks[at + 1]) | differences(shown[at][1], shown[at + 1][1])
            # The instructions of a processor: a string instruction counts as one, not as one for each repetition.
            own["instructions"] = own["all"] - own["repetitions"]
            if system == "off":
                own["drains"] = own["linux_drains"]
                # Its refills are inline.
                del own["refills"], own["contended"]
            own["allocator_share"] = own["allocator"] / own["instructions"]
            if cpus != "1" or at and shown[at - 1][0] == shown[at][0]:
                runs.setdefault((int(cpus), shown[at][0]), {}).setdefault(system, []).append(own)
    if len(compiled) != len({cpus for cpus, _ in compiled}):
        faults.append(f"the compiler's outputs differ: {sorted(compiled)}")

    rows = []
    single = [["load", "system", "million instructions", "spread (%)", "over linux", "of the allocator (million)",
               "its share (%)", "pages allocated", "allocator per page"]]
    counted = ["pages_allocated", "pages_freed", "refills", "drains", "contended", "contended_spinlocks", "allocator_per_page"]
    several = [["load", "system", "pages allocated", "freed", "refills", "drains", "contended locks", "contended spinlocks",
                "allocator per page"]]
    for (cpus, load), systems in runs.items():
        for system, found in systems.items():
            median = {name: statistics.median(own[name] for own in found) for name in found[0]}
            known = "linux" if system == "off" else system
            every = [own["instructions"] for own in found]
            base = systems.get("off", found)
            median["spread"] = (max(every) - min(every)) / median["instructions"]
            median["instructions_over_linux"] = median["instructions"] / statistics.median(own["instructions"] for own in base)
            median["allocator_per_page"] = median["allocator"] / median["pages_allocated"]
            if cpus == 1:
                metrics = ["instructions", "spread", "instructions_over_linux", "allocator", "allocator_share",
                           "pages_allocated", "allocator_per_page"]
                single.append([LOADS[load], known, f"{median['instructions'] / 1e6:.1f}", f"{100 * median['spread']:.2f}",
                               f"{median['instructions_over_linux']:.4f}", f"{median['allocator'] / 1e6:.2f}",
                               f"{100 * median['allocator_share']:.2f}", f"{median['pages_allocated']:.0f}",
                               f"{median['allocator_per_page']:.0f}"])
            else:
                metrics = [name for name in counted if name in median]
                several.append([LOADS[load], known, *(f"{median[name]:.0f}" if name in median else "-" for name in counted)])
            for metric in metrics:
                rows.append({
                    "experiment": "linux-work", "source": load, "system": known.partition("+")[0],
                    "options": known.partition("+")[2], "platform": f"linux:replacement {release}", "cpus": cpus,
                    "seed": None, "operation": "all", "order": None, "metric": metric, "statistic": "p50",
                    "value": median[metric], "unit": "1", "expected": None, "simulated": True,
                })
    print(f"Instructions of whole loads in Linux {release} with one CPU, counted by QEMU: the mean of the second runs in two")
    print("boots. `linux`: its own lists, in the same binary. The spread is their difference. The allocator is")
    print("mm/page_alloc.c with what stands in the place of its lists, without locks and counters that it calls.")
    aligned(single)
    print("\nCounts of the same loads with four CPUs, one instance on each, in one run. `contended locks` are those of the")
    print("systems, and `contended spinlocks` those of the whole kernel: one thread executes all CPUs in turns, so few are.")
    if not faults:
        write(output, rows)
    show(several, faults)


if sys.argv[1] == "parts":
    parts(*sys.argv[2:])
else:
    table(sys.argv[2], sys.argv[3:])
