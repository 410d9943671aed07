//! The trees that a CPU owns.
//!
//! The trees are sorted, so that a search by address ends at the first one that serves. A tree is added or removed when
//! it is claimed or released, which is far rarer than a search.
//!
//! # Invariants
//! The first `count` slots name different trees, in ascending order. Only the holder of the CPU's token touches them.

use core::ops::RangeInclusive;

use crate::platform::{Platform, SharedCell};

/// The number of own trees that a CPU keeps even if it does not use them: the smallest, and the largest, if it has many
/// slots.
const KEPT_UNUSED: RangeInclusive<usize> = 4..=8;

/// The most own trees at which each search may look.
pub(super) const LOOKS_AT_OWN: usize = 64;

/// The own trees of a CPU, lowest first.
pub(crate) struct OwnSlots<'m, P: Platform> {
    slots: &'m [P::Cell<u32>],
    count: P::Cell<u32>,
    /// If all slots are in use, the first tree from this number on is released next.
    next: P::Cell<u32>,
}

impl<'m, P: Platform> OwnSlots<'m, P> {
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
        self.count.get() as usize
            <= (self.slots.len() / 8).clamp(*KEPT_UNUSED.start(), *KEPT_UNUSED.end())
    }

    /// Returns `true` if all slots are in use.
    #[inline]
    pub(super) fn is_full(&self) -> bool {
        self.count.get() as usize >= self.slots.len()
    }

    /// Returns the trees, lowest first.
    pub(super) fn iter(&self) -> impl DoubleEndedIterator<Item = u32> {
        self.used().iter().map(P::Cell::get)
    }

    /// Returns the trees, as seen by another CPU. A hint: not all of them, and also trees that have another owner now.
    pub(super) fn seen(&self) -> impl Iterator<Item = u32> {
        let used = self.slots.get(..self.count.peek() as usize);
        used.unwrap_or_default().iter().map(P::Cell::peek)
    }

    /// Returns the trees in the order in which a search looks at them: lowest first, or from `first` on if they are
    /// many and the search can begin there.
    pub(super) fn search_order(&self, first: u32) -> impl Iterator<Item = u32> {
        self.from(if self.used().len() > LOOKS_AT_OWN {
            first
        } else {
            0
        })
    }

    /// Returns the trees from `first` on, lowest first, and then those below it.
    fn from(&self, first: u32) -> impl Iterator<Item = u32> {
        let used = self.used();
        let (below, above) = used.split_at(used.partition_point(|own| own.get() < first));
        above.iter().chain(below).map(P::Cell::get)
    }

    /// Returns the trees from the one on whose number ends with these bits, lowest first, and then the others. If
    /// several numbers may end with them, as in more than 1 TiB, it is the one nearest to the lowest own tree.
    pub(super) fn beginning_at(&self, bits: u16) -> impl Iterator<Item = u32> {
        let lowest = self.used().first().map_or(0, P::Cell::get);
        self.from(lowest & !u32::from(u16::MAX) | u32::from(bits))
    }

    #[inline]
    fn used(&self) -> &'m [P::Cell<u32>] {
        let used = self.slots.get(..self.count.get() as usize);
        used.unwrap_or_default()
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
        let slots = self.used();
        let Ok(index) = slots.binary_search_by_key(&tree, P::Cell::get) else {
            return false;
        };
        let from = slots.iter().skip(index);
        for (slot, next) in from.zip(slots.iter().skip(index + 1)) {
            slot.set(next.get());
        }
        self.count.set(slots.len() as u32 - 1);
        true
    }

    /// Returns the tree to release, and moves on: each call returns the next higher tree that is not in use.
    pub(super) fn advance(&self, is_in_use: impl Fn(u32) -> bool) -> Option<u32> {
        let tree = self.from(self.next.get()).find(|tree| !is_in_use(*tree))?;
        self.next.set(tree + 1);
        Some(tree)
    }

    /// Removes all trees.
    pub(super) fn clear(&self) {
        self.count.set(0);
        self.next.set(0);
    }
}
