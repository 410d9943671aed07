//! One bit for each aligned group of frames, numbered like the nodes of a binary tree.
//!
//! A node's parent is the node divided by two, and the other half of a group is the node with its lowest bit inverted.
//! Unlike with [`bits`](super::bits), no table says where the bits of an order begin, and each step of an ascent is one
//! shift. The 1,024 frames of a buddy space have four cache lines of bits.
//!
//! # Invariants
//! 1. Frame f of a part is node `top` + f, and its group of order j is that node divided by 2^j. `top` is at least the
//!    number of frames, so the nodes of order j are those from `top` / 2^j up to twice as many, and no two orders share
//!    one.
//! 2. `top` is a multiple of the largest block, so the two halves of a group differ in their lowest bit only.
//! 3. There are two bits for each of `top` frames; `top` is a multiple of 32, so they fill words.
//!
//! # Design decisions
//! A node outside of the words, which no frame of the part has, reads as clear, for the reason given in
//! [`bits`](super::bits).

use core::ops::Range;

use crate::frame::Order;
use crate::frame_table::Frame;
use crate::platform::{Platform, SharedCell};

/// The bits of all groups of some memory. A level is an order as a plain number.
pub(crate) struct GroupBits<'a, P: Platform> {
    words: &'a [P::Cell<u64>],
    /// The node of frame zero of the span, modulo 2^64.
    node_of_zero: u64,
}

/// Returns the number of words for `blocks` largest blocks: two bits per frame.
pub(super) fn words(blocks: u32, max_order: Order) -> usize {
    (u64::from(blocks) << max_order.get()).div_ceil(32) as usize
}

impl<'a, P: Platform> GroupBits<'a, P> {
    /// Creates the bits of the frames from `first` on; all clear if the words are zero.
    pub(crate) fn new(words: &'a [P::Cell<u64>], first: u32) -> Self {
        Self {
            words,
            node_of_zero: top(words).wrapping_sub(u64::from(first)),
        }
    }

    /// Returns the node of the group of a level that contains a frame.
    #[inline(always)]
    fn node(&self, frame: Frame, level: u32) -> u64 {
        // The mask does not change a level, and tells the compiler that the shift cannot overflow.
        u64::from(frame.index().0).wrapping_add(self.node_of_zero) >> (level & 63)
    }

    #[inline(always)]
    fn word(&self, node: u64) -> Option<&'a P::Cell<u64>> {
        self.words.get((node / 64) as usize)
    }

    #[inline(always)]
    fn is_set(&self, node: u64) -> bool {
        self.word(node)
            .is_some_and(|word| word.get() & 1 << (node % 64) != 0)
    }

    #[inline(always)]
    fn set_node(&self, node: u64) {
        debug_assert!(!self.is_set(node), "node {node}");
        if let Some(word) = self.word(node) {
            word.set(word.get() | 1 << (node % 64));
        }
    }

    /// Returns `true` if the bit of the group that contains a frame is set.
    #[inline(always)]
    pub(crate) fn get(&self, frame: Frame, level: u32) -> bool {
        self.is_set(self.node(frame, level))
    }

    /// Sets the bit of the group that contains a frame, which is clear.
    #[inline(always)]
    pub(crate) fn set(&self, frame: Frame, level: u32) {
        self.set_node(self.node(frame, level));
    }

    /// Clears the bit of the group that contains a frame, which is set.
    #[inline(always)]
    pub(crate) fn clear(&self, frame: Frame, level: u32) {
        let node = self.node(frame, level);
        debug_assert!(self.is_set(node), "node {node}");
        if let Some(word) = self.word(node) {
            word.set(word.get() & !(1 << (node % 64)));
        }
    }

    /// Sets the bit of the largest group, up to the level `last`, to which a frame can ascend: while the bit of the
    /// other half is set. Calls `look` for each bit that it reads. Returns the group's level. O(orders).
    #[inline(always)]
    pub(crate) fn ascend(&self, frame: Frame, last: u32, mut look: impl FnMut()) -> u32 {
        let mut node = self.node(frame, 0);
        let mut level = 0;
        while level < last {
            look();
            if !self.is_set(node ^ 1) {
                break;
            }
            node /= 2;
            level += 1;
        }
        self.set_node(node);
        level
    }

    /// Returns how many bits of a level are set; a hint while another CPU works. O(groups / 64).
    pub(crate) fn count(&self, level: u32) -> u32 {
        let first = top(self.words) >> level;
        let nodes = first..2 * first;
        let words = (nodes.start / 64)..nodes.end.div_ceil(64);
        words.map(|word| self.count_within(word, &nodes)).sum()
    }

    /// Returns how many bits of a word are set, of the nodes among `nodes`, of which at least one is in the word.
    fn count_within(&self, word: u64, nodes: &Range<u64>) -> u32 {
        let own = self.words.get(word as usize);
        let bits = own.map_or(0, SharedCell::peek);
        let below = nodes.start.saturating_sub(64 * word);
        let above = (64 * word + 64).saturating_sub(nodes.end);
        (bits >> below << below << above >> above).count_ones()
    }
}

/// Returns the number of frames that the words have bits for, which is the node of the part's first frame.
fn top<C>(words: &[C]) -> u64 {
    32 * words.len() as u64
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::frame::Index;
    use crate::frame_table::{FrameTable, Record, Tag};
    use crate::platform::{Native, NativeCell};
    use std::collections::BTreeSet;
    use std::vec::Vec;

    /// Calls `test` with the bits of a part that begins at `first`, a table of all frames, and the number of frames.
    fn with_bits(
        (first, blocks): (u32, u32),
        largest: u8,
        test: impl FnOnce(&GroupBits<'_, Native>, FrameTable<'_, Native>, u32),
    ) {
        let order = Order::new(largest).unwrap();
        let words: Vec<_> = (0..words(blocks, order))
            .map(|_| NativeCell::new(0))
            .collect();
        let frames = blocks << largest;
        let all = first + frames;
        let records: Vec<_> = (0..all).map(|_| Record::new(Tag::INTERIOR)).collect();
        test(
            &GroupBits::new(&words, first),
            FrameTable::new(&records),
            frames,
        );
    }

    /// Parts of any number of largest blocks, the first and later ones: no number is rounded up to a power of two.
    #[test]
    fn each_group_has_a_bit_of_its_own_and_its_level_counts_it() {
        for (first, blocks, largest) in [(0, 1, 0), (0, 1, 10), (24, 3, 3), (0, 5, 6), (96, 1, 5)] {
            with_bits((first, blocks), largest, |bits, table, frames| {
                let mut nodes = BTreeSet::new();
                for level in 0..=u32::from(largest) {
                    for start in (first..first + frames).step_by(1 << level) {
                        let frame = |at| table.frame(Index(at)).unwrap();
                        let node = bits.node(frame(start), level);
                        assert!(nodes.insert(node), "{start} at level {level}");
                        assert_eq!(node, bits.node(frame(start + (1 << level) - 1), level));
                        assert!(!bits.get(frame(start), level));
                        bits.set(frame(start), level);
                        assert!(bits.get(frame(start), level));
                    }
                    assert_eq!(bits.count(level), frames >> level, "level {level}");
                }
                assert!(nodes.last().unwrap() / 64 < bits.words.len() as u64);
            });
        }
        assert_eq!(words(1, Order::TEN) * 8, 4 * crate::LINE);
        assert_eq!(words(3, Order::TEN), 3 * words(1, Order::TEN));
    }

    #[test]
    fn a_frame_ascends_while_the_other_half_is_free() {
        with_bits((16, 2), 3, |bits, table, _| {
            let frame = |at| table.frame(Index(at)).unwrap();
            let mut looks = 0;
            // The frames of a largest block; the last one ascends to its top.
            let levels = [0, 1, 0, 2, 0, 1, 0, 3];
            for (at, level) in (16..24).zip(levels) {
                assert_eq!(bits.ascend(frame(at), 3, || looks += 1), level);
            }
            assert_eq!(looks, 1 + 2 + 1 + 3 + 1 + 2 + 1 + 3);
            assert!(bits.get(frame(16), 3) && !bits.get(frame(24), 3));
            bits.clear(frame(23), 3);
            assert_eq!([0, 1, 2, 3].map(|level| bits.count(level)), [4, 2, 1, 0]);
        });
    }
}
