//! What a CPU measures.
//!
//! CPUs that make calls and CPUs that run services fill in the same numbers, each its own.
//!
//! # Invariants
//! What happened before a measurement began is not in its numbers.

use crate::timeline::Moment;

/// Instructions between two looks for what another CPU provides.
pub(crate) const LOOK: u32 = 200;

/// What a CPU measured, in cycles.
#[derive(Default)]
pub(crate) struct Counted {
    /// When the measurement began.
    pub(crate) start: u64,
    /// When the CPU was done.
    pub(crate) end: u64,
    /// When it made its last call. It may continue after it was done.
    pub(crate) stop: u64,
    /// The duration of each allocation, refused ones included.
    pub(crate) allocate: Vec<u64>,
    /// The duration of each free.
    pub(crate) free: Vec<u64>,
    /// When each of them ended, if that is wanted: allocations, frees.
    pub(crate) ends: [Vec<u64>; 2],
    /// Whether calls were cut off: the CPU did not make all calls of the load.
    pub(crate) is_cut_off: bool,
    /// Requests that were refused.
    pub(crate) refused: u64,
    /// The time in which the CPU waited for others outside of calls.
    pub(crate) idle: u64,
    /// Acquisitions of locks in calls.
    pub(crate) locks: u64,
    /// Allocations, and frees, in which a lock was not acquired immediately, or the CPU waited for a part of a domain.
    pub(crate) contended: [u64; 2],
    /// How long each lock was waited for in calls.
    pub(crate) waits: Vec<u64>,
    /// Where this CPU runs services: the time in which they had work.
    pub(crate) busy: u64,
    /// Where this CPU runs services: units of work.
    pub(crate) units: u64,
    /// What happened, if that is recorded.
    pub(crate) moments: Vec<Moment>,
}
