//! Blocks by fit, where memory is short.
//!
//! # Purpose
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
//!
//! A search by fit is a hint. It reads trees that other CPUs may change, looks at a bounded number of trees and words,
//! and is followed by the search by address. It therefore decides which block is taken, but not whether a request is
//! refused.

use crate::bit_runs::{WORD, blocks_of_16, first, smallest_block};
use crate::frame::Order;
use crate::platform::{Platform, SharedCell};
use crate::probe::{Event, Probe};

use super::OwnedTrees;
use super::local::Local;
use super::request::Wanted;
use super::slots::LOOKS_AT_OWN;
use super::tree::{AllTrees, MAX_WORDS};
use super::word::{Header, Word};

/// The number of trees, other than the CPU's own, at which a request looks. It passes over those with an owner.
const LOOKS_FOR_FIT: u32 = 64;
/// The number of words that one request reads, of own trees and others. Searches rarely need as many: each one begins
/// at the tree where an earlier one found a block.
const MAX_READS: u32 = 1024;
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
    next: P::Cell<u32>,
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
    last: P::Cell<u16>,
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
    fn may_look(&self) -> bool {
        let pause = self.pause.get();
        self.pause.set(pause.saturating_sub(1));
        pause == 0
    }

    /// Notes whether a search among trees of others found a block of the requested size. If most searches do not find
    /// one, they become rare.
    fn note(&self, is_exact: bool) {
        let in_vain = if is_exact {
            0
        } else {
            (self.in_vain.get() + 1).min(VAIN_SEARCHES + MAX_PAUSE)
        };
        self.in_vain.set(in_vain);
        self.pause.set(((1_u32 << in_vain) >> VAIN_SEARCHES) as u16);
    }
}

impl Wanted {
    /// Returns `true` for a block that lies in a word: then its fit can be seen in the planes.
    #[inline(always)]
    pub(super) fn is_part_of_word(self) -> bool {
        self.frames == self.order.frames() && !self.is_large()
    }
}

/// Returns the room of a word with these free frames.
fn room_of_word(free: u64) -> u32 {
    // Without an instruction that counts bits, a count costs as much as the search for blocks.
    let blocks = match blocks_of_16(free) {
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

/// The smallest block that a search has seen.
struct Best {
    size: Order,
    tree: u32,
    is_own: bool,
}

impl<P: Platform> OwnedTrees<'_, P> {
    /// Serves a request by fit. Returns `None` if address decides, or if nothing was found.
    #[inline]
    pub(super) fn find_smallest(
        &self,
        cpu: &mut P::Cpu,
        local: &Local<'_, P>,
        wanted: Wanted,
    ) -> Option<u32> {
        if wanted.is_large() {
            return None;
        }
        if local.fitting.look(&self.shared.trees) {
            local.choose_by_fit();
        }
        if local.fitting.is_on() {
            self.take_smallest(cpu, local, wanted)
        } else {
            None
        }
    }

    #[inline(never)]
    fn take_smallest(&self, cpu: &mut P::Cpu, local: &Local<'_, P>, wanted: Wanted) -> Option<u32> {
        if wanted.frames == 1
            && let Some(frame) = local.pop(&self.shared, wanted.kind)
        {
            return Some(frame);
        }
        if wanted.frames > 1 {
            // The planes call listed frames allocated, although they may be a part of a small block.
            local.announce_all(&self.shared);
        }
        if !wanted.is_part_of_word() {
            return None;
        }
        let Best { tree, is_own, .. } = self.smallest_of_some(local, wanted)?;
        let trees = &self.shared.trees;
        let header = trees.header(tree)?;
        if !is_own {
            if !self.shared.claim(header, local.id) {
                return None;
            }
            trees.collect(tree, header);
        }
        let start = if trees.suits(header, wanted.kind) {
            trees.take_smallest(tree, header, wanted.order)
        } else {
            None
        };
        match start {
            Some(start) if is_own => local.moved(tree, header, wanted, start),
            Some(start) => {
                P::probe(cpu).record(Event::Bypass(wanted.order));
                self.keep_found(local, tree, wanted, start);
            }
            None if is_own => (),
            None => self.shared.release(tree, header),
        }
        start
    }

    /// Returns where the smallest block is that suffices: in an own tree, or in one of some trees without owner.
    fn smallest_of_some(&self, local: &Local<'_, P>, wanted: Wanted) -> Option<Best> {
        let mut reads = MAX_READS;
        let Fitting { next, last, .. } = &local.fitting;
        // The trees before it were searched in vain.
        let own = local.slots.beginning_at(last.get()).take(LOOKS_AT_OWN);
        let own = self.smallest_of(own, (true, &mut reads), wanted);
        if let Some(best) = &own {
            last.set(best.tree as u16);
        }
        let is_exact = |best: &Best| best.size == wanted.order;
        if own.as_ref().is_some_and(is_exact) || own.is_some() && !local.fitting.may_look() {
            return own;
        }
        let count = self.shared.trees.count();
        let from = if count <= LOOKS_FOR_FIT {
            // Lower trees first: blocks of higher ones stay.
            0
        } else {
            next.get()
        };
        let others = (from..count).chain(0..from).take(LOOKS_FOR_FIT as usize);
        let other = self.smallest_of(others, (false, &mut reads), wanted);
        let best = match (own, other) {
            (Some(own), Some(other)) if own.size <= other.size => Some(own),
            (own, other) => other.or(own),
        };
        let has_exact = best.as_ref().is_some_and(is_exact);
        // If a request finds no block at all, this does not show how smaller requests would fare, so it is not noted.
        if best.is_some() {
            local.fitting.note(has_exact);
        }
        if !has_exact && count > LOOKS_FOR_FIT {
            next.set((from + LOOKS_FOR_FIT) % count);
        }
        best
    }

    /// Returns where the smallest block is that suffices, of own trees or of trees without owner. Subtracts the words
    /// that it reads.
    fn smallest_of(
        &self,
        some: impl Iterator<Item = u32>,
        (is_own, reads): (bool, &mut u32),
        wanted: Wanted,
    ) -> Option<Best> {
        let trees = &self.shared.trees;
        let mut best: Option<Best> = None;
        for tree in some {
            let Some(header) = trees.header(tree).filter(|_| *reads > 0) else {
                break;
            };
            if !trees.suits(header, wanted.kind) || !is_own && !self.shared.is_unowned(header) {
                continue;
            }
            if let Some((size, _)) = trees.smallest(tree, header, wanted.order, reads)
                && best.as_ref().is_none_or(|best| size < best.size)
            {
                best = Some(Best { size, tree, is_own });
                if size == wanted.order {
                    break;
                }
            }
        }
        best
    }
}
