//! The status words: several levels of the tree in one word.
//!
//! One exchange of a word changes a block and its place in several levels of the tree together. The words of the lowest
//! level have 32 units, which are frames, and thereby six levels. All others have 16 units, each the reach of a word
//! of the level below, and thereby four levels of blocks above it.
//!
//! | bits of a lowest word | bits of another word | meaning |
//! |---|---|---|
//! | 0 to 31 | 0 to 15 | the unit is occupied |
//! | 32 to 62 | 16 to 30 | a block of several units is allocated: one bit for each node, as in a heap, from the root on
//! |
//! | 63 | | some frames are withdrawn |
//! | 32 to 63 of an empty word | 32 to 63 | the version |
//!
//! # Invariants
//! 1. A word is empty if no unit is occupied. A block that is allocated in a word occupies its units, and no two blocks
//!    of a word overlap.
//! 2. An occupied unit that belongs to no block is an allocated frame, or a withdrawn one, in a lowest word. In another
//!    word it is a mark: the word below that unit may be in use.
//! 3. A block of two units of which only the first is occupied is being split.

use crate::bit_runs::first;
use crate::frame::{Block, Index, Order};

/// The number of levels of words that the largest order needs.
pub(crate) const WORD_LEVELS: usize = 5;
/// One step of a version.
pub(crate) const VERSION: u64 = 1 << 32;
/// Some frames of a lowest word are withdrawn. Set until the word is empty.
pub(crate) const WITHDRAWN: u64 = 1 << 63;
/// The frames of a lowest word, as a power of two.
pub(crate) const BOTTOM_SHIFT: u32 = 5;
/// The units of another word, as a power of two.
pub(crate) const FAN_SHIFT: u32 = 4;

/// A block in a word: its first unit, and its size as a power of two units.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct WordBlock {
    pub(crate) unit: u32,
    pub(crate) size: u32,
}

impl WordBlock {
    /// Returns the number of units.
    pub(crate) const fn units(self) -> u32 {
        1 << self.size
    }
}

/// A level of words.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct WordLevel(pub(crate) u32);

impl WordLevel {
    /// The lowest level.
    pub(crate) const BOTTOM: WordLevel = WordLevel(0);

    /// Returns the level of the words in which blocks of an order are allocated.
    #[inline(always)]
    pub(crate) const fn of(order: Order) -> WordLevel {
        let order = order.get() as u32;
        match order.checked_sub(BOTTOM_SHIFT + 1) {
            None => WordLevel(0),
            Some(above) => WordLevel(above / FAN_SHIFT + 1),
        }
    }

    pub(crate) const fn up(self) -> WordLevel {
        WordLevel(self.0 + 1)
    }

    pub(crate) const fn down(self) -> WordLevel {
        WordLevel(self.0.saturating_sub(1))
    }

    /// Returns the frames of a word, as a power of two.
    #[inline(always)]
    pub(crate) const fn shift(self) -> u32 {
        BOTTOM_SHIFT + FAN_SHIFT * self.0
    }

    /// Returns the frames of a unit, as a power of two.
    #[inline(always)]
    pub(crate) const fn unit_shift(self) -> u32 {
        match self.0 {
            0 => 0,
            _ => self.shift() - FAN_SHIFT,
        }
    }

    /// Returns the size of the largest block of a word, which is all of it.
    #[inline(always)]
    const fn largest(self) -> u32 {
        match self.0 {
            0 => BOTTOM_SHIFT,
            _ => FAN_SHIFT,
        }
    }

    #[inline(always)]
    const fn units(self) -> u32 {
        1 << self.largest()
    }

    /// Returns the unit of a frame in its word.
    #[inline(always)]
    pub(crate) const fn unit_of(self, frame: u32) -> u32 {
        frame >> self.unit_shift() & (self.units() - 1)
    }

    /// Returns the part that a block of this level is.
    #[inline(always)]
    pub(crate) const fn part(self, start: u32, order: Order) -> WordBlock {
        WordBlock {
            unit: self.unit_of(start),
            size: order.get() as u32 - self.unit_shift(),
        }
    }

    /// Returns the order of a part.
    pub(crate) const fn order(self, part: WordBlock) -> Order {
        Order::saturating(part.size + self.unit_shift())
    }

    /// Returns the part that is all of a word.
    pub(crate) const fn whole(self) -> WordBlock {
        WordBlock {
            unit: 0,
            size: self.largest(),
        }
    }

    /// Returns the occupied units of a word.
    #[inline(always)]
    pub(crate) const fn occupied(self, word: u64) -> u64 {
        word & first(self.units())
    }

    /// Returns the free units of a word.
    #[inline(always)]
    pub(crate) const fn free(self, word: u64) -> u64 {
        self.occupied(!word)
    }

    /// Returns `true` if no unit is occupied.
    #[inline(always)]
    pub(crate) const fn is_empty(self, word: u64) -> bool {
        self.occupied(word) == 0
    }

    /// Returns the bit of a block's node. Single units have none.
    #[inline(always)]
    const fn node(self, part: WordBlock) -> u64 {
        match part.size {
            0 => 0,
            size => 1 << (self.units() - 1 + ((self.units() + part.unit) >> size)),
        }
    }

    /// Returns the units of a part.
    #[inline(always)]
    pub(crate) const fn mask(self, part: WordBlock) -> u64 {
        first(part.units()) << part.unit
    }

    /// Returns all bits of an allocated block.
    #[inline(always)]
    pub(crate) const fn block(self, part: WordBlock) -> u64 {
        self.node(part) | self.mask(part)
    }

    /// Returns the nodes of all blocks of several units that contain a unit.
    #[inline(always)]
    pub(crate) const fn path(self, unit: u32) -> u64 {
        let leaf = self.units() + unit;
        let base = self.units() - 1;
        let above = 1 << (base + (leaf >> 1))
            | 1 << (base + (leaf >> 2))
            | 1 << (base + (leaf >> 3))
            | 1 << (base + (leaf >> 4));
        match self.0 {
            0 => above | 1 << (base + (leaf >> 5)),
            _ => above,
        }
    }

    /// Returns `true` if a unit lies in an allocated block of several units.
    #[inline(always)]
    pub(crate) const fn is_covered(self, word: u64, unit: u32) -> bool {
        !self.is_empty(word) && word & self.path(unit) != 0
    }

    /// Returns the allocated block of several units that contains a unit.
    #[inline]
    pub(crate) fn block_over(self, word: u64, unit: u32) -> Option<WordBlock> {
        if !self.is_covered(word, unit) {
            return None;
        }
        (1..=self.largest())
            .map(|size| WordBlock {
                unit: unit >> size << size,
                size,
            })
            .find(|part| word & self.node(*part) != 0)
    }

    /// Returns the allocated block of a lowest word that contains a frame.
    #[inline]
    pub(crate) fn block_at(self, word: u64, unit: u32) -> Option<WordBlock> {
        match word >> unit & 1 {
            0 => None,
            _ => Some(
                self.block_over(word, unit)
                    .unwrap_or(WordBlock { unit, size: 0 }),
            ),
        }
    }

    /// Returns all bits of a run of units as allocated blocks, as few as possible.
    #[inline(always)]
    pub(crate) fn run(self, unit: u32, units: u32) -> u64 {
        let size = units.trailing_zeros();
        if units.is_power_of_two() && unit.is_multiple_of(units) {
            self.block(WordBlock { unit, size })
        } else {
            self.blocks(unit, units)
        }
    }

    #[inline]
    fn blocks(self, unit: u32, units: u32) -> u64 {
        Block::cover(Index(unit), units, Order::LIMIT).fold(0, |bits, block| {
            let (unit, size) = (block.start.0, block.order.get().into());
            bits | self.block(WordBlock { unit, size })
        })
    }

    /// Returns a word with more bits. The version of an empty lowest word makes room for them.
    #[inline(always)]
    pub(crate) const fn with(self, word: u64, bits: u64) -> u64 {
        if self.0 == 0 && self.is_empty(word) {
            bits
        } else {
            word | bits
        }
    }

    /// Returns the empty word that follows a word of which only unoccupied units are left. Its version is one that it
    /// never had before: a lowest word takes over that of its parent, which has risen since the word was empty.
    pub(crate) const fn emptied(self, word: u64, parent: u64) -> u64 {
        match self.0 {
            0 => parent & !(VERSION - 1),
            _ => word.wrapping_add(VERSION),
        }
    }

    /// Returns the word without a run of units, all of them occupied by blocks. What remains of the first and the last
    /// block becomes blocks. Returns `None` if a unit is not occupied.
    #[inline]
    pub(crate) fn without_run(self, word: u64, unit: u32, units: u32) -> Option<u64> {
        let (mut left, mut at, end) = (word, unit, unit + units);
        while at < end {
            let block = self.block_at(word, at)?;
            let after = block.unit + block.units();
            left &= !self.block(block);
            left |= self.blocks(block.unit, at.saturating_sub(block.unit));
            left |= self.blocks(end, after.saturating_sub(end));
            at = after;
        }
        Some(left)
    }

    /// Returns the word after a block was divided so that two units become a block of their own, which can be split.
    #[inline]
    pub(crate) fn narrowed(self, word: u64, block: WordBlock, unit: u32) -> u64 {
        let pair = unit & !1;
        let after = block.unit + block.units();
        word & !self.block(block)
            | self.blocks(block.unit, pair - block.unit)
            | self.blocks(pair, 2)
            | self.blocks(pair + 2, after - pair - 2)
    }

    /// Returns the word after exactly this block was freed, or `None` if it is not allocated, or being split.
    #[inline(always)]
    pub(crate) const fn freed(self, word: u64, part: WordBlock) -> Option<u64> {
        let bits = self.block(part);
        let larger = match part.size {
            0 => self.path(part.unit),
            _ => 0,
        };
        if word & (bits | larger) == bits {
            Some(word & !bits)
        } else {
            None
        }
    }
}
