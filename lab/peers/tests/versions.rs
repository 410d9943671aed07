//! The versions in the rows equal the versions that are built.
//!
//! A report takes the versions from the rows, so an update of the manifest must update the rows too.
//!
//! # Invariants
//! The version of each peer is pinned exactly.

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
        assert!(
            lock.contains(&locked),
            "{}: the row differs from Cargo.lock",
            row.name
        );
        let pin = format!(
            "{} = {{ version = \"={}\", optional = true }}\n",
            row.package, row.version
        );
        assert!(
            row.is_floor || manifest.contains(&pin),
            "{}: version not pinned",
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
