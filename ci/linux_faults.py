"""For the scripts that read logs of kernels: what a kernel prints when something is wrong; results as tables and rows."""

import json
import re
import sys

# What a kernel prints when something is wrong. A process may be killed only where the steps provoke that, and its last
# requests may fail.
FAULTS = re.compile(
    r"Bad page|BUG|Oops|corrupt|general protection|soft lockup|\bstall(?! warnings timeout)|Kernel panic|(?<!storm: )page allocation failure|FAILED|"
    r"unable to handle|double fault|WARNING: (?!.*everybuddy\.c:\d+(?: at)? everybuddy_not_freed)"
)


def found_in(text):
    """Returns the lines of a log that report a fault."""
    return [line.strip() for line in text.splitlines() if FAULTS.search(line)]


def unmixed(text):
    """Returns a log without the lines of the kernel that begin within a line of a program."""
    return re.sub(r"(?<=[^\n])(\[ *\d+\.\d{6}\] .*\n)+", "", text)


def aligned(table):
    """Prints an aligned table, whose rows may lack their last cells."""
    table = [[*line, *[""] * (len(table[0]) - len(line))] for line in table]
    widths = [max(len(str(cell)) for cell in column) for column in zip(*table)]
    for line in table:
        print(*(str(cell).ljust(width) for cell, width in zip(line, widths)), sep="  ")


def write(path, rows):
    """Writes rows of results as JSON lines."""
    with open(path, "w", encoding="utf-8") as file:
        for row in rows:
            file.write(json.dumps(row, separators=(",", ":")) + "\n")


def show(table, faults):
    """Prints an aligned table and the faults. Ends the program, with 1 if there is a fault."""
    aligned(table)
    for fault in faults:
        print(f"linux: {fault}")
    sys.exit(bool(faults))
