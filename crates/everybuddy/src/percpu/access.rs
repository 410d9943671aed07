//! How a CPU enters its own list, and how other CPUs reach it.
//!
//! Whether a list has a lock is a type parameter, so that a list without a lock does not pay for the other variant.
//! Without locks, other CPUs reach a list by the [protocol](super::drain).
//!
//! # Invariants
//! Only one CPU at a time is in a list.

use crate::lock::{RawLock, Section, SpinLock};
use crate::platform::Platform;

/// How a CPU enters its own list, and how other CPUs reach it.
pub(crate) trait Access<P: Platform>: Send + Sync + 'static {
    /// Whether other CPUs acquire the list's lock, rather than ask its owner.
    const LOCKS: bool;

    /// The guard that exists during an operation.
    type Held<'s>;

    /// Enters the list. Returns `None` if another CPU is in it.
    fn enter(lock: &SpinLock<P>) -> Option<Self::Held<'_>>;
}

/// Access by the token alone: a hit needs no atomic operation.
pub struct Token;

impl<P: Platform> Access<P> for Token {
    const LOCKS: bool = false;
    type Held<'s> = ();

    #[inline(always)]
    fn enter(_: &SpinLock<P>) -> Option<()> {
        Some(())
    }
}

/// One lock per list, which its owner tries: `percpu=locked`, as in Linux 6.
pub struct Locked;

/// Guard of a list's lock. Interrupts are disabled meanwhile: other CPUs wait for the lock without a bound.
pub(crate) struct ListGuard<'s, P: Platform> {
    lock: &'s SpinLock<P>,
    // Dropped after the lock was released.
    _section: Section<P>,
}

impl<P: Platform> Drop for ListGuard<'_, P> {
    #[inline(always)]
    fn drop(&mut self) {
        self.lock.unlock(&());
    }
}

impl<P: Platform> Access<P> for Locked {
    const LOCKS: bool = true;
    type Held<'s> = ListGuard<'s, P>;

    #[inline(always)]
    fn enter(lock: &SpinLock<P>) -> Option<ListGuard<'_, P>> {
        let _section = Section::begin();
        lock.try_lock().map(|()| ListGuard { lock, _section })
    }
}
