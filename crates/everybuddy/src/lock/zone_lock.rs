//! The lock of a zone: one of the kinds, as the system was told.
//!
//! Why it exists: any system can run under any lock. A zone's lock is taken off the hit path, so its kind is a
//! field and not a type: compiling every composition once for every kind would cost minutes, the branch that
//! always goes the same way costs a quarter of a nanosecond of an operation that takes ten or more.
//!
//! Invariant: the kind never changes.

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
    /// `hold=iteration`: released and taken again after each block; the patch of 001.
    Iteration,
    /// `hold=when-contended`: released, to the back of the queue, after a block, if somebody waits.
    WhenContended,
}

/// Where a lock lies.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Line {
    /// `line=own`: on a cache line of its own; waiters that look at it don't slow its holder's work.
    #[default]
    Own,
    /// `line=beside`: beside the data that it guards: whoever takes it has fetched them.
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
    /// Makes an open lock.
    pub(crate) fn new(kind: LockKind) -> Self {
        Self {
            spin: SpinLock::new(),
            ticket: TicketLock::new(),
            kind,
        }
    }

    /// Takes the lock; returns its state and how many times it had to look again.
    #[inline]
    pub(crate) fn lock(&self) -> (u32, u32) {
        match self.kind {
            LockKind::Spin => (0, self.spin.lock().1),
            LockKind::Ticket => self.ticket.lock(),
        }
    }

    /// Takes the lock if it is open.
    #[inline]
    pub(crate) fn try_lock(&self) -> Option<u32> {
        match self.kind {
            LockKind::Spin => self.spin.try_lock().map(|()| 0),
            LockKind::Ticket => self.ticket.try_lock(),
        }
    }

    /// Opens the lock.
    #[inline]
    pub(crate) fn unlock(&self, state: u32) {
        match self.kind {
            LockKind::Spin => self.spin.unlock(&()),
            LockKind::Ticket => self.ticket.unlock(&state),
        }
    }

    /// Tells whether somebody waits, as far as this kind of lock knows.
    #[inline]
    pub(crate) fn is_contended(&self, state: u32) -> bool {
        match self.kind {
            LockKind::Spin => false,
            LockKind::Ticket => self.ticket.is_contended(&state),
        }
    }
}
