//! The tree of status words, and how blocks are taken and given back in it.
//!
//! A block and the blocks that contain it may lie in different words, which no single exchange changes together. A word
//! that is not empty has a mark in the word above it, its parent, and a marked unit belongs to no block of the parent.
//! So a request in a word that is in use changes this word alone. Only the first block of a word, and the last, change
//! the parent, too.
//!
//! # Invariants
//! 1. At every moment, a word that is not empty has a mark in its parent, or lies in a block that is being split. The
//!    parent is then not empty either.
//! 2. The parent is marked before the first block of a word is taken, and each mark raises the parent's version.
//! 3. The mark of an empty word is cleared in this order: the parent is read; the word, if it was not emptied just now,
//!    receives a new version; the parent is exchanged. If another CPU marked the parent before it was read, the word's
//!    new version lets that CPU's exchange of the word fail. If it marked the parent later, the parent's exchange
//!    fails. So no mark of a word in use is cleared.
//! 4. A word that lies in a block that is being split is not emptied. So the split, which marks its two words, marks
//!    no empty one, and neither word becomes a block twice.
//! 5. No CPU waits for another one. An exchange fails only because another CPU's exchange succeeded.
//!
//! A version has 32 bits. A CPU that stops between two steps, while exactly 2^32 marks or a multiple are set in one
//! word, would not notice them.

use super::word::{FAN_SHIFT, VERSION, WORD_LEVELS, WordLevel};
use crate::platform::{AtomicWord, Ordering, Platform};

/// How often a word is tried again after another CPU changed it.
pub(crate) const WORD_RETRIES: u32 = 64;
/// How often a mark is tried again to be cleared. It remains if all attempts fail; the next free in its word clears it.
const CLEARINGS: u32 = 1 << 12;

/// The reason why units were not taken.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum NotTaken {
    /// One of them is occupied, or lies in an allocated block.
    Occupied,
    /// Other CPUs changed a word each time.
    Raced,
}

/// A word by its place.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct At {
    pub(crate) level: WordLevel,
    pub(crate) index: u32,
}

impl At {
    /// Returns the word of a level that a frame lies in.
    #[inline(always)]
    pub(crate) const fn of(level: WordLevel, frame: u32) -> At {
        At {
            level,
            index: frame >> level.shift(),
        }
    }

    /// Returns the parent, and the unit of this word there.
    #[inline(always)]
    pub(crate) const fn up(self) -> (At, u32) {
        let parent = At {
            level: self.level.up(),
            index: self.index >> FAN_SHIFT,
        };
        (parent, self.index & ((1 << FAN_SHIFT) - 1))
    }

    /// Returns the word of a unit.
    const fn down(self, unit: u32) -> At {
        At {
            level: self.level.down(),
            index: self.index << FAN_SHIFT | unit,
        }
    }
}

/// The words of all levels.
pub(crate) struct Tree<'m, P: Platform> {
    pub(crate) levels: [&'m [P::AtomicU64]; WORD_LEVELS],
    /// The level whose words have no parent. Each of its blocks of the largest order is a root.
    pub(crate) top: WordLevel,
}

impl<P: Platform> Tree<'_, P> {
    /// Returns a word.
    #[inline(always)]
    pub(crate) fn word(&self, at: At) -> Option<&P::AtomicU64> {
        self.levels
            .get(at.level.0 as usize)
            .and_then(|words| words.get(at.index as usize))
    }

    /// Returns the value of a word. A hint while other CPUs work.
    #[inline(always)]
    pub(crate) fn load(&self, at: At) -> u64 {
        self.word(at)
            .map_or(u64::MAX, |word| word.load(Ordering::Relaxed))
    }

    /// Takes free units of a word: adds `bits`, which occupy the units of `mask`.
    pub(crate) fn take(&self, at: At, mask: u64, bits: u64) -> Result<(), NotTaken> {
        let Some(word) = self.word(at) else {
            return Err(NotTaken::Occupied);
        };
        let mut refused = NotTaken::Raced;
        let mut marked = false;
        for _ in 0..WORD_RETRIES {
            let seen = word.load(Ordering::Relaxed);
            if seen & mask != 0 {
                refused = NotTaken::Occupied;
                break;
            }
            if at.level.is_empty(seen) && at.level < self.top {
                if let Err(error) = self.mark(at) {
                    refused = error;
                    break;
                }
                marked = true;
            }
            let new = at.level.with(seen, bits);
            // Acquire: pairs with the releases in `free` and `clear`: what the last holders did with the frames is
            // seen. Release: pairs with the acquires here and in `take_seen`: what `mark` saw of the holders of larger
            // blocks is seen by those who take the next block of this word.
            if word
                .compare_exchange(seen, new, Ordering::AcqRel, Ordering::Relaxed)
                .is_ok()
            {
                return Ok(());
            }
        }
        if marked {
            self.settle(at);
        }
        Err(refused)
    }

    /// Takes free units of a word that is in use and still has the value `seen`.
    #[inline(always)]
    pub(crate) fn take_seen(&self, word: &P::AtomicU64, seen: u64, bits: u64) -> bool {
        // Acquire: pairs with the release in `free`: what the last holder did with the frames is seen. It pairs with
        // the release in `take`, too, which passes on what was seen of larger blocks.
        word.compare_exchange(seen, seen | bits, Ordering::Acquire, Ordering::Relaxed)
            .is_ok()
    }

    /// Marks a word in its parent.
    fn mark(&self, at: At) -> Result<(), NotTaken> {
        let (parent, unit) = at.up();
        let Some(word) = self.word(parent) else {
            return Err(NotTaken::Occupied);
        };
        let level = parent.level;
        let mut refused = NotTaken::Raced;
        let mut marked = false;
        for _ in 0..WORD_RETRIES {
            let seen = word.load(Ordering::Relaxed);
            if level.is_covered(seen, unit) {
                refused = NotTaken::Occupied;
                break;
            }
            if level.is_empty(seen) && level < self.top {
                if let Err(error) = self.mark(parent) {
                    refused = error;
                    break;
                }
                marked = true;
            }
            let new = (seen | 1 << unit).wrapping_add(VERSION);
            // Acquire: pairs with the releases in `free` and `clear`: what the holders of blocks of this word did is
            // seen. Release: pairs with the acquires here and in `take`, as there.
            if word
                .compare_exchange(seen, new, Ordering::AcqRel, Ordering::Relaxed)
                .is_ok()
            {
                return Ok(());
            }
        }
        if marked {
            self.settle(parent);
        }
        Err(refused)
    }

    /// Gives units of a word back: replaces it with what `change` returns. Returns whether the word became empty, or
    /// `None` if `change` returns `None`, or the units still belong to a larger block.
    #[inline]
    pub(crate) fn free(&self, at: At, change: impl Fn(u64) -> Option<u64>) -> Option<bool> {
        let word = self.word(at)?;
        let mut seen = word.load(Ordering::Relaxed);
        loop {
            let left = change(seen)?;
            if at.level.is_empty(left) {
                match self.empty(at, seen, left) {
                    Ok(()) => return Some(true),
                    Err(now) => seen = now?,
                }
                continue;
            }
            // Release: pairs with the acquires in `take` and `take_seen`: the next holder sees what this one did.
            match word.compare_exchange(seen, left, Ordering::Release, Ordering::Relaxed) {
                Ok(_) => return Some(false),
                Err(now) => seen = now,
            }
        }
    }

    /// Empties a word that still has the value `seen`, and clears its mark. `left` has no occupied unit. The error is
    /// the value that the word has instead, or `None` if the word lies in a block that is being split.
    #[inline(never)]
    fn empty(&self, at: At, seen: u64, left: u64) -> Result<(), Option<u64>> {
        let Some(word) = self.word(at) else {
            return Ok(());
        };
        // Acquire: pairs with the release in `take`: the mark of this word is seen in the parent, so the version that
        // the word takes over from there is new. It pairs with the release in `fill`, too: if the word became a block
        // just now, the claimed block is seen there, unless it was split.
        let now = word.load(Ordering::Acquire);
        if now != seen {
            return Err(Some(now));
        }
        let (parent, unit) = at.up();
        let above = if at.level < self.top {
            self.load(parent)
        } else {
            0
        };
        if parent.level.is_covered(above, unit) {
            return Err(None);
        }
        let new = at.level.emptied(left, above);
        // Acquire: pairs with the releases in `free`: the release in `clear` passes on what the holders of other blocks
        // of this word did. Release: pairs with the acquire in `take`. It also keeps the read of the parent before.
        word.compare_exchange(seen, new, Ordering::AcqRel, Ordering::Relaxed)
            .map_err(Some)?;
        if at.level < self.top && !self.clear(parent, unit, above) {
            self.settle(at);
        }
        Ok(())
    }

    /// Clears the mark of a unit whose word was found empty, if the parent still has the value `seen`, in which no
    /// block covers the unit. Returns `false` if it has another one.
    fn clear(&self, parent: At, unit: u32, seen: u64) -> bool {
        if seen >> unit & 1 == 0 {
            return true;
        }
        let left = seen & !(1 << unit);
        if parent.level.is_empty(left) {
            return self.empty(parent, seen, left).is_ok();
        }
        self.word(parent).is_none_or(|word| {
            // Release: pairs with the acquires in `take` and `mark`: the holder of a larger block sees what the
            // holders of this part of it did.
            word.compare_exchange(seen, left, Ordering::Release, Ordering::Relaxed)
                .is_ok()
        })
    }

    /// Clears the mark of a word if it is empty.
    #[cold]
    #[inline(never)]
    pub(crate) fn settle(&self, at: At) {
        let Some(word) = self.word(at) else {
            return;
        };
        if at.level >= self.top {
            return;
        }
        let (parent, unit) = at.up();
        for _ in 0..CLEARINGS {
            // Acquire: pairs with the release in `empty`: the parent is read as new as by the CPU that emptied the
            // word, and `clear` passes on what the holders of its blocks did.
            let seen = word.load(Ordering::Acquire);
            if !at.level.is_empty(seen) {
                return;
            }
            let above = self.load(parent);
            if above >> unit & 1 == 0 || parent.level.is_covered(above, unit) {
                return;
            }
            let new = at.level.emptied(seen, above);
            // Acquire: pairs with the releases in `free` and `empty`, as above. Release: keeps the read of the parent
            // before, and pairs with the acquire in `take`.
            let renewed = seen == new
                || word
                    .compare_exchange(seen, new, Ordering::AcqRel, Ordering::Relaxed)
                    .is_ok();
            if renewed && self.clear(parent, unit, above) {
                return;
            }
        }
    }

    /// Returns the allocated block that contains a frame: its word, and its part there. Blocks are divided downwards,
    /// so the search goes downwards, too.
    pub(crate) fn holder(&self, frame: u32) -> Option<(At, super::word::WordBlock)> {
        (0..=self.top.0).rev().find_map(|level| {
            let level = WordLevel(level);
            let at = At::of(level, frame);
            let unit = level.unit_of(frame);
            // Acquire: pairs with the releases in `divide` and `fill`: if a block was divided, its parts are seen
            // below.
            let word = self.word(at)?.load(Ordering::Acquire);
            let part = match level {
                WordLevel::BOTTOM => level.block_at(word, unit),
                _ => level.block_over(word, unit),
            };
            part.map(|part| (at, part))
        })
    }

    /// Returns the frame after the block of a higher level that contains a word, if there is one.
    pub(crate) fn cover(&self, mut at: At) -> Option<u64> {
        while at.level < self.top {
            let (parent, unit) = at.up();
            let word = self.load(parent);
            if let Some(part) = parent.level.block_over(word, unit) {
                let units = u64::from(parent.index << FAN_SHIFT | part.unit);
                return Some((units + u64::from(part.units())) << parent.level.unit_shift());
            }
            if !parent.level.is_empty(word) {
                return None;
            }
            at = parent;
        }
        None
    }

    /// Divides an allocated block of a higher level towards a frame that lies in it: one step, which any CPU can take.
    ///
    /// Two units that are a block are split in three steps. First the block is claimed, so that no free finds it.
    /// Then the words of both units, which are empty, become blocks. Last the claimed block becomes two marks. A CPU
    /// that finds a claimed block goes on with it.
    pub(crate) fn divide(&self, at: At, frame: u32) {
        let (level, unit) = (at.level, at.level.unit_of(frame));
        let Some(word) = self.word(at) else {
            return;
        };
        // Acquire: pairs with the release below: the words of a split block are read after the split.
        let seen = word.load(Ordering::Acquire);
        let Some(part) = level.block_over(seen, unit) else {
            return;
        };
        let second = 1 << (part.unit + 1);
        let new = match () {
            () if part.size > 1 => level.narrowed(seen, part, unit),
            () if seen & second != 0 => seen & !second,
            () => {
                for unit in [part.unit, part.unit + 1] {
                    self.fill(at, unit);
                }
                (seen & !level.block(part) | level.mask(part)).wrapping_add(VERSION)
            }
        };
        // Acquire: pairs with the release in `free`, whose history the words below continue. Release: pairs with the
        // acquires here and in `mark`.
        let _ = word.compare_exchange(seen, new, Ordering::AcqRel, Ordering::Relaxed);
    }

    /// Turns the word of a unit into one allocated block, if it is empty and the unit lies in a claimed block.
    fn fill(&self, parent: At, unit: u32) {
        let at = parent.down(unit);
        let (Some(word), Some(above)) = (self.word(at), self.word(parent)) else {
            return;
        };
        let (level, second) = (parent.level, 1 << (unit | 1));
        loop {
            // Acquire: pairs with the releases in `empty` and here: the parent is not read older than the word. If the
            // block was split in the meantime and its parts were freed, the parent says so.
            let seen = word.load(Ordering::Acquire);
            let claimed = above.load(Ordering::Relaxed);
            let is_claimed = level.is_covered(claimed, unit) && claimed & second == 0;
            if !at.level.is_empty(seen) || !is_claimed {
                return;
            }
            let new = at.level.with(seen, at.level.block(at.level.whole()));
            // Acquire: pairs with the release in `empty`: what the holders of earlier blocks did is passed on. Release:
            // pairs with the acquires in `divide`, `empty` and here.
            if word
                .compare_exchange(seen, new, Ordering::AcqRel, Ordering::Relaxed)
                .is_ok()
            {
                return;
            }
        }
    }
}
