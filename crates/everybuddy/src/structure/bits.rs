//! One bit for each aligned block of each level.
//!
//! Both kinds of free lists keep such a bitmap. The bits of a level are contiguous, and the levels follow each other.
//! The parts of a zone layer have separate words, so that different owners never share one.
//!
//! # Invariants
//! `starts[order]` is where the words of that level begin.

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

    /// Returns the word and the mask of a block's bit. The block lies in this memory.
    #[inline(always)]
    fn locate(&self, head: Frame, order: Order) -> (&'a P::Cell<u64>, u64) {
        let group = (head.index().0 - self.first) >> order.get();
        let word = self.starts[order.index() & (LEVELS - 1)] + group / 64;
        (&self.words[word as usize], 1 << (group % 64))
    }

    /// Returns `true` if a block's bit is set.
    #[inline(always)]
    pub(crate) fn get(&self, head: Frame, order: Order) -> bool {
        let (word, mask) = self.locate(head, order);
        word.get() & mask != 0
    }

    /// Sets the bit of the largest block, up to `last`, to which a frame can ascend: while its buddy's bit is set.
    /// Calls `look` for each bit that it reads. Returns the block's order. O(orders).
    #[inline(always)]
    pub(crate) fn ascend(&self, frame: Frame, last: Order, mut look: impl FnMut()) -> Order {
        // The number of the buddy. The lower of two blocks has an even number.
        let mut buddy = u64::from(frame.index().0 - self.first) ^ 1;
        // The smaller number spares the check of an index.
        let last = last.index().min(LEVELS - 1);
        let mut level = 0;
        while level < last {
            let word = self.starts[level] + (buddy / 64) as u32;
            look();
            if self.words[word as usize].get() & 1 << (buddy % 64) == 0 {
                break;
            }
            buddy = (buddy / 2) ^ 1;
            level += 1;
        }
        let own = buddy ^ 1;
        let word = &self.words[(self.starts[level] + (own / 64) as u32) as usize];
        let mask = 1 << (own % 64);
        debug_assert!(
            word.get() & mask == 0,
            "level {level} at {:?}",
            frame.index()
        );
        word.set(word.get() | mask);
        Order::saturating(level as u32)
    }

    /// Sets a block's bit, which is clear.
    #[inline(always)]
    pub(crate) fn set(&self, head: Frame, order: Order) {
        let (word, mask) = self.locate(head, order);
        debug_assert!(word.get() & mask == 0, "{order:?} at {:?}", head.index());
        word.set(word.get() | mask);
    }

    /// Clears a block's bit, which is set.
    #[inline(always)]
    pub(crate) fn clear(&self, head: Frame, order: Order) {
        let (word, mask) = self.locate(head, order);
        debug_assert!(word.get() & mask != 0, "{order:?} at {:?}", head.index());
        // A rotation, although it is `!mask`: where a block's bit is read and seldom cleared, the compiler would
        // compute the mask before the read, also for all bits that turn out to be clear.
        let group = (head.index().0 - self.first) >> order.get();
        word.set(word.get() & (!1u64).rotate_left(group % 64));
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
