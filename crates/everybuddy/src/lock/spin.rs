//! A test-and-test-and-set lock.
//!
//! The simplest lock: unfair, and fastest without contention. It needs one read-modify-write to acquire and one store
//! to release. Waiters poll without writing, and back off as the platform defines.
//!
//! # Invariants
//! The word is 1 exactly while a CPU holds the lock.

use super::RawLock;
use crate::platform::{AtomicWord, Ordering, Platform};

/// A test-and-test-and-set lock of one 32-bit word.
#[repr(transparent)]
pub struct SpinLock<P: Platform> {
    word: P::AtomicU32,
}

impl<P: Platform> SpinLock<P> {
    /// Creates an unlocked lock.
    #[allow(clippy::new_without_default)]
    pub fn new() -> Self {
        Self {
            word: P::AtomicU32::new(0),
        }
    }

    /// Returns the word.
    #[inline(always)]
    pub(super) fn word(&self) -> &P::AtomicU32 {
        &self.word
    }

    /// Releases the lock with this word.
    #[inline(always)]
    pub(super) fn release(word: &P::AtomicU32) {
        // Release: pairs with the acquire in `try_lock`.
        word.store(0, Ordering::Release);
        P::wake(word);
    }

    /// Acquires the lock after an attempt that found it held. Returns how many times it polled.
    #[cold]
    #[inline(never)]
    pub(super) fn contend(&self) -> u32 {
        let mut attempt = 0;
        loop {
            if self.word.load(Ordering::Relaxed) == 0 && self.try_lock().is_some() {
                return attempt + 1;
            }
            P::wait(&self.word, 1, attempt);
            attempt = attempt.saturating_add(1);
        }
    }
}

impl<P: Platform> RawLock<P> for SpinLock<P> {
    type State = ();

    #[inline]
    fn lock(&self) -> ((), u32) {
        if self.try_lock().is_some() {
            ((), 0)
        } else {
            ((), self.contend())
        }
    }

    #[inline]
    fn try_lock(&self) -> Option<()> {
        // Acquire: pairs with the release in `unlock`: what the last holder wrote is seen.
        self.word
            .compare_exchange(0, 1, Ordering::Acquire, Ordering::Relaxed)
            .ok()
            .map(|_| ())
    }

    #[inline]
    fn unlock(&self, (): &()) {
        Self::release(&self.word);
    }

    #[inline]
    fn is_contended(&self, (): &()) -> bool {
        false
    }
}
