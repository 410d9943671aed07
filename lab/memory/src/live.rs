//! The state of this machine, from `/proc`.
//!
//! # Purpose
//!
//! [`read`] reads the same files that [`crate::read`] reads as copies, from a folder: tests use a copy, containers the
//! host's.
//!
//! # Invariants
//!
//! A file that cannot be read is named, except those that only root may read.

use std::fs::File;
use std::io::{self, Read};
use std::path::Path;

use crate::read::Reader;
use crate::state::{FrameSize, State};

/// The files, in the order in which they are read. Tables come first, as close together as possible.
const FILES: [&str; 5] = ["buddyinfo", "pagetypeinfo", "zoneinfo", "vmstat", "meminfo"];

/// Reads the state from a folder that has the files of `/proc`.
///
/// # Errors
///
/// Fails if neither a table nor the zones can be read.
pub fn read(root: &Path) -> io::Result<State> {
    let (mut states, mut remarks) = (Vec::new(), Vec::new());
    let mut emit = |state| states.push(state);
    let mut reader = Reader::new(&mut emit);
    let mut failure = None;
    for name in FILES {
        let path = root.join(name);
        // The kernel makes these files while they are read: one read at a time, and parsing afterwards.
        let mut text = Vec::new();
        match File::open(&path).and_then(|mut file| file.read_to_end(&mut text)) {
            Ok(_) => {
                reader.read(&path.display().to_string(), &text[..])?;
            }
            Err(cause) if name == "buddyinfo" => failure = Some(cause),
            Err(cause) if cause.kind() == io::ErrorKind::PermissionDenied => {}
            Err(cause) => remarks.push(format!("{}: {cause}", path.display())),
        }
    }
    reader.finish();
    let Some(mut state) = states.into_iter().find(|state| !state.zones.is_empty()) else {
        let cause = failure.unwrap_or_else(|| io::Error::other("it contains no state of memory"));
        return Err(io::Error::new(
            cause.kind(),
            format!("{}: {cause}", root.join("buddyinfo").display()),
        ));
    };
    state.remarks.extend(remarks);
    state.kernel = kernel(root);
    if let Some(bytes) = page_size(root) {
        state.frame = FrameSize {
            bytes,
            is_known: true,
        };
    }
    Ok(state)
}

fn kernel(root: &Path) -> Option<String> {
    let text = std::fs::read(root.join("sys/kernel/osrelease")).ok()?;
    let text = String::from_utf8_lossy(text.trim_ascii()).into_owned();
    (!text.is_empty() && text.len() <= 100 && !text.contains(char::is_control)).then_some(text)
}

/// Returns the size of a page that the kernel told this process when it started.
fn page_size(root: &Path) -> Option<u64> {
    const PAGE_SIZE: usize = 6;
    let text = std::fs::read(root.join("self/auxv")).ok()?;
    let word = size_of::<usize>();
    let number = |bytes: &[u8]| Some(usize::from_ne_bytes(bytes.try_into().ok()?));
    let entries = text.chunks_exact(2 * word);
    let mut values = entries.filter(|entry| number(&entry[..word]) == Some(PAGE_SIZE));
    let bytes = number(&values.next()?[word..])? as u64;
    (bytes.is_power_of_two() && bytes >= 1024).then_some(bytes)
}
