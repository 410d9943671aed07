//! A few bits for each block of one order, in memory that the caller lends.
//!
//! Some things are known of whole blocks, free or not: that they have only zeros, or that a monitor took them back.
//! Systems do not store them, so that a request costs nothing where nothing asks.
//!
//! # Invariants
//! The bits of a block change by an exchange of their word, so a change of neighbouring bits is never lost.

use core::ops::Range;

use crate::frame::Order;
use crate::platform::{AtomicWord, Ordering, Platform};

/// `BITS` bits for each block. `BITS` divides 64.
pub(crate) struct Marks<'m, P: Platform, const BITS: u32> {
    order: Order,
    words: &'m [P::AtomicU64],
}

impl<P: Platform, const BITS: u32> Clone for Marks<'_, P, BITS> {
    fn clone(&self) -> Self {
        *self
    }
}

impl<P: Platform, const BITS: u32> Copy for Marks<'_, P, BITS> {}

impl<'m, P: Platform, const BITS: u32> Marks<'m, P, BITS> {
    /// Blocks whose bits share a word.
    const PER_WORD: u32 = u64::BITS / BITS;

    /// The bits of a block, at the lowest place.
    const ALL: u64 = (1 << BITS) - 1;

    pub(crate) const fn new(order: Order, words: &'m [P::AtomicU64]) -> Self {
        Self { order, words }
    }

    /// Returns the number of words for the blocks of `frames` frames.
    pub(crate) const fn words(order: Order, frames: u32) -> usize {
        frames.div_ceil(order.frames()).div_ceil(Self::PER_WORD) as usize
    }

    /// Returns the order of the blocks.
    #[inline]
    pub(crate) const fn order(&self) -> Order {
        self.order
    }

    /// Returns the bytes of the bits.
    pub(crate) const fn bytes(&self) -> usize {
        size_of_val(self.words)
    }

    /// Returns the word of a block. `None` if the caller gave no memory for it.
    #[inline]
    fn word(&self, block: u32) -> Option<&'m P::AtomicU64> {
        self.words.get((block / Self::PER_WORD) as usize)
    }

    /// Returns the place of the bits of a block in its word.
    #[inline]
    const fn shift(block: u32) -> u32 {
        block % Self::PER_WORD * BITS
    }

    /// Returns the bits of a block; 0 if it has none.
    #[inline]
    pub(crate) fn get(&self, block: u32) -> u64 {
        // Relaxed, here and below: the bits are about frames. The frames themselves carry what was done with them, and
        // with their bits, to their next holder.
        match self.word(block) {
            Some(word) => word.load(Ordering::Relaxed) >> Self::shift(block) & Self::ALL,
            None => 0,
        }
    }

    /// Changes the bits of a block, if `applies` to them. Returns `true` if it did. One load if it does not apply.
    #[inline]
    pub(crate) fn change(&self, block: u32, applies: impl Fn(u64) -> bool, to: u64) -> bool {
        let Some(word) = self.word(block) else {
            return false;
        };
        let shift = Self::shift(block);
        let mut seen = word.load(Ordering::Relaxed);
        while applies(seen >> shift & Self::ALL) {
            let new = seen & !(Self::ALL << shift) | to << shift;
            match word.compare_exchange(seen, new, Ordering::Relaxed, Ordering::Relaxed) {
                Ok(_) => return true,
                Err(now) => seen = now,
            }
        }
        false
    }

    /// Returns the blocks with bits of which some frames are among these.
    #[inline]
    pub(crate) fn touched(&self, start: u32, frames: u32) -> Range<u32> {
        let end = u64::from(start) + u64::from(frames);
        let end = end.div_ceil(u64::from(self.order.frames()));
        start >> self.order.get()..self.known(end)
    }

    /// Returns the blocks with bits of which all frames are among these.
    pub(crate) fn covered(&self, start: u32, frames: u32) -> Range<u32> {
        let size = self.order.frames();
        let end = (u64::from(start) + u64::from(frames)) >> self.order.get();
        start.div_ceil(size)..self.known(end)
    }

    /// Returns the number of blocks below a block that have bits.
    #[inline]
    fn known(&self, end: u64) -> u32 {
        end.min(self.words.len() as u64 * u64::from(Self::PER_WORD)) as u32
    }

    /// Sets the bits of the blocks of which some frames are among these to 0. Returns the number of those that had
    /// other ones. One load for each block that has none.
    #[inline]
    pub(crate) fn clear(&self, start: u32, frames: u32) -> u32 {
        // Most runs lie in one block, and most blocks have no bits.
        let block = start >> self.order.get();
        let last = start.wrapping_add(frames).wrapping_sub(1);
        if last >> self.order.get() == block && self.get(block) == 0 {
            return 0;
        }
        self.clear_each(start, frames)
    }

    #[inline(never)]
    fn clear_each(&self, start: u32, frames: u32) -> u32 {
        let clear = |block: &u32| self.change(*block, |bits| bits != 0, 0);
        self.touched(start, frames).filter(clear).count() as u32
    }
}
