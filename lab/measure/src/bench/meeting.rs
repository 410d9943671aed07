//! A barrier for the threads between sections.
//!
//! Sections are short. Threads that are woken one after another would hardly overlap. Here they spin, and yield if
//! the wait is long.
//!
//! # Invariants
//! If a thread dies, the others continue and learn of it.

use std::sync::atomic::{AtomicBool, AtomicU32, Ordering};

use everybuddy::platform::Waiting;

use crate::replay::host::Yielding;

/// A reusable barrier for a number of threads.
pub(crate) struct Meeting {
    threads: u32,
    arrived: AtomicU32,
    is_off: AtomicBool,
}

impl Meeting {
    /// Creates a barrier.
    pub(crate) fn new(threads: u16) -> Meeting {
        Meeting {
            threads: u32::from(threads),
            arrived: AtomicU32::new(0),
            is_off: AtomicBool::new(false),
        }
    }

    /// Waits for all threads. Returns `None` if a thread will not arrive.
    pub(crate) fn meet(&self) -> Option<()> {
        // Acquire and release: pairs with itself: all threads see everything that happened before the barrier.
        let mine = self.arrived.fetch_add(1, Ordering::AcqRel);
        let wanted = (mine / self.threads + 1) * self.threads;
        let mut attempt = 0;
        // Acquire: pairs with the `fetch_add` above.
        while self.arrived.load(Ordering::Acquire) < wanted {
            if self.is_off() {
                return None;
            }
            Yielding::pause(attempt);
            attempt += 1;
        }
        Some(())
    }

    /// Returns `true` if a thread has died.
    pub(crate) fn is_off(&self) -> bool {
        self.is_off.load(Ordering::Relaxed)
    }

    /// Returns a guard that cancels the barrier unless it is disarmed.
    pub(crate) fn guard(&self) -> Guard<'_> {
        Guard {
            meeting: self,
            is_armed: true,
        }
    }
}

/// Cancels the barrier if its thread ends early.
pub(crate) struct Guard<'m> {
    meeting: &'m Meeting,
    is_armed: bool,
}

impl Guard<'_> {
    /// Declares that the thread has finished its work.
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
