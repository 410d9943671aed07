//! How long a CPU waits for another one.
//!
//! A CPU that neither calls nor parks must not stop the others. A poll takes some nanoseconds or, where waiting gives
//! the processor away on a loaded machine, many milliseconds. So polls do not bound the time. They count only
//! without a clock, or if the clock does not advance.
//!
//! # Design decisions
//! The clock is read only after some polls. Most waits end before, and a CPU that was itself stopped for long asks
//! again before it gives up.

use core::marker::PhantomData;

use super::Platform;

/// Polls before the clock is read.
const UNTIMED_POLLS: u32 = 64;
/// Polls after which a clock is assumed not to advance: they take longer than the default wait, even at a nanosecond
/// each. A clock that a timer interrupt advances stops while interrupts are disabled.
const STOPPED_POLLS: u32 = 1 << 24;

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

    /// Returns `true` if a wait ends in vain: after [`Platform::MAX_WAIT`], or without a clock after
    /// [`Platform::MAX_POLLS`] polls. `polls` is the number of polls so far.
    #[inline]
    pub(crate) fn is_over(&mut self, polls: u32) -> bool {
        polls >= UNTIMED_POLLS.min(P::MAX_POLLS) && self.is_late(polls, P::MAX_POLLS)
    }

    /// Returns `true` if a wait ends by then, or after `most` polls: the CPU has something else to try.
    pub(crate) fn is_over_after(&mut self, polls: u32, most: u32) -> bool {
        polls >= most || polls >= UNTIMED_POLLS && self.is_late(polls, most)
    }

    #[cold]
    fn is_late(&mut self, polls: u32, most: u32) -> bool {
        let Some(now) = P::now() else {
            return polls >= most;
        };
        let began = *self.began.get_or_insert(now);
        now.saturating_sub(began) >= P::MAX_WAIT || polls >= STOPPED_POLLS
    }
}
