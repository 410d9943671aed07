//! Drains the kernel's buffers while the command runs.
//!
//! Buffers may be moderate whatever the command does: one thread moves pages into
//! files without name, which are gone with their owner.
//!
//! # Invariants
//! The pages of a file are those of one CPU and one instance, in order.

use std::fs::File;
use std::io::{self, BufReader, BufWriter, ErrorKind, Read, Seek, Write};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::thread::{self, JoinHandle};
use std::time::Duration;

use super::error::RecordError;
use super::page::PageLayout;

/// The sleep after all buffers were empty. Even a busy CPU takes many times as long to fill a buffer of 4 MiB.
const PAUSE: Duration = Duration::from_millis(20);

/// The pages of one CPU, from the memory instance or the tree instance.
#[derive(Debug)]
pub(super) struct Stream {
    /// The CPU.
    pub(super) cpu: u16,
    /// The pages, each as its length in four bytes and its contents.
    pub(super) pages: BufReader<File>,
    /// The total size in bytes.
    pub(super) bytes: u64,
}

/// A buffer that is being drained.
struct Tap {
    cpu: u16,
    raw: File,
    path: PathBuf,
    pages: BufWriter<File>,
    bytes: u64,
}

/// The thread that drains the buffers.
#[derive(Debug)]
pub(super) struct Drain {
    thread: JoinHandle<Result<Vec<Stream>, RecordError>>,
    is_ending: Arc<AtomicBool>,
    bytes: Arc<AtomicU64>,
}

impl Drain {
    /// Starts to drain the buffers of CPUs to unnamed files in `folder`.
    pub(super) fn begin(
        cpus: Vec<(u16, File, PathBuf)>,
        folder: &Path,
        layout: PageLayout,
    ) -> Result<Drain, RecordError> {
        let mut taps = Vec::new();
        for (cpu, raw, path) in cpus {
            let file = tempfile::tempfile_in(folder).map_err(|cause| RecordError::Io {
                path: folder.to_path_buf(),
                cause,
            })?;
            let pages = BufWriter::with_capacity(1 << 20, file);
            taps.push(Tap {
                cpu,
                raw,
                path,
                pages,
                bytes: 0,
            });
        }
        let (is_ending, bytes) = (
            Arc::new(AtomicBool::new(false)),
            Arc::new(AtomicU64::new(0)),
        );
        let (ending, moved) = (Arc::clone(&is_ending), Arc::clone(&bytes));
        let folder = folder.to_path_buf();
        let spawned = thread::Builder::new()
            .name("drain".to_string())
            .spawn(move || run(taps, &folder, &layout, &ending, &moved));
        match spawned {
            Ok(thread) => Ok(Drain {
                thread,
                is_ending,
                bytes,
            }),
            Err(cause) => Err(RecordError::Io {
                path: PathBuf::from("drain thread"),
                cause,
            }),
        }
    }

    /// Returns the number of bytes moved so far.
    pub(super) fn bytes(&self) -> u64 {
        self.bytes.load(Ordering::Relaxed)
    }

    /// Returns `true` if the thread has given up because a file could not be written.
    pub(super) fn has_ended(&self) -> bool {
        self.thread.is_finished()
    }

    /// Drains the buffers a last time, and returns their contents.
    pub(super) fn finish(self) -> Result<Vec<Stream>, RecordError> {
        self.is_ending.store(true, Ordering::Relaxed);
        self.thread.thread().unpark();
        match self.thread.join() {
            Ok(result) => result,
            Err(panic) => std::panic::resume_unwind(panic),
        }
    }
}

fn run(
    mut taps: Vec<Tap>,
    folder: &Path,
    layout: &PageLayout,
    is_ending: &AtomicBool,
    bytes: &AtomicU64,
) -> Result<Vec<Stream>, RecordError> {
    let unwritten = |cause| RecordError::Io {
        path: folder.to_path_buf(),
        cause,
    };
    let mut page = vec![0; layout.page_size()];
    loop {
        // Checked before the round: the buffers contain everything up to the end by then.
        let is_last = is_ending.load(Ordering::Relaxed);
        for tap in &mut taps {
            while let Some(length) = tap.read(&mut page)? {
                let used = &page[..layout.used(&page[..length])];
                let length = (used.len() as u32).to_ne_bytes();
                tap.pages.write_all(&length).map_err(unwritten)?;
                tap.pages.write_all(used).map_err(unwritten)?;
                tap.bytes += used.len() as u64;
                bytes.fetch_add(used.len() as u64, Ordering::Relaxed);
            }
        }
        if is_last {
            break;
        }
        thread::park_timeout(PAUSE);
    }
    let streams = taps.into_iter().map(|tap| tap.finish().map_err(unwritten));
    streams.collect()
}

impl Tap {
    /// Reads a page. Returns `None` if there is none at the moment.
    fn read(&mut self, page: &mut [u8]) -> Result<Option<usize>, RecordError> {
        loop {
            return match self.raw.read(page) {
                Ok(0) => Ok(None),
                Ok(length) => Ok(Some(length)),
                Err(error) if error.kind() == ErrorKind::Interrupted => continue,
                Err(error) if error.kind() == ErrorKind::WouldBlock => Ok(None),
                Err(cause) => Err(RecordError::at(&self.path, cause)),
            };
        }
    }

    fn finish(self) -> io::Result<Stream> {
        let mut file = self
            .pages
            .into_inner()
            .map_err(|error| error.into_error())?;
        file.rewind()?;
        Ok(Stream {
            cpu: self.cpu,
            pages: BufReader::with_capacity(1 << 18, file),
            bytes: self.bytes,
        })
    }
}

impl Stream {
    /// Reads the next page into `page`. Returns `false` at the end.
    pub(super) fn next_page(&mut self, page: &mut Vec<u8>) -> io::Result<bool> {
        let mut length = [0; size_of::<u32>()];
        match self.pages.read_exact(&mut length) {
            Err(error) if error.kind() == ErrorKind::UnexpectedEof => return Ok(false),
            other => other?,
        }
        page.resize(u32::from_ne_bytes(length) as usize, 0);
        self.pages.read_exact(page)?;
        Ok(true)
    }
}
