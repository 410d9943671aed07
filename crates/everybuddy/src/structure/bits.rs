//! One bit for each aligned block of each level.
//!
//! Both kinds of free lists keep such a bitmap. The bits of a level are contiguous, and the levels follow each other.
//! The parts of a zone layer have separate words, so that different owners never share one.
//!
//! # Invariants
//! `starts[order]` is where the words of that level begin.
//!
//! # Design decisions
//! A bit outside of the words, which no block of the memory has, reads as clear. Single bits are therefore read and
//! written without a panic, for which the compiler would keep the zone's lock in a saved register.

use super::levels::LEVELS;
use crate::frame::Order;
use crate::frame_table::Frame;
use crate::platform::{Platform, SharedCell};

/// The bits of all levels of some memory.
pub(crate) struct LevelBits<'a, P: Platform> {
    words: &'a [P::Cell<u64>],
    /// The first frame that has bits here.
    first: u32,
    starts: [u32; LEVELS],
}

/// Returns where each level's words begin, and how many there are.
fn geometry(blocks: u32, max_order: Order) -> ([u32; LEVELS], usize) {
    // Whole largest blocks, so that a buddy's bit exists even where the buddy does not.
    let frames = u64::from(blocks) << max_order.get();
    let mut starts = [0; LEVELS];
    let mut words = 0u64;
    for order in Order::up_to(max_order) {
        starts[order.index()] = words as u32;
        words += (frames >> order.get()).div_ceil(64);
    }
    (starts, words as usize)
}

/// Returns the number of words for `blocks` largest blocks: slightly more than two bits per frame.
pub(super) fn words(blocks: u32, max_order: Order) -> usize {
    geometry(blocks, max_order).1
}

impl<'a, P: Platform> LevelBits<'a, P> {
    /// Creates the bits of `blocks` largest blocks, from frame `first` on; all clear if the words are zero.
    pub(crate) fn new(
        words: &'a [P::Cell<u64>],
        first: u32,
        blocks: u32,
        max_order: Order,
    ) -> Self {
        let (starts, needed) = geometry(blocks, max_order);
        debug_assert_eq!(words.len(), needed);
        Self {
            words,
            first,
            starts,
        }
    }

    /// Returns the word of a block's bit and its place there. The block lies in this memory, so there is one.
    #[inline(always)]
    fn locate(&self, head: Frame, order: Order) -> (Option<&'a P::Cell<u64>>, u32) {
        let group = head.index().0.wrapping_sub(self.first) >> (order.get() & 31);
        let word = self.starts[order.index() & (LEVELS - 1)].wrapping_add(group / 64);
        (self.words.get(word as usize), group % 64)
    }

    /// Returns `true` if a block's bit is set.
    #[inline(always)]
    pub(crate) fn get(&self, head: Frame, order: Order) -> bool {
        let (word, bit) = self.locate(head, order);
        word.is_some_and(|word| word.get() & 1 << bit != 0)
    }

    /// Sets a block's bit, which is clear.
    #[inline(always)]
    pub(crate) fn set(&self, head: Frame, order: Order) {
        debug_assert!(!self.get(head, order), "{order:?} at {:?}", head.index());
        if let (Some(word), bit) = self.locate(head, order) {
            word.set(word.get() | 1 << bit);
        }
    }

    /// Clears a block's bit, which is set.
    #[inline(always)]
    pub(crate) fn clear(&self, head: Frame, order: Order) {
        debug_assert!(self.get(head, order), "{order:?} at {:?}", head.index());
        // A rotation, although it is a mask: where a block's bit is read and seldom cleared, the compiler would compute
        // the mask before the read, also for all bits that turn out to be clear.
        if let (Some(word), bit) = self.locate(head, order) {
            word.set(word.get() & (!1u64).rotate_left(bit));
        }
    }

    /// Returns the blocks of `order` within the block of order `whole` that starts at `head`, lowest address first. A
    /// bit that changes while the iterator is in use may be missed. O(blocks / 64 + bits).
    pub(crate) fn within(
        &self,
        head: Frame,
        whole: Order,
        order: Order,
    ) -> impl Iterator<Item = Frame> + use<'a, P> {
        let first = (head.index().0 - self.first) >> order.get();
        let blocks = 1u32 << (whole.get() - order.get());
        let words = self.words;
        let start = self.starts[order.index() & (LEVELS - 1)];
        (first / 64..(first + blocks).div_ceil(64)).flat_map(move |word| {
            let mut bits = words[(start + word) as usize].get();
            // Fewer blocks than bits of a word: those of the neighbours are masked.
            if blocks < 64 {
                bits = bits >> (first % 64) << (first % 64);
                bits &= u64::MAX >> (64 - (first % 64 + blocks));
            }
            core::iter::from_fn(move || {
                let bit = (bits != 0).then(|| bits.trailing_zeros())?;
                bits &= bits - 1;
                Some(head.offset((word * 64 + bit - first) << order.get()))
            })
        })
    }

    /// Returns how many bits are set. O(frames / 32).
    pub(crate) fn ones(&self) -> u64 {
        let words = self.words.iter();
        words.map(|word| u64::from(word.get().count_ones())).sum()
    }
}
