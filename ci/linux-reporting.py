"""What a virtual machine holds of the host's memory while it gives free pages back.

linux-reporting.py watch NAME          while the machine runs whose log is NAME.log and whose process is in NAME.pid, writes
                                       into NAME.held what it holds of the host's memory at the end of each phase, and what
                                       QEMU gave back until then
linux-reporting.py table ROWS LOG...   prints what the machines held as an aligned table

ROWS is written, unless something failed: the same as JSON lines, in the format of all results. QEMU reports each range that
it gives back in a file next to the log. Fails if a log has a fault, if a kernel used another allocator than that of its log, if less than two
thirds were given back, or if a guest counted other pages than QEMU.
"""

import json
import os
import re
import sys
import time

from linux_faults import found_in, show, write

# The memory of a machine, in MiB.
MEMORY = 512
PHASES = ["booted", "held", "freed", "again"]
# What the process of the guest writes, and the share of it that the host must get back at least.
WRITTEN, RETURNED = 300, 2 / 3


def read(path):
    try:
        return open(path, encoding="utf-8", errors="replace").read()
    except FileNotFoundError:
        return ""


def resident(process):
    """Returns how much of a machine's own memory the host provides now, in MiB, or None."""
    # The process also has memory for translated code, which would hide what is given back.
    memory = re.search(rf"^Size:\s+{MEMORY * 1024} kB\n(?:\w.*\n)*?Rss:\s+(\d+) kB", read(f"/proc/{process}/smaps"), re.M)
    return int(memory[1]) / 1024 if memory else None


def given_back(name):
    """Returns how much QEMU gave back, in MiB, and in how many calls."""
    trace = os.path.join(os.path.dirname(name), f"qemu-{os.path.basename(name)}.log")
    lengths = [int(length, 16) for length in re.findall(r"ram_block_discard_range .*?\+ ?(0x[0-9a-f]+)", read(trace))]
    return sum(lengths) / 2**20, len(lengths)


def watch(name):
    """Notes, again and again, the memory that the machine holds in the phase that it is in."""
    noted = {}
    deadline = time.time() + 60
    while time.time() < deadline:
        process = read(f"{name}.pid").strip()
        held = resident(process) if process else None
        if held is not None:
            deadline = time.time() + 1
            log = read(f"{name}.log")
            phase = re.findall(r"^guest: phase (\w+)", log, re.MULTILINE)
            # A phase ends with this line.
            if phase and "guest: free" not in log.rpartition("guest: phase")[2]:
                noted[phase[-1]] = held, *given_back(name)
        time.sleep(0.2)
    with open(f"{name}.held", "w", encoding="utf-8") as file:
        json.dump(noted, file)


def table(output, paths):
    """Prints the table, and writes the rows."""
    rows = []
    faults = []
    lines = [["system", *(f"{phase} (MiB)" for phase in PHASES), "given back (%)", "free in the guest (MiB)",
              "guest reported (MiB)", "host got (MiB)", "blocks"]]
    for path in paths:
        text = read(path)
        system = re.search(r"reporting-(.*)\.log", path)[1]
        known = "linux" if system == "off" else system
        noted = json.loads(read(path.removesuffix("log") + "held"))
        held = {phase: values[0] for phase, values in noted.items()}
        free = [int(pages) / 256 for pages in re.findall(r"^guest: free (\d+)", text, re.MULTILINE)]
        reported = [int(pages) / 256 for pages in re.findall(r"^reported pages=(\d+)", text, re.MULTILINE)]
        booted = re.search(r"guest: Linux (\S+)", text)
        own = found_in(text)
        if "own allocator is used" in text or (system != "off") != ("\nok: zone " in text) or not booted:
            own.append("it was not booted, or not checked")
        if len(re.findall("^storm: hold passed", text, re.MULTILINE)) != 2 or list(held) != PHASES or len(free) != 4:
            own.append("a phase failed")
        else:
            share = (held["held"] - held["freed"]) / WRITTEN
            if share < RETURNED:
                own.append("the host did not get the memory back")
            # By then, a whole search has found nothing to report.
            _, got, blocks = noted["freed"]
            if system != "off" and (len(reported) != 4 or reported[2] != got):
                own.append(f"the guest reported {reported} MiB by phases, and the host got {got} until the third one")
            told = f"{reported[2]:.0f}" if reported else "not counted"
            lines.append([known, *(f"{held[phase]:.0f}" for phase in PHASES), f"{100 * share:.1f}", f"{free[2]:.0f}", told,
                          f"{got:.0f}", blocks])
            values = [(phase, "resident", round(mib * 2**20), "B") for phase, mib in held.items()]
            values += [("freed", "given_back", share, "1"), ("freed", "free", round(free[2] * 2**20), "B"),
                       ("freed", "reports", blocks, "1")]
            rows += [{
                "experiment": "linux-reporting", "source": phase, "system": known.partition("+")[0],
                "options": known.partition("+")[2], "platform": f"linux:qemu {booted[1]}", "cpus": 2, "seed": None,
                "operation": "all", "order": None, "metric": metric, "statistic": "value", "value": value, "unit": unit,
                "expected": None, "simulated": False,
            } for phase, metric, value, unit in values]
        faults += [f"{system}: {fault}" for fault in own]
    print(f"The host's memory that a virtual machine of {MEMORY} MiB holds at the end of each phase. A process of the guest")
    print(f"writes {WRITTEN} MiB (held), ends (freed), and another one does the same (again). Free pages are reported to the")
    print("host. The columns on the right are of the end of `freed`.")
    if not faults:
        write(output, rows)
    show(lines, faults)


if sys.argv[1] == "watch":
    watch(sys.argv[2])
else:
    table(sys.argv[2], sys.argv[3:])
