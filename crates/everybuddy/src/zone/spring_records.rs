//! What the spring stores: its head, and records of the CPUs and of the domains.
//!
//! [`spring`](super::spring), [`ghosts`](super::ghosts) and the others of its modules operate on these records.
//!
//! # Invariants
//! The queue of ghosts is guarded by the spring's lock. Only `given` passes between CPUs without it.

use crate::lock::ZoneLock;
use crate::platform::Platform;

/// No CPU: the end of the queue, or no collector.
pub(super) const NO_CPU: u32 = u32::MAX;

/// No order: a ghost that only frees.
pub(super) const NO_ORDER: u32 = u32::MAX;

/// The value that a ghost reads while it waits.
pub(super) const WAITING: u32 = u32::MAX;

/// A CPU's place to wait, on a cache line of its own.
#[repr(C, align(64))]
pub(super) struct Ghost<P: Platform> {
    /// The domain that was handed over.
    pub(super) given: P::AtomicU32,
    /// The next CPU in the queue.
    pub(super) next: P::Cell<u32>,
    /// Whether it is in the queue.
    pub(super) queued: P::Cell<u32>,
    /// The order that it requests, or none.
    pub(super) wants: P::Cell<u32>,
}

/// What a CPU knows of its domain and of one other, with `spring=own`; on a cache line of its own.
#[repr(C, align(64))]
pub(super) struct Home<P: Platform> {
    /// The domain that this CPU had last.
    pub(super) last: P::Cell<u32>,
    /// Blocks that the CPU may still move before it looks.
    pub(super) until: P::Cell<u32>,
    /// The domain that this CPU watches, and its place among the roots.
    pub(super) watched: P::Cell<u32>,
    pub(super) place: P::Cell<u32>,
    /// How often that domain had been released when it was first seen, and the number of looks that found the same.
    pub(super) uses: P::Cell<u32>,
    pub(super) unchanged: P::Cell<u32>,
    /// The spring's clock when this CPU last read it.
    pub(super) clock: P::Cell<u32>,
}

/// How CPUs acquire domains.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum SpringKind {
    /// `spring=own`: each CPU returns to the domain that it had last, by an exchange.
    #[default]
    Own,
    /// `spring=locked`: under the lock of the spring, the domain that was put back last.
    Locked,
}

/// The words that the lock guards.
#[repr(C, align(64))]
pub(super) struct SpringHead<'a, P: Platform> {
    pub(super) lock: ZoneLock<'a, P>,
    /// CPUs that wait as ghosts.
    pub(super) first_ghost: P::Cell<u32>,
    pub(super) last_ghost: P::Cell<u32>,
    /// The CPU that collects and waits.
    pub(super) collector: P::Cell<u32>,
    /// Number of domains.
    pub(super) live: P::Cell<u32>,
    /// The first unused record.
    pub(super) vacant: P::Cell<u32>,
    /// Number of comparisons of all domains so far, modulo 2^32; of acquisitions with `spring=locked`.
    pub(super) clock: P::Cell<u32>,
    /// The lowest place of the shelf, and the one above the highest.
    pub(super) bottom: P::Cell<u32>,
    pub(super) top: P::Cell<u32>,
}

/// A root, and what the last comparison found. The lock guards it.
#[repr(C)]
pub(super) struct Root<P: Platform> {
    pub(super) domain: P::Cell<u32>,
    /// How often the domain had been released.
    pub(super) uses: P::Cell<u32>,
    /// When it was found in use, on the spring's clock.
    pub(super) since: P::Cell<u32>,
    /// A CPU that returned to the domain when it was last found.
    pub(super) home: P::Cell<u32>,
}
