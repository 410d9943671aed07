//! Free blocks as bits alone, with summaries above that are scanned.
//!
//! A tree pays for its order with a walk at every insertion and removal. Bits are ordered by address by their nature:
//! an insertion sets one, and one instruction per level of summaries finds the lowest one.
//!
//! # Source
//! \[Serewa\] §2.2.4 asks for structures better than queues and names processor instructions for counting zeros. This
//! is what a program makes of both today, and what TLSF and Linux's `sbitmap` do.
//!
//! # Invariants
//! A block's bit is set exactly if the block is in. A bit of a summary is set exactly if the word below that it
//! represents is not zero. The record of a block's head is tagged as a free head and links nothing.
//!
//! # Design decisions
//! Each order has summaries of its own, so that a scan never meets blocks of another order. An order has as many
//! levels of summaries as it needs: a level has one word for 64 words below, and the last level has one word.
//!
//! # Complexity
//! `contains` is O(1). `insert` and `remove` are O(1) unless a word becomes the first or the last of its summary's;
//! then they are O(log64 n), where n is the number of possible blocks. `take` is O(log64 n). 2.03 bits per frame in
//! addition to the records.

use super::levels::{LEVELS, Level, level_of};
use super::{Ordered, Placed, Structure, StructureKind, StructurePlace};
use crate::frame::{Index, Order};
use crate::frame_table::{Frame, FrameTable};
use crate::platform::{Platform, SharedCell};
use crate::snapshot::{FrameState, Violation};

/// The maximum number of levels of words of an order, blocks' bits and summaries: 64^6 is more than there are frames.
/// A power of two, and one more than is used, so that a masked level needs no bounds check.
const DEPTHS: usize = 8;

/// Where an order's words begin: those of its blocks first, then summary by summary, and the end of the last.
type Starts = [u32; DEPTHS];

/// Returns each order's starts and number of levels, and how many words there are.
fn geometry(blocks: u32, max_order: Order) -> ([Starts; LEVELS], [u8; LEVELS], usize) {
    // Whole largest blocks, so that a buddy's bit exists even where the buddy does not.
    let frames = u64::from(blocks) << max_order.get();
    let mut starts = [[0; DEPTHS]; LEVELS];
    let mut depths = [0u8; LEVELS];
    let mut words = 0u64;
    for order in Order::up_to(max_order) {
        let mut level = frames >> order.get();
        let starts = &mut starts[order.index()];
        let mut depth = 0;
        loop {
            starts[depth & (DEPTHS - 1)] = words as u32;
            depth += 1;
            level = level.div_ceil(64);
            words += level;
            if level <= 1 {
                break;
            }
        }
        starts[depth & (DEPTHS - 1)] = words as u32;
        depths[order.index()] = depth as u8;
    }
    (starts, depths, words as usize)
}

/// Returns the number of words for `blocks` largest blocks.
pub(super) fn words(blocks: u32, max_order: Order) -> usize {
    geometry(blocks, max_order).2
}

/// The bits of one zone.
pub struct BitScan<'a, P: Platform> {
    table: FrameTable<'a, P>,
    levels: &'a [Level<P>; LEVELS],
    words: &'a [P::Cell<u64>],
    /// The first frame that has bits here.
    first: u32,
    starts: [Starts; LEVELS],
    depths: [u8; LEVELS],
    max_order: Order,
}

impl<'a, P: Platform> BitScan<'a, P> {
    #[inline(always)]
    fn level(&self, order: Order) -> &'a Level<P> {
        level_of(self.levels, order)
    }

    #[inline(always)]
    fn starts(&self, order: Order) -> &Starts {
        &self.starts[order.index() & (LEVELS - 1)]
    }

    #[inline(always)]
    fn depths(&self, order: Order) -> usize {
        usize::from(self.depths[order.index() & (LEVELS - 1)])
    }

    /// Returns the word of a level of an order that holds a bit.
    #[inline(always)]
    fn word(&self, order: Order, depth: usize, bit: u32) -> &'a P::Cell<u64> {
        let start = self.starts(order)[depth & (DEPTHS - 1)];
        &self.words[(start + bit / 64) as usize]
    }

    /// Returns the number of a block's bit.
    #[inline(always)]
    fn bit(&self, head: Frame, order: Order) -> u32 {
        (head.index().0 - self.first) >> order.get()
    }

    /// Returns the head of the block that a set bit represents.
    #[inline(always)]
    fn head(&self, bit: u32, order: Order) -> Option<Frame> {
        self.table.frame(Index(self.first + (bit << order.get())))
    }

    /// Sets a bit that is clear, and the bits above it that summarize it.
    #[inline]
    fn set(&self, mut bit: u32, order: Order) {
        for depth in 0..self.depths(order) {
            let word = self.word(order, depth, bit);
            let before = word.get();
            debug_assert!(before >> (bit % 64) & 1 == 0, "{order:?}, bit {bit}");
            word.set(before | 1 << (bit % 64));
            if before != 0 {
                return;
            }
            bit /= 64;
        }
    }

    /// Clears a bit that is set, and the bits above it that summarized it.
    #[inline]
    fn clear(&self, mut bit: u32, order: Order) {
        for depth in 0..self.depths(order) {
            let word = self.word(order, depth, bit);
            let before = word.get();
            debug_assert!(before >> (bit % 64) & 1 != 0, "{order:?}, bit {bit}");
            let after = before & !(1 << (bit % 64));
            word.set(after);
            if after != 0 {
                return;
            }
            bit /= 64;
        }
    }

    /// Goes down from a bit that is set in a summary to the lowest block's bit below it.
    #[inline]
    fn descend(&self, order: Order, depth: usize, mut bit: u32) -> u32 {
        for depth in (0..depth).rev() {
            bit *= 64;
            bit += self.word(order, depth, bit).get().trailing_zeros() & 63;
        }
        bit
    }

    /// Returns the lowest bit that is set. O(log64 n).
    #[inline]
    fn lowest(&self, order: Order) -> Option<u32> {
        let top = self.depths(order).checked_sub(1)?;
        let word = self.word(order, top, 0).get();
        (word != 0).then(|| self.descend(order, top, word.trailing_zeros()))
    }

    /// Returns the lowest bit that is set, from `bit` on. O(log64 n).
    fn lowest_from(&self, order: Order, mut bit: u32) -> Option<u32> {
        let starts = self.starts(order);
        for depth in 0..self.depths(order) {
            let words = starts[(depth + 1) & (DEPTHS - 1)] - starts[depth & (DEPTHS - 1)];
            if bit / 64 >= words {
                return None;
            }
            let word = self.word(order, depth, bit).get() & (u64::MAX << (bit % 64));
            if word != 0 {
                let bit = (bit & !63) + word.trailing_zeros();
                return Some(self.descend(order, depth, bit));
            }
            bit = bit / 64 + 1;
        }
        None
    }

    /// Checks that a level's summary agrees with the words below.
    fn check_summary(&self, order: Order, depth: usize) -> Result<(), Violation> {
        let starts = self.starts(order);
        let words = starts[depth] - starts[depth - 1];
        let capacity = (starts[depth + 1] - starts[depth]) * 64;
        for at in 0..capacity {
            let said = self.word(order, depth, at).get() >> (at % 64) & 1 != 0;
            let so = at < words && self.word(order, depth - 1, at * 64).get() != 0;
            if said != so {
                return Err(Violation::overall(
                    "a summary's bit is wrong about the word below",
                ));
            }
        }
        Ok(())
    }
}

impl<'a, P: Platform> Placed<'a, P> for BitScan<'a, P> {
    const KIND: StructureKind = StructureKind::Bits;

    fn new(place: StructurePlace<'a, P>) -> Self {
        let (starts, depths, words) = geometry(place.blocks, place.max_order);
        debug_assert_eq!(place.bits.len(), words);
        Self {
            table: place.table,
            levels: place.levels,
            words: place.bits,
            first: place.first,
            starts,
            depths,
            max_order: place.max_order,
        }
    }
}

impl<P: Platform> Structure<P> for BitScan<'_, P> {
    const INDIVIDUAL: bool = false;

    #[inline(always)]
    fn table(&self) -> FrameTable<'_, P> {
        self.table
    }

    #[inline(always)]
    fn max_order(&self) -> Order {
        self.max_order
    }

    #[inline]
    fn insert(&self, head: Frame, order: Order) {
        self.set(self.bit(head, order), order);
        self.table.set_next(head, None);
        self.level(order).grow();
    }

    #[inline]
    fn remove(&self, head: Frame, order: Order) {
        self.clear(self.bit(head, order), order);
        self.level(order).shrink();
    }

    #[inline]
    fn take(&self, order: Order) -> Option<Frame> {
        let bit = self.lowest(order)?;
        let head = self.head(bit, order)?;
        self.clear(bit, order);
        self.level(order).shrink();
        Some(head)
    }

    #[inline]
    fn contains(&self, head: Frame, order: Order) -> bool {
        let bit = self.bit(head, order);
        self.word(order, 0, bit).get() >> (bit % 64) & 1 != 0
    }

    fn blocks(&self, order: Order) -> u32 {
        if order > self.max_order {
            0
        } else {
            self.level(order).peek_length()
        }
    }

    fn largest(&self) -> Option<Order> {
        let mut orders = Order::up_to(self.max_order).rev();
        orders.find(|order| self.level(*order).length() > 0)
    }

    fn check(&self) -> Result<(), Violation> {
        for order in Order::up_to(self.max_order) {
            let (mut blocks, mut from) = (0, 0);
            for depth in 1..self.depths(order) {
                self.check_summary(order, depth)?;
            }
            while let Some(bit) = self.lowest_from(order, from) {
                let fail = |index, what| Err(Violation { index, what });
                let Some(head) = self.head(bit, order) else {
                    return fail(Index(0), "a bit is set beyond the last frame");
                };
                let index = head.index();
                if self.table.tag(head).state(head) != Some(FrameState::Free { head: index }) {
                    return fail(
                        index,
                        "a block's bit is set, but its record isn't a free head's",
                    );
                }
                blocks += 1;
                from = bit + 1;
            }
            if blocks != self.level(order).length() {
                return Err(Violation::overall("an order's blocks are miscounted"));
            }
        }
        Ok(())
    }
}

impl<P: Platform> Ordered<P> for BitScan<'_, P> {
    fn pair(&self, order: Order, from: Index) -> Option<Frame> {
        // The lower one of two buddies has an even bit: whole words are tested together.
        const LOWER: u64 = 0x5555_5555_5555_5555;
        let behind = from.0.saturating_sub(self.first).div_ceil(order.frames());
        let mut bit = self.lowest_from(order, behind.next_multiple_of(2))?;
        loop {
            let word = self.word(order, 0, bit).get() & (u64::MAX << (bit & 62));
            let pairs = word & word >> 1 & LOWER;
            if pairs != 0 {
                return self.head((bit & !63) + pairs.trailing_zeros(), order);
            }
            bit = self.lowest_from(order, (bit | 63).checked_add(1)?)?;
        }
    }
}
