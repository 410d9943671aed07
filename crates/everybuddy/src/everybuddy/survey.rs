//! The state of memory, computed from the planes.
//!
//! No list of free blocks exists, so they are counted from the planes whenever they are asked for. A returned frame is
//! free, although it cannot be allocated before the owner of its tree collects it. The frames of a tree that a CPU
//! owns are free, too: the CPU releases the tree when another one asks.
//!
//! # Invariants
//! Nothing here changes anything. While other CPUs work, the results are hints.

use crate::api::FrameAllocator;
use crate::bit_runs::{WORD, find, first};
use crate::detail::Detail;
use crate::frame::{Index, Order};
use crate::free_bits::FreeBits;
use crate::platform::{AtomicWord, CpuId, Ordering, Platform, SharedCell};
use crate::shortage::Kept;
use crate::snapshot::{Census, FrameState, Violation};

use super::OwnedTrees;
use super::local::Local;
use super::tree::Part;
use super::word::{Header, Word};

impl<P: Platform> FreeBits for OwnedTrees<'_, P> {
    /// The returned ones are free, too.
    fn free_bits(&self, word: u32) -> u64 {
        let part = self.shared.trees.part(word * WORD);
        part.map_or(0, |part| match part.header.split.peek() & part.mask {
            0 => u64::MAX,
            _ => part.word.own.peek() ^ part.word.foreign.load(Ordering::Relaxed),
        })
    }

    fn words(&self) -> u32 {
        self.span.frames().div_ceil(WORD)
    }
}

/// What is free to a CPU immediately: everything except the trees of other CPUs.
struct Open<'s, 'm, P: Platform> {
    system: &'s OwnedTrees<'m, P>,
    /// The CPU, as the number of an owner.
    id: u32,
}

impl<P: Platform> FreeBits for Open<'_, '_, P> {
    fn free_bits(&self, word: u32) -> u64 {
        let part = self.system.shared.trees.part(word * WORD);
        let owner = part.map_or(0, |part| part.header.owner.load(Ordering::Relaxed));
        if owner == 0 || owner == self.id {
            self.system.free_bits(word)
        } else {
            0
        }
    }

    fn words(&self) -> u32 {
        self.system.words()
    }
}

impl<P: Platform> OwnedTrees<'_, P> {
    /// Returns the other CPU that keeps a block of this order, or most of the free frames; `None` if a block is free to
    /// this CPU. O(frames / 64).
    pub(super) fn keeper(&self, cpu: CpuId, order: Order) -> Option<Kept> {
        let id = self.local(cpu).map_or(0, |local| local.id);
        let open = Open { system: self, id };
        if open.survey(self.max_order).available_blocks(order) > 0 {
            return None;
        }
        let shift = self.shared.trees.shift;
        let frames_of = |tree: u32| {
            let parts = self.shared.trees.parts(tree << shift, 1 << shift);
            parts.map(|part| u64::from(self.free_bits(part.index).count_ones()))
        };
        let has_block = |tree: u32| {
            let part = order.min(Order::saturating(shift));
            let starts = (tree << shift..(tree + 1) << shift).step_by(part.frames() as usize);
            starts.into_iter().any(|start| self.is_whole(start, part))
        };
        let others = self
            .locals
            .iter()
            .zip(0..)
            .filter(|(_, other)| *other != cpu.0);
        let kept = others.map(|(local, other)| {
            let frames = local.slots.seen().flat_map(frames_of).sum::<u64>();
            let kept = Kept {
                cpu: CpuId(other),
                frames: frames + self.buffered_frames(CpuId(other)),
            };
            let is_listed = || local.listed().any(|(_, listed)| listed >= order);
            (local.slots.seen().any(has_block) || is_listed(), kept)
        });
        kept.filter(|(_, kept)| kept.frames > 0)
            .max_by_key(|(has_block, kept)| (*has_block, kept.frames))
            .map(|(_, kept)| kept)
    }

    /// Returns the number of free frames, those in lists included. Of a tree that is marked as spent, nothing is read
    /// but the mark, and of a tree that is wholly free, the header. O(CPUs + trees + words that are partly free).
    pub(super) fn count_free(&self) -> u64 {
        let trees = &self.shared.trees;
        // Of a word that is split.
        let frames = |word: u32| {
            let bits = |word: &Word<P>| word.own.peek() ^ word.foreign.load(Ordering::Relaxed);
            let word = trees.words.get(word as usize);
            word.map_or(0, |word| u64::from(bits(word).count_ones()))
        };
        let mut free = 0;
        for (tree, header) in (0..).zip(trees.headers) {
            if self.shared.is_marked(tree) {
                continue;
            }
            let (split, inbox) = (header.split.peek(), header.inbox.load(Ordering::Relaxed));
            let whole = !split & trees.extent();
            free += u64::from(whole.count_ones() * WORD);
            let mut partly = split & (header.any.peek() | inbox);
            while partly != 0 {
                free += frames(tree * trees.words_per_tree() + partly.trailing_zeros());
                partly &= partly - 1;
            }
        }
        free + self.locals.iter().map(Local::listed_frames).sum::<u64>()
    }

    /// Returns the use of a frame. O(frames of the largest block / 64); O(entries of all lists) for a listed frame.
    pub(super) fn state_of(&self, index: Index) -> Option<FrameState> {
        let inside = index.0 < self.span.frames();
        let part = self.shared.trees.part(index.0).filter(|_| inside)?;
        let (absent, reserved) = self.absent_in(&part);
        if absent & part.frames != 0 {
            return Some(match reserved & part.frames {
                0 => FrameState::Hole,
                _ => FrameState::Reserved,
            });
        }
        if self.free_bits(part.index) & part.frames == 0 {
            if let Some((head, order)) = self.shared.heads.block_of(index) {
                return Some(FrameState::Allocated { head, order });
            }
            let has = |start, order: Order| index.0.wrapping_sub(start) < order.frames();
            let listed = self
                .buffered()
                .find(|(_, start, order)| has(*start, *order));
            return Some(match listed {
                Some((cpu, _, order)) => FrameState::Buffered { cpu, order },
                None => FrameState::Allocated {
                    head: index,
                    order: Order::ZERO,
                },
            });
        }
        let head = self.free_block_of(index, self.max_order);
        Some(FrameState::Free { head })
    }

    /// Passes all trees and their owners to `see`.
    pub(super) fn inspect_trees(&self, see: &mut dyn FnMut(Detail)) {
        let trees = &self.shared.trees;
        for part in 0..trees.count() {
            let start = Index(part << trees.shift);
            let frames = self.span.frames().saturating_sub(start.0);
            let frames = frames.min(1 << trees.shift);
            see(Detail::Part {
                part,
                start,
                frames,
            });
        }
        for (cpu, local) in (0..).zip(self.locals) {
            let cpu = CpuId(cpu);
            let own = local.slots.seen();
            own.for_each(|part| see(Detail::Assigned { cpu, part }));
        }
    }

    /// Returns the blocks in lists, which the planes call allocated, and whose they are. A hint while other CPUs work.
    pub(super) fn buffered(&self) -> impl Iterator<Item = (CpuId, u32, Order)> {
        let locals = self.locals.iter().zip(0..);
        let locals = locals.filter(|(local, _)| local.may_keep());
        locals.flat_map(|(local, cpu)| {
            let blocks = local.listed();
            blocks.map(move |(start, order)| (CpuId(cpu), start, order))
        })
    }

    /// Says why a run cannot be freed: what its first frame is that is not allocated.
    #[cold]
    pub(super) fn diagnose(&self, start: u32, frames: u32) -> crate::FreeError {
        use crate::FreeError;
        let other = |state: Option<FrameState>| match state {
            Some(FrameState::Allocated { .. }) => None,
            None => Some(FreeError::Foreign),
            Some(FrameState::Hole) => Some(FreeError::Hole),
            Some(FrameState::Reserved) => Some(FreeError::Reserved),
            Some(_) => Some(FreeError::NotAllocated),
        };
        let mut states = (start..start + frames).map(|frame| self.state_of(Index(frame)));
        // Another CPU may have changed the frame meanwhile.
        states.find_map(other).unwrap_or(FreeError::NotAllocated)
    }

    /// Checks all masks against the planes, and counts the frames. O(frames / 64).
    pub(super) fn check_all(&self) -> Result<Census, Violation> {
        let mut census = Census::default();
        let trees = &self.shared.trees;
        for tree in 0..trees.count() {
            let Some(header) = trees.header(tree) else {
                break;
            };
            let index = Index(tree << trees.shift);
            self.check_owner(tree, header)
                .and_then(|()| self.check_marks(tree, header))
                .map_err(|what| Violation { index, what })?;
            for part in trees.parts(index.0, 1 << trees.shift) {
                let index = Index(part.index * WORD);
                self.check_word(&part)
                    .map_err(|what| Violation { index, what })?;
                // The last words reach beyond the span.
                let inside = first(self.span.frames().saturating_sub(index.0));
                let count = |bits: u64| u64::from((bits & inside).count_ones());
                let (free, (absent, reserved)) =
                    (self.free_bits(part.index), self.absent_in(&part));
                if !inside & !absent != 0 {
                    let what = "a frame beyond the span is not a hole";
                    return Err(Violation { index, what });
                }
                census.free += count(free);
                census.holes += count(absent & !reserved);
                census.reserved += count(reserved);
                census.allocated += count(!free & !absent);
            }
        }
        let buffered = self.check_buffered()?;
        census.buffered += buffered;
        // Two CPUs may have the same frame.
        let what = "the lists have more frames than the planes call allocated";
        let allocated = census.allocated.checked_sub(buffered);
        census.allocated = allocated.ok_or(Violation::overall(what))?;
        self.check_heads(census.allocated)?;
        self.check_places()?;
        self.check_refused()?;
        Ok(census)
    }

    /// Checks that blocks in lists are allocated in the planes and parts of no allocation. Returns their frames.
    /// O(squared entries of a CPU's lists) for each CPU.
    fn check_buffered(&self) -> Result<u64, Violation> {
        let mut count = 0;
        for local in self.locals {
            for (at, (start, order)) in local.listed().enumerate() {
                let index = Index(start);
                let violation = |what| Err(Violation { index, what });
                let end = start + order.frames();
                let mut parts = self.shared.trees.parts(start, order.frames());
                if !parts.all(|part| part.is_allocated()) {
                    return violation("the planes do not call a listed frame allocated");
                }
                let overlaps =
                    |(other, of): (u32, Order)| other < end && start < other + of.frames();
                if local.listed().skip(at + 1).any(overlaps) {
                    return violation("a CPU's lists have a frame twice");
                }
                if (start..end).any(|frame| self.shared.heads.piece_of(frame).is_some()) {
                    return violation("a listed frame is a part of an allocation");
                }
                count += u64::from(order.frames());
            }
        }
        Ok(count)
    }

    /// Checks that the pieces are the allocated frames, of which there are `allocated`. O(frames).
    fn check_heads(&self, allocated: u64) -> Result<(), Violation> {
        let (mut end, mut frames) = (0, 0);
        for (start, order) in self.shared.heads.pieces() {
            let index = Index(start);
            let violation = |what| Err(Violation { index, what });
            if start < end || !index.is_aligned(order) {
                return violation("a piece of an allocation overlaps another one");
            }
            let mut parts = self.shared.trees.parts(start, order.frames());
            if !parts.all(|part| part.is_allocated()) {
                return violation("a piece of an allocation has a frame that is not allocated");
            }
            end = start + order.frames();
            frames += u64::from(order.frames());
        }
        if frames == allocated {
            Ok(())
        } else {
            Err(Violation::overall(
                "the pieces of the allocations are not the allocated frames",
            ))
        }
    }

    /// Checks that each block as large as the one that is remembered as refused has a frame that is a part of an
    /// allocation, or absent. A block of listed frames is free. O(frames).
    fn check_refused(&self) -> Result<(), Violation> {
        let Some(order) = self.requests.refused.order() else {
            return Ok(());
        };
        let heads = &self.shared.heads;
        let is_held = |start: u32| {
            let mut frames = start..start + order.frames();
            let mut parts = self.shared.trees.parts(start, order.frames());
            heads.piece_of(start).is_some()
                || frames.any(|frame| heads.piece(frame).is_some())
                || parts.any(|part| self.absent_in(&part).0 != 0)
        };
        let mut blocks = 0..self.span.frames() >> order.index();
        match blocks.find(|block| !is_held(block << order.index())) {
            None => Ok(()),
            Some(block) => Err(Violation {
                index: Index(block << order.index()),
                what: "a block is free that is remembered as refused",
            }),
        }
    }

    /// Checks that each CPU allocates only from trees that it owns.
    fn check_places(&self) -> Result<(), Violation> {
        for local in self.locals {
            let is_own = |tree: &u32| local.own_trees().any(|own| own == *tree);
            if let Some(tree) = local.current_trees().find(|tree| !is_own(tree)) {
                let what = "a CPU allocates from a tree that it does not own";
                let index = Index(tree << self.shared.trees.shift);
                return Err(Violation { index, what });
            }
        }
        Ok(())
    }

    fn check_owner(&self, tree: u32, header: &Header<P>) -> Result<(), &'static str> {
        let owner = header.owner.load(Ordering::Relaxed);
        let owners = || {
            let locals = self.locals.iter();
            locals.flat_map(|local| {
                let trees = local.own_trees().filter(|own| *own == tree);
                trees.map(|_| local.id)
            })
        };
        match (owner, owners().count()) {
            (0, 0) => Ok(()),
            (owner, 1) if owners().all(|own| own == owner) => Ok(()),
            _ => Err("the owner of a tree differs from the trees of the CPUs"),
        }
    }

    fn check_marks(&self, tree: u32, header: &Header<P>) -> Result<(), &'static str> {
        let has_some =
            !self.shared.trees.is_spent(header) || header.inbox.load(Ordering::Relaxed) != 0;
        let is_owned = header.owner.load(Ordering::Relaxed) != 0;
        if !self.shared.is_marked(tree) {
            return Ok(());
        }
        if header.marked.get() == 0 {
            return Err("a tree does not say that it is marked as spent");
        }
        if has_some && !is_owned {
            Err("a tree with free frames is marked as spent")
        } else {
            Ok(())
        }
    }

    fn check_word(&self, part: &Part<'_, P>) -> Result<(), &'static str> {
        let Part { header, word, .. } = part;
        let is_in = |masks: u64| masks & part.mask != 0;
        let (own, foreign) = (word.own.get(), word.foreign.load(Ordering::Relaxed));
        let (any, absent) = (is_in(header.any.get()), is_in(header.absent.get()));
        let inbox = is_in(header.inbox.load(Ordering::Relaxed));
        let heads = &self.shared.heads;
        if heads.reserved(part.index * WORD, !(own & foreign)) != 0 {
            return Err("a frame is reserved that is not absent");
        }
        if !is_in(header.split.get()) {
            // The inbox may have a word whose returned frames were collected before their free had ended.
            let is_plain = own | foreign == 0 && !(any || absent);
            return is_plain
                .then_some(())
                .ok_or("a word that is not split is not empty");
        }
        if own == u64::MAX && foreign == 0 {
            return Err("a word that is wholly free is split");
        }
        if any != (own & !foreign != 0) {
            return Err("the mask of words with free frames differs from the planes");
        }
        let failed = u32::from(header.failed.get());
        let is_known = failed != 0 && any && !is_in(header.fresh.get());
        if is_known && find(own & !foreign, 1 << failed, Order::saturating(failed)).is_some() {
            return Err("a word is remembered to lack a block that it has");
        }
        if absent != (own & foreign != 0) {
            return Err("the mask of words with absent frames differs from the planes");
        }
        if !inbox && foreign & !own != 0 {
            return Err("a returned frame is not in the inbox");
        }
        Ok(())
    }
}
