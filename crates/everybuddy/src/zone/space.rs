//! One buddy space.
//!
//! Source: iBuddy (000) section 5: a free area for each space.
//!
//! Why it exists: what is guarded by a space's lock, and what the pool is told of it.
//!
//! Invariant: everything but the lock is touched only under it; `free` counts the frames in the structure, but
//! is behind while a batch moves.

use super::memory::Part;
use super::pool::{FREE, FULL, State};
use crate::lock::ZoneLock;
use crate::platform::{Platform, SharedCell};
use crate::structure::Placed;

/// A space: what is guarded by its lock.
#[repr(C, align(64))]
pub(crate) struct Space<'a, P: Platform, S> {
    /// The lock of everything here.
    pub(crate) lock: &'a ZoneLock<P>,
    /// Its free area.
    pub(crate) structure: S,
    /// Free frames.
    pub(crate) free: P::Cell<u32>,
    /// Frames that are neither holes nor reserved.
    pub(crate) managed: P::Cell<u32>,
}

impl<'a, P: Platform, S: Placed<'a, P>> Space<'a, P, S> {
    /// Makes a space without frames.
    pub(crate) fn new((lock, place): Part<'a, P>) -> Self {
        Self {
            lock,
            structure: S::new(place),
            free: P::Cell::new(0),
            managed: P::Cell::new(0),
        }
    }

    /// Returns the state that it has while it is assigned to nobody.
    pub(crate) fn state(&self) -> State {
        match self.structure.largest() {
            Some(order)
                if order == self.structure.max_order() && self.free.get() == self.managed.get() =>
            {
                FREE
            }
            Some(order) => u32::from(order.get()),
            None => FULL,
        }
    }

    /// Counts frames that were taken and given. While a batch moves and the lock is let go in between, others
    /// see a count that is behind.
    pub(crate) fn adjust(&self, taken: u32, given: u32) {
        let free = self.free.get().wrapping_sub(taken).wrapping_add(given);
        self.free.set(free);
    }
}
