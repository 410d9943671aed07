//! Runs of bits in words of 64: one bit for each frame.
//!
//! A search for a run of free frames within a word is arithmetic, without a loop over frames. `llfree` and `nbbs`
//! keep free frames in such words.
//!
//! # Invariants
//! All functions are pure. Bit 0 is the lowest frame.

use crate::frame::Order;

/// The frames of a word.
pub(crate) const WORD: u32 = 64;

/// The order of a word.
pub(crate) const WORD_ORDER: u32 = WORD.trailing_zeros();

/// The bits where a block of each order up to 6 may start.
const STARTS: [u64; 7] = [
    u64::MAX,
    0x5555_5555_5555_5555,
    0x1111_1111_1111_1111,
    0x0101_0101_0101_0101,
    0x0001_0001_0001_0001,
    0x0000_0001_0000_0001,
    1,
];

/// Returns the bits of the first `frames` frames, at most 64.
#[inline(always)]
pub(crate) const fn first(frames: u32) -> u64 {
    match frames {
        0 => 0,
        WORD.. => u64::MAX,
        frames => (1 << frames) - 1,
    }
}

/// Returns the bits of the first block of an order, at most 6.
#[inline(always)]
pub(crate) const fn block(order: Order) -> u64 {
    let index = if order.index() < 7 { order.index() } else { 6 };
    u64::MAX >> (WORD - (1 << index))
}

/// Returns the bits of the part of a run that lies in a word: the run starts at `offset` and has `frames` frames, both
/// counted from the start of word 0.
#[inline(always)]
pub(crate) const fn part(word: u32, offset: u32, frames: u32) -> u64 {
    let start = word * WORD;
    let below = offset.saturating_sub(start);
    let end = (offset + frames).saturating_sub(start);
    first(end) & !first(below)
}

/// Returns the lowest set bit that is at a multiple of 2^order and starts a run of `frames` set bits. `frames` is at
/// most 2^order, and the order is at most 6.
#[inline]
pub(crate) const fn find(free: u64, frames: u32, order: Order) -> Option<u32> {
    let index = if order.index() < 7 { order.index() } else { 6 };
    if index == 0 {
        return match free {
            0 => None,
            free => Some(free.trailing_zeros()),
        };
    }
    // One copy of the run in each field.
    first_clear(!free & (first(frames) * STARTS[index]), index)
}

/// Returns the lowest block of set bits. The order is at most 6.
#[inline(always)]
pub(crate) const fn first_block(free: u64, order: Order) -> Option<u32> {
    let index = if order.index() < 7 { order.index() } else { 6 };
    first_clear(!free, index)
}

/// Returns the first bit of the lowest field of 2^index bits that are all clear.
///
/// If 1 is subtracted from each field, the highest bit of a field becomes set only if the field is 0, or if the
/// subtraction borrows from it. It borrows from no field below the lowest one that is 0, so the lowest result is right.
#[inline(always)]
const fn first_clear(bits: u64, index: usize) -> Option<u32> {
    let below_top = (1 << index) - 1;
    let clear = bits.wrapping_sub(STARTS[index]) & !bits & (STARTS[index] << below_top);
    match clear {
        0 => None,
        clear => Some(clear.trailing_zeros() - below_top),
    }
}

/// Returns the smallest free block of at least an order, at most 6, and its order: the lowest block of that order whose
/// buddy is not wholly free.
#[inline]
pub(crate) fn smallest_block(free: u64, order: Order) -> Option<(Order, u32)> {
    // After each step, a set bit starts a free block.
    let mut blocks = free;
    for (size, starts) in (0..).zip(STARTS.iter().skip(1)) {
        let length = 1 << size;
        let larger = blocks & (blocks >> length) & starts;
        let single = blocks & !(larger | larger << length);
        if single != 0 && size as usize >= order.index() {
            return Some((Order::saturating(size), single.trailing_zeros()));
        }
        if larger == 0 {
            return None;
        }
        blocks = larger;
    }
    (blocks != 0).then_some((Order::saturating(WORD.trailing_zeros()), 0))
}

/// Returns the first bit of each block of set bits of an order, at most 6.
#[inline(always)]
pub(crate) const fn blocks(free: u64, order: Order) -> u64 {
    let index = if order.index() < 7 { order.index() } else { 6 };
    let (mut blocks, mut below) = (free, 0);
    while below < index {
        blocks &= blocks >> (1 << below);
        below += 1;
    }
    blocks & STARTS[index]
}

/// Splits a run of frames at the borders of words: each part is a word, and the bits of the run in it.
pub(crate) fn words(start: u32, frames: u32) -> impl Iterator<Item = (usize, u64)> {
    let (first, offset) = (start / WORD, start % WORD);
    let count = (u64::from(offset) + u64::from(frames)).div_ceil(u64::from(WORD)) as u32;
    // The last word of a long run is counted from its own start, so that no number wraps around.
    (0..count).map(move |word| {
        let bits = match word {
            0 => part(0, offset, frames.min(WORD)),
            word => part(0, 0, (frames - (word * WORD - offset)).min(WORD)),
        };
        ((first + word) as usize, bits)
    })
}
