//! Trees, and what the owner of a tree does with its words.
//!
//! One CPU at a time owns a tree. It changes the tree by plain reads and writes. A search for a block of less than 64
//! frames is arithmetic on one word after another, and one for 64 frames or more is arithmetic on the header alone.
//!
//! # Invariants
//! 1. A frame of a split word is in one of four states, by its bits in the two planes `own` and `foreign`:
//!
//!    | own | foreign | the frame is |
//!    |---|---|---|
//!    | 1 | 0 | free |
//!    | 0 | 0 | allocated |
//!    | 0 | 1 | returned: freed by a CPU that does not own the tree, and not collected yet |
//!    | 1 | 1 | absent: a hole, or reserved |
//!
//! 2. All frames of a word that is not split are free, and both of its planes are zero. No split word is wholly free.
//! 3. The bit of a word in `any` is set if and only if the word is split and has a free frame; that in `absent`, if and
//!    only if it has an absent frame. That in `inbox` is set if it has a returned frame.
//! 4. Only the owner of a tree writes `own`, `split`, `any`, `absent`, `fresh`, `failed`, `marked` and
//!    `kind`, and only the owner changes the bits of absent frames. If the tree is marked as spent, `marked` is 1.
//!    Zeros everywhere mean: all frames are free, and no CPU owns the tree.
//! 5. A word of `any` that is not in `fresh` has no free block of the order `failed`, unless that is 0.
//!
//! A free of a frame by two CPUs simultaneously, which is misuse, may break 1 and 3 for that frame until the owner
//! collects it. So may a second free of a frame that its tree's owner collects at that moment.

use crate::bit_runs::{WORD, WORD_ORDER, block, blocks, find, first, first_block};
use crate::frame::{Index, Order};
use crate::platform::{AtomicWord, Ordering, Platform, SharedCell};

use super::wanted::Wanted;
use super::word::{Header, Kind, Word};

/// The words of the largest tree.
pub(crate) const MAX_WORDS: u32 = 64;

/// All trees.
pub(crate) struct AllTrees<'m, P: Platform> {
    pub(crate) headers: &'m [Header<P>],
    pub(crate) words: &'m [Word<P>],
    /// The base-2 logarithm of the frames of a tree: 6 to 12.
    pub(crate) shift: u32,
    /// The words of a tree, minus one. It follows from `shift`, and a hit needs both.
    last_word: u32,
}

/// A tree is partly free if at least one word in this number has a free frame.
const PARTLY: u32 = 4;
/// A tree is nearly whole if less than one word in this number is in use.
const NEARLY: u32 = 8;

/// How well a tree serves a small request, best first. A claim costs as much as many hits, so trees that serve further
/// requests come first.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Rate {
    /// Several split words have free frames: the tree is in use already, and serves more than a few requests.
    Partly,
    /// A word is wholly free.
    Whole,
    /// All words are wholly free.
    Unused,
    /// A few frames of split words are free.
    Rest,
}

impl Rate {
    /// The number of rates.
    pub(crate) const COUNT: usize = Self::Rest as usize + 1;
}

/// Which words of an own tree serve a request for small blocks.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Among {
    /// All of them: split words, then others.
    All,
    /// The split words that this mask has, and no others.
    Split(u64),
}

/// The part of a run that lies in one word.
pub(crate) struct Part<'t, P: Platform> {
    pub(crate) header: &'t Header<P>,
    pub(crate) word: &'t Word<P>,
    /// The bit of the word in the header's masks.
    pub(crate) mask: u64,
    /// The bits of the frames in the word.
    pub(crate) frames: u64,
    /// The number of the word.
    pub(crate) index: u32,
}

impl<P: Platform> Clone for Part<'_, P> {
    fn clone(&self) -> Self {
        *self
    }
}

impl<P: Platform> Copy for Part<'_, P> {}

impl<P: Platform> Part<'_, P> {
    /// Returns `true` if all frames are allocated. Only the frames' holder may ask while another CPU owns the tree.
    pub(crate) fn is_allocated(&self) -> bool {
        let used = self.word.own.peek() | self.word.foreign.load(Ordering::Relaxed);
        self.header.split.peek() & self.mask != 0 && used & self.frames == 0
    }
}

impl<'m, P: Platform> AllTrees<'m, P> {
    /// Collects trees of 2^shift frames.
    pub(crate) fn new(headers: &'m [Header<P>], words: &'m [Word<P>], shift: u32) -> Self {
        Self {
            headers,
            words,
            shift,
            last_word: (1 << (shift - WORD_ORDER)) - 1,
        }
    }

    /// Returns the number of trees.
    pub(crate) fn count(&self) -> u32 {
        self.headers.len() as u32
    }

    /// Returns the tree of a frame.
    #[inline(always)]
    pub(crate) const fn tree_of(&self, frame: u32) -> u32 {
        frame >> self.shift
    }

    /// Returns the number of words of a tree.
    #[inline(always)]
    pub(crate) const fn words_per_tree(&self) -> u32 {
        self.last_word + 1
    }

    /// Returns the bits of a tree's words.
    #[inline(always)]
    pub(crate) const fn extent(&self) -> u64 {
        u64::MAX >> (MAX_WORDS - 1 - self.last_word)
    }

    #[inline(always)]
    pub(crate) fn header(&self, tree: u32) -> Option<&'m Header<P>> {
        self.headers.get(tree as usize)
    }

    /// Returns the bit of a word in the masks of its tree.
    #[inline(always)]
    const fn mask(&self, word: u32) -> u64 {
        1 << (word & self.last_word)
    }

    /// Returns a frame's place.
    #[inline(always)]
    pub(crate) fn part(&self, frame: u32) -> Option<Part<'m, P>> {
        let index = frame / WORD;
        Some(Part {
            header: self.header(self.tree_of(frame))?,
            word: self.words.get(index as usize)?,
            mask: self.mask(index),
            frames: 1 << (frame % WORD),
            index,
        })
    }

    /// Returns the place of a run, if it lies in one word.
    #[inline(always)]
    pub(crate) fn part_of_word(&self, start: u32, frames: u32) -> Option<Part<'m, P>> {
        let below = start % WORD;
        if frames > WORD - below {
            return None;
        }
        Some(Part {
            frames: first(frames) << below,
            ..self.part(start)?
        })
    }

    /// Returns the parts of a run, word by word.
    pub(crate) fn parts(&self, start: u32, frames: u32) -> impl Iterator<Item = Part<'m, P>> {
        let (mut at, mut left) = (start, frames);
        core::iter::from_fn(move || {
            if left == 0 {
                return None;
            }
            let below = at % WORD;
            let length = left.min(WORD - below);
            let part = self.part(at)?;
            at = at.wrapping_add(length);
            left -= length;
            Some(Part {
                frames: first(length) << below,
                ..part
            })
        })
    }

    /// Returns the parts of a run by tree: the tree, the first frame, and the number of frames.
    pub(crate) fn by_tree(
        &self,
        start: u32,
        frames: u32,
    ) -> impl Iterator<Item = (u32, u32, u32)> + use<P> {
        let (shift, mut at, mut left) = (self.shift, start, frames);
        core::iter::from_fn(move || {
            if left == 0 {
                return None;
            }
            let size = 1 << shift;
            let (tree, from) = (at >> shift, at);
            let length = left.min(size - (at & (size - 1)));
            at = at.wrapping_add(length);
            left -= length;
            Some((tree, from, length))
        })
    }

    /// Takes the first free frame of an own tree: of its split words, then of the others.
    #[inline(always)]
    pub(crate) fn take_frame(&self, tree: u32, header: &Header<P>) -> Option<u32> {
        loop {
            let (start, frame) = self.take_of_first(tree, header, Among::All, (Order::ZERO, 1))?;
            // A misuse may have set a bit of the other plane, so that the word had no frame.
            if frame != 0 {
                return Some(start + frame.trailing_zeros());
            }
        }
    }

    /// Takes free blocks of less than a word of the first word of an own tree that may have some, at most `most`,
    /// lowest first: of a split word, or of another one if there is none and `among` has it. Returns the first frame of
    /// the word, and the bits of the blocks' first frames.
    #[inline(always)]
    pub(crate) fn take_of_first(
        &self,
        tree: u32,
        header: &Header<P>,
        among: Among,
        (order, most): (Order, usize),
    ) -> Option<(u32, u64)> {
        let (serving, split) = (header.candidates(order), header.split.get());
        let (serving, whole) = match among {
            Among::All => (serving, !split & self.extent()),
            Among::Split(words) => (serving & words, 0),
        };
        let is_new = serving == 0;
        let candidates = if is_new { whole } else { serving };
        if candidates == 0 || most == 0 {
            return None;
        }
        let mask = candidates & candidates.wrapping_neg();
        let index = tree * self.words_per_tree() + candidates.trailing_zeros();
        let word = self.words.get(index as usize)?;
        let split = if is_new {
            self.without_returned(tree, header, (split, mask))
        } else {
            split
        };
        let free = if is_new { u64::MAX } else { word.free() };
        let blocks = blocks(free, order);
        let mut rest = 0;
        if blocks.count_ones() as usize > most {
            rest = blocks;
            (0..most).for_each(|_| rest &= rest - 1);
        }
        let blocks = blocks & !rest;
        // No two of the products overlap.
        let left = free & !blocks.wrapping_mul(block(order));
        if is_new {
            // In this order: as in `Header::take`.
            word.own.set(left);
            header.split.set(split | mask);
            if left != 0 {
                header.has_free(mask);
            }
        } else {
            word.own.set(word.own.get() & !free | left);
            if left == 0 {
                header.any.set(header.any.get() & !mask);
            }
        }
        Some((index * WORD, blocks))
    }

    /// Takes blocks of less than a word of an own tree until `out` is full, or a word has none: of its split words,
    /// then of the others that `among` has, lowest first in both. Returns their number.
    #[inline]
    pub(crate) fn take_small(
        &self,
        tree: u32,
        header: &Header<P>,
        among: Among,
        order: Order,
        out: &mut [Index],
    ) -> usize {
        let mut given = 0;
        while let Some((start, mut taken)) =
            self.take_of_first(tree, header, among, (order, out.len() - given))
        {
            if taken == 0 {
                // It was not known that the word has no such block. A single request remembers that.
                break;
            }
            while taken != 0
                && let Some(place) = out.get_mut(given)
            {
                *place = Index(start + taken.trailing_zeros());
                taken &= taken - 1;
                given += 1;
            }
        }
        given
    }

    /// Takes `frames` frames of an own tree from a multiple of 2^order on, at most as many as the tree has: of a split
    /// word, if they fit one, otherwise of words that are not split.
    #[inline]
    pub(crate) fn take(
        &self,
        tree: u32,
        header: &Header<P>,
        frames: u32,
        order: Order,
    ) -> Option<u32> {
        let found = if frames < WORD {
            self.take_of_split(tree, header, frames, order)
        } else {
            None
        };
        found.or_else(|| self.take_of_whole(tree, header, frames, order))
    }

    /// The same, of words that are not split. Of a run of more than a word, the last one may be.
    #[inline]
    fn take_of_whole(
        &self,
        tree: u32,
        header: &Header<P>,
        frames: u32,
        order: Order,
    ) -> Option<u32> {
        let (words, rest) = (frames / WORD, first(frames % WORD));
        let whole = !header.split.get() & self.extent();
        let at = match find(whole, frames.div_ceil(WORD), word_order(order)) {
            // Only a run that ends within a word can end in a split one.
            None if words != 0 && rest != 0 => {
                self.find_before_split(tree, whole, (words, rest), order)?
            }
            found => found?,
        };
        let index = tree * self.words_per_tree() + at;
        let taken = first(words) << at;
        let with_rest = taken | first(frames.div_ceil(WORD)) << at;
        self.without_returned(tree, header, (0, with_rest & whole));
        if rest != 0 {
            let last = self.words.get((index + words) as usize)?;
            header.take(self.mask(index + words), last, rest);
        }
        header.split.set(header.split.get() | taken);
        Some(index * WORD)
    }

    /// Returns the split words of an own tree, before it takes `words`, which are not split. If one of them has a
    /// returned frame, which was freed twice, collects all first: otherwise a later collection would free the frame
    /// under the next holder.
    #[inline(always)]
    fn without_returned(&self, tree: u32, header: &Header<P>, (split, words): (u64, u64)) -> u64 {
        if header.inbox.load(Ordering::Relaxed) & words == 0 {
            return split;
        }
        self.collect(tree, header);
        header.split.get()
    }

    /// Finds whole words of an own tree before a split one whose first frames, `rest`, are free. There is at least one:
    /// so the split word lies in the same tree.
    #[cold]
    #[inline(never)]
    fn find_before_split(
        &self,
        tree: u32,
        whole: u64,
        (words, rest): (u32, u64),
        order: Order,
    ) -> Option<u32> {
        let run = first(words);
        let mut starts = (0..self.words_per_tree()).step_by(word_order(order).frames() as usize);
        starts.find(|at| {
            let index = tree * self.words_per_tree() + at + words;
            let has_rest = |last: &Word<P>| last.free() & rest == rest;
            whole >> at & run == run && self.words.get(index as usize).is_some_and(has_rest)
        })
    }

    /// Takes a block of whole words of an own tree, at most as large as the tree. Only the header is read and written.
    #[inline(always)]
    pub(super) fn take_words(&self, tree: u32, header: &Header<P>, order: Order) -> Option<u32> {
        let order = word_order(order);
        let split = header.split.get();
        let at = first_block(!split & self.extent(), order)?;
        let words = block(order) << at;
        let split = self.without_returned(tree, header, (split, words));
        header.split.set(split | words);
        Some((tree * self.words_per_tree() + at) * WORD)
    }

    /// Takes blocks of whole words of an own tree by one change of its header, lowest first, until `out` is full.
    /// Returns their number.
    pub(super) fn take_blocks(
        &self,
        tree: u32,
        header: &Header<P>,
        order: Order,
        out: &mut [Index],
    ) -> usize {
        let (words, split) = (word_order(order), header.split.get());
        let mut left = blocks(!split & self.extent(), words);
        let (mut taken, mut count) = (0, 0);
        while left != 0
            && let Some(place) = out.get_mut(count)
        {
            let at = left.trailing_zeros();
            left &= left - 1;
            taken |= block(words) << at;
            *place = Index((tree * self.words_per_tree() + at) * WORD);
            count += 1;
        }
        let split = self.without_returned(tree, header, (split, taken));
        header.split.set(split | taken);
        count
    }

    /// Takes frames of the first split word of an own tree that has them, and remembers the words without the largest
    /// block that each run of that length contains.
    fn take_of_split(
        &self,
        tree: u32,
        header: &Header<P>,
        frames: u32,
        order: Order,
    ) -> Option<u32> {
        let part = within(frames);
        let (mut candidates, mut failed) = (header.candidates(part), 0);
        let mut found = None;
        while candidates != 0 {
            let mask = candidates & candidates.wrapping_neg();
            let index = tree * self.words_per_tree() + candidates.trailing_zeros();
            let word = self.words.get(index as usize)?;
            let free = word.free();
            let at = first_block(free, part);
            if at.is_none() {
                failed |= mask;
            }
            // A word that has such a block may have no run, which is not remembered.
            let at = if part == order {
                at
            } else {
                at.and_then(|_| find(free, frames, order))
            };
            if let Some(at) = at {
                let taken = first(frames) << at;
                word.own.set(word.own.get() & !taken);
                if free == taken {
                    header.any.set(header.any.get() & !mask);
                }
                found = Some(index * WORD + at);
                break;
            }
            candidates &= candidates - 1;
        }
        if failed != 0 {
            header.note_failed(part, failed);
        }
        found
    }

    /// Returns `true` if a tree has a split word with a free frame, and the request is for less than a word: then only
    /// the owner can say that the tree does not serve it. What the header remembers may be torn for others.
    pub(crate) fn must_be_claimed(&self, header: &Header<P>, frames: u32) -> bool {
        frames < WORD && header.any.peek() != 0
    }

    /// Returns `true` if a tree may be able to serve a request. A hint. If the caller knows that no CPU owns the tree,
    /// it is exact for blocks.
    pub(crate) fn may_serve(&self, header: &Header<P>, frames: u32, order: Order) -> bool {
        let whole = !header.split.peek() & self.extent();
        frames < WORD && header.candidates(within(frames)) != 0
            || header.inbox.load(Ordering::Relaxed) != 0
            || whole != 0 && find(whole, (frames / WORD).max(1), word_order(order)).is_some()
    }

    /// Returns `true` if a tree has a block of whole words. A hint, unless the CPU owns the tree.
    pub(crate) fn has_words(&self, header: &Header<P>, order: Order) -> bool {
        let whole = !header.split.peek() & self.extent();
        first_block(whole, word_order(order)).is_some()
    }

    /// Returns `true` if a tree may have a free frame. A hint, as [`may_serve`](Self::may_serve), which costs more.
    #[inline(always)]
    pub(crate) fn may_have_any(&self, header: &Header<P>) -> bool {
        let whole = !header.split.peek() & self.extent();
        header.any.peek() | header.inbox.load(Ordering::Relaxed) | whole != 0
    }

    /// Says how well a tree serves a small request; `None` if it does not. If it is for frames of another kind, it does
    /// only if `any` is true. A hint, as [`may_serve`](Self::may_serve).
    #[inline]
    pub(crate) fn rate(&self, header: &Header<P>, wanted: Wanted, any: bool) -> Option<Rate> {
        let is_serving = self.may_serve(header, wanted.frames, wanted.order)
            && (any || self.suits(header, wanted.kind));
        if !is_serving {
            return None;
        }
        let open = header.any.peek() | header.inbox.load(Ordering::Relaxed);
        if open.count_ones() * PARTLY >= self.words_per_tree() {
            return Some(Rate::Partly);
        }
        Some(match !header.split.peek() & self.extent() {
            0 => Rate::Rest,
            whole if whole == self.extent() => Rate::Unused,
            _ => Rate::Whole,
        })
    }

    /// Returns `true` if a tree is for frames of a kind, or wholly free. A hint, like [`may_serve`](Self::may_serve).
    pub(crate) fn suits(&self, header: &Header<P>, kind: Kind) -> bool {
        header.is_for(kind) || self.is_whole(header)
    }

    /// Returns `true` if at least half of the words of an own tree are wholly free. A request that takes a block of
    /// such a tree decides what the tree is for.
    pub(crate) fn is_half_whole(&self, header: &Header<P>) -> bool {
        let split = header.split.get() & self.extent();
        split.count_ones() * 2 <= self.words_per_tree()
    }

    /// Returns `true` if few words of an own tree are not wholly free.
    pub(crate) fn is_nearly_whole(&self, header: &Header<P>) -> bool {
        let split = header.split.get() & self.extent();
        split.count_ones() * NEARLY < self.words_per_tree()
    }

    /// Returns `true` if all frames of a tree are free. A hint, unless the CPU owns the tree.
    pub(crate) fn is_whole(&self, header: &Header<P>) -> bool {
        header.split.peek() & self.extent() == 0
    }

    /// Returns `true` if an own tree has no free frame.
    pub(crate) fn is_spent(&self, header: &Header<P>) -> bool {
        header.any.get() == 0 && header.split.get() & self.extent() == self.extent()
    }

    /// Frees a run of whole words of an own tree by their bits in the header, unless one of them is wholly free. The
    /// heads say that none of their frames is free, absent or returned. The run starts at a word and ends in the tree.
    #[inline(always)]
    pub(crate) fn give_words(&self, header: &Header<P>, start: u32, length: u32) -> bool {
        self.give_mask(header, self.mask_of(start, length))
    }

    /// Returns the bits of whole words, from a frame on, in the masks of their tree.
    #[inline(always)]
    pub(crate) fn mask_of(&self, start: u32, words: u32) -> u64 {
        first(words) << ((start / WORD) & self.last_word)
    }

    /// Does the same as [`give_words`](Self::give_words), with any words of the tree.
    #[inline(always)]
    pub(crate) fn give_mask(&self, header: &Header<P>, words: u64) -> bool {
        let split = header.split.get();
        let is_allocated = split & words == words;
        if is_allocated {
            header.split.set(split & !words);
        }
        is_allocated
    }

    /// Moves the returned frames of an own tree to the owner's plane, in the words that the inbox names.
    pub(crate) fn collect(&self, tree: u32, header: &Header<P>) {
        // Release: pairs with the acquire in `post`. Acquire: pairs with the releases of `tell`: the posts are seen.
        let mut words = header.inbox.swap(0, Ordering::AcqRel);
        while words != 0 {
            let index = tree * self.words_per_tree() + words.trailing_zeros();
            let mask = words & words.wrapping_neg();
            words &= words - 1;
            let Some(word) = self.words.get(index as usize) else {
                return;
            };
            self.collect_word(header, mask, word);
        }
    }

    /// Moves all returned frames of a word of an own tree to the owner's plane.
    pub(crate) fn collect_word(&self, header: &Header<P>, mask: u64, word: &Word<P>) {
        let own = word.own.get();
        // A frame of both planes is absent only in words that have absent frames. In others it was freed twice.
        let absent = match header.absent.get() & mask {
            0 => 0,
            _ => own & word.foreign.load(Ordering::Relaxed),
        };
        // Acquire: pairs with the release in `post`: what the last holders did is seen. Release: with its acquire.
        let posted = word.foreign.swap(absent, Ordering::AcqRel);
        if header.split.get() & mask == 0 {
            return;
        }
        let own = own | posted;
        if own & !absent != 0 {
            header.merge(mask, word, own, absent);
        }
    }
}

/// Returns the order of a block that each run of as many frames has, if the run starts where such a block can start.
#[inline]
fn within(frames: u32) -> Order {
    Order::saturating(frames.max(1).ilog2())
}

/// Returns the order of a block in units of words.
#[inline(always)]
fn word_order(order: Order) -> Order {
    Order::saturating((order.index() as u32).saturating_sub(WORD_ORDER))
}
