//! What a pool has, and what happened in it.
//!
//! One structure for logs and for tests, and the result of a release.
//!
//! # Invariants
//! What calls count, from `allocations` to `borrowed`, are sums of counters that only the holders of tokens write: they
//! cost no shared word.

use std::fmt;

/// Memory that was returned to the operating system.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Released {
    /// The bytes that were in memory before, and are not any more.
    pub bytes: usize,
    /// The blocks that contained them, of 2 MiB each unless the pool was built with another order.
    pub blocks: usize,
}

impl fmt::Display for Released {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { bytes, blocks } = self;
        write!(f, "{bytes} bytes of {blocks} blocks")
    }
}

/// What a pool has, and what happened in it since it was built.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Statistics {
    /// The name of the system.
    pub system: &'static str,
    /// The bytes of a page.
    pub page_size: usize,
    /// The pages of the pool.
    pub pages: usize,
    /// The free ones among them.
    pub free_pages: u64,
    /// The free aligned blocks of 2 MiB.
    pub free_huge_blocks: u64,
    /// The pages of the largest free run that is a power of two.
    pub largest_free_run: u64,
    /// The bytes of metadata.
    pub metadata_bytes: usize,
    /// The tokens for threads.
    pub tokens: u16,
    /// The threads that have called and not ended.
    pub threads: u64,
    /// The threads that have called and ended.
    pub threads_ended: u64,
    /// The runs that were allocated.
    pub allocations: u64,
    /// The runs, or parts of runs, that were freed.
    pub frees: u64,
    /// The requests that failed, except those that found all tokens in use.
    pub refused: u64,
    /// The frees that failed, because of misuse.
    pub refused_frees: u64,
    /// The requests that parked the tokens of other threads.
    pub shortages: u64,
    /// The calls that used a token that the thread does not prefer.
    pub borrowed: u64,
    /// The bytes that were returned to the operating system.
    pub released_bytes: u64,
}

impl fmt::Display for Statistics {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self {
            pages, free_pages, ..
        } = self;
        writeln!(
            f,
            "pool of {pages} pages of {} bytes, system {}, {} bytes of metadata",
            self.page_size, self.system, self.metadata_bytes
        )?;
        writeln!(
            f,
            "  free: {free_pages} pages, {} huge blocks, the largest run has {} pages",
            self.free_huge_blocks, self.largest_free_run
        )?;
        writeln!(
            f,
            "  threads: {} with {} tokens, {} have ended; {} calls borrowed a token",
            self.threads, self.tokens, self.threads_ended, self.borrowed
        )?;
        writeln!(
            f,
            "  allocations: {}, {} refused, {} when memory was short",
            self.allocations, self.refused, self.shortages
        )?;
        write!(
            f,
            "  frees: {}, {} refused; {} bytes returned to the operating system",
            self.frees, self.refused_frees, self.released_bytes
        )
    }
}
