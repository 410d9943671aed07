# SPDX-License-Identifier: GPL-2.0-only
# What ci/linux.sh demo runs in Debian if nobody types: what the machine is, what is free, and a program that is compiled.
set -eu
show() { # COMMAND
    printf '\n# %s\n' "$*"
    "$@"
}
show uname -srm
show cat /etc/debian_version
printf '\n%s packages are installed\n' "$(dpkg-query -f . -W | wc -c)"
show cat /sys/kernel/debug/everybuddy/statistics
show cat /proc/buddyinfo
# Of root it would read more: kinds and flags of free pages, which only Linux's own allocator has.
show everybuddy-memory /proc/buddyinfo /proc/zoneinfo
printf '#include <stdio.h>\nint main(void) { puts("This program was compiled here."); }\n' >/tmp/hello.c
show gcc -O2 -o /tmp/hello /tmp/hello.c
show /tmp/hello
show cat /sys/kernel/debug/everybuddy/statistics
