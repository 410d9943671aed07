//! One bit for each aligned block of each level.
//!
//! Why it exists: both kinds of free lists keep such a bitmap. The bits of a largest block lie together, as a
//! tree in an array: the block itself is node 1, the halves of node n are 2n and 2n + 1, and single frames
//! are the last nodes. So a level's bit is found by one shift, a block's lines are few and its own, and
//! blocks of different owners never share a word.
//!
//! Invariant: `words` holds `stride` words for each largest block from `first` on.

use crate::frame::Order;
use crate::frame_table::Frame;
use crate::platform::{Platform, SharedCell};

/// The bits of all levels of some memory.
pub(crate) struct LevelBits<'a, P: Platform> {
    words: &'a [P::Cell<u64>],
    /// The first largest block that has bits here.
    first: u32,
    /// Words of a largest block, as a power of two.
    stride: u32,
    max_order: Order,
}

impl<'a, P: Platform> LevelBits<'a, P> {
    /// Returns the words that so many largest blocks need.
    pub(crate) fn words(blocks: u32, max_order: Order) -> usize {
        (blocks as usize) << Self::stride(max_order)
    }

    /// Two bits a frame, at least a word.
    fn stride(max_order: Order) -> u32 {
        (u32::from(max_order.get()) + 1).saturating_sub(6)
    }

    /// Makes the bits of the blocks from number `first` on, all clear if the words are zero.
    pub(crate) fn new(words: &'a [P::Cell<u64>], first: u32, max_order: Order) -> Self {
        Self {
            words,
            first,
            stride: Self::stride(max_order),
            max_order,
        }
    }

    /// Returns the word and the mask of a block's bit. The block lies in this memory.
    #[inline(always)]
    fn locate(&self, head: Frame, order: Order) -> (&'a P::Cell<u64>, u64) {
        let number = head.pfn().0;
        let block = (number >> self.max_order.get()) - self.first;
        let leaf = number & (self.max_order.frames() - 1) | self.max_order.frames();
        let node = leaf >> order.get();
        let word = (block << self.stride) + node / 64;
        (&self.words[word as usize], 1 << (node % 64))
    }

    /// Tells whether a block's bit is set.
    #[inline(always)]
    pub(crate) fn get(&self, head: Frame, order: Order) -> bool {
        let (word, mask) = self.locate(head, order);
        word.get() & mask != 0
    }

    /// Sets a block's bit, which is clear.
    #[inline(always)]
    pub(crate) fn set(&self, head: Frame, order: Order) {
        let (word, mask) = self.locate(head, order);
        debug_assert!(word.get() & mask == 0, "{order:?} at {:?}", head.pfn());
        word.set(word.get() | mask);
    }

    /// Clears a block's bit, which is set.
    #[inline(always)]
    pub(crate) fn clear(&self, head: Frame, order: Order) {
        let (word, mask) = self.locate(head, order);
        debug_assert!(word.get() & mask != 0, "{order:?} at {:?}", head.pfn());
        word.set(word.get() & !mask);
    }

    /// Returns how many bits are set. O(frames / 32).
    pub(crate) fn ones(&self) -> u64 {
        let words = self.words.iter();
        words.map(|word| u64::from(word.get().count_ones())).sum()
    }
}
