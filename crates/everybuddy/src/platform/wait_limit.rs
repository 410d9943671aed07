//! How long a CPU waits for another one.
//!
//! A CPU that neither calls nor parks must not stop the others. A poll takes some microseconds or, where waiting gives
//! the processor away on a loaded machine, many milliseconds. So polls alone do not bound the time.
//!
//! # Design decisions
//! The clock is read only after some polls. Most waits end before, and a CPU that was itself stopped for long asks
//! again before it gives up.

use core::marker::PhantomData;

use super::Platform;

/// Polls before the clock is read.
const UNTIMED_POLLS: u32 = 64;

/// The limit of one wait.
pub(crate) struct WaitLimit<P> {
    /// When the clock was read first.
    began: Option<u64>,
    platform: PhantomData<fn() -> P>,
}

impl<P: Platform> WaitLimit<P> {
    /// Begins a wait.
    pub(crate) const fn new() -> Self {
        Self {
            began: None,
            platform: PhantomData,
        }
    }

    /// Returns `true` if a wait ends in vain: after `most` polls, or after [`Platform::MAX_WAIT`]. `polls` is the
    /// number of polls so far.
    pub(crate) fn is_over(&mut self, polls: u32, most: u32) -> bool {
        polls >= most || polls >= UNTIMED_POLLS && self.is_late()
    }

    #[cold]
    fn is_late(&mut self) -> bool {
        P::now().is_some_and(|now| {
            let began = *self.began.get_or_insert(now);
            now.saturating_sub(began) >= P::MAX_WAIT
        })
    }
}
