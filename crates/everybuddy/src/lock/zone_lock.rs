//! The lock of a zone, of the kind that the system was built with.
//!
//! Any system can run under any lock. A zone's lock is acquired off the hit path, so its kind is a variant and not a
//! type. Compiling every composition once for every kind would cost minutes. The branch, which always goes the same
//! way, costs a quarter of a nanosecond of an operation that takes ten or more.
//!
//! # Invariants
//! The kind never changes.

use super::queued::{QueuedWord, WaitingArray};
use super::{RawLock, SpinLock, TicketLock};
use crate::arena::{Arena, ArenaPlan};
use crate::error::BuildError;
use crate::platform::Platform;

/// The kinds of locks.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum LockKind {
    /// `lock=spin`: test and test-and-set, with the platform's backoff. Unfair.
    #[default]
    Spin,
    /// `lock=ticket`: first come, first served.
    Ticket,
    /// `lock=queued`: first come, first served, and all waiters but the first poll lines of their own.
    Queued,
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

/// What all locks of a system have in common: their kind, and where CPUs wait for them.
pub(crate) enum Locks<'a, P: Platform> {
    Spin,
    Ticket,
    Queued(&'a WaitingArray<'a, P>),
}

impl<P: Platform> Clone for Locks<'_, P> {
    fn clone(&self) -> Self {
        *self
    }
}

impl<P: Platform> Copy for Locks<'_, P> {}

impl<'a, P: Platform> Locks<'a, P> {
    /// Plans the memory of [`make`](Self::make): none, unless the locks are queued.
    pub(crate) fn plan(plan: ArenaPlan, kind: LockKind, cpus: u16) -> ArenaPlan {
        match kind {
            LockKind::Spin | LockKind::Ticket => plan,
            LockKind::Queued => WaitingArray::<P>::plan(plan, cpus),
        }
    }

    /// Creates what the locks have in common.
    pub(crate) fn make(
        arena: &mut Arena<'a>,
        kind: LockKind,
        cpus: u16,
    ) -> Result<Self, BuildError> {
        Ok(match kind {
            LockKind::Spin => Self::Spin,
            LockKind::Ticket => Self::Ticket,
            LockKind::Queued => Self::Queued(WaitingArray::make(arena, cpus)?),
        })
    }
}

/// A lock of one of the kinds.
pub(crate) enum ZoneLock<'a, P: Platform> {
    Spin(SpinLock<P>),
    Ticket(TicketLock<P>),
    Queued(QueuedWord<P>, &'a WaitingArray<'a, P>),
}

impl<'a, P: Platform> ZoneLock<'a, P> {
    /// Creates an unlocked lock.
    pub(crate) fn new(locks: Locks<'a, P>) -> Self {
        match locks {
            Locks::Spin => Self::Spin(SpinLock::new()),
            Locks::Ticket => Self::Ticket(TicketLock::new()),
            Locks::Queued(array) => Self::Queued(QueuedWord::new(), array),
        }
    }

    /// Acquires the lock. Returns how many times it had to poll.
    #[inline]
    pub(crate) fn lock(&self) -> u32 {
        match self {
            Self::Spin(lock) => lock.lock().1,
            fair => fair.lock_fair(),
        }
    }

    /// Acquires the lock if it is free.
    #[inline]
    pub(crate) fn try_lock(&self) -> Option<()> {
        match self {
            Self::Spin(lock) => lock.try_lock(),
            fair => fair.try_lock_fair(),
        }
    }

    /// Returns `true` if the lock is acquired and released without a call of a function while no other CPU wants it:
    /// not a queued lock, whose holder may have to change a waiter's line.
    #[inline(always)]
    pub(super) fn is_inline(&self) -> bool {
        !matches!(self, Self::Queued(..))
    }

    /// Acquires such a lock if it is free. Fails for the others.
    #[inline(always)]
    pub(super) fn try_lock_inline(&self) -> Option<()> {
        match self {
            Self::Spin(lock) => lock.try_lock(),
            Self::Ticket(lock) => lock.try_lock(),
            Self::Queued(..) => None,
        }
    }

    /// Releases such a lock.
    #[inline(always)]
    pub(super) fn unlock_inline(&self) {
        debug_assert!(self.is_inline(), "a queued lock is not acquired inline");
        if let Self::Ticket(lock) = self {
            lock.unlock(&());
            return;
        }
        // A queued lock is not acquired this way. Its word lies where that of a spin lock does, so the kind is compared
        // once, not twice.
        SpinLock::<P>::release(match self {
            Self::Spin(lock) => lock.word(),
            Self::Queued(word, _) => word.word(),
            Self::Ticket(_) => return,
        });
    }

    /// Acquires the lock after an attempt that found it held. Returns how many times it had to poll.
    #[inline]
    pub(super) fn lock_held(&self) -> u32 {
        match self {
            Self::Spin(lock) => lock.contend(),
            fair => fair.lock_fair(),
        }
    }

    /// Releases the lock.
    #[inline]
    pub(crate) fn unlock(&self) {
        match self {
            Self::Spin(lock) => lock.unlock(&()),
            fair => fair.unlock_fair(),
        }
    }

    /// Returns `true` if another CPU waits, as far as this kind of lock knows.
    #[inline]
    pub(crate) fn is_contended(&self) -> bool {
        match self {
            Self::Spin(lock) => lock.is_contended(&()),
            fair => fair.is_contended_fair(),
        }
    }

    // The fair kinds are not inlined. With the code of all kinds in it, the compiler no longer inlines a zone's own
    // code, and each operation executes about 25 instructions more, whatever its lock.

    #[inline(never)]
    fn lock_fair(&self) -> u32 {
        match self {
            Self::Spin(lock) => lock.lock().1,
            Self::Ticket(lock) => lock.lock().1,
            Self::Queued(word, array) => word.lock(array),
        }
    }

    #[inline(never)]
    fn try_lock_fair(&self) -> Option<()> {
        match self {
            Self::Spin(lock) => lock.try_lock(),
            Self::Ticket(lock) => lock.try_lock(),
            Self::Queued(word, _) => word.try_lock(),
        }
    }

    #[inline(never)]
    fn unlock_fair(&self) {
        match self {
            Self::Spin(lock) => lock.unlock(&()),
            Self::Ticket(lock) => lock.unlock(&()),
            Self::Queued(word, array) => word.unlock(array),
        }
    }

    #[inline(never)]
    fn is_contended_fair(&self) -> bool {
        match self {
            Self::Spin(lock) => lock.is_contended(&()),
            Self::Ticket(lock) => lock.is_contended(&()),
            Self::Queued(word, _) => word.is_contended(),
        }
    }
}
