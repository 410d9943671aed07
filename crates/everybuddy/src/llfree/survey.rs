//! The state of memory, computed from the bits.
//!
//! # Purpose
//!
//! No list of free blocks exists. A block of a buddy system is free here if all of its bits are, so the free blocks of
//! each order are counted from the bits whenever they are asked for.
//!
//! # Invariants
//!
//! Nothing here changes anything. While other CPUs work, the results are hints.

use super::LlFree;
use super::field::{CHILD, WORD, WORDS, first};
use super::lower::Withdrawn;
use crate::frame::{Order, Pfn};
use crate::platform::Platform;
use crate::snapshot::{Census, FrameState, Snapshot, Violation};

/// The order of a word.
const WORD_ORDER: usize = WORD.trailing_zeros() as usize;

/// Counts the aligned blocks that are wholly free, those within larger ones included.
pub(crate) struct Whole {
    blocks: [u32; Order::LIMIT.index() + 1],
    /// The number of words before this one that are wholly free without a gap.
    run: u32,
}

impl Whole {
    /// Counts the free blocks by order, as a buddy system has them that coalesces eagerly. `words` are the free frames
    /// of each word, from the first one on. O(words).
    pub(crate) fn snapshot(words: impl Iterator<Item = u64>, largest: usize) -> Snapshot {
        let mut whole = Whole {
            blocks: [0; Order::LIMIT.index() + 1],
            run: 0,
        };
        for (word, free) in (0..).zip(words) {
            whole.add(word, free, largest);
        }
        let mut free_blocks = whole.blocks;
        for (order, blocks) in free_blocks.iter_mut().enumerate() {
            let larger = whole.blocks.get(order + 1).copied().unwrap_or(0);
            *blocks = blocks.saturating_sub(2 * larger);
        }
        Snapshot {
            free_blocks,
            buffered_frames: 0,
            domains: 1,
        }
    }

    /// Adds the next word, whose number is `word`.
    fn add(&mut self, word: u32, free: u64, largest: usize) {
        let mut halves = free;
        for (order, count) in self.blocks.iter_mut().enumerate().take(largest + 1) {
            if order < WORD_ORDER {
                *count += halves.count_ones();
                // The lower half of each block that is whole, packed: every second bit.
                halves = every_second(halves & halves >> 1);
                continue;
            }
            if order == WORD_ORDER {
                self.run = if free == u64::MAX { self.run + 1 } else { 0 };
            }
            let words = 1 << (order - WORD_ORDER);
            *count += u32::from((word + 1).is_multiple_of(words) && self.run >= words);
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

impl<P: Platform> LlFree<'_, P> {
    /// Returns the free frames of a word. Those of a huge frame are allocated in their bits, too.
    fn free_bits(&self, word: u32) -> u64 {
        self.lower.free_bits(word)
    }

    fn words(&self) -> u32 {
        self.span.frames().div_ceil(WORD)
    }

    /// Returns the free blocks by order, as a buddy system has them that coalesces eagerly. O(frames / 64).
    pub(super) fn survey(&self) -> Snapshot {
        let words = (0..self.words()).map(|word| self.free_bits(word));
        Whole::snapshot(words, self.max_order.index())
    }

    /// Returns `true` if all frames of a block are free.
    fn is_whole(&self, start: u32, order: Order) -> bool {
        let frames = order.frames();
        match order.index() < WORD_ORDER {
            true => {
                let bits = first(frames) << (start % WORD);
                self.free_bits(start / WORD) & bits == bits
            }
            false => (start / WORD..(start + frames) / WORD)
                .all(|word| word < self.words() && self.free_bits(word) == u64::MAX),
        }
    }

    /// Returns the use of a frame. O(frames of the largest block / 64).
    pub(super) fn state_of(&self, pfn: Pfn) -> Option<FrameState> {
        if pfn.0 >= self.span.frames() {
            return None;
        }
        match self.lower.withdrawn(pfn.0) {
            Some(Withdrawn::Hole) => return Some(FrameState::Hole),
            Some(Withdrawn::Reserved) => return Some(FrameState::Reserved),
            None => {}
        }
        if self.lower.entries.load(pfn.0 / CHILD).is_huge() {
            return Some(FrameState::Allocated {
                head: Pfn(pfn.0 & !(CHILD - 1)),
                order: Order::saturating(CHILD.trailing_zeros()),
            });
        }
        if !self.lower.is_free(pfn.0) {
            return Some(FrameState::Allocated {
                head: pfn,
                order: Order::ZERO,
            });
        }
        let start = |order: Order| pfn.0 & !(order.frames() - 1);
        let largest = Order::up_to(self.max_order)
            .take_while(|order| self.is_whole(start(*order), *order))
            .last();
        let head = Pfn(start(largest.unwrap_or(Order::ZERO)));
        Some(FrameState::Free { head })
    }

    /// Checks all counters against the bits, and counts the frames. O(frames).
    pub(super) fn check_all(&self) -> Result<Census, Violation> {
        let mut census = Census::default();
        let mut trees = 0u64;
        for tree in 0..self.upper.trees.len() as u32 {
            let children = 1 << (self.upper.shift - CHILD.trailing_zeros());
            let first = tree * children;
            let fail = |what| {
                let pfn = Pfn(first * CHILD);
                Err(Violation { pfn, what })
            };
            let mut free = 0;
            for child in first..(first + children).min(self.lower.entries.children()) {
                free += self.check_child(child, &mut census)?;
            }
            let (own, is_reserved) = self.upper.state(tree);
            let locals = self
                .upper
                .locals
                .iter()
                .filter_map(|local| local.reserved());
            let mut holders = locals.filter(|reserved| reserved.tree == tree);
            let held = holders.next();
            if holders.next().is_some() {
                return fail("two CPUs have reserved this tree");
            }
            if held.is_some() != is_reserved {
                return fail("the flag of a tree differs from the reservations of the CPUs");
            }
            let counted = own + held.map_or(0, |held| i64::from(held.free));
            if counted != i64::from(free) {
                return fail(
                    "the counters of a tree and its CPU differ from those of its children",
                );
            }
            trees += u64::from(free);
        }
        match trees == census.free {
            true => Ok(census),
            false => Err(Violation {
                pfn: Pfn(0),
                what: "children belong to no tree",
            }),
        }
    }

    /// Checks a child, and returns the number of its free frames.
    fn check_child(&self, child: u32, census: &mut Census) -> Result<u32, Violation> {
        let entry = self.lower.entries.load(child);
        let mut counted = 0;
        for word in child * WORDS..(child + 1) * WORDS {
            let pfn = Pfn(word * WORD);
            let free = self.free_bits(word);
            counted += free.count_ones();
            let (present, reserved) = self.lower.withdrawn_bits(word);
            let withdrawn = !present | reserved;
            if withdrawn & free != 0 || withdrawn != 0 && !entry.has_withdrawn() {
                let what = "a hole or a reserved frame is free, or its child does not know it";
                return Err(Violation { pfn, what });
            }
            if reserved & !present != 0 {
                let what = "a hole is reserved";
                return Err(Violation { pfn, what });
            }
            // The last children reach beyond the span.
            let inside = first(self.span.frames().saturating_sub(pfn.0));
            let count = |bits: u64| u64::from((bits & inside).count_ones());
            census.holes += count(!present);
            census.reserved += count(reserved);
            census.free += count(free);
            census.allocated += count(!free & !withdrawn);
        }
        let pfn = Pfn(child * CHILD);
        if counted != entry.free() {
            let what = "the counter of a child differs from its bits";
            return Err(Violation { pfn, what });
        }
        if entry.is_huge() && (counted > 0 || entry.has_withdrawn()) {
            let what = "a huge frame has free frames, holes or reserved frames";
            return Err(Violation { pfn, what });
        }
        Ok(counted)
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
}
