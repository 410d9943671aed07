//! A double-ended list of frame numbers in an array.
//!
//! Why it exists: Linux links the frames of a per-CPU list through their metadata. The same order of
//! frames in an array needs one line where the links need one a frame.
//!
//! Invariant: `bottom <= top <= bottom + capacity` and `bottom < capacity`; entries `bottom..top`, modulo
//! the capacity (a power of two), are the list, youngest at the top. One CPU touches it at a time.

use crate::platform::{Platform, SharedCell};

/// The positions of a ring. Kept apart from the entries so that a list decides which line they are on.
#[repr(C)]
pub(crate) struct Ends<P: Platform> {
    pub(crate) top: P::Cell<u32>,
    pub(crate) bottom: P::Cell<u32>,
}

/// The array of a ring.
pub(crate) type Entries<'a, P> = &'a [<P as Platform>::Cell<u32>];

impl<P: Platform> Ends<P> {
    /// Makes an empty ring.
    pub(crate) fn new() -> Self {
        Self {
            top: P::Cell::new(0),
            bottom: P::Cell::new(0),
        }
    }

    /// Returns the number of entries.
    #[inline(always)]
    pub(crate) fn length(&self) -> u32 {
        self.top.get() - self.bottom.get()
    }

    /// Takes the oldest entry.
    #[inline]
    pub(crate) fn pop_bottom(&self, entries: Entries<'_, P>) -> Option<u32> {
        let (top, bottom) = (self.top.get(), self.bottom.get());
        if top == bottom {
            return None;
        }
        let capacity = entries.len() as u32;
        let value = entries.get((bottom & (capacity - 1)) as usize)?.get();
        if bottom + 1 == capacity {
            // Keeps positions small; entries don't move, since positions count modulo the capacity.
            self.bottom.set(0);
            self.top.set(top - capacity);
        } else {
            self.bottom.set(bottom + 1);
        }
        Some(value)
    }

    /// Takes the youngest entry.
    #[inline(always)]
    pub(crate) fn pop_top(&self, entries: Entries<'_, P>) -> Option<u32> {
        let top = self.top.get();
        if top == self.bottom.get() {
            return None;
        }
        let value = entries.get(at(top - 1, entries.len()))?.get();
        self.top.set(top - 1);
        Some(value)
    }

    /// Adds a youngest entry; the caller knows that there is room.
    #[inline(always)]
    pub(crate) fn push_top(&self, entries: Entries<'_, P>, value: u32) {
        debug_assert!((self.length() as usize) < entries.len());
        let top = self.top.get();
        if let Some(entry) = entries.get(at(top, entries.len())) {
            entry.set(value);
        }
        self.top.set(top + 1);
    }

    /// Adds an oldest entry; the caller knows that there is room.
    #[inline]
    pub(crate) fn push_bottom(&self, entries: Entries<'_, P>, value: u32) {
        debug_assert!((self.length() as usize) < entries.len());
        let (top, bottom) = (self.top.get(), self.bottom.get());
        let capacity = entries.len() as u32;
        let (top, bottom) = if bottom == 0 {
            (top + capacity, capacity - 1)
        } else {
            (top, bottom - 1)
        };
        if let Some(entry) = entries.get(at(bottom, entries.len())) {
            entry.set(value);
        }
        self.top.set(top);
        self.bottom.set(bottom);
    }
}

/// Returns the index of a position; the capacity is a power of two.
#[inline(always)]
pub(crate) fn at(position: u32, capacity: usize) -> usize {
    position as usize & capacity.wrapping_sub(1)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Native;
    use crate::platform::NativeCell;
    use proptest::prelude::*;
    use std::collections::VecDeque;
    use std::vec::Vec;

    proptest! {
        #[test]
        fn behaves_as_a_deque(steps in prop::collection::vec(0u8..4, 0..400)) {
            let entries: Vec<NativeCell<u32>> = (0..8).map(|_| NativeCell::new(0)).collect();
            let ends = Ends::<Native>::new();
            let mut model = VecDeque::new();
            for (value, step) in steps.into_iter().enumerate() {
                let value = value as u32;
                match step {
                    0 if model.len() < 8 => {
                        ends.push_top(&entries, value);
                        model.push_back(value);
                    }
                    1 if model.len() < 8 => {
                        ends.push_bottom(&entries, value);
                        model.push_front(value);
                    }
                    2 => prop_assert_eq!(ends.pop_top(&entries), model.pop_back()),
                    3 => prop_assert_eq!(ends.pop_bottom(&entries), model.pop_front()),
                    _ => {}
                }
                prop_assert_eq!(ends.length() as usize, model.len());
                prop_assert!(ends.bottom.get() < 8);
            }
        }
    }
}
