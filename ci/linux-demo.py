"""Checks the log of a virtual machine with Debian: linux-demo.py SYSTEM LOG.

Fails if the kernel reported anything, if it used another allocator than SYSTEM, if the metadata do not agree with the
kernel's counts, or if the command in Debian failed.
"""

import re
import sys

from linux_faults import found_in, show

system, path = sys.argv[1:]
text = open(path, encoding="utf-8", errors="replace").read()
faults = found_in(text)
if "guest: command ended with 0\n" not in text:
    faults.append("the command in Debian failed")
checked = re.findall(r"^ok: (\w+)", text, re.MULTILINE)
if ("off" in checked) != (system == "off") or "zone" not in checked and system != "off":
    faults.append(f"the machine was not checked with {system}")
show([[]], faults)
