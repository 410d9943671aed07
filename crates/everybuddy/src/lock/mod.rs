//! Locks.
//!
//! # Purpose
//!
//! Which lock guards a zone, and for how long it is held, determines the cost of contention.
//!
//! | file | contents |
//! |---|---|
//! | `spin` | test and test-and-set |
//! | `ticket` | first come, first served |
//! | `zone_lock` | a zone's lock, of any kind; how long it is held, and where it lies |
//!
//! # Invariants
//!
//! A [`RawLock`] passes state from `lock` to `unlock` (a queue's node), so that every known algorithm
//! fits. A guard unlocks exactly once, when it is dropped.

pub(crate) mod spin;
pub(crate) mod ticket;
pub(crate) mod zone_lock;

pub use spin::SpinLock;
pub use ticket::TicketLock;
pub(crate) use zone_lock::ZoneLock;
pub use zone_lock::{Hold, Line, LockKind};

use crate::platform::Platform;
use crate::probe::{Event, Probe};

/// A mutual exclusion lock on a platform.
pub trait RawLock<P: Platform>: Send + Sync {
    /// The state that is passed from `lock` to `unlock`.
    type State;

    /// Creates an unlocked lock.
    fn new() -> Self;

    /// Acquires the lock. Returns how many times it had to poll, zero if the lock was free.
    fn lock(&self) -> (Self::State, u32);

    /// Acquires the lock if it is free.
    fn try_lock(&self) -> Option<Self::State>;

    /// Releases the lock.
    fn unlock(&self, state: &Self::State);

    /// Returns `true` to the holder if another CPU waits. A lock that cannot know returns `false`.
    fn is_contended(&self, _: &Self::State) -> bool {
        false
    }
}

/// Holds a zone's lock until it is dropped, and the probe that records its events.
pub(crate) struct Guard<'l, P: Platform> {
    lock: &'l ZoneLock<P>,
    /// The caller's probe.
    pub(crate) probe: &'l mut P::Probe,
}

impl<'l, P: Platform> Guard<'l, P> {
    /// Acquires the lock.
    #[inline]
    pub(crate) fn lock(lock: &'l ZoneLock<P>, probe: &'l mut P::Probe) -> Self {
        acquire(lock, probe);
        Self { lock, probe }
    }

    /// Acquires the lock if it is free.
    #[inline]
    pub(crate) fn try_lock(lock: &'l ZoneLock<P>, probe: &'l mut P::Probe) -> Option<Self> {
        probe.record(Event::LockWanted);
        lock.try_lock()?;
        probe.record(Event::Lock {
            contended: false,
            waits: 0,
        });
        Some(Self { lock, probe })
    }

    /// Releases and reacquires the lock between two blocks of a batch, as the hold policy requires.
    #[inline]
    pub(crate) fn between(&mut self, hold: Hold) {
        let lets = match hold {
            Hold::Batch => false,
            Hold::Iteration => true,
            Hold::WhenContended => self.lock.is_contended(),
        };
        if lets {
            self.lock.unlock();
            self.probe.record(Event::Unlock);
            acquire(self.lock, self.probe);
        }
    }
}

#[inline]
fn acquire<P: Platform>(lock: &ZoneLock<P>, probe: &mut P::Probe) {
    probe.record(Event::LockWanted);
    let waits = lock.lock();
    probe.record(Event::Lock {
        contended: waits > 0,
        waits,
    });
}

impl<P: Platform> Drop for Guard<'_, P> {
    #[inline]
    fn drop(&mut self) {
        self.lock.unlock();
        self.probe.record(Event::Unlock);
    }
}
