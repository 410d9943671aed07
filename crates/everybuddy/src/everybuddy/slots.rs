//! The trees that a CPU owns.
//!
//! # Purpose
//!
//! The trees are sorted, so that a search by address ends at the first one that serves. A tree is added or removed when
//! it is claimed or released, which is far rarer than a search.
//!
//! # Invariants
//!
//! The first `count` slots name different trees, in ascending order. Only the holder of the CPU's token touches them.

use crate::platform::{Platform, SharedCell};

/// The number of own trees that a CPU keeps even if it does not use them.
const FEW: usize = 4;

/// The own trees of a CPU, lowest first.
pub(crate) struct Slots<'m, P: Platform> {
    slots: &'m [P::Cell<u32>],
    count: P::Cell<u32>,
    /// If all slots are in use, the first tree from this number on is released next.
    next: P::Cell<u32>,
}

impl<'m, P: Platform> Slots<'m, P> {
    /// Creates slots without trees.
    pub(super) fn new(slots: &'m [P::Cell<u32>]) -> Self {
        Self {
            slots,
            count: P::Cell::new(0),
            next: P::Cell::new(0),
        }
    }

    /// Returns the number of slots.
    pub(super) fn capacity(&self) -> usize {
        self.slots.len()
    }

    /// Returns `true` if the CPU owns so few trees that it may keep those that it does not use: otherwise CPUs would
    /// exchange trees whenever a burst ends.
    pub(super) fn are_few(&self) -> bool {
        self.count.get() as usize <= (self.slots.len() / 8).max(FEW)
    }

    /// Returns `true` if all slots are in use.
    #[inline]
    pub(super) fn is_full(&self) -> bool {
        self.count.get() as usize >= self.slots.len()
    }

    /// Returns the trees, lowest first.
    pub(super) fn iter(&self) -> impl DoubleEndedIterator<Item = u32> {
        let used = self.slots.get(..self.count.get() as usize);
        used.unwrap_or_default().iter().map(P::Cell::get)
    }

    /// Adds a tree. Does nothing if all slots are in use.
    pub(super) fn insert(&self, tree: u32) {
        if self.is_full() {
            return;
        }
        let count = self.count.get();
        self.count.set(count + 1);
        // From the end: a CPU that allocates by address adds trees that lie above its other ones.
        let mut at = count as usize;
        while let Some(below) = at.checked_sub(1).and_then(|below| self.slots.get(below))
            && below.get() > tree
        {
            self.set(at, below.get());
            at -= 1;
        }
        self.set(at, tree);
    }

    #[inline]
    fn set(&self, at: usize, tree: u32) {
        if let Some(slot) = self.slots.get(at) {
            slot.set(tree);
        }
    }

    /// Removes a tree. Returns `true` if it was there.
    pub(super) fn remove(&self, tree: u32) -> bool {
        let count = self.count.get() as usize;
        let slots = self.slots.get(..count).unwrap_or_default();
        let Some(index) = slots.iter().position(|own| own.get() == tree) else {
            return false;
        };
        let from = slots.iter().skip(index);
        for (slot, next) in from.zip(slots.iter().skip(index + 1)) {
            slot.set(next.get());
        }
        self.count.set(count as u32 - 1);
        true
    }

    /// Returns the tree to release, and moves on: each call returns the next higher tree that is not in use.
    pub(super) fn advance(&self, is_in_use: impl Fn(u32) -> bool) -> Option<u32> {
        let next = self.next.get();
        let (above, below) = (
            self.iter().filter(|tree| *tree >= next),
            self.iter().filter(|tree| *tree < next),
        );
        let tree = above.chain(below).find(|tree| !is_in_use(*tree))?;
        self.next.set(tree + 1);
        Some(tree)
    }

    /// Removes all trees.
    pub(super) fn clear(&self) {
        self.count.set(0);
        self.next.set(0);
    }
}
