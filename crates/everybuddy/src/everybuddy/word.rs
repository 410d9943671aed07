//! The planes of a word, and the header of a tree.
//!
//! The shared state of the system: two bits for each frame, and a cache line for each tree. The methods are the single
//! changes that an owner makes to a word and its masks, and those that other CPUs make to the foreign plane.
//!
//! # Invariants
//! Those of [`tree`](super::tree). Every CPU may call `post` and `has_foreign`, and those methods that return hints:
//! `free_hint`, `kind_hint`, `is_for` and `candidates`. The others are for the tree's owner.

use crate::arena::zero_cells;
use crate::frame::Order;
use crate::platform::{AtomicWord, Ordering, Platform, SharedCell};
use crate::request::Class;

zero_cells! {
    /// The two planes of 64 frames.
    #[repr(C, align(16))]
    struct Word {
        /// What only the owner of the tree writes.
        own: Cell<u64>,
        /// What other CPUs write, too.
        foreign: Word<u64>,
    }
}

zero_cells! {
    /// The header of a tree: a bit for each of its words in each mask.
    #[repr(C, align(64))]
    struct Header {
        /// The words that their planes describe. All frames of the others are free.
        split: Cell<u64>,
        /// The split words with a free frame.
        any: Cell<u64>,
        /// The words with absent frames.
        absent: Cell<u64>,
        /// The words with returned frames.
        inbox: Word<u64>,
        /// The words of `any` that `failed` says nothing about: frames were freed there since they were searched.
        fresh: Cell<u64>,
        /// The owner of the tree; 0 if there is none.
        owner: Word<u32>,
        /// 1 if the tree may be marked as spent.
        marked: Cell<u16>,
        /// The words of `any` that are not in `fresh` have no free block of this order; 0 if nothing is known.
        failed: Cell<u16>,
        /// What the frames of the tree are for, as a number of [`Kind`], unless all of them are free.
        kind: Cell<u16>,
    }
}

const _: () =
    assert!(size_of::<Header<crate::Native>>() == 64 && size_of::<Word<crate::Native>>() == 16);

impl<P: Platform> Word<P> {
    /// Returns the free frames of a split word.
    #[inline(always)]
    pub(crate) fn free(&self) -> u64 {
        self.own.get() & !self.foreign.load(Ordering::Relaxed)
    }

    /// Returns the free frames of a split word, as seen by a CPU that may not own the tree. A hint.
    #[inline]
    pub(crate) fn free_hint(&self) -> u64 {
        self.own.peek() & !self.foreign.load(Ordering::Relaxed)
    }

    /// Returns the frames of a split word that are not allocated.
    #[inline(always)]
    pub(crate) fn not_allocated(&self) -> u64 {
        self.own.get() | self.foreign.load(Ordering::Relaxed)
    }

    /// Adds bits to the foreign plane, if none of them is set there. Lock-free.
    pub(crate) fn post(&self, bits: u64) -> bool {
        let mut seen = self.foreign.load(Ordering::Relaxed);
        while seen & bits == 0 {
            // Release: pairs with the acquire in `collect`: the next holder sees what this one did. Acquire: pairs with
            // the release in `collect`: a CPU that posts after a collection sees the inbox that this emptied.
            match self.foreign.compare_exchange(
                seen,
                seen | bits,
                Ordering::AcqRel,
                Ordering::Relaxed,
            ) {
                Ok(_) => return true,
                Err(now) => seen = now,
            }
        }
        false
    }

    /// Returns `true` if one of these frames is returned or absent. A hint while other CPUs work.
    pub(crate) fn has_foreign(&self, bits: u64) -> bool {
        self.foreign.load(Ordering::Relaxed) & bits != 0
    }

    /// Adds and removes bits of the foreign plane, as the owner.
    pub(crate) fn mark(&self, set: u64, clear: u64) {
        let mut seen = self.foreign.load(Ordering::Relaxed);
        // Relaxed: these bits belong to the owner, whose release of the tree publishes them. The exchange only keeps
        // what others post meanwhile, and an exchange continues the release of the post before it.
        while let Err(now) = self.foreign.compare_exchange(
            seen,
            seen & !clear | set,
            Ordering::Relaxed,
            Ordering::Relaxed,
        ) {
            seen = now;
        }
    }
}

impl<P: Platform> Header<P> {
    /// Returns what the tree is for.
    #[inline(always)]
    pub(crate) fn kind(&self) -> Kind {
        match self.kind.get() {
            0 => Kind::Staying,
            _ => Kind::Movable,
        }
    }

    /// Returns `true` if the tree is for a kind. A hint, unless the CPU owns the tree.
    pub(crate) fn is_for(&self, kind: Kind) -> bool {
        self.kind.peek() == kind as u16
    }

    /// Returns what the tree is for. A hint, unless the CPU owns the tree.
    #[inline(always)]
    pub(crate) fn kind_hint(&self) -> Kind {
        if self.is_for(Kind::Movable) {
            Kind::Movable
        } else {
            Kind::Staying
        }
    }

    /// Says what an own tree is for from now on.
    pub(crate) fn dedicate(&self, kind: Kind) {
        self.kind.set(kind as u16);
    }

    /// Sets the owner: to a CPU, if the tree has none, or to none, if this CPU is the owner. Returns `true` if it did.
    /// Everything else only reads the owner.
    #[inline(always)]
    pub(crate) fn set_owner(&self, id: Option<u32>) -> bool {
        let Some(id) = id else {
            // Release: pairs with the acquire below and in `is_unowned`.
            self.owner.store(0, Ordering::Release);
            P::wake(&self.owner);
            return true;
        };
        // A look before the exchange keeps the line shared while another CPU owns the tree.
        self.owner.load(Ordering::Relaxed) == 0
            // Acquire: pairs with the release above, so this CPU sees all writes of the last owner.
            && self
                .owner
                .compare_exchange(0, id, Ordering::Acquire, Ordering::Relaxed)
                .is_ok()
    }

    /// Notes that a word has free frames that a search may not have seen.
    #[inline(always)]
    pub(crate) fn has_free(&self, mask: u64) {
        self.any.set(self.any.get() | mask);
        self.fresh.set(self.fresh.get() | mask);
    }

    /// Returns those of the split words with a free frame that may have a block. A hint, unless the CPU owns the tree.
    #[inline(always)]
    pub(crate) fn candidates(&self, order: Order) -> u64 {
        let any = self.any.peek();
        // One comparison: 0 becomes the largest number, which no order reaches.
        if u32::from(self.failed.peek()).wrapping_sub(1) < order.index() as u32 {
            any & self.fresh.peek()
        } else {
            any
        }
    }

    /// Notes that some words of an own tree have no free block of an order. The header remembers the last such order.
    pub(crate) fn note_failed(&self, order: Order, words: u64) {
        let (order, failed) = (order.get().into(), self.failed.get());
        // A word without a block has no larger one.
        let known = if failed != 0 && failed <= order {
            self.any.get() & !self.fresh.get()
        } else {
            0
        };
        self.failed.set(order);
        self.fresh.set(!(known | words));
    }

    /// Takes frames of a word, if all of them are free.
    #[inline(always)]
    pub(crate) fn take(&self, mask: u64, word: &Word<P>, frames: u64) -> bool {
        let split = self.split.get();
        if split & mask == 0 {
            // In this order a word that is described by its planes never looks allocated while it is free.
            word.own.set(!frames);
            self.split.set(split | mask);
            if frames != u64::MAX {
                self.has_free(mask);
            }
            return true;
        }
        let free = word.free();
        if frames & !free != 0 {
            return false;
        }
        word.own.set(word.own.get() & !frames);
        if free == frames {
            self.any.set(self.any.get() & !mask);
        }
        true
    }

    /// Frees frames of a word, if all of them are allocated.
    #[inline(always)]
    pub(crate) fn give(&self, mask: u64, word: &Word<P>, frames: u64) -> bool {
        let split = self.split.get();
        let (own, foreign) = (word.own.get(), word.foreign.load(Ordering::Relaxed));
        if split & mask == 0 || (own | foreign) & frames != 0 {
            return false;
        }
        self.merge(mask, word, own | frames, foreign);
        true
    }

    /// Returns `true` if a word is not split: all of its frames are free.
    #[inline(always)]
    pub(crate) fn is_whole(&self, mask: u64) -> bool {
        self.split.get() & mask == 0
    }

    /// Writes the plane of the owner after frames became free.
    #[inline(always)]
    pub(crate) fn merge(&self, mask: u64, word: &Word<P>, own: u64, foreign: u64) {
        if own == u64::MAX && foreign == 0 {
            // In this order: as in `take`.
            self.split.set(self.split.get() & !mask);
            self.any.set(self.any.get() & !mask);
            word.own.set(0);
        } else {
            word.own.set(own);
            self.has_free(mask);
        }
    }
}

/// What the frames of a tree are for.
///
/// Frames that stay are kept apart from frames that can be moved. The latter are most of the memory of many machines,
/// and moving them frees large blocks.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u16)]
pub(crate) enum Kind {
    /// Frames that stay: of all classes except `Movable`.
    Staying = 0,
    /// Frames that can be moved.
    Movable = 1,
}

impl Kind {
    /// All kinds, by number.
    pub(crate) const ALL: [Kind; 2] = [Kind::Staying, Kind::Movable];
    /// The number of kinds.
    pub(crate) const COUNT: usize = Self::ALL.len();

    /// Returns the kind of tree for the frames of a class.
    #[inline(always)]
    pub(crate) fn of(class: Class) -> Self {
        match class {
            Class::Movable => Kind::Movable,
            _ => Kind::Staying,
        }
    }
}
