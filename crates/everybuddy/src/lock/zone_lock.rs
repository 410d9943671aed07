//! The lock of a zone, of the kind that the system was built with.
//!
//! # Purpose
//!
//! Any system can run under any lock. A zone's lock is acquired off the hit path, so its kind is a field and not a
//! type. Compiling every composition once for every kind would cost minutes. The branch, which always goes the same
//! way, costs a quarter of a nanosecond of an operation that takes ten or more.
//!
//! # Invariants
//!
//! The kind never changes.

use super::{RawLock, SpinLock, TicketLock};
use crate::platform::Platform;

/// The kinds of locks.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum LockKind {
    /// `lock=spin`: test and test-and-set, with the platform's backoff. Unfair.
    #[default]
    Spin,
    /// `lock=ticket`: first come, first served.
    Ticket,
}

/// For how long a lock is held while a batch moves.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Hold {
    /// `hold=batch`: for the whole batch, as Linux does.
    #[default]
    Batch,
    /// `hold=iteration`: released and reacquired after each block; the patch of \[Porter\].
    Iteration,
    /// `hold=when-contended`: released after a block if another CPU waits, and reacquired at the back of the queue.
    WhenContended,
}

/// Where a lock lies.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Line {
    /// `line=own`: on a cache line of its own, so that polling waiters do not slow the holder's work.
    #[default]
    Own,
    /// `line=beside`: on the line of the list of order 0, so that acquiring the lock also fetches the list.
    Beside,
}

/// A lock of one of the kinds.
#[repr(C)]
pub(crate) struct ZoneLock<P: Platform> {
    spin: SpinLock<P>,
    ticket: TicketLock<P>,
    kind: LockKind,
}

impl<P: Platform> ZoneLock<P> {
    /// Creates an unlocked lock.
    pub(crate) fn new(kind: LockKind) -> Self {
        Self {
            spin: SpinLock::new(),
            ticket: TicketLock::new(),
            kind,
        }
    }

    /// Acquires the lock. Returns how many times it had to poll.
    #[inline]
    pub(crate) fn lock(&self) -> u32 {
        match self.kind {
            LockKind::Spin => self.spin.lock().1,
            LockKind::Ticket => self.ticket.lock().1,
        }
    }

    /// Acquires the lock if it is free.
    #[inline]
    pub(crate) fn try_lock(&self) -> Option<()> {
        match self.kind {
            LockKind::Spin => self.spin.try_lock(),
            LockKind::Ticket => self.ticket.try_lock(),
        }
    }

    /// Releases the lock.
    #[inline]
    pub(crate) fn unlock(&self) {
        match self.kind {
            LockKind::Spin => self.spin.unlock(&()),
            LockKind::Ticket => self.ticket.unlock(&()),
        }
    }

    /// Returns `true` if another CPU waits, as far as this kind of lock knows.
    #[inline]
    pub(crate) fn is_contended(&self) -> bool {
        match self.kind {
            LockKind::Spin => self.spin.is_contended(&()),
            LockKind::Ticket => self.ticket.is_contended(&()),
        }
    }
}
