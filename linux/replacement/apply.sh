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
command -v patch >/dev/null || { echo "apply: install the program patch" >&2; exit 1; }
# Applies a patch to the source, or with -R reverts it. Changes nothing if it does not fit.
change() { # PATCH [-R]
    patch -d "$source" -p1 -f --dry-run -F0 "${@:2}" <"$1" >/dev/null &&
        patch -d "$source" -p1 -f -s -F0 --no-backup-if-mismatch "${@:2}" <"$1"
}
misfit() { # WHAT
    echo "apply: $1 does not fit $source, which is $version$(sed -n 's/^SUBLEVEL = /./p' "$source/Makefile")" >&2
    exit 1
}
applied=$source/mm/everybuddy.patch
if ! cmp -s "$patch" "$applied"; then
    [ ! -e "$applied" ] || change "$applied" -R || misfit "an earlier patch, $applied,"
    if ! change "$patch"; then
        [ ! -e "$applied" ] || change "$applied"
        misfit "the patch"
    fi
    cp "$patch" "$applied"
fi
# Only what changed, so that a build does not compile the rest again.
install -C -m 644 "$here"/everybuddy*.[ch] "$here"/../everybuddy_*.h "$source/mm/"
install -C -m 644 "$here/../../crates/everybuddy-kernel/include/everybuddy_kernel.h" "$source/include/linux/"
install -C -m 644 "$object" "$source/mm/everybuddy_allocators.o_shipped"
