//! A sum of files, by which a document knows the data that it was made from.
//!
//! # Invariants
//! The sum is the same on every host. It changes with the name and with each byte of a file, but for collisions.

use std::fs;
use std::io;
use std::path::{Path, PathBuf};

/// Files that are data and not programs.
const ENDINGS: [&str; 2] = [".toml", ".gz"];

/// Returns the sum of bytes: FNV-1a.
pub fn bytes(bytes: impl IntoIterator<Item = u8>) -> u32 {
    bytes.into_iter().fold(0x811C_9DC5, |sum, byte| {
        (sum ^ u32::from(byte)).wrapping_mul(0x0100_0193)
    })
}

/// Returns the sum of the names and the contents of all `.toml` and `.gz` files below folders of `root`.
///
/// # Errors
/// Fails if a folder or a file cannot be read.
pub fn files(root: &Path, folders: &[&str]) -> io::Result<u32> {
    let mut found = Vec::new();
    for folder in folders {
        collect(root, PathBuf::from(folder), &mut found)?;
    }
    found.sort();
    let mut all = Vec::new();
    for file in found {
        let content = bytes(fs::read(root.join(&file))?);
        all.extend_from_slice(file.to_string_lossy().as_bytes());
        all.extend_from_slice(&content.to_le_bytes());
    }
    Ok(bytes(all))
}

fn collect(root: &Path, folder: PathBuf, found: &mut Vec<PathBuf>) -> io::Result<()> {
    for entry in fs::read_dir(root.join(&folder))? {
        let entry = entry?;
        let path = folder.join(entry.file_name());
        let name = path.to_string_lossy();
        if entry.file_type()?.is_dir() {
            collect(root, path, found)?;
        } else if ENDINGS.iter().any(|ending| name.ends_with(ending)) {
            found.push(path);
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_sum_of_files_changes_with_their_names_and_bytes() {
        let root = tempfile::tempdir().expect("a folder");
        let write = |name: &str, text: &str| {
            let path = root.path().join(name);
            fs::create_dir_all(path.parent().expect("a folder")).expect("a folder");
            fs::write(path, text).expect("a file");
        };
        let sum = || files(root.path(), &["b", "a"]).expect("files");
        write("a/x/1.toml", "1");
        write("b/2.gz", "2");
        let first = sum();
        write("a/x/1.rs", "code");
        write("c/3.gz", "elsewhere");
        assert_eq!(sum(), first);
        write("b/2.gz", "3");
        let second = sum();
        write("b/2.gz", "2");
        fs::rename(root.path().join("b/2.gz"), root.path().join("b/4.gz")).expect("a file");
        let third = sum();
        assert!(first != second && second != third && third != first);
        assert!(files(root.path(), &["none"]).is_err());
        // Published values of FNV-1a.
        assert_eq!(bytes(*b""), 0x811C_9DC5);
        assert_eq!(bytes(*b"foobar"), 0xBF9C_F968);
    }
}
