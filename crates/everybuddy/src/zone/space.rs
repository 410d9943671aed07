//! One buddy space.
//!
//! It groups what a space's lock guards, and computes the state that the pool records.
//!
//! # Source
//! \[iBuddy\] §5: one free area per space.
//!
//! # Invariants
//! Everything except the lock is touched only under the lock; without it, the counts may be out of date: they are
//! while a batch moves.

use super::memory::LockedPart;
use super::pool::State;
use crate::lock::ZoneLock;
use crate::platform::{Platform, SharedCell};
use crate::structure::Placed;

/// A space: everything that its lock guards.
#[repr(C, align(64))]
pub(crate) struct Space<'a, P: Platform, S> {
    /// The lock of everything here.
    pub(crate) lock: &'a ZoneLock<'a, P>,
    /// Its free area.
    pub(crate) structure: S,
    /// Frames that came so far, modulo 2^32. If two reads return the same, nothing was freed in between.
    given: P::Cell<u32>,
    /// Frames that left so far, modulo 2^32.
    taken: P::Cell<u32>,
    /// Frames that are neither holes nor reserved.
    pub(crate) managed: P::Cell<u32>,
}

impl<'a, P: Platform, S: Placed<'a, P>> Space<'a, P, S> {
    /// Creates a space without frames.
    pub(crate) fn new((lock, place): LockedPart<'a, P>) -> Self {
        Self {
            lock,
            structure: S::new(place),
            given: P::Cell::new(0),
            taken: P::Cell::new(0),
            managed: P::Cell::new(0),
        }
    }

    /// Returns the state that the space has while it is unassigned.
    #[inline]
    pub(crate) fn state(&self) -> State {
        match self.structure.largest() {
            Some(order)
                if order == self.structure.max_order() && self.free() == self.managed.get() =>
            {
                State::Free
            }
            Some(order) => State::Partly(order),
            None => State::Used,
        }
    }

    /// Returns the number of free frames.
    pub(crate) fn free(&self) -> u32 {
        self.given.get().wrapping_sub(self.taken.get())
    }

    /// Returns the same without the lock: a hint.
    pub(crate) fn free_hint(&self) -> u32 {
        // In this order, what comes and leaves in between makes the difference larger.
        let taken = self.taken.peek();
        let free = self.given.peek().wrapping_sub(taken);
        (free as i32).max(0) as u32
    }

    /// Returns the number of frames that came so far, without the lock.
    pub(crate) fn given_hint(&self) -> u32 {
        self.given.peek()
    }

    /// Counts frames that came.
    #[inline(always)]
    pub(crate) fn give(&self, frames: u32) {
        self.given.set(self.given.get().wrapping_add(frames));
    }

    /// Counts frames that left. While a batch moves and the lock is released in between, other CPUs see counts that are
    /// out of date.
    #[inline(always)]
    pub(crate) fn take(&self, frames: u32) {
        self.taken.set(self.taken.get().wrapping_add(frames));
    }
}
