//! Blocks by fit, where memory has no word that is wholly free.
//!
//! # Purpose
//!
//! By address, a request for a frame takes a part of whatever block lies first. In memory that is nearly full, this
//! leaves no block of more than a few frames. There, a request takes the smallest free block that suffices, as a
//! standard buddy system does: of the CPU's own trees, or of a few trees that no CPU owns.
//!
//! As long as words are wholly free, address decides, since whole words are worth more than blocks in split ones.
//!
//! # Invariants
//!
//! A search by fit is a hint. It reads trees that other CPUs may change, looks at a bounded number of them, and is
//! followed by the search by address. It therefore decides which block is taken, but not whether a request is refused.

use crate::bit_runs::{WORD, smallest_block};
use crate::frame::Order;
use crate::platform::{AtomicWord, CpuToken, Ordering, Platform, SharedCell};
use crate::probe::{Event, Probe};

use super::OwnedTrees;
use super::local::Local;
use super::request::Wanted;
use super::tree::Trees;
use super::word::Header;

/// The trees of others at which a request looks.
const LOOKS: u32 = 64;

impl Wanted {
    /// Returns `true` for a block that lies in a word: then its fit can be seen in the planes.
    #[inline(always)]
    pub(super) fn is_part_of_word(self) -> bool {
        self.frames == self.order.frames() && !self.is_large()
    }
}

impl<P: Platform> Trees<'_, P> {
    /// Returns `true` if a word of a tree is wholly free. A hint, unless the CPU owns the tree.
    #[inline(always)]
    pub(super) fn has_whole(&self, header: &Header<P>) -> bool {
        !header.split.peek() & self.extent() != 0
    }

    /// Returns the smallest free block of the split words of a tree that has a block of an order: its order and its
    /// first frame. Of equal ones, the lowest. A hint, unless the CPU owns the tree.
    pub(super) fn smallest(
        &self,
        tree: u32,
        header: &Header<P>,
        order: Order,
    ) -> Option<(Order, u32)> {
        let mut candidates = header.candidates(order.frames());
        let mut best: Option<(Order, u32)> = None;
        while candidates != 0 {
            let index = tree * self.words_per_tree() + candidates.trailing_zeros();
            candidates &= candidates - 1;
            let word = self.words.get(index as usize)?;
            let free = word.own.peek() & !word.foreign.load(Ordering::Relaxed);
            let Some((size, at)) = smallest_block(free, order) else {
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
        let (_, start) = self.smallest(tree, header, order)?;
        let part = self.part_of_word(start, order.frames())?;
        let is_taken = header.take(part.mask, part.word, part.frames);
        is_taken.then_some(start)
    }
}

/// The smallest block that a search has seen.
#[derive(Clone, Copy)]
struct Best {
    size: Order,
    tree: u32,
    is_own: bool,
}

impl<P: Platform> OwnedTrees<'_, P> {
    /// Serves a request by fit. Returns `None` if words are wholly free, or if nothing was found.
    #[inline]
    pub(super) fn find_smallest(
        &self,
        cpu: &mut P::Cpu,
        local: &Local<'_, P>,
        wanted: Wanted,
    ) -> Option<u32> {
        match wanted.is_part_of_word() && local.is_tight(&self.shared, wanted.kind) {
            true => self.take_smallest(cpu, local, wanted),
            false => None,
        }
    }

    #[inline(never)]
    fn take_smallest(&self, cpu: &mut P::Cpu, local: &Local<'_, P>, wanted: Wanted) -> Option<u32> {
        if wanted.frames == 1
            && let Some(frame) = local.pop(&self.shared, wanted.kind)
        {
            return Some(frame);
        }
        let Best { tree, is_own, .. } = self.smallest_of_next(local, wanted)?;
        let trees = &self.shared.trees;
        let header = trees.header(tree)?;
        if !is_own {
            if !self.shared.claim(header, local.id) {
                return None;
            }
            trees.collect(tree, header);
        }
        let start = match trees.suits(header, wanted.kind) {
            true => trees.take_smallest(tree, header, wanted.order),
            false => None,
        };
        match start {
            Some(start) if is_own => local.moved(&self.shared, tree, header, wanted, start),
            Some(start) => {
                cpu.probe().record(Event::Bypass(wanted.order));
                self.keep_found(local, tree, wanted, start);
            }
            None if is_own => (),
            None => self.shared.release(tree, header),
        }
        start
    }

    /// Returns where the smallest block is that suffices: in an own tree, or in one of the next trees without owner.
    /// Returns `None` if there is no such block, or if a word is wholly free.
    fn smallest_of_next(&self, local: &Local<'_, P>, wanted: Wanted) -> Option<Best> {
        let Wanted { order, kind, .. } = wanted;
        let trees = &self.shared.trees;
        let count = trees.count();
        let from = match count <= LOOKS {
            // Lower trees first: blocks of higher ones stay.
            true => 0,
            false => local.looked_at(kind),
        };
        let next = (from..count).chain(0..from).take(LOOKS as usize);
        let own = local.own_trees().map(|tree| (tree, true));
        let mut best: Option<Best> = None;
        for (tree, is_own) in own.chain(next.map(|tree| (tree, false))) {
            let Some(header) = trees
                .header(tree)
                .filter(|header| trees.suits(header, kind))
            else {
                continue;
            };
            if trees.has_whole(header) {
                local.look_at(kind, tree);
                return None;
            }
            if !is_own {
                local.look_at(kind, tree);
                if !self.shared.is_unowned(header) {
                    continue;
                }
            }
            if let Some((size, _)) = trees.smallest(tree, header, order)
                && best.is_none_or(|best| size < best.size)
            {
                best = Some(Best { size, tree, is_own });
                if size == order {
                    break;
                }
            }
        }
        best
    }
}
