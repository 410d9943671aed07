//! Runs that end in a split word.
//!
//! # Purpose
//!
//! A run of more than 64 frames that is not a multiple of 64 needs only a part of its last word. If no run of whole
//! words is free, this part may be free in a split word. Such a run is taken before the request looks elsewhere.
//!
//! # Invariants
//!
//! All words of the run but the last one are whole before, and only the header is written for them.

use crate::bit_runs::{WORD, first};
use crate::frame::Order;
use crate::platform::{Platform, SharedCell};

use super::tree::{Trees, word_order};
use super::word::Header;

impl<P: Platform> Trees<'_, P> {
    /// Takes a run of more than a word of an own tree, whose last word is split. The run starts at a multiple of
    /// 2^order, and the block of this order lies in the tree.
    #[cold]
    #[inline(never)]
    pub(super) fn take_of_both(
        &self,
        tree: u32,
        header: &Header<P>,
        frames: u32,
        order: Order,
    ) -> Option<u32> {
        let (words, last) = (frames / WORD, first(frames % WORD));
        if words == 0 || last == 0 {
            return None;
        }
        let split = header.split.get();
        let starts = (0..self.words_per_tree()).step_by(word_order(order).frames() as usize);
        starts
            .filter(|at| split & first(words) << at == 0)
            .find_map(|at| {
                let index = tree * self.words_per_tree() + at + words;
                let word = self.words.get(index as usize)?;
                let free = word.free();
                if split & self.mask(index) == 0 || free & last != last {
                    return None;
                }
                word.own.set(word.own.get() & !last);
                if free == last {
                    header.any.set(header.any.get() & !self.mask(index));
                }
                header.split.set(split | first(words) << at);
                Some((index - words) * WORD)
            })
    }
}
