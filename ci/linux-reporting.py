"""What a virtual machine holds of the host's memory while it gives free pages back.

linux-reporting.py watch NAME          while the machine runs whose log is NAME.log and whose process is in NAME.pid, writes
                                       the host's memory that it holds, at the end of each phase, into NAME.held
linux-reporting.py table ROWS LOG...   prints what the machines held as an aligned table

ROWS is written: the same as JSON lines, in the format of all results. QEMU reports each range that it gives back on the
standard error output, next to the log. Fails if a log has a fault, if a kernel used another allocator than that of its
log, if nothing was given back, or if a guest counted other pages than QEMU.
"""

import json
import os
import re
import sys
import time

from linux_faults import found_in, show

PHASES = ["booted", "held", "freed", "again"]
# What the process of the guest writes, and what the host must get back of it at least.
WRITTEN, RETURNED = 300, 200


def read(path):
    try:
        return open(path, encoding="utf-8", errors="replace").read()
    except FileNotFoundError:
        return ""


def watch(name):
    """Notes, again and again, the memory that the machine holds in the phase that it is in."""
    held = {}
    deadline = time.time() + 60
    while time.time() < deadline:
        process = read(f"{name}.pid").strip()
        resident = re.search(r"RssAnon:\s+(\d+) kB", read(f"/proc/{process}/status")) if process else None
        if resident:
            deadline = time.time() + 1
            log = read(f"{name}.log")
            phase = re.findall(r"^guest: phase (\w+)", log, re.MULTILINE)
            # A phase ends with this line.
            if phase and not log.rpartition("guest: phase")[2].count("guest: free"):
                held[phase[-1]] = int(resident[1]) / 1024
        time.sleep(0.2)
    with open(f"{name}.held", "w", encoding="utf-8") as file:
        json.dump(held, file)


def table(output, paths):
    """Prints the table, and writes the rows."""
    rows = []
    faults = []
    lines = [["system", *(f"{phase} (MiB)" for phase in PHASES), "free in the guest (MiB)", "guest reported (MiB)",
              "host got (MiB)", "calls"]]
    for path in paths:
        text = read(path)
        system = re.search(r"reporting-(.*)\.log", path)[1]
        known = "linux" if system == "off" else system
        held = json.loads(read(path.removesuffix("log") + "held"))
        trace = read(os.path.join(os.path.dirname(path), "qemu-" + os.path.basename(path)))
        # QEMU discards all memory once, before a machine starts.
        discarded = re.findall(r"ram_block_discard_range .*?\+ ?(0x[0-9a-f]+)", trace)
        got = sum(int(length, 16) for length in discarded) / 2**20
        free = [int(pages) / 256 for pages in re.findall(r"^guest: free (\d+)", text, re.MULTILINE)]
        reported = re.findall(r"^reported pages=(\d+)", text, re.MULTILINE)
        own = found_in(text)
        if "own allocator is used" in text or (system != "off") != ("\nok: zone " in text):
            own.append("it was not booted, or not checked")
        if len(re.findall("^storm: hold passed", text, re.MULTILINE)) != 2 or list(held) != PHASES or len(free) != 4:
            own.append("a phase failed")
        elif held["held"] - held["freed"] < RETURNED:
            own.append("the host did not get the memory back")
        if reported and int(reported[-1]) / 256 > got:
            own.append(f"the guest reported {int(reported[-1]) / 256} MiB, and the host got {got}")
        faults += [f"{system}: {fault}" for fault in own]
        told = f"{int(reported[-1]) / 256:.0f}" if reported else "not counted"
        lines.append([known, *(f"{held.get(phase, float('nan')):.0f}" for phase in PHASES),
                      ", ".join(f"{pages:.0f}" for pages in free), told, f"{got:.0f}", len(discarded)])
        booted = re.search(r"guest: Linux (\S+)", text)
        for phase, mib in held.items():
            rows.append({
                "experiment": "linux-reporting", "source": phase, "system": known.partition("+")[0],
                "options": known.partition("+")[2], "platform": f"linux:qemu {booted[1] if booted else 'unknown'}",
                "cpus": 2, "seed": None, "operation": "all", "order": None, "metric": "resident", "statistic": "value",
                "value": round(mib * 2**20), "unit": "B", "expected": None, "simulated": False,
            })
    print("The host's memory that a virtual machine of 512 MiB holds at the end of each phase. The guest's process writes 300")
    print("MiB (held), ends (freed), and another one does the same (again); free pages are reported to the host.")
    with open(output, "w", encoding="utf-8") as file:
        for row in rows:
            file.write(json.dumps(row, separators=(",", ":")) + "\n")
    show(lines, faults)


if sys.argv[1] == "watch":
    watch(sys.argv[2])
else:
    table(sys.argv[2], sys.argv[3:])
