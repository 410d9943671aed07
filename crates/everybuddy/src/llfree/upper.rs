//! The upper level: trees of several children, and which CPU allocates from which.
//!
//! CPUs that allocate from different trees write different cache lines. A CPU reserves a tree: it takes over the tree's
//! counter into a word of its own, and lowers that one.
//!
//! # Invariants
//! 1. The counter of a tree, and that of the CPU that has reserved it, add up to the free frames of the tree's
//!    children, apart from what operations in progress have counted at one level only. A request that takes frames of
//!    a tree that another CPU has reserved lowers the tree's counter, which may therefore be negative.
//! 2. The exchange that takes a tree's counter sets the tree's flag. The flag is cleared by the addition that returns
//!    the CPU's count to the tree, after the CPU's word was exchanged again. No two CPUs' words name the same tree.
//! 3. The counters only decide where a request looks first. Which frames are free is in the lower level, which orders
//!    all accesses to frames. So no access here is stronger than relaxed.

use crate::cache_padded::CachePadded;
use crate::platform::{AtomicWord, Ordering, Platform};

/// Added to a tree's counter, so that it is never negative.
const BIAS: u64 = 1 << 31;
/// Set while a CPU has reserved the tree.
const RESERVED: u64 = 1 << 63;

/// How often a word is tried again after another CPU changed it.
const TREE_RETRIES: u32 = 16;

/// The number of frees into one tree in a row after which the CPU reserves the tree.
const FREES_TO_RESERVE: u64 = 4;

/// What a CPU keeps, on a cache line of its own.
pub(crate) struct LocalTree<P: Platform> {
    /// The tree that it has reserved, and its frames; 0 if it has none.
    tree: P::AtomicU64,
    /// The frame that it took last.
    pub(crate) last: P::AtomicU64,
    /// Where it took a block last that its own tree did not have.
    pub(crate) block: P::AtomicU64,
    /// The tree into which it freed last without having it reserved, and how often in a row.
    freed: P::AtomicU64,
}

/// The trees and the CPUs.
pub(crate) struct Upper<'m, P: Platform> {
    pub(crate) trees: &'m [P::AtomicU64],
    pub(crate) locals: &'m [CachePadded<LocalTree<P>>],
    /// The frames of a tree, as a power of two.
    pub(crate) shift: u32,
}

/// A reservation: a tree, and the number of its free frames that belong to the CPU.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Reserved {
    pub(crate) tree: u32,
    pub(crate) free: u32,
}

impl Reserved {
    #[inline(always)]
    const fn word(self) -> u64 {
        (self.tree as u64 + 1) << 32 | self.free as u64
    }

    #[inline(always)]
    const fn of(word: u64) -> Option<Reserved> {
        match word >> 32 {
            0 => None,
            tree => Some(Reserved {
                tree: tree as u32 - 1,
                free: word as u32,
            }),
        }
    }
}

/// How much of a tree is free, which decides which tree a CPU reserves.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum TreeFill {
    /// Between 1/16 and 15/16 of the tree is free. It is preferred: it is already in use, and still has free frames.
    Partly,
    /// More than 15/16 is free. Such a tree is better kept for large blocks.
    Free,
    /// Any.
    Any,
}

impl TreeFill {
    /// Every fill, in the order in which a request that would use up a wholly free tree looks for trees.
    pub(crate) const PREFERRED: &[TreeFill] = &[TreeFill::Partly, TreeFill::Free, TreeFill::Any];

    /// Returns `true` if a tree of 2^shift frames, `free` of them free, is filled like this.
    pub(crate) const fn fits(self, free: u32, shift: u32) -> bool {
        let (all, few) = (1u32 << shift, 1u32 << (shift - 4));
        match self {
            TreeFill::Partly => free >= few && free <= all - few,
            TreeFill::Free => free > all - few,
            TreeFill::Any => true,
        }
    }
}

impl<P: Platform> LocalTree<P> {
    /// Creates the cache line of a CPU that has no reservation and starts its search at `frame`.
    pub(crate) fn new(frame: u32) -> Self {
        Self {
            tree: P::AtomicU64::new(0),
            last: P::AtomicU64::new(frame.into()),
            block: P::AtomicU64::new(frame.into()),
            freed: P::AtomicU64::new(0),
        }
    }

    /// Returns what the CPU has reserved.
    #[inline(always)]
    pub(crate) fn reserved(&self) -> Option<Reserved> {
        Reserved::of(self.tree.load(Ordering::Relaxed))
    }

    /// Takes `frames` frames out of the CPU's own counter. Returns the tree, or what is reserved if that is too little.
    #[inline(always)]
    pub(crate) fn lower(&self, frames: u32) -> Result<u32, Option<Reserved>> {
        let mut seen = self.tree.load(Ordering::Relaxed);
        for _ in 0..TREE_RETRIES {
            let own = match Reserved::of(seen) {
                Some(own) if own.free >= frames => own,
                other => return Err(other),
            };
            let new = seen - u64::from(frames);
            match self
                .tree
                .compare_exchange(seen, new, Ordering::Relaxed, Ordering::Relaxed)
            {
                Ok(_) => return Ok(own.tree),
                Err(now) => seen = now,
            }
        }
        Err(None)
    }

    /// Adds frames of a tree to the CPU's own counter, if it has that tree reserved.
    #[inline(always)]
    pub(crate) fn raise(&self, tree: u32, frames: u32) -> bool {
        let mut seen = self.tree.load(Ordering::Relaxed);
        for _ in 0..TREE_RETRIES {
            if Reserved::of(seen).is_none_or(|own| own.tree != tree) {
                return false;
            }
            let new = seen + u64::from(frames);
            match self
                .tree
                .compare_exchange(seen, new, Ordering::Relaxed, Ordering::Relaxed)
            {
                Ok(_) => return true,
                Err(now) => seen = now,
            }
        }
        false
    }

    /// Remembers where the CPU took a frame.
    #[inline(always)]
    pub(crate) fn took(&self, frame: u32) {
        self.last.store(frame.into(), Ordering::Relaxed);
    }

    /// Counts a free into a tree that this CPU has not reserved. Returns `true` after several in a row.
    #[inline]
    pub(crate) fn frees_repeatedly(&self, tree: u32) -> bool {
        let seen = self.freed.load(Ordering::Relaxed);
        let times = if seen >> 32 == u64::from(tree) {
            (seen & 0xffff_ffff) + 1
        } else {
            1
        };
        let is_enough = times >= FREES_TO_RESERVE;
        let times = if is_enough { 0 } else { times };
        self.freed
            .store(u64::from(tree) << 32 | times, Ordering::Relaxed);
        is_enough
    }
}

/// Returns the free frames in the word of a tree.
#[inline(always)]
const fn free_in(word: u64) -> i64 {
    ((word & !RESERVED) as i64).wrapping_sub(BIAS as i64)
}

/// The word of an empty tree that no CPU has reserved.
pub(crate) const EMPTY_TREE: u64 = BIAS;

impl<P: Platform> Upper<'_, P> {
    /// Returns the tree of a frame.
    #[inline(always)]
    pub(crate) const fn tree_of(&self, frame: u32) -> u32 {
        frame >> self.shift
    }

    #[inline(always)]
    fn word(&self, tree: u32) -> Option<&P::AtomicU64> {
        self.trees.get(tree as usize)
    }

    /// Returns the counter of a tree, and whether a CPU has reserved it.
    pub(crate) fn state(&self, tree: u32) -> (i64, bool) {
        let word = self
            .word(tree)
            .map_or(EMPTY_TREE, |word| word.load(Ordering::Relaxed));
        (free_in(word), word & RESERVED != 0)
    }

    /// Adds frames to a tree's counter.
    #[inline(always)]
    pub(crate) fn add_free(&self, tree: u32, frames: u32) {
        if let Some(word) = self.word(tree) {
            word.fetch_add(frames.into(), Ordering::Relaxed);
        }
    }

    /// Takes frames out of a tree's counter, although a CPU may have reserved them.
    pub(crate) fn take(&self, tree: u32, frames: u32) {
        if let Some(word) = self.word(tree) {
            word.fetch_sub(frames.into(), Ordering::Relaxed);
        }
    }

    /// Reserves a tree of which at least `frames` frames are free, and returns the number of its free frames.
    pub(crate) fn reserve(&self, tree: u32, frames: u32, fill: TreeFill) -> Option<u32> {
        let word = self.word(tree)?;
        let seen = word.load(Ordering::Relaxed);
        let free = u32::try_from(free_in(seen)).unwrap_or(0);
        if seen & RESERVED != 0 || free < frames || !fill.fits(free, self.shift) {
            return None;
        }
        word.compare_exchange(
            seen,
            EMPTY_TREE | RESERVED,
            Ordering::Relaxed,
            Ordering::Relaxed,
        )
        .ok()
        .map(|_| free)
    }

    /// Moves the frames that other CPUs freed into a CPU's tree to the CPU's counter, if there are at least `frames`.
    pub(crate) fn collect(&self, local: &LocalTree<P>, tree: u32, frames: u32) -> bool {
        let Some(word) = self.word(tree) else {
            return false;
        };
        let mut seen = word.load(Ordering::Relaxed);
        for _ in 0..TREE_RETRIES {
            let free = u32::try_from(free_in(seen)).unwrap_or(0);
            if free < frames || free == 0 {
                return false;
            }
            let new = seen - u64::from(free);
            match word.compare_exchange(seen, new, Ordering::Relaxed, Ordering::Relaxed) {
                Ok(_) => {
                    let is_own = local.raise(tree, free);
                    if !is_own {
                        self.add_free(tree, free);
                    }
                    return is_own;
                }
                Err(now) => seen = now,
            }
        }
        false
    }

    /// Exchanges what a CPU has reserved, and releases what it had before. Returns the number of frames released.
    pub(crate) fn adopt(&self, local: &LocalTree<P>, new: Option<Reserved>) -> u32 {
        let new = new.map_or(0, Reserved::word);
        let old = Reserved::of(local.tree.swap(new, Ordering::Relaxed));
        let Some(Reserved { tree, free }) = old else {
            return 0;
        };
        if let Some(word) = self.word(tree) {
            // One addition adds the frames and clears the flag, which is the highest bit.
            word.fetch_add(u64::from(free).wrapping_add(RESERVED), Ordering::Relaxed);
        }
        free
    }

    /// Releases the reservations of all CPUs.
    pub(crate) fn release_all(&self) {
        for local in self.locals {
            // Only CPUs with a reservation are written, so the line of an idle CPU stays in the other CPUs' caches.
            if local.reserved().is_some() {
                self.adopt(local, None);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::platform::{Native, NativeAtomicU64};

    #[test]
    fn frames_move_between_a_tree_and_a_cpu() {
        let trees = [EMPTY_TREE + 100, EMPTY_TREE + 7].map(NativeAtomicU64::new);
        let locals = [(); 2].map(|()| CachePadded::new(LocalTree::<Native>::new(0)));
        let upper: Upper<'_, Native> = Upper {
            trees: &trees,
            locals: &locals,
            shift: 12,
        };
        let [own, other] = &locals;
        assert_eq!(own.lower(1), Err(None));
        assert_eq!(upper.reserve(0, 101, TreeFill::Any), None);
        assert_eq!(upper.reserve(0, 1, TreeFill::Partly), None, "almost full");
        assert_eq!(upper.reserve(0, 1, TreeFill::Any), Some(100));
        assert_eq!(upper.reserve(0, 0, TreeFill::Any), None, "reserved");
        let first = Reserved { tree: 0, free: 100 };
        assert_eq!(upper.adopt(own, Some(first)), 0);
        assert_eq!(own.lower(40), Ok(0));
        let left = Reserved { tree: 0, free: 60 };
        assert_eq!(own.lower(61), Err(Some(left)));
        assert!(own.raise(0, 1) && !own.raise(1, 1) && !other.raise(0, 1));
        // Others take frames of the tree, and give back more.
        upper.take(0, 5);
        assert_eq!(upper.state(0), (-5, true));
        assert!(!upper.collect(own, 0, 1));
        upper.add_free(0, 15);
        assert!(!upper.collect(own, 0, 11) && !upper.collect(other, 0, 1));
        assert!(upper.collect(own, 0, 10));
        assert_eq!(own.reserved().map(|own| own.free), Some(71));
        upper.take(0, 1);
        upper.release_all();
        assert_eq!((upper.state(0), own.reserved()), ((70, false), None));
        let times = [1, 1, 0, 0, 0, 0, 0].map(|tree| own.frees_repeatedly(tree));
        assert_eq!(times, [false, false, false, false, false, true, false]);
    }

    #[test]
    fn partly_used_trees_are_neither_almost_full_nor_almost_free() {
        let free = [255, 256, 3840, 3841];
        let fits = |fill: TreeFill| free.map(|free| fill.fits(free, 12));
        assert_eq!(fits(TreeFill::Partly), [false, true, true, false]);
        assert_eq!(fits(TreeFill::Free), [false, false, false, true]);
        assert_eq!(fits(TreeFill::Any), [true; 4]);
    }
}
