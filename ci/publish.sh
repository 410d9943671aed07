#!/usr/bin/env bash
# The packages as their users get them: packs every crate that is published and builds it from its package (a dry run of
# `cargo publish`), checks their sizes, installs the program as `cargo install` does, and runs it outside of the
# checkout. If there is a tag, it compares the interfaces of the libraries with it. 25 minutes, most of them to compile.
#
#   ci/publish.sh          everything
#   ci/publish.sh packages | install | semver    only that
set -euo pipefail
cd "$(dirname "$0")/.."
export CARGO_INCREMENTAL=0 CARGO_PROFILE_DEV_DEBUG=0

# The largest package that crates.io accepts.
LARGEST=$((10 << 20))

step() {
    echo "publish: $* ($SECONDS s)"
}

fail() {
    echo "publish: $*" >&2
    exit 1
}

packages() {
    step "packages"
    local folder=${CARGO_TARGET_DIR:-target}/package published file size
    mapfile -t published < <(grep -L '^publish = false' crates/*/Cargo.toml |
        sed -E 's#crates/(.*)/Cargo.toml#--package=\1#')
    rm -f "$folder"/*.crate
    # Changes that are not committed may be packed: nothing is uploaded.
    cargo package "${published[@]}" --no-verify --locked --allow-dirty --quiet
    for file in "$folder"/*.crate; do
        [ -e "$file" ] || fail "cargo left no packages in $folder"
        size=$(stat -c %s "$file")
        [ "$size" -le $LARGEST ] || fail "$file has $size bytes, more than crates.io accepts"
        tar tzf "$file" >"$file.list"
        for name in LICENSE-MIT LICENSE-APACHE "[a-zA-Z]*\.md"; do
            grep -q "/$name\$" "$file.list" || fail "$file has no $name"
        done
        echo "  $(basename "$file"): $size bytes, $(wc -l <"$file.list") files"
        rm "$file.list"
    done
    step "a dry run of the publication: every package is built"
    cargo publish --workspace --dry-run --locked --allow-dirty --quiet
}

install() {
    step "installation"
    local folder name
    folder=$(mktemp -d)
    trap 'rm -rf "$folder"' RETURN
    cargo install --quiet --locked --path crates/everybuddy-cli --root "$folder" --no-track
    step "the installed program"
    mkdir "$folder/empty"
    (cd "$folder/empty" && "$folder/bin/everybuddy" compare >"$folder/output")
    for name in bs lbs-31 linux-6 everybuddy; do
        grep -q "^ $name " "$folder/output" || fail "the installed program prints no row of $name"
    done
    [ -s "$folder/empty/everybuddy-report.html" ] || fail "the installed program wrote no page"
    echo "  $(wc -l <"$folder/output") lines, page of $(stat -c %s "$folder/empty/everybuddy-report.html") bytes"
}

semver() {
    step "interfaces"
    local tag
    tag=$(git describe --tags --abbrev=0 2>/dev/null || true)
    if [ -z "$tag" ]; then
        echo "  no version has a tag yet: the interfaces have nothing to be compared with"
        return
    fi
    ci/install.sh semver
    cargo semver-checks --workspace --baseline-rev "$tag"
}

[ $# -gt 0 ] || set -- packages install semver
for part in "$@"; do
    case $part in
    packages | install | semver) $part ;;
    *)
        sed -n '2,/^set /s/^# \{0,1\}//p' "$0" >&2
        exit 2
        ;;
    esac
done
echo "publish: passed in $SECONDS s"
