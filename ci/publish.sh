#!/usr/bin/env bash
# The packages as their users get them: packs every crate that is published and builds it from its package (a dry run of
# `cargo publish`), checks their sizes, installs the program as `cargo install` does, and runs it outside of the
# checkout. If there is a tag, it compares the interfaces of the libraries with it. It compiles everything with the oldest
# libraries that the manifests permit, and with the oldest compiler that they name. At the end it refuses the placeholder
# for the address of the repository. 35 minutes, most of them to compile.
#
#   ci/publish.sh          everything
#   ci/publish.sh packages | doctests | install | semver | versions | address    only that
#
# `versions` needs a nightly compiler and a registry, and for the oldest compiler rustup. Without one, or with the
# placeholder, the rest is checked and the script ends with 77.
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
    mapfile -t published < <(grep -L '^publish = false' {crates,lab,checks}/*/Cargo.toml |
        xargs sed -sn '0,/^name = /s/^name = "\(.*\)"/--package=\1/p')
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

# The examples of the documentation, without the checkout: distributions run them.
doctests() {
    step "documentation of the packages of crates"
    local folder target=${CARGO_TARGET_DIR:-target} name version names=(everybuddy everybuddy-adapters everybuddy-pool)
    version=$(sed -n 's/^version = "\(.*\)"/\1/p' Cargo.toml)
    mkdir -p "$target/doctests"
    target=$(cd "$target" && pwd)
    cargo package "${names[@]/#/--package=}" --no-verify --locked --allow-dirty --quiet
    folder=$(mktemp -d)
    trap 'rm -rf "$folder"' RETURN
    # They find each other here, as they will in the registry.
    {
        echo '[workspace]'
        echo 'resolver = "3"'
        echo 'members = ["*-'"$version"'"]'
        echo '[patch.crates-io]'
        for name in "${names[@]}"; do echo "$name = { path = \"$name-$version\" }"; done
    } >"$folder/Cargo.toml"
    for name in "${names[@]}"; do tar xzf "$target/package/$name-$version.crate" -C "$folder"; done
    cp Cargo.lock "$folder"
    (cd "$folder" && CARGO_TARGET_DIR=$target/doctests cargo test --doc --workspace --all-features --quiet)
}

install() {
    step "installation"
    local folder name
    folder=$(mktemp -d)
    trap 'rm -rf "$folder"' RETURN
    cargo install --quiet --locked --path lab/cli --root "$folder" --no-track
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

# In a copy of the last commit with a lock file of its own.
versions() {
    step "oldest libraries"
    if ! cargo +nightly --version >/dev/null 2>&1; then
        missing+=("nightly compiler (ci/install.sh nightly)")
        return
    fi
    local folder target=${CARGO_TARGET_DIR:-target}/versions oldest
    mkdir -p "$target"
    target=$(cd "$target" && pwd)
    folder=$(mktemp -d)
    trap 'rm -rf "$folder"' RETURN
    git clone --quiet . "$folder/copy"
    oldest=$(sed -n 's/^rust-version = "\(.*\)"$/\1/p' "$folder/copy/Cargo.toml")
    if ! (cd "$folder/copy" && cargo update --quiet --dry-run) >/dev/null 2>&1; then
        missing+=("registry")
        return
    fi
    (cd "$folder/copy" && cargo +nightly update --quiet -Z direct-minimal-versions)
    (cd "$folder/copy" && CARGO_TARGET_DIR=$target cargo check --workspace --locked --quiet)
    git -C "$folder/copy" diff --stat -- Cargo.lock | sed -n '$s/^/  Cargo.lock:/p'
    step "the oldest compiler, $oldest"
    if ! command -v rustup >/dev/null || ! rustup toolchain install "$oldest" --profile minimal >/dev/null 2>&1; then
        missing+=("compiler $oldest")
        return
    fi
    # As users have it, with the lock file of the project.
    git -C "$folder/copy" checkout --quiet -- Cargo.lock
    (cd "$folder/copy" && CARGO_TARGET_DIR=$target cargo "+$oldest" check --workspace --locked --quiet)
}

# A published package without an address that exists cannot be corrected afterwards.
address() {
    step "address"
    ! grep -q '^repository = ".*\.invalid/' Cargo.toml ||
        missing+=("address of the repository: write it into Cargo.toml, instead of the placeholder")
}

missing=()
[ $# -gt 0 ] || set -- packages doctests install semver versions address
for part in "$@"; do
    case $part in
    packages | doctests | install | semver | versions | address) $part ;;
    *)
        sed -n '2,/^set /s/^# \{0,1\}//p' "$0" >&2
        exit 2
        ;;
    esac
done
if [ ${#missing[@]} -gt 0 ]; then
    printf 'publish: no %s: the rest passed: skipped\n' "${missing[@]}"
    exit 77
fi
echo "publish: passed in $SECONDS s"
