//! A ticket lock.
//!
//! Waiters are served in the order in which they came, and the holder can see whether a CPU waits, which releasing a
//! lock "when contended" needs.
//!
//! # Source
//! The locks of the measurements in "Integration with Ticket Spinlocks" of the zone lock patch \[Porter\].
//!
//! # Invariants
//! `served` is the number of the ticket whose holder has the lock; `next` is the next ticket. Tickets count modulo
//! 2^32.

use super::RawLock;
use crate::platform::{AtomicWord, Ordering, Platform};

/// A ticket lock of two words.
#[repr(C)]
pub struct TicketLock<P: Platform> {
    next: P::AtomicU32,
    served: P::AtomicU32,
}

impl<P: Platform> TicketLock<P> {
    /// Creates an unlocked lock.
    #[allow(clippy::new_without_default)]
    pub fn new() -> Self {
        Self {
            next: P::AtomicU32::new(0),
            served: P::AtomicU32::new(0),
        }
    }

    /// Waits for a ticket. Returns how many times it polled.
    #[cold]
    #[inline(never)]
    fn queue(&self, ticket: u32) -> u32 {
        let mut attempt = 0;
        loop {
            // Acquire: pairs with the release in `unlock`.
            let served = self.served.load(Ordering::Acquire);
            if served == ticket {
                return attempt + 1;
            }
            P::wait(&self.served, served, attempt);
            attempt = attempt.saturating_add(1);
        }
    }
}

impl<P: Platform> RawLock<P> for TicketLock<P> {
    // The holder's ticket is the one that is served, so nothing needs to be kept while the lock is held: a state in the
    // guard costs every operation under any lock a register.
    type State = ();

    #[inline]
    fn lock(&self) -> ((), u32) {
        // Relaxed: drawing a ticket orders nothing; seeing it served does.
        let ticket = self.next.fetch_add(1, Ordering::Relaxed);
        // Acquire: pairs with the release in `unlock`: what the last holder wrote is seen.
        if self.served.load(Ordering::Acquire) == ticket {
            ((), 0)
        } else {
            ((), self.queue(ticket))
        }
    }

    #[inline]
    fn try_lock(&self) -> Option<()> {
        // Acquire: pairs with the release in `unlock`.
        let served = self.served.load(Ordering::Acquire);
        // A look first: an exchange that fails would take the line from the holder.
        if self.next.load(Ordering::Relaxed) != served {
            return None;
        }
        // Relaxed: the exchange succeeds only if no CPU has drawn the ticket `served`, which was read before.
        self.next
            .compare_exchange(
                served,
                served.wrapping_add(1),
                Ordering::Relaxed,
                Ordering::Relaxed,
            )
            .ok()
            .map(|_| ())
    }

    #[inline]
    fn unlock(&self, (): &()) {
        // Relaxed: only the holder changes this word.
        let ticket = self.served.load(Ordering::Relaxed);
        // Release: pairs with the acquires in `lock`, `queue` and `try_lock`.
        self.served.store(ticket.wrapping_add(1), Ordering::Release);
        P::wake(&self.served);
    }

    #[inline]
    fn is_contended(&self, (): &()) -> bool {
        let ticket = self.served.load(Ordering::Relaxed);
        self.next.load(Ordering::Relaxed) != ticket.wrapping_add(1)
    }
}
