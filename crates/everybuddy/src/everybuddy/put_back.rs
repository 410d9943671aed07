//! Frames that go back to their tree.
//!
//! A CPU frees frames of an own tree by plain writes: by one change of their word, or of the tree's header if they are
//! whole words. It claims a tree without an owner, and does the same there. Frames of a tree that another CPU owns go
//! to the foreign plane. A tree that the CPU empties is released.
//!
//! # Invariants
//! 1. Only [`put_back`](Local::put_back) chooses between these three. Frees that hit come before it: they need only
//!    know that the CPU owns the tree. A nested free may have interrupted the owner, so it always goes to the plane.
//! 2. Each free of this CPU that makes a word of an own tree whole is noted: the tree may have large blocks then.
//!    Frames that other CPUs returned are collected without a note.
//! 3. Parts of words below the first-fit point that enter no list are counted, so that the point returns to them.

use core::iter;

use crate::bit_runs::WORD;
use crate::frame::Order;
use crate::platform::{AtomicWord, Ordering, Platform, SharedCell};

use super::foreign::Shared;
use super::local::Local;
use super::tree::{AllTrees, Part};
use super::word::{Header, Kind};

/// The number of frees into one tree in a row after which the CPU keeps the tree. Those of gathered blocks are one.
const FREES_TO_KEEP: u8 = 4;

/// Frames of one tree that are freed together: any of one word ([`Part`]), or a [`TreeRun`].
pub(super) trait Lot<'m, P: Platform> {
    /// Returns their tree and its header. `None` if they lie outside the memory.
    fn tree(&self, trees: &AllTrees<'m, P>) -> Option<(u32, &'m Header<P>)>;

    /// Returns the words of the frames, as a mask of the header.
    fn words(&self, trees: &AllTrees<'m, P>) -> u64;

    /// Frees the frames as the owner of their tree, if all of them are allocated.
    fn give(&self, trees: &AllTrees<'m, P>, header: &Header<P>) -> bool;

    /// Returns the frames word by word.
    fn parts(&self, trees: &AllTrees<'m, P>) -> impl Iterator<Item = Part<'m, P>>;
}

impl<'m, P: Platform> Lot<'m, P> for Part<'m, P> {
    #[inline(always)]
    fn tree(&self, trees: &AllTrees<'m, P>) -> Option<(u32, &'m Header<P>)> {
        Some((trees.tree_of(self.index * WORD), self.header))
    }

    #[inline(always)]
    fn words(&self, _: &AllTrees<'m, P>) -> u64 {
        self.mask
    }

    #[inline(always)]
    fn give(&self, _: &AllTrees<'m, P>, header: &Header<P>) -> bool {
        header.give(self.mask, self.word, self.frames)
    }

    #[inline(always)]
    fn parts(&self, _: &AllTrees<'m, P>) -> impl Iterator<Item = Part<'m, P>> {
        iter::once(*self)
    }
}

/// A run that lies in one tree.
pub(super) struct TreeRun {
    pub(super) start: u32,
    pub(super) frames: u32,
}

impl<'m, P: Platform> Lot<'m, P> for TreeRun {
    #[inline]
    fn tree(&self, trees: &AllTrees<'m, P>) -> Option<(u32, &'m Header<P>)> {
        let tree = trees.tree_of(self.start);
        Some((tree, trees.header(tree)?))
    }

    #[inline]
    fn words(&self, trees: &AllTrees<'m, P>) -> u64 {
        let words = (self.start % WORD + self.frames).div_ceil(WORD);
        trees.mask_of(self.start, words)
    }

    fn give(&self, trees: &AllTrees<'m, P>, header: &Header<P>) -> bool {
        let is_of_words = (self.start | self.frames).is_multiple_of(WORD);
        if is_of_words && trees.give_words(header, self.start, self.frames / WORD) {
            return true;
        }
        let is_allocated = |part: Part<'_, P>| {
            header.split.get() & part.mask != 0 && part.word.not_allocated() & part.frames == 0
        };
        self.parts(trees).all(is_allocated)
            && self
                .parts(trees)
                .all(|part| header.give(part.mask, part.word, part.frames))
    }

    #[inline]
    fn parts(&self, trees: &AllTrees<'m, P>) -> impl Iterator<Item = Part<'m, P>> {
        trees.parts(self.start, self.frames)
    }
}

impl<P: Platform> Local<'_, P> {
    /// Frees a run of one word, past the lists, if the CPU owns the tree and all of its frames are allocated.
    #[inline(always)]
    pub(crate) fn give(
        &self,
        shared: &Shared<'_, P>,
        part: &Part<'_, P>,
        start: u32,
        frames: u32,
    ) -> bool {
        if !self.frees_into(&part.header.owner) {
            return false;
        }
        // Before the free, which may release the tree.
        let kind = part.header.kind();
        let is_freed = part.header.give(part.mask, part.word, part.frames);
        if is_freed {
            if part.header.is_whole(part.mask) {
                self.became_whole(shared, shared.trees.tree_of(start), part.header);
            }
            self.pass_over(kind, start, frames);
        }
        is_freed
    }

    /// Notes that a word of an own tree became whole. Releases the tree if few words of it are in use and the CPU does
    /// not allocate there, so that a CPU that calls no more withholds little memory.
    #[inline(always)]
    pub(super) fn became_whole(&self, shared: &Shared<'_, P>, tree: u32, header: &Header<P>) {
        let place = self.place(header.kind());
        place.has_more();
        // A frame that is allocated and freed in turn can make its word whole each time.
        if place.current.get() != tree && place.large.get() != tree {
            self.release_emptied(shared, tree, header);
        }
    }

    #[inline(never)]
    fn release_emptied(&self, shared: &Shared<'_, P>, tree: u32, header: &Header<P>) {
        // A tree that was claimed for one operation has no slot.
        if shared.trees.is_nearly_whole(header)
            && !self.slots.are_few()
            && self.current_trees().all(|own| own != tree)
        {
            self.release_own(shared, tree);
        }
    }

    /// The hit of a free of whole words of one tree, if the CPU owns the tree. The heads say already that the words
    /// are allocated.
    #[inline(always)]
    pub(crate) fn free_words(&self, shared: &Shared<'_, P>, start: u32, words: u32) -> bool {
        let trees = &shared.trees;
        let tree = trees.tree_of(start);
        let Some(header) = trees.header(tree) else {
            return false;
        };
        let is_freed = self.frees_into(&header.owner) && trees.give_words(header, start, words);
        if is_freed {
            self.became_whole(shared, tree, header);
        }
        is_freed
    }

    /// The hit of a free of a run, of one word or of whole words of one tree, if the CPU owns the tree.
    pub(crate) fn free_run(&self, shared: &Shared<'_, P>, start: u32, frames: u32) -> bool {
        let trees = &shared.trees;
        if (start | frames).is_multiple_of(WORD) {
            return trees.tree_of(start + (frames - 1)) == trees.tree_of(start)
                && self.free_words(shared, start, frames / WORD);
        }
        let part = trees.part_of_word(start, frames);
        part.is_some_and(|part| self.give(shared, &part, start, frames))
    }

    /// Notes that frames of a word, in a tree for a kind, were freed without entering the list. Whole words are not
    /// noted: they are parts of large blocks already.
    #[inline(always)]
    pub(crate) fn pass_over(&self, kind: Kind, start: u32, frames: u32) {
        let Some(list) = self.list(Order::ZERO, kind) else {
            return;
        };
        if start < list.point.get() {
            let passed = self.place(kind).passed.get() + frames;
            self.place(kind).passed.set(passed);
            if passed as usize >= list.entries.len() {
                self.start_over(list, kind);
            }
        }
    }

    /// Frees frames of one tree, if all of them are allocated: as the tree's owner, as its owner for this moment, or in
    /// the foreign plane. Returns `false` also if another CPU frees one of them simultaneously. A claimed tree may
    /// become an own one if `may_keep` is true.
    // Inline: each kind of free has its own copy, without a call.
    #[inline(always)]
    pub(super) fn put_back<'m>(
        &self,
        shared: &Shared<'m, P>,
        may_keep: bool,
        lot: &impl Lot<'m, P>,
    ) -> bool {
        let trees = &shared.trees;
        let Some((tree, header)) = lot.tree(trees) else {
            return false;
        };
        // Relaxed: only this CPU makes itself an owner.
        if header.owner.load(Ordering::Relaxed) == self.id {
            let is_freed = lot.give(trees, header);
            let words = lot.words(trees);
            if is_freed && header.split.get() & words != words {
                self.became_whole(shared, tree, header);
            }
            return is_freed;
        }
        if !shared.claim(header, self.id) {
            let is_allocated = lot.parts(trees).all(|part| part.is_allocated());
            return is_allocated && shared.post(tree, header, lot.parts(trees));
        }
        let is_freed = lot.give(trees, header);
        self.keep_or_release(shared, may_keep && is_freed, tree, header);
        is_freed
    }

    /// Keeps a claimed tree after several frees into it in a row, if the CPU may keep it, or releases it. A tree that
    /// was emptied is not kept: further frees there may make no word whole, and would not release it.
    fn keep_or_release(&self, shared: &Shared<'_, P>, may: bool, tree: u32, header: &Header<P>) {
        if may && !shared.trees.is_nearly_whole(header) && self.frees_repeatedly(tree) {
            // Searches pass over marked trees: the mark of its last owner must not stay.
            shared.mark(tree, header);
            self.adopt(shared, tree, header.kind());
        } else {
            shared.release(tree, header);
        }
    }

    /// Counts a free into a tree that this CPU does not own. Returns `true` after several in a row.
    fn frees_repeatedly(&self, tree: u32) -> bool {
        let times = if self.freed.get() == tree {
            self.times.get() + 1
        } else {
            1
        };
        let is_enough = times >= FREES_TO_KEEP;
        self.freed.set(tree);
        self.times.set(if is_enough { 0 } else { times });
        is_enough
    }
}
