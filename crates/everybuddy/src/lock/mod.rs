//! Locks.
//!
//! Why it exists: which lock guards a zone, and for how long it is held, decides what contention costs.
//! A lock is a type parameter of the zone layer.
//!
//! Invariants: a lock carries state from lock to unlock (a ticket's number, a queue's node), so that every
//! known algorithm fits; a guard unlocks exactly once, when it goes.

pub(crate) mod spin;

pub use spin::SpinLock;

use crate::platform::Platform;
use crate::probe::{Event, Probe};

/// A mutual exclusion lock on a platform.
pub trait RawLock<P: Platform>: Send + Sync {
    /// What is carried from lock to unlock.
    type State;

    /// Makes an open lock.
    fn new() -> Self;

    /// Takes the lock; returns how many times it had to look again, zero when it was open at once.
    fn lock(&self) -> (Self::State, u32);

    /// Takes the lock if it is open.
    fn try_lock(&self) -> Option<Self::State>;

    /// Opens the lock.
    fn unlock(&self, state: &Self::State);
}

/// Holds a lock until it is dropped.
pub(crate) struct Guard<'l, P: Platform, L: RawLock<P>> {
    lock: &'l L,
    state: L::State,
    platform: core::marker::PhantomData<fn() -> P>,
}

impl<'l, P: Platform, L: RawLock<P>> Guard<'l, P, L> {
    /// Takes the lock and tells the probe.
    #[inline]
    pub(crate) fn lock(lock: &'l L, probe: &mut P::Probe) -> Self {
        let (state, waits) = lock.lock();
        probe.record(Event::Lock {
            contended: waits > 0,
            waits,
        });
        Self {
            lock,
            state,
            platform: core::marker::PhantomData,
        }
    }

    /// Takes the lock if it is open, and tells the probe.
    #[inline]
    pub(crate) fn try_lock(lock: &'l L, probe: &mut P::Probe) -> Option<Self> {
        let state = lock.try_lock()?;
        probe.record(Event::Lock {
            contended: false,
            waits: 0,
        });
        Some(Self {
            lock,
            state,
            platform: core::marker::PhantomData,
        })
    }
}

impl<P: Platform, L: RawLock<P>> Drop for Guard<'_, P, L> {
    #[inline]
    fn drop(&mut self) {
        self.lock.unlock(&self.state);
    }
}
