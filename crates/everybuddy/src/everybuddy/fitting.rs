//! Whether memory is short, and the smallest block of a tree.
//!
//! By address, a request for a frame takes a part of whatever block lies first. In memory that is nearly full, this
//! leaves no block of more than a few frames. Once all free frames are scattered, they become blocks again only by
//! chance. In a shortage, a CPU therefore takes the smallest free block that suffices, as a standard buddy system does:
//! of its own trees, or of trees that no CPU owns.
//!
//! Otherwise address decides, since it makes words and larger blocks whole again. With small requests that do not hit,
//! a CPU looks at a few words, each time elsewhere, and updates its estimate of the *room*: the free frames, and more
//! for each free block of 16. A shortage begins when the estimate is low, or when a small request is refused. It ends
//! when the estimate is high enough. Both need a number of looks that does not grow with memory.
//!
//! # Invariants
//! What is known here is an estimate: it decides which block is taken, but not whether a request is refused.

use crate::bit_runs::{WORD, blocks, first, smallest_block};
use crate::frame::Order;
use crate::platform::{Platform, SharedCell};

use super::tree::{AllTrees, MAX_WORDS};
use super::word::{Header, Word};

/// After this many searches in vain in a row, one request looks only at the CPU's own trees. Each further search in
/// vain doubles the number of such requests.
const VAIN_SEARCHES: u8 = 8;
/// The base-2 logarithm of the largest number of requests in a row that look only at the CPU's own trees.
const MAX_PAUSE: u8 = 10;

/// The number of words at which a CPU looks with one request, if a tree has as many.
const WORDS_PER_LOOK: u32 = 16;
/// The estimate is that of about as many words, so it is new after some tens of looks.
const SAMPLE: u32 = 256;
/// In a shortage nearly each request looks for fit, so a CPU estimates the room with one request of this number only.
const RARELY: u16 = 8;
/// 2^16 divided by the golden ratio: its multiples, modulo 2^16, are spread evenly, however many of them there are.
const GOLDEN_STEP: u16 = 40_503;

/// What a free block of 16 frames adds to the room, in frames. Of two memories with as many free frames, the one whose
/// frames are scattered is short of blocks.
const PER_BLOCK: u32 = 64;
/// A shortage begins where the room is less than this number of frames for each word.
const SHORTAGE_BEGINS: u32 = 7;
/// It ends where the room is this number of frames for each word. The limits are far apart: blocks that a shortage
/// saved are not enough to end it.
const SHORTAGE_ENDS: u32 = 12;
/// The units of the estimate in a frame: what a division drops must be small even if a tree is one word.
const UNITS_PER_FRAME: u32 = 16;

/// When a CPU chooses small blocks by fit, and where it looks next.
pub(super) struct Fitting<P: Platform> {
    /// The tree at which the CPU looks next among trees of others.
    pub(super) next: P::Cell<u32>,
    /// The room in `SAMPLE` words, or in all if there are fewer, in units: an estimate. Each look adds the room of some
    /// words, and removes their share of the old estimate.
    room: P::Cell<u32>,
    /// The number of requests that could look, modulo 2^16.
    turn: P::Cell<u16>,
    /// 1 in a shortage.
    is_on: P::Cell<u8>,
    /// How many searches in a row found only blocks that must be split, at most `VAIN_SEARCHES + MAX_PAUSE`.
    in_vain: P::Cell<u8>,
    /// The number of requests that look at own trees only.
    pause: P::Cell<u16>,
    /// The own tree where the last search found a block: the low bits of its number. The next search begins there.
    pub(super) last: P::Cell<u16>,
}

impl<P: Platform> Fitting<P> {
    /// Creates the state of a CPU that chooses by address.
    pub(super) fn new(first_tree: u32, frames: u32) -> Self {
        Self {
            next: P::Cell::new(first_tree),
            // All frames are free.
            room: P::Cell::new(
                room_of_word(u64::MAX) * (frames / WORD).min(SAMPLE) * UNITS_PER_FRAME,
            ),
            turn: P::Cell::new(0),
            is_on: P::Cell::new(0),
            in_vain: P::Cell::new(0),
            pause: P::Cell::new(0),
            last: P::Cell::new(0),
        }
    }

    /// Returns `true` if small blocks are chosen by fit.
    #[inline]
    pub(super) fn is_on(&self) -> bool {
        self.is_on.get() != 0
    }

    /// Begins a shortage. The next small request that does not hit looks whether it is over.
    pub(super) fn begin(&self) {
        self.is_on.set(1);
        self.turn.set(self.turn.get() / RARELY * RARELY);
        self.room.set(0);
        self.in_vain.set(0);
        self.pause.set(0);
    }

    /// Looks at some words. Returns `true` if a shortage begins.
    pub(super) fn look(&self, trees: &AllTrees<'_, P>) -> bool {
        let (is_on, turn) = (self.is_on(), self.turn.get());
        self.turn.set(turn.wrapping_add(1));
        if is_on && !turn.is_multiple_of(RARELY) {
            return false;
        }
        let turn = if is_on { turn / RARELY } else { turn };
        let words = trees.words_per_tree().min(WORDS_PER_LOOK);
        let places = (trees.words.len() as u32).div_ceil(words);
        let window = (SAMPLE / words).min(places);
        let place = (u64::from(turn.wrapping_mul(GOLDEN_STEP)) * u64::from(places)) >> 16;
        // A word with absent frames counts as the limit itself, so it changes neither decision.
        let limit = if is_on {
            SHORTAGE_ENDS
        } else {
            SHORTAGE_BEGINS
        };
        let seen = trees.room(place as u32 * words, words, limit);
        let old = self.room.get();
        // No sum overflows: a word has less than 2^9 frames of room.
        let estimate = old - old / window + seen * UNITS_PER_FRAME;
        self.room.set(estimate);
        let limit = limit * window * words * UNITS_PER_FRAME;
        if is_on && estimate >= limit {
            self.is_on.set(0);
        }
        !is_on && estimate < limit
    }

    /// Sets the tree at which the CPU looks next. For tests.
    #[cfg(test)]
    pub(super) fn look_from(&self, tree: u32) {
        self.next.set(tree);
    }

    /// Returns the number of requests that look at own trees only. For tests.
    #[cfg(test)]
    pub(super) fn paused(&self) -> u16 {
        self.pause.get()
    }

    /// Returns `true` if a request should look at trees of others, although an own tree has a larger block.
    pub(super) fn may_look(&self) -> bool {
        let pause = self.pause.get();
        self.pause.set(pause.saturating_sub(1));
        pause == 0
    }

    /// Notes whether a search among trees of others found a block of the requested size. If most searches do not find
    /// one, they become rare.
    pub(super) fn note(&self, is_exact: bool) {
        let in_vain = if is_exact {
            0
        } else {
            (self.in_vain.get() + 1).min(VAIN_SEARCHES + MAX_PAUSE)
        };
        self.in_vain.set(in_vain);
        self.pause.set(((1_u32 << in_vain) >> VAIN_SEARCHES) as u16);
    }
}

/// Returns the room of a word with these free frames.
fn room_of_word(free: u64) -> u32 {
    // Without an instruction that counts bits, a count costs as much as the search for blocks.
    let blocks = match blocks(free, Order::saturating(4)) {
        0 => 0,
        blocks => blocks.count_ones(),
    };
    free.count_ones() + blocks * PER_BLOCK
}

impl<P: Platform> AllTrees<'_, P> {
    /// Returns the room of some words of one tree, in frames. A word with absent frames counts as `per_absent`. A hint.
    fn room(&self, from: u32, words: u32, per_absent: u32) -> u32 {
        let Some(header) = self.header(self.tree_of(from * WORD)) else {
            return words * per_absent;
        };
        let mask = first(words) << (from % self.words_per_tree());
        let (split, absent) = (header.split.peek() & mask, header.absent.peek() & mask);
        let whole = words - split.count_ones();
        let mut room = whole * room_of_word(u64::MAX) + absent.count_ones() * per_absent;
        let mut left = split & !absent;
        while left != 0 {
            let index = from - from % self.words_per_tree() + left.trailing_zeros();
            left &= left - 1;
            let free = self.words.get(index as usize).map_or(0, Word::free_hint);
            room += room_of_word(free);
        }
        room
    }

    /// Returns the smallest free block of the split words of a tree that has a block of an order: its order and its
    /// first frame. Of equal ones, the lowest. Reads at most `reads` words, and subtracts those that it reads. A hint,
    /// unless the CPU owns the tree.
    pub(super) fn smallest(
        &self,
        tree: u32,
        header: &Header<P>,
        order: Order,
        reads: &mut u32,
    ) -> Option<(Order, u32)> {
        let mut candidates = header.candidates(order);
        let mut best: Option<(Order, u32)> = None;
        while candidates != 0 && *reads > 0 {
            *reads -= 1;
            let index = tree * self.words_per_tree() + candidates.trailing_zeros();
            candidates &= candidates - 1;
            let word = self.words.get(index as usize)?;
            let Some((size, at)) = smallest_block(word.free_hint(), order) else {
                continue;
            };
            if best.is_none_or(|(smallest, _)| size < smallest) {
                best = Some((size, index * WORD + at));
                if size == order {
                    break;
                }
            }
        }
        best
    }

    /// Takes the smallest free block of the split words of an own tree that has a block of an order.
    pub(super) fn take_smallest(&self, tree: u32, header: &Header<P>, order: Order) -> Option<u32> {
        let (_, start) = self.smallest(tree, header, order, &mut { MAX_WORDS })?;
        let part = self.part_of_word(start, order.frames())?;
        let is_taken = header.take(part.mask, part.word, part.frames);
        is_taken.then_some(start)
    }
}
