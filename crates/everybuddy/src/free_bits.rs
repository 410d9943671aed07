//! Free blocks, counted from one bit for each frame.
//!
//! `llfree`, `nbbs` and `everybuddy` have no lists of free blocks. A block is free if all of its bits are, so the free
//! blocks of each order are counted from the bits whenever they are asked for.
//!
//! # Invariants
//! Nothing here changes anything. While other CPUs work, the results are hints.

use crate::bit_runs::{WORD, WORD_ORDER, first};
use crate::frame::{Index, Order};
use crate::snapshot::Snapshot;

/// Counts the aligned blocks that are wholly free, those within larger ones included.
struct Whole {
    blocks: [u32; Order::LIMIT.index() + 1],
    /// The number of words before this one that are wholly free without a gap.
    run: u32,
}

impl Whole {
    /// Adds the next word, whose number is `word`.
    #[inline]
    fn add(&mut self, word: u32, free: u64, largest: usize) {
        let (small, large) = self.blocks.split_at_mut(WORD_ORDER as usize);
        let small = small.iter_mut().take(largest + 1);
        if free != u64::MAX {
            self.run = 0;
            let mut halves = free;
            for count in small {
                if halves == 0 {
                    break;
                }
                *count += halves.count_ones();
                // The lower half of each block that is whole, packed: every second bit.
                halves = every_second(halves & halves >> 1);
            }
            return;
        }
        self.run += 1;
        for (order, count) in small.enumerate() {
            *count += WORD >> order;
        }
        // The larger blocks whose last word this is: each contains the one before.
        let large = large
            .iter_mut()
            .take((largest + 1).saturating_sub(WORD_ORDER as usize));
        for (doublings, count) in large.enumerate() {
            let words = 1 << doublings;
            if self.run < words || !(word + 1).is_multiple_of(words) {
                break;
            }
            *count += 1;
        }
    }
}

/// Packs the bits at even places into the lower half.
const fn every_second(bits: u64) -> u64 {
    let mut packed = bits & 0x5555_5555_5555_5555;
    packed = (packed | packed >> 1) & 0x3333_3333_3333_3333;
    packed = (packed | packed >> 2) & 0x0f0f_0f0f_0f0f_0f0f;
    packed = (packed | packed >> 4) & 0x00ff_00ff_00ff_00ff;
    packed = (packed | packed >> 8) & 0x0000_ffff_0000_ffff;
    (packed | packed >> 16) & 0x0000_0000_ffff_ffff
}

/// A system that knows of each frame whether it is free.
pub(crate) trait FreeBits {
    /// Returns the free frames of a word of 64, as set bits.
    fn free_bits(&self, word: u32) -> u64;

    /// Returns the number of words.
    fn words(&self) -> u32;

    /// Returns the number of free frames. O(frames / 64).
    fn free_frames(&self) -> u64 {
        let bits = (0..self.words()).map(|word| self.free_bits(word));
        bits.map(|bits| u64::from(bits.count_ones())).sum()
    }

    /// Returns the free blocks by order, as a buddy system has them that coalesces eagerly. O(frames / 64).
    fn survey(&self, max_order: Order) -> Snapshot {
        let largest = max_order.index();
        let mut whole = Whole {
            blocks: [0; Order::LIMIT.index() + 1],
            run: 0,
        };
        for word in 0..self.words() {
            whole.add(word, self.free_bits(word), largest);
        }
        let mut free_blocks = whole.blocks;
        for (order, blocks) in free_blocks.iter_mut().enumerate() {
            let larger = whole.blocks.get(order + 1).copied().unwrap_or(0);
            *blocks = blocks.saturating_sub(2 * larger);
        }
        Snapshot {
            free_blocks,
            domains: 1,
            ..Snapshot::NONE
        }
    }

    /// Returns `true` if all frames of a block are free.
    fn is_whole(&self, start: u32, order: Order) -> bool {
        let frames = order.frames();
        if order.index() < WORD_ORDER as usize {
            let bits = first(frames) << (start % WORD);
            self.free_bits(start / WORD) & bits == bits
        } else {
            (start / WORD..(start + frames) / WORD)
                .all(|word| word < self.words() && self.free_bits(word) == u64::MAX)
        }
    }

    /// Returns the first frame of the free block that holds a free frame.
    fn free_block_of(&self, index: Index, max_order: Order) -> Index {
        let start = |order: Order| index.0 & !(order.frames() - 1);
        let largest = Order::up_to(max_order)
            .take_while(|order| self.is_whole(start(*order), *order))
            .last();
        Index(start(largest.unwrap_or(Order::ZERO)))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_second_bit_is_kept() {
        for bits in [0, 1, 0x5555_5555_5555_5555, u64::MAX, 0x1234_5678_9abc_def1] {
            let expected = (0..32).fold(0, |all, bit| all | (bits >> (2 * bit) & 1) << bit);
            assert_eq!(every_second(bits), expected, "{bits:#x}");
        }
    }

    #[test]
    fn whole_blocks_are_those_without_a_used_frame() {
        // Words that are wholly free, wholly used, and both, so that blocks of several words begin and end anywhere.
        let mut state = 1_u64;
        let words: std::vec::Vec<u64> = core::iter::repeat_with(|| {
            state = state
                .wrapping_mul(6_364_136_223_846_793_005)
                .wrapping_add(1);
            match state >> 60 {
                0 => 0,
                1 | 2 => state | state << 23,
                _ => u64::MAX,
            }
        })
        .take(1 << 12)
        .collect();
        for largest in [0, 3, 5, 6, 7, 10, Order::LIMIT.index()] {
            let mut whole = Whole {
                blocks: [0; Order::LIMIT.index() + 1],
                run: 0,
            };
            for (word, free) in (0..).zip(&words) {
                whole.add(word, *free, largest);
            }
            for (order, count) in whole.blocks.iter().enumerate() {
                let is_free = |start: usize| {
                    let mut frames = start..start + (1 << order);
                    frames.all(|frame| words[frame / 64] >> (frame % 64) & 1 == 1)
                };
                let starts = (0..words.len() * 64).step_by(1 << order);
                let expected = starts.filter(|start| is_free(*start)).count();
                let expected = if order > largest { 0 } else { expected };
                assert_eq!(*count as usize, expected, "order {order} of {largest}");
            }
        }
    }
}
