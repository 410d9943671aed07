#!/usr/bin/env bash
# SPDX-License-Identifier: GPL-2.0-only
# Puts the replacement into the source of a kernel: linux/replacement/apply.sh SOURCE OBJECT
#
# OBJECT comes from `ci/kernel.sh object`. Fails, and changes nothing, if the source is not Linux 6.12 or 7.2, or the patch
# does not fit. A second call replaces the files and the object, not the patch.
set -euo pipefail
here=$(realpath "$(dirname "$0")")

if [ $# != 2 ]; then
    sed -n '3,/^set /s/^# \{0,1\}//p' "$0" >&2
    exit 2
fi
source=$1
object=$2
if [ ! -e "$source/mm/page_alloc.c" ]; then
    echo "apply: $source is not the source of a kernel: it lacks mm/page_alloc.c" >&2
    exit 1
fi
version=$(sed -n 's/^\(VERSION\|PATCHLEVEL\) = //p' "$source/Makefile" | paste -sd.)
patch=$here/page_alloc-$version.patch
if [ ! -e "$patch" ]; then
    echo "apply: $source is Linux $version; there are patches for 6.12 and 7.2" >&2
    exit 1
fi
if [ ! -e "$object" ]; then
    echo "apply: no object $object: build it with ci/kernel.sh object $object" >&2
    exit 1
fi
if ! cmp -s "$patch" "$source/mm/everybuddy.patch"; then
    if [ -e "$source/mm/everybuddy.patch" ]; then
        # An older version of the patch.
        patch -d "$source" -p1 -R -s <"$source/mm/everybuddy.patch"
        rm "$source/mm/everybuddy.patch"
    fi
    if ! patch -d "$source" -p1 --dry-run -s -F0 <"$patch" >&2; then
        echo "apply: the patch does not fit $source, which is $version$(sed -n 's/^SUBLEVEL = /./p' "$source/Makefile")" >&2
        exit 1
    fi
    patch -d "$source" -p1 -s -F0 --no-backup-if-mismatch <"$patch"
    cp "$patch" "$source/mm/everybuddy.patch"
fi
# Only what changed, so that a build does not compile the rest again.
install -C -m 644 "$here"/everybuddy*.[ch] "$here/../everybuddy_clock.h" "$source/mm/"
install -C -m 644 "$here/../../crates/everybuddy-kernel/include/everybuddy_kernel.h" "$source/include/linux/"
install -C -m 644 "$object" "$source/mm/everybuddy_allocators.o_shipped"
