#!/usr/bin/env bash
# The book: builds it with mdBook from docs/SUMMARY.md, puts the reference of the libraries next to it, checks every
# link and every anchor, and runs the commands of its chapters. 10 minutes. The result is target/book/html/index.html.
#
#   ci/book.sh              everything
#   ci/book.sh build        no commands
#   ci/book.sh PROFILE      with another profile of Cargo.toml than `gate`
#
# Tools: ci/install.sh book; without mdBook it exits with 77.
set -euo pipefail
cd "$(dirname "$0")/.."
project=$PWD
profile=gate
[ $# = 0 ] || [ "$1" = build ] || profile=$1

step() {
    echo "book: $* ($SECONDS s)"
}

fail() {
    echo "book: $*" >&2
    exit 1
}

# Where commands run that this script leaves out.
declare -A elsewhere=(
    [crates/everybuddy-adapters/README.md]=ci/boot.sh
    [crates/everybuddy-c/README.md]=ci/c.sh
    [docs/install.md]=ci/release.sh
    [docs/linux.md]=ci/linux.sh
    [lab/record/README.md]="nowhere: it needs root, perf and trace-cmd"
    [linux/README.md]=ci/linux.sh
    [python/README.md]=ci/python.sh
    [CONTRIBUTING.md]="nowhere: it changes limits"
)

chapters() {
    sed -nE 's/^(- )?\[.*\]\((.*)\)$/docs\/\2/p' docs/SUMMARY.md | sed 's#^docs/\.\./##'
}

ci/install.sh book
mdbook --version >/dev/null 2>&1 || {
    echo "book: no mdBook (ci/install.sh book installs it): skipped"
    exit 77
}

step "sources"
cargo run --quiet --locked --profile "$profile" -p xtask -- book
step "pages"
rm -rf target/book/html
mdbook build
step "reference"
cargo doc --quiet --locked --no-deps -p everybuddy -p everybuddy-adapters -p everybuddy-pool --lib
cp -r "${CARGO_TARGET_DIR:-target}/doc" target/book/html/api
step "links"
cargo run --quiet --locked --profile "$profile" -p xtask -- book check
if grep -rlF '&lt;!--' target/book/html --include='*.html' --exclude-dir=api; then
    fail "a comment is visible on these pages"
fi

# A block of Rust is a test of the crate that includes the chapter: ci/test.sh runs it.
for chapter in $(chapters); do
    if grep -q '^```rust' "$chapter"; then
        included=../../../$chapter libraries=(crates/*/src/lib.rs)
        [[ $chapter != crates/* ]] || included=../README.md libraries=("${chapter%README.md}src/lib.rs")
        grep -qF "include_str!(\"$included\")" "${libraries[@]}" ||
            fail "no crate tests the code of $chapter"
    fi
done
if [ "${1:-}" = build ]; then
    echo "book: built in $SECONDS s"
    exit
fi

step "program"
cargo build --quiet --locked --profile "$profile" -p everybuddy-cli --features peers
target=${CARGO_TARGET_DIR:-target}
program=$(realpath "$target")/${profile/#dev/debug}/everybuddy
folder=$(mktemp -d)
trap 'rm -rf "$folder" "$folder".*' EXIT
ln -s "$project"/* "$folder"
# The beginnings of the bundled traces, by the same names.
mkdir "$folder.traces"
for name in gcc_build dbench_tar numpy_thp sysbench_mt_cut linux_scalability threadtest; do
    "$program" trace cut $name -o "$folder.traces/$name.parquet" --first 5000 >/dev/null
done
export EVERYBUDDY_TRACES=$folder.traces

# What commands call. Measurements are shortened: here they must only run.
everybuddy() {
    case $1 in
    bench) "$program" "$@" --shrink 500 --rounds 1 ;;
    simulate) "$program" "$@" --shrink 200 --seeds 1 ;;
    # Claims about shortened measurements may fail.
    reproduce) "$program" "$@" --shrink 100 || [ $? = 1 ] ;;
    *) "$program" "$@" ;;
    esac
}
cargo() {
    case $1 in
    run)
        while [ "$1" != -- ]; do shift; done
        shift
        everybuddy "$@"
        ;;
    *) fail "a chapter runs cargo $1" ;;
    esac
}
export -f everybuddy cargo fail
export program

# Writes each block of commands of a document to a file.
blocks() { # DOCUMENT FOLDER
    awk -v folder="$2" '/^```/ { inside = !inside && /^```sh$/; if (inside) file = folder "/" ++count ".sh"; next }
        inside { print >file }' "$1"
}

for chapter in $(chapters); do
    grep -q '^```sh$' "$chapter" || continue
    if [ -n "${elsewhere[$chapter]:-}" ]; then
        echo "  $chapter: commands run by: ${elsewhere[$chapter]}"
        continue
    fi
    rm -rf "$folder.blocks"
    mkdir "$folder.blocks"
    blocks "$chapter" "$folder.blocks"
    for block in "$folder.blocks"/*.sh; do
        if grep -q '^sudo ' "$block"; then
            echo "  $chapter: a block needs root: left out"
            continue
        fi
        step "$chapter: $(grep -c . "$block") lines"
        (cd "$folder" && bash -euo pipefail "$block" >"$folder.output" 2>&1) || {
            tail -20 "$folder.output" >&2
            fail "these commands of $chapter failed: $(cat "$block")"
        }
    done
done
echo "book: passed in $SECONDS s"
