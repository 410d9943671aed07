#!/usr/bin/env bash
# A smoke test of the forms that no other step of the gate reaches: a kernel that boots on `everybuddy`, the sources of the
# book, and those of the package for Python. Parts of ci/full.sh check them in full: boot, book, python. Ten seconds, and a
# minute to compile the kernel. A form whose tool is missing is skipped, with the reason.
set -euo pipefail
cd "$(dirname "$0")/.."

fail() {
    echo "forms: $*" >&2
    exit 1
}

echo "forms: a kernel boots"
status=0
ci/boot.sh everybuddy || status=$?
[ $status = 0 ] || [ $status = 77 ] || fail "the kernel does not boot"

echo "forms: the sources of the book"
cargo run --quiet --locked --profile gate -p xtask -- book

echo "forms: Python"
if ! command -v python3 >/dev/null; then
    echo "forms: no python3: Python is skipped"
    exit
fi
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
for file in python/src/everybuddy/*.py; do
    python3 - "$file" "$folder" <<'PYTHON'
import py_compile, sys
py_compile.compile(sys.argv[1], cfile=sys.argv[2] + "/compiled", doraise=True)
PYTHON
done
