//! How long a cache line takes to another thread's CPU and back.
//!
//! Threads that write the same lines of an allocator wait for them. How long depends on where the CPUs are. A
//! hypervisor moves the CPUs of a guest, so it can be four times as long in one round as in the next one. The time of
//! a round on several threads says something about an allocator only together with this one.
//!
//! # Invariants
//! The line contains nothing else.

use std::sync::atomic::{AtomicU32, Ordering};
use std::thread;

use super::meeting::Meeting;
use crate::replay::clock::Timer;

/// Round trips between two readings of the clock.
const TOGETHER: u32 = 32;
/// The number of readings, the least of which counts: an interrupt only makes a round trip longer.
const TIMES: u32 = 64;
/// Looks at the line before a thread yields: otherwise threads that share a CPU would wait for the end of a time slice.
const LOOKS: u32 = 1 << 14;

/// A line that two threads write in turn.
// Processors fetch lines in pairs.
#[repr(align(128))]
#[derive(Default)]
pub(crate) struct Line(AtomicU32);

impl Line {
    /// Sends the line to the thread that calls [`answer`](Self::answer), and waits until it is back, `TIMES` x
    /// `TOGETHER` times. Returns the least mean of a round trip, in nanoseconds, or `None` if a thread died.
    pub(crate) fn send(&self, timer: &Timer, meeting: &Meeting) -> Option<f64> {
        let mut least = f64::INFINITY;
        for time in 0..TIMES {
            let start = timer.now();
            for trip in time * TOGETHER..(time + 1) * TOGETHER {
                self.0.store(2 * trip + 1, Ordering::Relaxed);
                self.wait(2 * trip + 2, meeting)?;
            }
            let ticks = timer.now().saturating_sub(start);
            least = least.min(timer.sum(ticks as f64, 1));
        }
        Some(least / f64::from(TOGETHER))
    }

    /// Sends the line back each time that [`send`](Self::send) has sent it. Returns `None` if a thread died.
    pub(crate) fn answer(&self, meeting: &Meeting) -> Option<()> {
        for trip in 0..TIMES * TOGETHER {
            self.wait(2 * trip + 1, meeting)?;
            self.0.store(2 * trip + 2, Ordering::Relaxed);
        }
        Some(())
    }

    fn wait(&self, wanted: u32, meeting: &Meeting) -> Option<()> {
        let mut looks = 0u32;
        while self.0.load(Ordering::Relaxed) != wanted {
            looks += 1;
            if looks == LOOKS {
                if meeting.is_off() {
                    return None;
                }
                looks = 0;
                thread::yield_now();
            }
        }
        Some(())
    }
}
