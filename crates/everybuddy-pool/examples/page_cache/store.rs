//! A small store: records of 1 to 16 pages in a file, and a cache of them in memory.
//!
//! The cache is a real use of a pool: threads read records, and a record that is not in memory replaces others (CLOCK).
//! Where the memory of a record lies is a parameter.
//!
//! # Invariants
//! Every word of a record says which record it belongs to, so a buffer that two records share is found.

use std::collections::{HashMap, VecDeque};
use std::fs::File;
use std::io::{self, Write};
use std::ops::DerefMut;
use std::os::unix::fs::FileExt;
use std::path::Path;
use std::sync::Mutex;

/// The bytes of a page.
pub(crate) const PAGE: usize = 4096;

/// Where buffers come from.
pub(crate) trait Source: Sync {
    /// Memory of a record; dropping it frees it.
    type Buffer<'s>: DerefMut<Target = [u8]> + Send
    where
        Self: 's;

    /// Returns memory of a number of pages with any content, or `None` if there is none.
    fn buffer(&self, pages: usize) -> Option<Self::Buffer<'_>>;
}

/// A file of records. They do not change.
pub(crate) struct Store {
    file: File,
    /// The first page of each record; and the end.
    starts: Vec<usize>,
}

/// Returns the word of a record at a position.
fn word(record: usize, position: usize) -> u64 {
    (record as u64) << 32 | position as u64
}

/// Returns `true` if the buffer contains the record, by one word per page.
pub(crate) fn is_record(buffer: &[u8], record: usize) -> bool {
    buffer.chunks_exact(PAGE).enumerate().all(|(page, bytes)| {
        let position = page * PAGE;
        bytes[..8] == word(record, position).to_le_bytes()
    })
}

impl Store {
    /// Writes `records` records to a file, which is removed immediately: the open file remains.
    ///
    /// # Errors
    /// Those of the file system.
    pub(crate) fn create(path: &Path, records: usize) -> io::Result<Self> {
        let mut file = File::options()
            .read(true)
            .write(true)
            .create_new(true)
            .open(path)?;
        std::fs::remove_file(path)?;
        let mut starts = vec![0];
        for record in 0..records {
            // Half of the records have one page; the others up to 16.
            let pages = match record % 2 {
                0 => 1,
                _ => record * 7 % 16 + 1,
            };
            let words = (0..pages * PAGE).step_by(8);
            let bytes: Vec<u8> = words
                .flat_map(|at| word(record, at).to_le_bytes())
                .collect();
            file.write_all(&bytes)?;
            starts.push(starts[record] + pages);
        }
        Ok(Self { file, starts })
    }

    /// Returns the number of records.
    pub(crate) fn records(&self) -> usize {
        self.starts.len() - 1
    }

    /// Returns the pages of all records.
    pub(crate) fn pages(&self) -> usize {
        self.starts[self.records()]
    }
}

struct Cached<B> {
    buffer: B,
    pages: usize,
    /// Read again since the hand of the clock has passed.
    is_recent: bool,
}

/// A part of the cache, with a lock of its own.
struct Shard<B> {
    records: HashMap<usize, Cached<B>>,
    clock: VecDeque<usize>,
    pages: usize,
}

/// The records that are in memory.
pub(crate) struct Cache<'s, S: Source> {
    store: &'s Store,
    source: &'s S,
    shards: Vec<Mutex<Shard<S::Buffer<'s>>>>,
    /// The most pages of a shard.
    limit: usize,
}

/// What a cache did.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Reads {
    /// Records that were in memory.
    pub(crate) hits: u64,
    /// Records that were read from the file.
    pub(crate) misses: u64,
}

impl<'s, S: Source> Cache<'s, S> {
    /// Creates a cache of at most `pages` pages.
    pub(crate) fn new(store: &'s Store, source: &'s S, pages: usize) -> Self {
        const SHARDS: usize = 16;
        let shard = || {
            Mutex::new(Shard {
                records: HashMap::new(),
                clock: VecDeque::new(),
                pages: 0,
            })
        };
        Self {
            store,
            source,
            shards: (0..SHARDS).map(|_| shard()).collect(),
            limit: pages / SHARDS,
        }
    }

    /// Passes a record to `look`, from memory or from the file.
    ///
    /// # Errors
    /// Those of the file system; `OutOfMemory` if no buffer is left.
    pub(crate) fn read<T>(
        &self,
        record: usize,
        reads: &mut Reads,
        look: impl FnOnce(&[u8]) -> T,
    ) -> io::Result<T> {
        let shard = &self.shards[record % self.shards.len()];
        let mut shard = shard
            .lock()
            .map_err(|_| io::Error::other("a reader panicked"))?;
        if let Some(cached) = shard.records.get_mut(&record) {
            cached.is_recent = true;
            reads.hits += 1;
            return Ok(look(&cached.buffer));
        }
        reads.misses += 1;
        let (start, end) = (self.store.starts[record], self.store.starts[record + 1]);
        let pages = end - start;
        shard.make_room(pages, self.limit);
        let mut buffer = self
            .source
            .buffer(pages)
            .ok_or(io::ErrorKind::OutOfMemory)?;
        self.store
            .file
            .read_exact_at(&mut buffer, (start * PAGE) as u64)?;
        let result = look(&buffer);
        shard.clock.push_back(record);
        shard.pages += pages;
        let is_recent = false;
        let cached = Cached {
            buffer,
            pages,
            is_recent,
        };
        shard.records.insert(record, cached);
        Ok(result)
    }
}

impl<B> Shard<B> {
    /// Drops records that were not read again, until `pages` more fit.
    fn make_room(&mut self, pages: usize, limit: usize) {
        while self.pages + pages > limit
            && let Some(record) = self.clock.pop_front()
        {
            match self.records.get_mut(&record) {
                Some(cached) if cached.is_recent => {
                    cached.is_recent = false;
                    self.clock.push_back(record);
                }
                _ => {
                    let dropped = self.records.remove(&record);
                    self.pages -= dropped.map_or(0, |cached| cached.pages);
                }
            }
        }
    }
}

/// Returns records of which few are read often (a third of the reads go to a hundredth of the records).
pub(crate) fn requests(seed: u64, records: usize) -> impl Iterator<Item = usize> {
    let mut state = seed.wrapping_mul(0x9e37_79b9_7f4a_7c15) | 1;
    std::iter::from_fn(move || {
        state ^= state << 13;
        state ^= state >> 7;
        state ^= state << 17;
        let (which, number) = (state >> 8 & 3, (state >> 20) as usize);
        Some(match which {
            0 => number % (records / 100).max(1),
            1 => number % (records / 10).max(1),
            _ => number % records,
        })
    })
}

/// Reads `reads` records with each of `threads` threads, and checks each of them. Returns what happened.
///
/// # Errors
/// Those of [`Cache::read`]; `InvalidData` for a record with the content of another one.
pub(crate) fn run<S: Source>(
    cache: &Cache<'_, S>,
    threads: u64,
    reads: usize,
    seed: u64,
) -> io::Result<Reads> {
    let one = |thread| {
        let mut counts = Reads::default();
        let records = cache.store.records();
        for record in requests(seed + thread, records).take(reads) {
            let is_right = cache.read(record, &mut counts, |bytes| is_record(bytes, record))?;
            if !is_right {
                let text = format!("record {record} has the content of another one");
                return Err(io::Error::new(io::ErrorKind::InvalidData, text));
            }
        }
        Ok(counts)
    };
    let results: Vec<io::Result<Reads>> = std::thread::scope(|scope| {
        let spawned: Vec<_> = (0..threads)
            .map(|thread| scope.spawn(move || one(thread)))
            .collect();
        let panicked = |_| Err(io::Error::other("a reader panicked"));
        let joined = spawned
            .into_iter()
            .map(|thread| thread.join().unwrap_or_else(panicked));
        joined.collect()
    });
    results
        .into_iter()
        .try_fold(Reads::default(), |sum, counts| {
            let counts = counts?;
            Ok(Reads {
                hits: sum.hits + counts.hits,
                misses: sum.misses + counts.misses,
            })
        })
}
