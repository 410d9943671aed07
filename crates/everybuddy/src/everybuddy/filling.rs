//! Which words a CPU fills with movable frames, and how much of an area is used.
//!
//! An *area* is 2 MiB of a tree. [`fragments`](super::fragments) says when a CPU fills one, and why.
//!
//! # Invariants
//! What is known here about words is an estimate: it decides where a frame lies, but not whether a request is refused.

use crate::bit_runs::{WORD, first};
use crate::platform::{Platform, SharedCell};

use super::tree::AllTrees;
use super::word::Header;

/// The words of an area: 2 MiB.
const WORDS_OF_AREA: u32 = 8;
/// The number of words of an area that are read, to estimate how much of the area is used.
const WORDS_READ: u32 = 2;
/// The base-2 logarithm of the largest number of requests after a search in vain that do not search.
const MOST_SKIPPED: u16 = 6;

/// What a CPU fills with movable frames, and where it searches next.
pub(super) struct Filling<P: Platform> {
    /// The words, as a mask of their tree's header; 0 if the CPU fills none.
    words: P::Cell<u64>,
    /// Their tree.
    tree: P::Cell<u32>,
    /// The tree at which the next search begins.
    pub(super) next: P::Cell<u32>,
    /// The number of requests before the next search.
    pause: P::Cell<u16>,
    /// The number of searches in vain in a row, at most [`MOST_SKIPPED`].
    in_vain: P::Cell<u16>,
}

/// Words of a tree: those that a CPU fills.
#[derive(Clone, Copy)]
pub(super) struct Filled {
    pub(super) tree: u32,
    /// A mask of the tree's header.
    pub(super) words: u64,
}

impl<P: Platform> Filling<P> {
    /// Creates the state of a CPU that fills nothing, and searches from a tree on.
    pub(super) fn new(first_tree: u32) -> Self {
        Self {
            words: P::Cell::new(0),
            tree: P::Cell::new(0),
            next: P::Cell::new(first_tree),
            pause: P::Cell::new(0),
            in_vain: P::Cell::new(0),
        }
    }

    /// Returns what the CPU fills.
    #[inline(always)]
    pub(super) fn area(&self) -> Option<Filled> {
        let words = self.words.get();
        (words != 0).then(|| Filled {
            tree: self.tree.get(),
            words,
        })
    }

    /// Fills an area from now on.
    pub(super) fn start(&self, area: Filled) {
        self.tree.set(area.tree);
        self.words.set(area.words);
    }

    /// Fills nothing from now on.
    pub(super) fn stop(&self) {
        self.words.set(0);
    }

    /// Returns `true` if the next request may search. Each search in vain doubles the number of requests that skip it,
    /// up to 64.
    pub(super) fn may_search(&self) -> bool {
        let pause = self.pause.get();
        self.pause.set(pause.saturating_sub(1));
        pause == 0
    }

    /// Notes whether a search found an area.
    pub(super) fn note(&self, is_found: bool) {
        let in_vain = if is_found {
            0
        } else {
            (self.in_vain.get() + 1).min(MOST_SKIPPED)
        };
        self.in_vain.set(in_vain);
        self.pause.set(if is_found { 0 } else { 1 << in_vain });
    }
}

impl<P: Platform> AllTrees<'_, P> {
    /// Estimates how many frames of the split words of an area are used, and how many are free. A hint.
    pub(super) fn estimate(&self, area: Filled, header: &Header<P>) -> (u32, u32) {
        let split = header.split.peek() & area.words;
        let open = header.any.peek() & split;
        let (mut left, mut seen, mut free) = (open, 0, 0);
        while left != 0 && seen < WORDS_READ {
            let index = area.tree * self.words_per_tree() + left.trailing_zeros();
            left &= left - 1;
            seen += 1;
            let word = self.words.get(index as usize);
            free += word.map_or(0, |word| word.free_hint().count_ones());
        }
        let free = free * open.count_ones() / seen.max(1);
        (split.count_ones() * WORD - free, free)
    }
}

/// Returns the areas of a tree that have one of these words, as masks of its header.
pub(super) fn areas(mut words: u64) -> impl Iterator<Item = u64> {
    core::iter::from_fn(move || {
        if words == 0 {
            return None;
        }
        let area = first(WORDS_OF_AREA) << (words.trailing_zeros() / WORDS_OF_AREA * WORDS_OF_AREA);
        words &= !area;
        Some(area)
    })
}
