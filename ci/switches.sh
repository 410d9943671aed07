# Sourced by ci/defects.sh and ci/mechanisms.sh: changes of the allocators that an environment variable selects, compiled
# into one program.
#
# A table has a line for each change: its name, a file of the allocators, a text that occurs once there, and what
# replaces it. There, `defect!("name")` is true if EVERYBUDDY_DEFECT has that name.

# list TABLE: its lines, of which columns are separated by tabs.
list() {
    grep -v '^#' "$1"
}

# switches TABLE OUTPUT: a copy of the sources with all changes, in the folder `tree` of OUTPUT. Needs a target folder of
# its own: the copy has the same packages, and cargo would take one for the other.
switches() {
    local tree=$2/tree name file from to
    local source=$tree/crates/everybuddy/src
    rm -rf "$tree"
    mkdir -p "$tree"
    git ls-files -coz --exclude-standard Cargo.toml Cargo.lock crates lab checks examples |
        xargs -0 cp -P --parents -t "$tree"
    while IFS=$'\t' read -r name file from to _; do
        FROM=$from TO=$to perl -0pi -e '
            $n = s/\Q$ENV{FROM}\E/$ENV{TO}/g;
            END { exit($n == 1 ? 0 : 1) }' "$source/$file" || {
            echo "$1: $name: the text does not occur once in $file" >&2
            return 1
        }
    done < <(list "$1")
    # The macro stands before all modules.
    cat >"$2/macro" <<'RUST'
#[cfg(not(test))]
extern crate std;
macro_rules! defect {
    ($name:literal) => {{
        static IS_ON: std::sync::OnceLock<bool> = std::sync::OnceLock::new();
        *IS_ON.get_or_init(|| std::env::var("EVERYBUDDY_DEFECT").is_ok_and(|name| name == $name))
    }};
}
RUST
    awk -v macro="$2/macro" '/^mod api;/ { while ((getline line <macro) > 0) print line } { print }' \
        "$source/lib.rs" >"$2/lib.rs"
    mv "$2/lib.rs" "$source/lib.rs"
}
