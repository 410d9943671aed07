"""What a kernel prints when something is wrong, for the scripts that read logs of virtual machines."""

import re

# What a kernel prints when something is wrong. A process may be killed only where the steps provoke that, and its last
# requests may fail.
FAULTS = re.compile(
    r"Bad page|BUG|Oops|corrupt|general protection|soft lockup|\bstall|Kernel panic|(?<!storm: )page allocation failure|FAILED|"
    r"unable to handle|double fault|WARNING: (?!.*everybuddy\.c:\d+ free_here)"
)
