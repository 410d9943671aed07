//! The kernel's array of page descriptors, read through `/proc/kcore`.
//!
//! The file is an ELF core: a segment per part of the kernel's address space, and a note `VMCOREINFO` with the
//! offsets that are needed. The array's address is the value of the kernel's variable `vmemmap_base`.
//!
//! # Invariants
//! Nothing is guessed. A kernel that does not state an offset, or hides its symbols, gives an error that names what
//! is missing. Every offset of the file is checked before it is used.
//!
//! # Assumptions
//! The descriptors form one virtual array that begins with frame 0. That is true on x86-64, and only there.

use std::collections::BTreeMap;
use std::fmt;
use std::io::{self, BufRead, Read, Seek, SeekFrom};

use super::snapshot::SnapshotError;

const ELF_HEADER: usize = 64;
const SEGMENT_HEADER: usize = 56;
const LOAD: u32 = 1;
const NOTE: u32 = 4;
/// The notes of a kernel take some KiB.
const LARGEST_NOTES: u64 = 1 << 20;
/// The ELF number of x86-64.
const X86_64: u16 = 62;
/// Page descriptors have 56 or 64 bytes, and more with debugging options.
const LARGEST_DESCRIPTOR: u64 = 1 << 12;

/// Why the descriptors cannot be read.
#[derive(Debug)]
pub enum KcoreError {
    /// The file cannot be read.
    Read(io::Error),
    /// The file is not a core of a kernel for x86-64.
    Format(&'static str),
    /// The kernel does not state something.
    Missing(String),
    /// The flags cannot be read again.
    Flags(SnapshotError),
}

impl fmt::Display for KcoreError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Read(error) => write!(f, "cannot read the kernel's memory: {error}"),
            Self::Format(what) => {
                write!(f, "this is not the memory of a kernel for x86-64: {what}")
            }
            Self::Missing(what) => write!(
                f,
                "the kernel does not state {what}: counts of references are unknown"
            ),
            Self::Flags(error) => error.fmt(f),
        }
    }
}

impl std::error::Error for KcoreError {
    fn source(&self) -> Option<&(dyn std::error::Error + 'static)> {
        match self {
            Self::Read(error) => Some(error),
            Self::Flags(error) => Some(error),
            Self::Format(_) | Self::Missing(_) => None,
        }
    }
}

impl From<io::Error> for KcoreError {
    fn from(error: io::Error) -> Self {
        Self::Read(error)
    }
}

/// A segment of the address space.
#[derive(Clone, Copy, Debug)]
struct Segment {
    offset: u64,
    address: u64,
    bytes: u64,
}

/// An open core file.
#[derive(Debug)]
pub struct Kcore<F> {
    file: F,
    segments: Vec<Segment>,
    /// The lines `KEY=VALUE` of the note.
    facts: BTreeMap<String, String>,
}

impl<F: Read + Seek> Kcore<F> {
    /// Reads the headers and the notes.
    ///
    /// # Errors
    ///
    /// [`KcoreError`].
    pub fn open(mut file: F) -> Result<Self, KcoreError> {
        let mut header = [0; ELF_HEADER];
        read_at(&mut file, 0, &mut header)?;
        if header[..4] != *b"\x7fELF" || header[4..6] != [2, 1] {
            return Err(KcoreError::Format(
                "it does not begin with an ELF header of 64 bits",
            ));
        }
        if number(&header, 18, 2) != u64::from(X86_64) {
            return Err(KcoreError::Format(
                "the ELF header names another architecture",
            ));
        }
        if number(&header, 54, 2) != SEGMENT_HEADER as u64 {
            return Err(KcoreError::Format(
                "the headers of its segments have another size",
            ));
        }
        let (at, count) = (number(&header, 32, 8), number(&header, 56, 2));
        let mut headers = vec![0; count as usize * SEGMENT_HEADER];
        read_at(&mut file, at, &mut headers)?;
        let mut segments = Vec::new();
        let mut facts = BTreeMap::new();
        for header in headers.chunks_exact(SEGMENT_HEADER) {
            let segment = Segment {
                offset: number(header, 8, 8),
                address: number(header, 16, 8),
                bytes: number(header, 32, 8),
            };
            match number(header, 0, 4) as u32 {
                LOAD => segments.push(segment),
                NOTE => {
                    let mut notes = vec![0; segment.bytes.min(LARGEST_NOTES) as usize];
                    read_at(&mut file, segment.offset, &mut notes)?;
                    facts.extend(vmcoreinfo(&notes));
                }
                _ => {}
            }
        }
        Ok(Self {
            file,
            segments,
            facts,
        })
    }

    /// Fills `bytes` from an address of the kernel; `false` if it is not mapped.
    ///
    /// # Errors
    ///
    /// The file's own errors.
    pub fn read(&mut self, address: u64, bytes: &mut [u8]) -> io::Result<bool> {
        let length = bytes.len() as u64;
        let inside = |segment: &&Segment| {
            let at = address.checked_sub(segment.address);
            at.and_then(|at| at.checked_add(length))
                .is_some_and(|end| end <= segment.bytes)
        };
        let Some(segment) = self.segments.iter().find(inside) else {
            return Ok(false);
        };
        let Some(offset) = segment.offset.checked_add(address - segment.address) else {
            return Ok(false);
        };
        match read_at(&mut self.file, offset, bytes) {
            Ok(()) => Ok(true),
            // A part of the array that is not mapped.
            Err(error) if error.kind() == io::ErrorKind::UnexpectedEof => Ok(false),
            Err(error) => Err(error),
        }
    }

    fn fact(&self, key: &str) -> Result<u64, KcoreError> {
        let value = self.facts.get(key).and_then(|value| value.parse().ok());
        value.ok_or_else(|| KcoreError::Missing(format!("`{key}`")))
    }
}

/// A page's counts.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub struct Counts {
    /// The references: 0 is a frame that is free, also if it is on a CPU's list.
    pub references: i32,
    /// The mappings minus one, or the page's type.
    pub mappings: i32,
}

/// The array of page descriptors.
#[derive(Debug)]
pub struct Descriptors<F> {
    kcore: Kcore<F>,
    base: u64,
    size: u64,
    references: u64,
    mappings: u64,
    piece: Vec<u8>,
}

impl<F: Read + Seek> Descriptors<F> {
    /// Finds the array. `kallsyms` is `/proc/kallsyms`.
    ///
    /// # Errors
    ///
    /// [`KcoreError::Missing`] if the kernel does not state an offset or hides its symbols.
    pub fn find(mut kcore: Kcore<F>, kallsyms: impl BufRead) -> Result<Self, KcoreError> {
        let size = kcore.fact("SIZE(page)")?;
        let references = kcore.fact("OFFSET(page._refcount)")?;
        let mappings = kcore.fact("OFFSET(page._mapcount)")?;
        let fits = |offset: u64| offset.checked_add(4).is_some_and(|end| end <= size);
        if size > LARGEST_DESCRIPTOR || !fits(references) || !fits(mappings) {
            return Err(KcoreError::Format(
                "its page descriptors contradict each other",
            ));
        }
        let symbol = symbol(kallsyms, "vmemmap_base")?;
        let mut value = [0; 8];
        if !kcore.read(symbol, &mut value)? {
            return Err(KcoreError::Missing("the value of `vmemmap_base`".into()));
        }
        Ok(Self {
            kcore,
            base: u64::from_le_bytes(value),
            size,
            references,
            mappings,
            piece: Vec::new(),
        })
    }

    /// Reads the counts of consecutive frames; `false` if their descriptors are not mapped.
    ///
    /// # Errors
    ///
    /// The file's own errors.
    pub fn read(&mut self, frame: u64, count: usize, counts: &mut Vec<Counts>) -> io::Result<bool> {
        counts.clear();
        let offset = frame.checked_mul(self.size);
        let Some(address) = offset.and_then(|offset| self.base.checked_add(offset)) else {
            return Ok(false);
        };
        self.piece.resize(count * self.size as usize, 0);
        if !self.kcore.read(address, &mut self.piece)? {
            return Ok(false);
        }
        let (references, mappings) = (self.references as usize, self.mappings as usize);
        counts.extend(
            self.piece
                .chunks_exact(self.size as usize)
                .map(|page| Counts {
                    references: number(page, references, 4) as u32 as i32,
                    mappings: number(page, mappings, 4) as u32 as i32,
                }),
        );
        Ok(true)
    }
}

/// Returns the address of a symbol. The kernel shows zeros to users who may not see addresses.
fn symbol(kallsyms: impl BufRead, name: &str) -> Result<u64, KcoreError> {
    for line in kallsyms.split(b'\n') {
        let line = line?;
        let line = String::from_utf8_lossy(&line);
        let mut words = line.split_whitespace();
        let (address, found) = (words.next(), words.nth(1));
        if found == Some(name) {
            let address = address.and_then(|address| u64::from_str_radix(address, 16).ok());
            if let Some(address) = address.filter(|address| *address > 0) {
                return Ok(address);
            }
        }
    }
    Err(KcoreError::Missing(format!("the address of `{name}`")))
}

/// Returns the facts of a note `VMCOREINFO` among notes.
fn vmcoreinfo(mut notes: &[u8]) -> BTreeMap<String, String> {
    let mut facts = BTreeMap::new();
    while notes.len() >= 12 {
        let (name, content) = (number(notes, 0, 4) as usize, number(notes, 4, 4) as usize);
        let start = 12 + name.next_multiple_of(4);
        let (Some(found), Some(text)) =
            (notes.get(12..12 + name), notes.get(start..start + content))
        else {
            break;
        };
        if found.strip_suffix(b"\0") == Some(b"VMCOREINFO") {
            let text = String::from_utf8_lossy(text);
            let lines = text.lines().filter_map(|line| line.split_once('='));
            facts.extend(lines.map(|(key, value)| (key.to_owned(), value.to_owned())));
        }
        notes = notes
            .get(start + content.next_multiple_of(4)..)
            .unwrap_or_default();
    }
    facts
}

fn read_at(file: &mut (impl Read + Seek), offset: u64, bytes: &mut [u8]) -> io::Result<()> {
    file.seek(SeekFrom::Start(offset))?;
    file.read_exact(bytes)
}

/// Returns the number in `length` bytes, the least significant one first. The caller has checked that they exist.
fn number(bytes: &[u8], at: usize, length: usize) -> u64 {
    let bytes = bytes[at..at + length].iter().rev();
    bytes.fold(0, |number, byte| number << 8 | u64::from(*byte))
}
