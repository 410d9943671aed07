//! The packages of the workspace, as they lie in its three rooms.
//!
//! `crates` contains what people link, `lab` the program and its parts, and `checks` what only developers need.

use std::error::Error;
use std::fs;
use std::path::{Path, PathBuf};

/// The folders whose subfolders are packages.
pub(crate) const ROOMS: [&str; 3] = ["crates", "lab", "checks"];

/// A package.
pub(crate) struct Package {
    /// Its folder, below the root of the project.
    pub(crate) folder: PathBuf,
    /// Its manifest's text.
    pub(crate) manifest: String,
}

impl Package {
    /// Returns the name that the manifest states.
    pub(crate) fn name(&self) -> String {
        let line = self
            .manifest
            .lines()
            .find(|line| line.starts_with("name = "));
        line.and_then(|line| line.split('"').nth(1))
            .unwrap_or_default()
            .to_owned()
    }
}

/// Returns all packages, sorted by folder. A folder without a manifest was left behind by a checkout.
pub(crate) fn all(root: &Path) -> Result<Vec<Package>, Box<dyn Error>> {
    let mut packages = Vec::new();
    for room in ROOMS {
        for entry in fs::read_dir(root.join(room))? {
            let path = entry?.path();
            let Ok(manifest) = fs::read_to_string(path.join("Cargo.toml")) else {
                continue;
            };
            let folder = path.strip_prefix(root)?.to_path_buf();
            packages.push(Package { folder, manifest });
        }
    }
    packages.sort_by(|one, other| one.folder.cmp(&other.folder));
    Ok(packages)
}

/// Returns the path of a file inside its package; `None` for a file outside of all packages.
pub(crate) fn inside(name: &str) -> Option<&str> {
    let (room, rest) = name.split_once('/')?;
    let (_, inside) = rest.split_once('/')?;
    ROOMS.contains(&room).then_some(inside)
}
