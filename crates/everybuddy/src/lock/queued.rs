//! A queued lock.
//!
//! Waiters are served in the order in which they came. Only the first of them polls the lock, and each of the others a
//! cache line of its own. So a release moves the lock's line to one CPU and not to all that wait, as with the locks of
//! Linux since 4.2.
//!
//! # Source
//! D. Dice, A. Kogan, "TWA: Ticket Locks Augmented with a Waiting Array", Euro-Par 2019. All locks of a system share
//! the array, so a lock need not know the CPU, and a CPU can hold several locks.
//!
//! # Differences
//! In the paper, each release changes the array. Here one word has both the ticket that is served and the number of
//! CPUs, so a release knows whether a CPU waits in the array. It changes the word by a read-modify-write, where Linux
//! stores a byte.
//!
//! # Invariants
//! The high half of the word is the ticket whose holder has the lock, modulo 2^16. The low half is the number of CPUs
//! that hold the lock or wait for it, which is less than 2^16. The CPU whose ticket follows the served one polls the
//! word. All others wait in the array, and the release that makes a ticket the first one changes its line.

use super::RawLock;
use crate::arena::{Arena, ArenaPlan};
use crate::cache_padded::CachePadded;
use crate::error::BuildError;
use crate::platform::{AtomicWord, Ordering, Platform};
use crate::wrapping_slice::WrappingSlice;

/// A line on which a CPU polls.
pub struct WaitingLine<P: Platform>(CachePadded<P::AtomicU32>);

impl<P: Platform> WaitingLine<P> {
    /// Creates a line on which no CPU polls.
    #[allow(clippy::new_without_default)]
    pub fn new() -> Self {
        Self(CachePadded::new(P::AtomicU32::new(0)))
    }
}

/// The lines on which the CPUs of a system wait for all of its locks.
pub struct WaitingArray<'a, P: Platform> {
    /// By ticket. Those of several locks may share a line: a CPU then looks once more whether it is the first.
    lines: WrappingSlice<'a, WaitingLine<P>>,
}

impl<'a, P: Platform> WaitingArray<'a, P> {
    /// Creates an array of lines whose number is a power of two. CPUs that wait for one lock share no line if there are
    /// at least as many lines as CPUs.
    pub fn new(lines: &'a [WaitingLine<P>]) -> Self {
        Self {
            lines: WrappingSlice::new(lines),
        }
    }

    /// Plans the memory of [`make`](Self::make).
    pub(super) fn plan(plan: ArenaPlan, cpus: u16) -> ArenaPlan {
        plan.slice::<WaitingLine<P>>(lines(cpus)).slice::<Self>(1)
    }

    /// Creates an array with a line for each CPU.
    pub(super) fn make(arena: &mut Arena<'a>, cpus: u16) -> Result<&'a Self, BuildError> {
        let lines = arena.slice("line on which a CPU waits for a lock", lines(cpus), |_| {
            WaitingLine::new()
        })?;
        arena.one("lines on which CPUs wait for locks", Self::new(lines))
    }

    fn line(&self, ticket: u16) -> &P::AtomicU32 {
        &self.lines.at(u32::from(ticket)).0
    }

    /// Lets the CPU with a ticket poll the lock from now on.
    #[cold]
    #[inline(never)]
    fn advance(&self, ticket: u16) {
        let line = self.line(ticket);
        // Release: pairs with the acquires in `queue`. An addition, since holders of other locks may change the line.
        line.fetch_add(1, Ordering::Release);
        P::wake(line);
    }
}

/// Returns the number of lines for these CPUs.
fn lines(cpus: u16) -> usize {
    usize::from(cpus).next_power_of_two()
}

/// The word of a queued lock. Its functions take the array, so that a lock of any kind has 16 bytes at most.
pub(crate) struct QueuedWord<P: Platform>(P::AtomicU32);

impl<P: Platform> QueuedWord<P> {
    /// Creates the word of an unlocked lock.
    pub(super) fn new() -> Self {
        Self(P::AtomicU32::new(0))
    }

    /// Returns the word.
    #[inline(always)]
    pub(super) fn word(&self) -> &P::AtomicU32 {
        &self.0
    }

    /// Acquires the lock. Returns how many times it had to poll.
    #[inline]
    pub(super) fn lock(&self, array: &WaitingArray<'_, P>) -> u32 {
        // Acquire: pairs with the release in `unlock`: what the last holder wrote is seen.
        let word = self.0.fetch_add(1, Ordering::Acquire);
        match count(word) {
            0 => 0,
            before => self.queue(array, served(word).wrapping_add(before), before),
        }
    }

    /// Acquires the lock if it is free.
    #[inline]
    pub(super) fn try_lock(&self) -> Option<()> {
        // Relaxed: the exchange decides.
        let word = self.0.load(Ordering::Relaxed);
        if count(word) > 0 {
            return None;
        }
        // Acquire: pairs with the release in `unlock`.
        self.0
            .compare_exchange(word, word + 1, Ordering::Acquire, Ordering::Relaxed)
            .ok()
            .map(|_| ())
    }

    /// Releases the lock.
    #[inline]
    pub(super) fn unlock(&self, array: &WaitingArray<'_, P>) {
        // One CPU less, which is the holder, and by the carry the next ticket. Release: pairs with the acquires in
        // `lock`, `queue` and `try_lock`.
        let word = self.0.fetch_add(u32::from(u16::MAX), Ordering::Release);
        P::wake(&self.0);
        if count(word) > 2 {
            array.advance(served(word).wrapping_add(2));
        }
    }

    /// Returns `true` if another CPU waits.
    #[inline]
    pub(super) fn is_contended(&self) -> bool {
        count(self.0.load(Ordering::Relaxed)) > 1
    }

    /// Waits for a ticket with this many CPUs before it. Returns how many times it polled.
    #[cold]
    #[inline(never)]
    fn queue(&self, array: &WaitingArray<'_, P>, ticket: u16, before: u16) -> u32 {
        let mut polls = 0u32;
        if before > 1 {
            let line = array.line(ticket);
            // Acquire, here and below: pairs with the release in `advance`. A CPU that sees the line changed for its
            // ticket also sees that this ticket is the first.
            let mut now = line.load(Ordering::Acquire);
            while ticket.wrapping_sub(served(self.0.load(Ordering::Relaxed))) > 1 {
                let seen = now;
                while now == seen {
                    P::wait(line, seen, polls);
                    polls = polls.saturating_add(1);
                    now = line.load(Ordering::Acquire);
                }
            }
        }
        let mut attempt = 0;
        loop {
            // Acquire: pairs with the release in `unlock`: what the last holder wrote is seen.
            let word = self.0.load(Ordering::Acquire);
            if served(word) == ticket {
                return polls.saturating_add(attempt).saturating_add(1);
            }
            P::wait(&self.0, word, attempt);
            attempt = attempt.saturating_add(1);
        }
    }
}

/// Returns the ticket whose holder has the lock.
fn served(word: u32) -> u16 {
    (word >> 16) as u16
}

/// Returns the number of CPUs that hold the lock or wait for it.
fn count(word: u32) -> u16 {
    word as u16
}

/// A queued lock. Its waiters share an array with those of other locks.
pub struct QueuedLock<'a, P: Platform> {
    word: QueuedWord<P>,
    array: &'a WaitingArray<'a, P>,
}

impl<'a, P: Platform> QueuedLock<'a, P> {
    /// Creates an unlocked lock.
    pub fn new(array: &'a WaitingArray<'a, P>) -> Self {
        Self {
            word: QueuedWord::new(),
            array,
        }
    }
}

impl<P: Platform> RawLock<P> for QueuedLock<'_, P> {
    type State = ();

    #[inline]
    fn lock(&self) -> ((), u32) {
        ((), self.word.lock(self.array))
    }

    #[inline]
    fn try_lock(&self) -> Option<()> {
        self.word.try_lock()
    }

    #[inline]
    fn unlock(&self, (): &()) {
        self.word.unlock(self.array);
    }

    #[inline]
    fn is_contended(&self, (): &()) -> bool {
        self.word.is_contended()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::platform::Native;
    use std::sync::atomic::AtomicU32;
    use std::vec::Vec;

    #[test]
    fn tickets_wrap_around() {
        let lines = [WaitingLine::<Native>::new()];
        let array = WaitingArray::new(&lines);
        let lock = QueuedLock::new(&array);
        for _ in 0..70_000 {
            assert_eq!(lock.lock().1, 0);
            assert!(lock.try_lock().is_none() && !lock.is_contended(&()));
            lock.unlock(&());
        }
        assert_eq!(count(lock.word.0.load(Ordering::Relaxed)), 0);
    }

    /// CPUs come one after the other and are served in that order, also where they share lines.
    #[test]
    fn first_come_first_served_with_any_number_of_lines() {
        for lines in [1, 2, 8] {
            let lines: Vec<_> = (0..lines).map(|_| WaitingLine::<Native>::new()).collect();
            let array = WaitingArray::new(&lines);
            let lock = &QueuedLock::new(&array);
            let turn = &AtomicU32::new(0);
            lock.lock();
            std::thread::scope(|scope| {
                for cpu in 0..6u32 {
                    scope.spawn(move || {
                        let (_, polls) = lock.lock();
                        assert!(polls > 0);
                        assert_eq!(turn.fetch_add(1, Ordering::Relaxed), cpu);
                        lock.unlock(&());
                    });
                    while u32::from(count(lock.word.0.load(Ordering::Relaxed))) < cpu + 2 {
                        std::thread::yield_now();
                    }
                }
                assert!(lock.is_contended(&()) && lock.try_lock().is_none());
                lock.unlock(&());
            });
            assert_eq!(turn.load(Ordering::Relaxed), 6);
        }
    }
}
