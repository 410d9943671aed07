//! The state of memory, read from the words; the checks.
//!
//! The free frames are those that no word says are occupied. The checks compare the levels with each other and with
//! the bitmaps of withdrawn frames.
//!
//! # Invariants
//! Nothing here changes anything. While other CPUs work, the results are hints.

use super::Nbbs;
use super::tree::At;
use super::word::{BOTTOM_SHIFT, FAN_SHIFT, WITHDRAWN, WordLevel};
use crate::bit_runs::{WORD, first};
use crate::frame::Index;
use crate::free_bits::FreeBits;
use crate::platform::Platform;
use crate::snapshot::{Census, FrameState, Violation};
use crate::withdrawn::Withdrawn;

impl<P: Platform> FreeBits for Nbbs<'_, P> {
    fn free_bits(&self, word: u32) -> u64 {
        self.free_in(2 * word) | self.free_in(2 * word + 1) << (1 << BOTTOM_SHIFT)
    }

    fn words(&self) -> u32 {
        self.span.frames().div_ceil(WORD)
    }
}

impl<P: Platform> Nbbs<'_, P> {
    /// Returns the free frames of a lowest word.
    fn free_in(&self, index: u32) -> u64 {
        let at = At {
            level: WordLevel::BOTTOM,
            index,
        };
        let tree = &self.search.tree;
        match tree.cover(at) {
            Some(_) => 0,
            None => at.level.free(tree.load(at)),
        }
    }

    /// Returns the use of a frame. O(levels), and of a free one O(frames of the largest block / 64).
    pub(super) fn state_of(&self, index: Index) -> Option<FrameState> {
        if index.0 >= self.span.frames() {
            return None;
        }
        match self.withdrawn.reason(index.0) {
            Some(Withdrawn::Hole) => return Some(FrameState::Hole),
            Some(Withdrawn::Reserved) => return Some(FrameState::Reserved),
            None => {}
        }
        Some(match self.search.tree.holder(index.0) {
            None => FrameState::Free {
                head: self.free_block_of(index, self.max_order),
            },
            Some((at, part)) => {
                let order = at.level.order(part);
                let head = Index(index.0 & !(order.frames() - 1));
                FrameState::Allocated { head, order }
            }
        })
    }

    /// Checks all words, and counts the frames. O(frames).
    pub(super) fn check_all(&self) -> Result<Census, Violation> {
        let tree = &self.search.tree;
        for level in (0..=tree.top.0).map(WordLevel) {
            let words = tree.levels.get(level.0 as usize);
            for index in 0..words.map_or(0, |words| words.len() as u32) {
                self.check_word(At { level, index })
                    .map_err(|what| Violation {
                        index: Index(index << level.shift()),
                        what,
                    })?;
            }
        }
        let mut census = Census::default();
        for word in 0..self.words() {
            let index = Index(word * WORD);
            let inside = first(self.span.frames() - index.0);
            let free = self.free_bits(word);
            let (present, reserved) = self.withdrawn.bits(word as usize);
            let withdrawn = !present | reserved;
            if withdrawn & free != 0 || reserved & !present != 0 {
                let what = "a hole or a reserved frame is free, or a hole is reserved";
                return Err(Violation { index, what });
            }
            let count = |bits: u64| u64::from((bits & inside).count_ones());
            census.holes += count(!present);
            census.reserved += count(reserved);
            census.free += count(free);
            census.allocated += count(!free & !withdrawn);
        }
        Ok(census)
    }

    /// Checks a word: its blocks, its mark, and what is withdrawn.
    fn check_word(&self, at: At) -> Result<(), &'static str> {
        let tree = &self.search.tree;
        let (level, word) = (at.level, tree.load(at));
        let is_empty = level.is_empty(word);
        let (mut unit, mut rebuilt) = (0, level.occupied(word));
        while unit < level.whole().units() {
            let block = level.block_over(word, unit);
            if let Some(part) = block {
                if level.mask(part) & !word != 0 {
                    return Err("a block is being split, or not all of its units are occupied");
                }
                rebuilt |= level.block(part);
            }
            let after = block.map_or(unit + 1, |part| part.unit + part.units());
            if level != WordLevel::BOTTOM && block.is_none() && word >> unit & 1 != 0 {
                let below = At {
                    level: level.down(),
                    index: at.index << FAN_SHIFT | unit,
                };
                if tree.word(below).is_some() && below.level.is_empty(tree.load(below)) {
                    return Err("the mark of an empty word was not cleared");
                }
            }
            unit = after;
        }
        let nodes = match level {
            WordLevel::BOTTOM => word & !WITHDRAWN,
            _ => word & ((1 << 32) - 1),
        };
        if !is_empty && nodes != rebuilt {
            return Err("blocks of a word overlap");
        }
        if is_empty && level != WordLevel::BOTTOM && nodes != 0 {
            return Err("an empty word has a block");
        }
        if at.level < tree.top {
            let (parent, unit) = at.up();
            let above = tree.load(parent);
            let is_marked = above >> unit & 1 != 0 && !parent.level.is_covered(above, unit);
            if is_marked == is_empty {
                return Err("a word in use has no mark, or an empty one has");
            }
        }
        match level {
            WordLevel::BOTTOM => self.check_withdrawn(at, word),
            _ => Ok(()),
        }
    }

    /// Checks that a lowest word knows its withdrawn frames, and that they belong to no block of several frames.
    fn check_withdrawn(&self, at: At, word: u64) -> Result<(), &'static str> {
        let start = at.index << BOTTOM_SHIFT;
        let mut withdrawn = (0..1 << BOTTOM_SHIFT)
            .filter(|unit| self.withdrawn.reason(start + unit).is_some())
            .peekable();
        if withdrawn.peek().is_some() && (at.level.is_empty(word) || word & WITHDRAWN == 0) {
            return Err("a word does not know that frames are withdrawn");
        }
        if withdrawn.any(|unit| at.level.is_covered(word, unit)) {
            Err("a withdrawn frame lies in an allocated block")
        } else {
            Ok(())
        }
    }
}
