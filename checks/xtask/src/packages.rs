//! The packages of the workspace, as they lie in its three rooms.
//!
//! `crates` contains what people link, `lab` the program and its parts, and `checks` what only developers need.

use std::fs;
use std::path::{Path, PathBuf};

use crate::Outcome;

/// The folders whose subfolders are packages.
pub(crate) const ROOMS: [&str; 3] = ["crates", "lab", "checks"];

/// A package.
pub(crate) struct Package {
    /// Its folder, below the root of the project.
    pub(crate) folder: PathBuf,
    /// Its manifest's text.
    manifest: String,
}

impl Package {
    /// Returns the name that the manifest states.
    pub(crate) fn name(&self) -> String {
        let mut lines = self.manifest.lines();
        let name = lines.find_map(|line| line.strip_prefix("name = "));
        name.unwrap_or_default().trim_matches('"').to_owned()
    }

    /// Returns the names of its dependencies, without those of its tests.
    pub(crate) fn dependencies(&self) -> impl Iterator<Item = &str> {
        let lines = self.manifest.lines();
        let section = lines.skip_while(|line| *line != "[dependencies]").skip(1);
        let section = section.take_while(|line| !line.starts_with('['));
        let entries = section.filter(|line| !line.starts_with('#') && line.contains('='));
        entries.filter_map(|line| line.split(['.', ' ', '=']).next())
    }
}

/// Returns all packages, sorted by folder. A folder without a manifest was left behind by a checkout.
pub(crate) fn all(root: &Path) -> Outcome<Vec<Package>> {
    let mut packages = Vec::new();
    for room in ROOMS {
        for entry in fs::read_dir(root.join(room))? {
            let path = entry?.path();
            if let Ok(manifest) = fs::read_to_string(path.join("Cargo.toml")) {
                let folder = path.strip_prefix(root)?.to_path_buf();
                packages.push(Package { folder, manifest });
            }
        }
    }
    packages.sort_by(|one, other| one.folder.cmp(&other.folder));
    Ok(packages)
}
