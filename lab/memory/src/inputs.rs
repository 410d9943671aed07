//! Opens copies of files and recognises them by their contents.
//!
//! Users pass files in any order, under any names, compressed or not.
//!
//! # Invariants
//! Only the first bytes of a file are read to recognise it, so that a pipe works as well.

use std::fs::File;
use std::io::{self, Cursor, Read};
use std::path::Path;

use flate2::read::MultiGzDecoder;

use crate::frames::facts::Source;
use crate::frames::snapshot::{Seekable, Stream, read_all};

/// The number of bytes that recognise a file.
const HEAD: usize = 4096;
/// The bytes of a frame's word.
const WORD: usize = 8;

/// What a file contains.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Content {
    /// A log, or tables.
    Text,
    /// The words of `kpageflags`.
    Flags,
    /// The words of `kpagecgroup`.
    Groups,
    /// The memory map `iomem`.
    Map,
    /// The records of `page_owner`.
    Owner,
}

/// An open file.
pub struct Input {
    /// What it contains.
    pub content: Content,
    /// All its bytes, unpacked.
    pub reader: Box<dyn Read>,
    /// The file itself, if it is neither packed nor a pipe.
    file: Option<File>,
}

impl Input {
    /// Opens a file, or standard input if the path is `-`.
    ///
    /// # Errors
    ///
    /// Fails if it cannot be read, or if it is compressed and damaged in its first bytes.
    pub fn open(path: &Path) -> io::Result<Input> {
        if path.as_os_str() == "-" {
            return Input::new(Box::new(io::stdin()), None, path);
        }
        let file = File::open(path)?;
        let metadata = file.metadata()?;
        let again = if metadata.is_file() {
            Some(file.try_clone()?)
        } else {
            None
        };
        Input::new(Box::new(file), again, path)
    }

    /// Recognises a file whose bytes are already there.
    ///
    /// # Errors
    ///
    /// Fails if it is compressed and damaged in its first bytes.
    pub fn of_bytes(bytes: Vec<u8>, path: &Path) -> io::Result<Input> {
        Input::new(Box::new(Cursor::new(bytes)), None, path)
    }

    fn new(mut reader: Box<dyn Read>, mut file: Option<File>, path: &Path) -> io::Result<Input> {
        let mut head = read_head(&mut reader)?;
        reader = Box::new(Cursor::new(head.clone()).chain(reader));
        if head.starts_with(b"\x1f\x8b") {
            file = None;
            reader = Box::new(MultiGzDecoder::new(reader));
            head = read_head(&mut reader).map_err(|cause| {
                io::Error::new(
                    cause.kind(),
                    format!("it is compressed, and cannot be unpacked: {cause}"),
                )
            })?;
            reader = Box::new(Cursor::new(head.clone()).chain(reader));
        }
        let name = path.file_name().unwrap_or_default().to_string_lossy();
        Ok(Input {
            content: recognise(&head, &name),
            reader,
            file,
        })
    }

    /// Returns the words of the file.
    #[must_use]
    pub fn words(self) -> Source {
        match self.file {
            Some(file) => Source::File(Seekable(file)),
            None => Source::Stream(Stream::new(self.reader)),
        }
    }
}

/// Reads at most the first bytes.
fn read_head(mut reader: &mut dyn Read) -> io::Result<Vec<u8>> {
    // The kernel refuses to read a part of a word.
    let mut head = vec![0; HEAD];
    let filled = read_all(&mut reader, &mut head)?;
    head.truncate(filled);
    Ok(head)
}

fn recognise(head: &[u8], name: &str) -> Content {
    if are_words(head, name.contains("kpage")) {
        return if name.contains("cgroup") {
            Content::Groups
        } else {
            Content::Flags
        };
    }
    let text = String::from_utf8_lossy(head);
    let mut lines = text.lines().map(str::trim).filter(|line| !line.is_empty());
    match lines.next() {
        Some(line) if line.starts_with("Page allocated via order ") => Content::Owner,
        Some(line) if is_of_map(line) => Content::Map,
        _ => Content::Text,
    }
}

/// Returns `true` if the bytes are words of frames: no kernel uses the highest bits. Zeros alone are words only if the
/// name says so: a crash may leave them in a log.
fn are_words(head: &[u8], is_named: bool) -> bool {
    let words = head.chunks_exact(WORD);
    let is_word = |bytes: &[u8]| {
        let high = if cfg!(target_endian = "little") {
            &bytes[WORD - 2..]
        } else {
            &bytes[..2]
        };
        high == [0, 0]
    };
    head.len() >= WORD
        && words.into_iter().all(is_word)
        && (is_named || head.iter().any(|byte| *byte != 0))
}

/// Returns `true` for a line such as `00001000-0009fbff : System RAM`.
fn is_of_map(line: &str) -> bool {
    let is_address =
        |text: &str| !text.is_empty() && text.bytes().all(|byte| byte.is_ascii_hexdigit());
    let addresses = line
        .split_once(" : ")
        .and_then(|(addresses, _)| addresses.split_once('-'));
    addresses.is_some_and(|(first, last)| is_address(first) && is_address(last))
}
