//! The rows' versions are those that are built.
//!
//! Why it exists: a report names versions from the rows; an update of the manifest must not leave them behind.
//!
//! Invariant: each peer's version is pinned exactly.

use std::collections::HashSet;
use std::fs;
use std::path::Path;

use everybuddy_peers::PEERS;

fn read(path: &str) -> String {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join(path);
    fs::read_to_string(&path).unwrap_or_else(|error| panic!("{}: {error}", path.display()))
}

#[test]
fn versions_are_pinned_and_locked() {
    let manifest = read("Cargo.toml");
    let lock = read("../../Cargo.lock");
    for row in PEERS {
        let locked = format!(
            "name = \"{}\"\nversion = \"{}\"\n",
            row.package, row.version
        );
        assert!(lock.contains(&locked), "{} isn't what is locked", row.name);
        let pin = format!("{} = \"={}\"\n", row.package, row.version);
        assert!(
            row.is_floor || manifest.contains(&pin),
            "{} isn't pinned",
            row.name
        );
    }
}

#[test]
fn names_are_unique_and_the_floor_is_one() {
    let names: HashSet<&str> = PEERS.iter().map(|row| row.name).collect();
    assert_eq!(names.len(), PEERS.len());
    assert_eq!(PEERS.iter().filter(|row| row.is_floor).count(), 1);
}
