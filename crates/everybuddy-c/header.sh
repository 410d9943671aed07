#!/usr/bin/env bash
# Generates include/everybuddy.h from the interface of this crate with cbindgen (ci/install.sh c):
#
#   header.sh              writes the header
#   header.sh check        checks, without cbindgen, that neither interface nor header changed since; milliseconds
#
# The last line of the header is a checksum of the interface, of cbindgen.toml and of the header above it. The bodies of
# functions do not count.
set -euo pipefail
cd "$(dirname "$0")"

header=include/everybuddy.h

# The items that the header shows, with their documentation.
interface() {
    awk '/^pub (unsafe )?extern/ { item = 1; end = "[{]$" }
        /^pub (struct|enum)/ { item = 1; end = "^[}]" }
        /^pub (const|type)/ { item = 1; end = ";$" }
        item || /^ *\/\/\/|^#\[repr/ { print }
        item && $0 ~ end { item = 0 }' src/*.rs
}

# The line that ends a header; the header is the standard input.
last_line() {
    local sum
    sum=$({ cat && interface && cat cbindgen.toml; } | cksum | tr ' ' '-')
    echo "/* Checksum, for header.sh: $sum */"
}

case ${1:-} in
'')
    if ! command -v cbindgen >/dev/null; then
        echo "header: no cbindgen (ci/install.sh c)" >&2
        exit 77
    fi
    new=$(mktemp)
    trap 'rm -f "$new"' EXIT
    cbindgen --quiet --config cbindgen.toml --output "$new" .
    { cat "$new" && last_line <"$new"; } >"$header"
    ;;
check)
    if [ "$(tail -n 1 "$header")" != "$(sed '$d' "$header" | last_line)" ]; then
        echo "header: $header is out of date: run crates/everybuddy-c/header.sh" >&2
        exit 1
    fi
    ;;
*)
    sed -n '2,/^set /s/^# \{0,1\}//p' "$0" >&2
    exit 2
    ;;
esac
