//! Errors of pools.
//!
//! An error names what failed, and what the caller can do about it.
//!
//! # Invariants
//! After an error the pool is as it was before the call. ([`PoolError::Release`] names what was released before it.)

use std::fmt;
use std::io;

use everybuddy::{BuildError, FreeError};

use crate::slots::MAX_TOKENS;
use crate::statistics::Released;

/// The reason why a call failed.
#[non_exhaustive]
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum PoolError {
    /// A pool of zero bytes.
    NoSize,
    /// A pool without tokens, or with more than a system can be set up for.
    BadTokens {
        /// The number that was requested.
        tokens: u16,
    },
    /// The system has no address space or memory of this size.
    Map {
        /// The bytes of the mapping.
        bytes: usize,
        /// The error number of the operating system.
        errno: i32,
    },
    /// The operating system starts no thread for [`release_every`](crate::PoolBuilder::release_every).
    Thread {
        /// Its error number.
        errno: i32,
    },
    /// Huge pages were requested, and the operating system has none or too few.
    NoHugePages {
        /// What is missing.
        reason: NoHugePages,
    },
    /// The frame allocator could not be built.
    Build(BuildError),
    /// A request for zero pages.
    ZeroPages,
    /// A request for more pages than the largest run has.
    TooLarge {
        /// The pages that were requested.
        pages: usize,
        /// The pages of the largest run.
        largest: usize,
    },
    /// An alignment that is not a power of two, or that is larger than the largest run.
    BadAlignment {
        /// The alignment that was requested, in bytes.
        bytes: usize,
        /// The largest alignment, in bytes.
        largest: usize,
    },
    /// The operating system refused to take a free block back, for example because memory is locked.
    Release {
        /// What it had taken back before.
        released: Released,
        /// The error number of the operating system.
        errno: i32,
    },
    /// No run of that length is free.
    Exhausted {
        /// The pages that were requested.
        pages: usize,
    },
    /// Another thread was in a call for too long, so that the free pages of its token could not be searched.
    Busy,
    /// The pool does not exist any more.
    Dead,
    /// The memory is not a run of whole pages of this pool.
    Foreign {
        /// The first address.
        address: usize,
        /// The length in bytes.
        bytes: usize,
    },
    /// The pages are not allocated, so they cannot be freed.
    Free(FreeError),
}

/// The reason why a pool has no huge pages.
#[non_exhaustive]
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum NoHugePages {
    /// The kernel has no transparent huge pages.
    Unsupported,
    /// Transparent huge pages are switched off for the whole system.
    Never,
    /// Too few huge pages are reserved.
    Reserved {
        /// The huge pages of 2 MiB that the pool needs.
        needed: usize,
        /// The error number of the operating system.
        errno: i32,
    },
}

impl fmt::Display for NoHugePages {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Unsupported => write!(
                f,
                "the kernel has no transparent huge pages; build the pool without huge pages"
            ),
            Self::Never => write!(
                f,
                "transparent huge pages are switched off; \
                 write `madvise` to /sys/kernel/mm/transparent_hugepage/enabled"
            ),
            Self::Reserved { needed, errno } => write!(
                f,
                "the pool needs {needed} free reserved huge pages of 2 MiB ({}); \
                 raise /proc/sys/vm/nr_hugepages",
                io::Error::from_raw_os_error(*errno)
            ),
        }
    }
}

impl fmt::Display for PoolError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::NoSize => write!(f, "a pool of zero bytes: pass the size of its memory"),
            Self::BadTokens { tokens } => {
                write!(f, "a pool with {tokens} tokens: pass 1 to {}", MAX_TOKENS)
            }
            Self::Map { bytes, errno } => write!(
                f,
                "cannot map {bytes} bytes: {}; build a smaller pool",
                io::Error::from_raw_os_error(*errno)
            ),
            Self::Thread { errno } => write!(
                f,
                "cannot start the thread that returns memory: {}; build the pool without `release_every`",
                io::Error::from_raw_os_error(*errno)
            ),
            Self::NoHugePages { reason } => write!(f, "no huge pages: {reason}"),
            Self::Build(error) => write!(f, "cannot build the allocator of the pool: {error}"),
            Self::ZeroPages => write!(f, "a request for zero pages"),
            Self::TooLarge { pages, largest } => write!(
                f,
                "a request for {pages} pages, but the largest run of this pool has {largest}"
            ),
            Self::BadAlignment { bytes, largest } => write!(
                f,
                "an alignment of {bytes} bytes: pass a power of two up to {largest}"
            ),
            Self::Release { released, errno } => write!(
                f,
                "the operating system does not take a free block back: {}; \
                 it took {released} before; memory that `mlock` or `mlockall` locked stays",
                io::Error::from_raw_os_error(*errno)
            ),
            Self::Exhausted { pages } => write!(
                f,
                "no run of {pages} pages is free; `Pool::statistics` lists what is"
            ),
            Self::Busy => write!(
                f,
                "busy: other threads were in calls for too long; try again"
            ),
            Self::Dead => write!(
                f,
                "the pool does not exist any more: keep a `Pool` for as long as its memory is in use"
            ),
            Self::Foreign { address, bytes } => write!(
                f,
                "{bytes} bytes at {address:#x} are not whole pages of this pool"
            ),
            Self::Free(error) => write!(f, "cannot free the pages: {error}"),
        }
    }
}

impl std::error::Error for PoolError {
    fn source(&self) -> Option<&(dyn std::error::Error + 'static)> {
        match self {
            Self::Build(error) => Some(error),
            Self::Free(error) => Some(error),
            _ => None,
        }
    }
}

impl From<BuildError> for PoolError {
    fn from(error: BuildError) -> Self {
        Self::Build(error)
    }
}
