//! Locks.
//!
//! Which lock guards a zone, and for how long it is held, determines the cost of contention.
//!
//! | file | contents |
//! |---|---|
//! | `spin` | test and test-and-set |
//! | `ticket` | first come, first served |
//! | `queued` | the same, and waiters poll lines of their own |
//! | `zone_lock` | a zone's lock, of any kind; how long it is held, and where it lies |
//!
//! # Invariants
//! A [`RawLock`] passes state from `lock` to `unlock` (a queue's node), so that every known algorithm
//! fits. A guard, of either kind, unlocks exactly once, when it is dropped.
//!
//! # Lock order
//! | system | order |
//! |---|---|
//! | any, with `+percpu=locked`; `pcp-buddy` | a list's lock before the locks of the zone layer; never two lists' locks together. `magazines` hold the depot's lock alone |
//! | one zone | the zone's lock |
//! | buddy spaces | the lock for ranges, then a space's, then the pool's; never two spaces' locks together |
//! | domains | the lock for splitting allocations and ranges, then the collector's, then a domain, then the spring's lock |
//! | Serewa | the manager's lock, then a queue's lock (`sync=lock` only) |
//! | `everybuddy` | its trees in ascending order |
//!
//! None but the collector waits for a domain while it holds one, and none holds a lock while it waits for an answer.
//! Nested requests, from interrupts, use no list and only try locks.

pub(crate) mod queued;
pub(crate) mod spin;
pub(crate) mod ticket;
pub(crate) mod zone_lock;

pub use queued::{QueuedLock, WaitingArray, WaitingLine};
pub use spin::SpinLock;
pub use ticket::TicketLock;
pub use zone_lock::{Hold, Line, LockKind};
pub(crate) use zone_lock::{Locks, ZoneLock};

use core::marker::PhantomData;

use crate::platform::{CpuToken, Platform};
use crate::probe::{Event, Probe};

/// A mutual exclusion lock on a platform.
pub trait RawLock<P: Platform>: Send + Sync {
    /// The state that is passed from `lock` to `unlock`.
    type State;

    /// Acquires the lock. Returns how many times it had to poll, zero if the lock was free.
    fn lock(&self) -> (Self::State, u32);

    /// Acquires the lock if it is free.
    fn try_lock(&self) -> Option<Self::State>;

    /// Releases the lock.
    fn unlock(&self, state: &Self::State);

    /// Returns `true` to the holder if another CPU waits. A lock that cannot know returns `false`.
    fn is_contended(&self, state: &Self::State) -> bool;
}

/// Holds a zone's lock until it is dropped, and the probe that records its events.
pub(crate) struct Guard<'l, P: Platform> {
    lock: &'l ZoneLock<'l, P>,
    /// The caller's probe.
    pub(crate) probe: &'l mut P::Probe,
}

/// Why an attempt that neither waits nor calls a function did not serve its caller.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Unserved {
    /// The lock is wanted, which was recorded, and was held.
    LockHeld,
    /// Any other reason.
    Other,
}

/// Holds a lock that was free, until it is dropped. Neither the acquisition nor the release is a call, so a function
/// that does the rest of its work elsewhere saves no registers; with a [`Guard`] it would.
///
/// The compiler keeps that promise only if the code in between contains no panic.
pub(crate) struct InlineGuard<'l, P: Platform> {
    lock: &'l ZoneLock<'l, P>,
    /// The caller's probe.
    pub(crate) probe: &'l mut P::Probe,
}

impl<'l, P: Platform> InlineGuard<'l, P> {
    /// Acquires the lock if it is free, and of a kind that can be acquired this way.
    #[inline(always)]
    pub(crate) fn try_lock(
        lock: &'l ZoneLock<'l, P>,
        probe: &'l mut P::Probe,
    ) -> Result<Self, Unserved> {
        if !lock.is_inline() {
            return Err(Unserved::Other);
        }
        probe.record(Event::LockWanted);
        lock.try_lock_inline().ok_or(Unserved::LockHeld)?;
        probe.record(Event::Lock {
            contended: false,
            waits: 0,
        });
        Ok(Self { lock, probe })
    }
}

impl<P: Platform> Drop for InlineGuard<'_, P> {
    #[inline(always)]
    fn drop(&mut self) {
        self.lock.unlock_inline();
        self.probe.record(Event::Unlock);
    }
}

impl<'l, P: Platform> Guard<'l, P> {
    /// Acquires the lock.
    #[inline]
    pub(crate) fn lock(lock: &'l ZoneLock<'l, P>, probe: &'l mut P::Probe) -> Self {
        acquire(lock, probe);
        Self { lock, probe }
    }

    /// Acquires the lock after [`InlineGuard::try_lock`] found it held: the same wait goes on.
    #[inline]
    pub(crate) fn lock_held(lock: &'l ZoneLock<'l, P>, probe: &'l mut P::Probe) -> Self {
        let polls = lock.lock_held();
        probe.record(Event::Lock {
            contended: true,
            // A fair lock may have become free before its first poll.
            waits: polls.max(1),
        });
        Self { lock, probe }
    }

    /// Acquires the lock if it is free.
    #[inline]
    pub(crate) fn try_lock(lock: &'l ZoneLock<'l, P>, probe: &'l mut P::Probe) -> Option<Self> {
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

/// Keeps the interrupts of this CPU disabled while it exists. In user space, it does nothing. Sections must be dropped
/// in the reverse order of their creation.
pub(crate) struct Section<P: Platform> {
    before: usize,
    platform: PhantomData<fn() -> P>,
}

impl<P: Platform> Section<P> {
    /// Disables interrupts.
    #[inline(always)]
    pub(crate) fn begin() -> Self {
        Self {
            before: P::Cpu::disable_interrupts(),
            platform: PhantomData,
        }
    }
}

impl<P: Platform> Drop for Section<P> {
    #[inline(always)]
    fn drop(&mut self) {
        P::Cpu::restore_interrupts(self.before);
    }
}

#[inline]
fn acquire<P: Platform>(lock: &ZoneLock<'_, P>, probe: &mut P::Probe) {
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

#[cfg(test)]
mod tests {
    use super::*;
    use crate::platform::{Native, Spin, Waiting};
    use crate::probe::Counts;
    use std::boxed::Box;
    use std::cell::{Cell, RefCell};
    use std::sync::atomic::{AtomicU32, Ordering};
    use std::vec::Vec;

    type Counting = Native<Spin, Counts>;

    /// The locks of each kind. Those that are queued share two lines.
    fn all<P: Platform>() -> [Locks<'static, P>; 3] {
        let lines = Box::leak(Box::new([WaitingLine::new(), WaitingLine::new()]));
        let array = Box::leak(Box::new(WaitingArray::new(lines)));
        [Locks::Spin, Locks::Ticket, Locks::Queued(array)]
    }

    /// Calls `between` three times, and returns how often the lock was acquired.
    fn acquisitions(locks: Locks<'_, Counting>, hold: Hold) -> u64 {
        let (lock, mut counts) = (ZoneLock::new(locks), Counts::default());
        let mut guard = Guard::lock(&lock, &mut counts);
        (0..3).for_each(|_| guard.between(hold));
        drop(guard);
        assert!(lock.try_lock().is_some(), "the lock is unlocked");
        counts.locks
    }

    #[test]
    fn a_hold_policy_decides_how_often_a_batch_acquires_the_lock() {
        for locks in all() {
            assert_eq!(acquisitions(locks, Hold::Batch), 1);
            assert_eq!(acquisitions(locks, Hold::Iteration), 4);
            // No other CPU waits.
            assert_eq!(acquisitions(locks, Hold::WhenContended), 1);
        }
    }

    /// Lets another CPU wait for the lock, calls `between`, and returns the order in which the two held the lock.
    fn holders(locks: Locks<'_, Counting>, hold: Hold) -> Vec<&'static str> {
        let lock = &ZoneLock::new(locks);
        let held = &AtomicU32::new(0);
        let order = RefCell::new(Vec::new());
        std::thread::scope(|scope| {
            let mut counts = Counts::default();
            let mut guard = Guard::lock(lock, &mut counts);
            scope.spawn(move || {
                let mut counts = Counts::default();
                let _guard = Guard::lock(lock, &mut counts);
                held.store(1, Ordering::Relaxed);
            });
            while !lock.is_contended() {
                std::thread::yield_now();
            }
            guard.between(hold);
            // A fair lock serves the other CPU first, so it was in between if it will ever be.
            let other = held.load(Ordering::Relaxed);
            order.borrow_mut().extend((other == 1).then_some("other"));
            order.borrow_mut().push("own");
        });
        order.into_inner()
    }

    #[test]
    fn a_waiting_cpu_gets_the_lock_between_two_blocks_unless_the_batch_holds_it() {
        let [_, ticket, queued] = all();
        for locks in [ticket, queued] {
            assert_eq!(holders(locks, Hold::WhenContended), ["other", "own"]);
            assert_eq!(holders(locks, Hold::Iteration), ["other", "own"]);
            assert_eq!(holders(locks, Hold::Batch), ["own"]);
        }
    }

    /// Waits for a lock that the same thread holds, and releases it in the third wait.
    struct Unlocking;

    type Deterministic = Native<Unlocking, Log>;

    /// Counts also how often a lock was wanted.
    #[derive(Default)]
    struct Log {
        counts: Counts,
        wanted: u64,
    }

    impl Log {
        /// Returns how often a lock was wanted, acquired, and found held, and the polls.
        fn seen(&self) -> (u64, u64, u64, u64) {
            let Counts {
                locks,
                locks_contended,
                lock_waits,
                ..
            } = self.counts;
            (self.wanted, locks, locks_contended, lock_waits)
        }
    }

    impl Probe for Log {
        fn record(&mut self, event: Event) {
            self.counts.record(event);
            self.wanted += u64::from(event == Event::LockWanted);
        }
    }

    std::thread_local! {
        static HELD: Cell<Option<&'static ZoneLock<'static, Deterministic>>> = const { Cell::new(None) };
    }

    impl Waiting for Unlocking {
        fn pause(attempt: u32) {
            if attempt == 2 {
                HELD.take().expect("the lock is held").unlock();
            }
        }
    }

    #[test]
    fn an_acquisition_counts_its_polls_and_is_contended_if_there_was_one() {
        for locks in all() {
            let lock: &ZoneLock<'_, Deterministic> = Box::leak(Box::new(ZoneLock::new(locks)));
            let mut log = Log::default();
            drop(Guard::lock(lock, &mut log));
            drop(Guard::try_lock(lock, &mut log));
            assert_eq!(log.seen(), (2, 2, 0, 0), "the lock was free");
            lock.lock();
            HELD.set(Some(lock));
            drop(Guard::lock(lock, &mut log));
            // It waits three times, and finds the lock free at the fourth poll.
            assert_eq!(log.seen(), (3, 3, 1, 4));
        }
    }

    #[test]
    fn a_wait_after_an_attempt_that_found_the_lock_held_is_one_acquisition() {
        let [spin, ticket, queued] = all();
        for locks in [spin, ticket] {
            let lock: &ZoneLock<'_, Deterministic> = Box::leak(Box::new(ZoneLock::new(locks)));
            let mut log = Log::default();
            for _ in 0..2 {
                let guard = InlineGuard::try_lock(lock, &mut log).ok();
                assert!(guard.is_some() && lock.try_lock().is_none());
            }
            assert_eq!(log.seen(), (2, 2, 0, 0), "it was free");
            lock.lock();
            HELD.set(Some(lock));
            let tried = InlineGuard::try_lock(lock, &mut log).err();
            assert_eq!(tried, Some(Unserved::LockHeld));
            drop(Guard::lock_held(lock, &mut log));
            assert_eq!(log.seen(), (3, 3, 1, 4));
            // The lock became free before the first poll.
            let tried = |log: &mut Log| InlineGuard::try_lock(lock, log).err();
            lock.lock();
            assert_eq!(tried(&mut log), Some(Unserved::LockHeld));
            lock.unlock();
            drop(Guard::lock_held(lock, &mut log));
            assert_eq!(log.seen().0, 4);
            assert_eq!((log.counts.locks, log.counts.locks_contended), (4, 2));
        }
        let lock = ZoneLock::<Deterministic>::new(queued);
        let mut log = Log::default();
        let tried = InlineGuard::try_lock(&lock, &mut log).err();
        assert_eq!((tried, log.wanted), (Some(Unserved::Other), 0));
    }

    #[test]
    fn a_panic_releases_a_lock_that_was_acquired_inline() {
        let [spin, ticket, _] = all::<Deterministic>();
        for locks in [spin, ticket] {
            let lock = ZoneLock::new(locks);
            let work = std::panic::AssertUnwindSafe(|| {
                let log = &mut Log::default();
                let guard = InlineGuard::try_lock(&lock, log).ok();
                std::panic::resume_unwind(Box::new(guard.is_some()));
            });
            let payload = std::panic::catch_unwind(work).unwrap_err();
            assert_eq!(payload.downcast_ref(), Some(&true), "it was acquired");
            assert!(lock.try_lock().is_some(), "it was released");
        }
    }
}
