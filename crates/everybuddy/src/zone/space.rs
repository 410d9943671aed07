//! One buddy space.
//!
//! It groups what a space's lock guards, and computes the state that the pool records.
//!
//! # Source
//! \[iBuddy\] §5: one free area per space.
//!
//! # Invariants
//! Everything except the lock is touched only under the lock. `free` counts the frames in the structure, but is out
//! of date while a batch moves.

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
    /// Free frames.
    pub(crate) free: P::Cell<u32>,
    /// Frames that are neither holes nor reserved.
    pub(crate) managed: P::Cell<u32>,
}

impl<'a, P: Platform, S: Placed<'a, P>> Space<'a, P, S> {
    /// Creates a space without frames.
    pub(crate) fn new((lock, place): LockedPart<'a, P>) -> Self {
        Self {
            lock,
            structure: S::new(place),
            free: P::Cell::new(0),
            managed: P::Cell::new(0),
        }
    }

    /// Returns the state that the space has while it is unassigned.
    #[inline]
    pub(crate) fn state(&self) -> State {
        match self.structure.largest() {
            Some(order)
                if order == self.structure.max_order() && self.free.get() == self.managed.get() =>
            {
                State::Free
            }
            Some(order) => State::Partly(order),
            None => State::Used,
        }
    }

    /// Adds `given` frames to the count and subtracts `taken`. While a batch moves and the lock is released in
    /// between, other CPUs see a count that is out of date.
    pub(crate) fn adjust(&self, taken: u32, given: u32) {
        let free = self.free.get().wrapping_sub(taken).wrapping_add(given);
        self.free.set(free);
    }
}
