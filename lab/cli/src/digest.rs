//! Identities of contents: of files, of the program, and of cells.
//!
//! What was calculated before is used again only if everything that it depends on is the same.
//!
//! # Invariants
//! A digest is the beginning of a SHA-256 in hexadecimal digits: equal on every machine, and different for different
//! contents. Parts are separated by their lengths, so what moves from one part to the next one changes the digest.

use std::fmt::Write;
use std::fs;
use std::io::{self, ErrorKind};
use std::path::{Path, PathBuf};
use std::sync::OnceLock;

use sha2::{Digest as _, Sha256};

/// The bytes of a digest that are shown: 128 bits.
const BYTES: usize = 16;

/// Calculates a digest part by part.
#[derive(Default)]
pub(crate) struct Digest(Sha256);

impl Digest {
    /// Adds a part.
    pub(crate) fn add(&mut self, part: &[u8]) -> &mut Digest {
        self.0.update((part.len() as u64).to_le_bytes());
        self.0.update(part);
        self
    }

    /// Returns the digest: 32 hexadecimal digits.
    pub(crate) fn finish(self) -> String {
        let mut text = String::with_capacity(2 * BYTES);
        for byte in self.0.finalize().iter().take(BYTES) {
            // Writing to a string cannot fail.
            let _ = write!(text, "{byte:02x}");
        }
        text
    }
}

/// Returns the digest of parts.
pub(crate) fn of<'p>(parts: impl IntoIterator<Item = &'p [u8]>) -> String {
    let mut digest = Digest::default();
    for part in parts {
        digest.add(part);
    }
    digest.finish()
}

/// Returns the digest of the contents of files, of which all but the first may be missing.
///
/// # Errors
/// The file that cannot be read, and the cause.
pub(crate) fn of_files(parts: &[PathBuf]) -> Result<String, (&Path, io::Error)> {
    let mut digest = Digest::default();
    for (at, part) in parts.iter().enumerate() {
        match fs::read(part) {
            Ok(bytes) => digest.add(&at.to_le_bytes()).add(&bytes),
            Err(cause) if at > 0 && cause.kind() == ErrorKind::NotFound => continue,
            Err(cause) => return Err((part, cause)),
        };
    }
    Ok(digest.finish())
}

/// Returns the version of the program and the digest of its file: another build may give other numbers.
pub(crate) fn program() -> String {
    static FILE: OnceLock<String> = OnceLock::new();
    let file = FILE.get_or_init(|| {
        let file = std::env::current_exe().and_then(std::fs::read);
        // Without its file, a program is like no other, not even itself: nothing is mistaken for its result.
        file.map_or_else(
            |_| format!("unknown, run {}", std::process::id()),
            |file| of([file.as_slice()]),
        )
    });
    format!("everybuddy {}, file {file}", env!("CARGO_PKG_VERSION"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn digests_depend_on_contents_and_on_the_borders_of_parts() {
        let digest = |parts: &[&[u8]]| of(parts.iter().copied());
        assert_eq!(digest(&[b"ab"]), digest(&[b"ab"]));
        assert_eq!(digest(&[b"ab"]).len(), 32);
        let all: [&[&[u8]]; 5] = [&[b"ab", b"c"], &[b"a", b"bc"], &[b"abc"], &[], &[b""]];
        let mut found: Vec<String> = all.into_iter().map(digest).collect();
        found.sort();
        found.dedup();
        assert_eq!(found.len(), all.len());
    }

    #[test]
    fn a_program_is_the_same_as_itself() {
        assert_eq!(program(), program());
        assert!(program().starts_with("everybuddy "));
    }
}
