//! Where threads meet between sections.
//!
//! Exists because sections are short: threads that were woken one after the other would have nothing of
//! them in common. Here they spin, and yield when it takes long.
//!
//! Invariant: a thread that dies lets the others go on, with the news.

use std::sync::atomic::{AtomicBool, AtomicU32, Ordering};

use everybuddy::platform::Waiting;

use crate::replay::host::Yielding;

/// A meeting point for a number of threads, to be used again and again.
pub(crate) struct Meeting {
    threads: u32,
    arrived: AtomicU32,
    is_off: AtomicBool,
}

impl Meeting {
    /// Makes a meeting point.
    pub(crate) fn new(threads: u16) -> Meeting {
        Meeting {
            threads: u32::from(threads),
            arrived: AtomicU32::new(0),
            is_off: AtomicBool::new(false),
        }
    }

    /// Waits for all; nothing when somebody won't come any more.
    pub(crate) fn meet(&self) -> Option<()> {
        // Acquire and release: pairs with itself: what anyone did before a meeting is seen by all after it.
        let mine = self.arrived.fetch_add(1, Ordering::AcqRel);
        let wanted = (mine / self.threads + 1) * self.threads;
        let mut attempt = 0;
        // Acquire: pairs with the `fetch_add` above.
        while self.arrived.load(Ordering::Acquire) < wanted {
            if self.is_off.load(Ordering::Relaxed) {
                return None;
            }
            Yielding::pause(attempt);
            attempt += 1;
        }
        Some(())
    }

    /// Returns a guard that calls meetings off unless it is disarmed.
    pub(crate) fn guard(&self) -> Guard<'_> {
        Guard {
            meeting: self,
            is_armed: true,
        }
    }
}

/// Calls meetings off when its thread ends early.
pub(crate) struct Guard<'m> {
    meeting: &'m Meeting,
    is_armed: bool,
}

impl Guard<'_> {
    /// Says that the thread has done all it should.
    pub(crate) fn disarm(mut self) {
        self.is_armed = false;
    }
}

impl Drop for Guard<'_> {
    fn drop(&mut self) {
        if self.is_armed {
            self.meeting.is_off.store(true, Ordering::Relaxed);
        }
    }
}
