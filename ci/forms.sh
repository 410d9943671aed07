#!/usr/bin/env bash
# A smoke test of the forms that no other step of the gate reaches: the first example of docs/crate.md in a package
# outside of the clone, a kernel that boots on `everybuddy`, the sources of the book, and those of the package for
# Python. Parts of ci/full.sh check them in full: boot, book, python. Ten seconds, and a minute to compile the kernel. A
# form whose tool is missing is skipped, with the reason.
set -euo pipefail
cd "$(dirname "$0")/.."

fail() {
    echo "forms: $*" >&2
    exit 1
}

echo "forms: the first example of docs/crate.md in a package of its own"
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
crate=$PWD/crates/everybuddy
target=$(realpath -m "${CARGO_TARGET_DIR:-target}/forms")
awk '/^```/ { if (inside) exit; inside = $0 == "```rust"; next } inside' docs/crate.md >"$folder/example.rs"
# The lines and the names of the crate that come before the first frame: `prelude`, and types that neither the language
# nor its library has.
first=$(sed '/allocate(/q' "$folder/example.rs" | grep -vE '^\s*(//.*)?$')
names=$(sed 's,//.*,,' <<<"$first" | grep -oP 'prelude|(?<!::)\b[A-Z][A-Za-z]+\b' | sort -u |
    grep -vxE 'MaybeUninit|Result|Box')
lines=$(wc -l <<<"$first")
[ "$lines" -le 10 ] || fail "the first frame takes $lines lines instead of 10"
[ "$(wc -l <<<"$names")" -le 8 ] || fail "the first frame takes more than 8 names:" $names
(
    cd "$folder"
    cargo init --quiet --vcs none --name first-frame
    cargo add --quiet --offline --path "$crate"
    mv example.rs src/main.rs
    CARGO_TARGET_DIR=$target cargo run --quiet --offline
)

# Contributors look for it there, and the heads of ci/test.sh and of the gate rely on it.
echo "forms: the README names the test command"
sed -n '/^## Start here/,/^## A compile job/p' README.md | grep -q '^`ci/test.sh` runs all tests' ||
    fail "README.md does not name ci/test.sh under \"Start here\""

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
for file in python/src/everybuddy/*.py; do
    python3 - "$file" "$folder" <<'PYTHON'
import py_compile, sys
py_compile.compile(sys.argv[1], cfile=sys.argv[2] + "/compiled", doraise=True)
PYTHON
done
