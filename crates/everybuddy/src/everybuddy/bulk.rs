//! Many frames, or many blocks, by one call.
//!
//! Frames and blocks of a word are taken or freed by one change of its planes, and blocks of whole words of a tree by
//! one change of its header.
//!
//! # Invariants
//! A bulk does what its requests would do one by one, except for the lists of freed blocks: it takes blocks by address
//! as long as the current tree has any, and blocks that are freed together enter no list. Misuse is refused at the same
//! release: a group of releases that cannot be freed together is freed one by one.

use crate::api::{Extent, FrameAllocator, one_by_one};
use crate::bit_runs::{WORD, block};
use crate::error::{AllocateError, BulkFreeError};
use crate::frame::{Index, Order};
use crate::platform::{CpuId, CpuToken, Platform, SharedCell};
use crate::probe::{Event, Probe};
use crate::request::{Flags, Release};

use super::OwnedTrees;
use super::local::Local;
use super::tree::Part;
use super::wanted::{Wanted, is_large};
use super::word::{Header, Kind};

impl<P: Platform> OwnedTrees<'_, P> {
    /// Allocates into `out` blocks that are no larger than a tree. Takes what the current tree has; then a single
    /// request finds the next tree. Returns the number, as [`allocate_bulk`](FrameAllocator::allocate_bulk) does.
    pub(super) fn allocate_many(
        &self,
        cpu: &mut P::Cpu,
        order: Order,
        flags: Flags,
        out: &mut [Index],
    ) -> Result<usize, AllocateError> {
        let Some(local) = self.local(cpu.id()) else {
            return one_by_one(out, 0, || Err(AllocateError::NoSuchCpu));
        };
        let wanted = Wanted::block(order, Kind::of(flags.class()));
        let mut given = 0;
        while let Some(rest) = out.get_mut(given..) {
            let taken = match wanted.frames {
                1 => local.take_frames(&self.shared, wanted.kind, rest),
                _ => local.take_blocks(&self.shared, wanted, rest),
            };
            self.note_taken(rest.get(..taken).unwrap_or_default(), order);
            given += taken;
            // The current tree has no more.
            let listed = given;
            while let Some(place) = out.get_mut(given)
                && let Some(start) = local.hit(&self.shared, order, wanted.kind)
            {
                *place = Index(start);
                given += 1;
            }
            if given > listed {
                continue;
            }
            let Some(place) = out.get_mut(given) else {
                break;
            };
            // The first word of the current tree may have had no such block, and others have. The request remembers
            // which words have none.
            if order != Order::ZERO
                && !wanted.is_large()
                && let Some(start) = self.take_one(local, wanted)
            {
                self.note(start, wanted.frames);
                *place = Index(start);
                given += 1;
                continue;
            }
            // This request may change the current tree.
            match self.allocate_slow(cpu, local, wanted, flags) {
                Ok(start) => {
                    self.note(start, wanted.frames);
                    *place = Index(start);
                }
                Err(error) if given == 0 => return Err(error),
                Err(_) => break,
            }
            given += 1;
        }
        Ok(given)
    }

    /// Takes a block of the current tree. Out of line, so that single requests are not.
    #[inline(never)]
    fn take_one(&self, local: &Local<'_, P>, wanted: Wanted) -> Option<u32> {
        local.take_current(&self.shared, wanted)
    }

    /// Notes blocks that were taken from one tree.
    fn note_taken(&self, taken: &[Index], order: Order) {
        let Some(first) = taken.first() else {
            return;
        };
        let trees = &self.shared.trees;
        let header = trees.header(trees.tree_of(first.0));
        let kind = header.map_or(Kind::Staying, Header::kind_hint);
        for start in taken {
            self.shared.heads.set(start.0, order, kind);
        }
    }

    /// Frees many blocks, as [`free_bulk`](FrameAllocator::free_bulk) does. Blocks of one size of a word that are named
    /// one after the other are freed together, and so are blocks of whole words of a tree.
    pub(super) fn free_all(
        &self,
        cpu: &mut P::Cpu,
        mut releases: &[Release],
    ) -> Result<(), BulkFreeError> {
        let all = releases.len();
        while let Some((release, others)) = releases.split_first() {
            let freed = match release.size.extent() {
                Extent::Block(order) if is_large(order) => self.free_blocks(cpu.id(), releases),
                _ => self.free_group(cpu, *release, others),
            };
            if freed == 0 {
                let index = all - releases.len();
                let freed = self.free(cpu, *release);
                freed.map_err(|error| BulkFreeError { index, error })?;
            }
            releases = releases.get(freed.max(1)..).unwrap_or_default();
        }
        Ok(())
    }

    /// Frees the first blocks, as long as they consist of whole words of one own tree, by one change of its header.
    /// Returns their number; 0 if fewer than two can be freed so. Ends before the first one that is not allocated.
    #[inline]
    fn free_blocks(&self, cpu: CpuId, releases: &[Release]) -> usize {
        let trees = &self.shared.trees;
        let large = |release: &Release| match release.size.extent() {
            Extent::Block(order) if is_large(order) && order <= self.largest_hit => Some(order),
            _ => None,
        };
        // A single block may enter the list.
        let [first, second, ..] = releases else {
            return 0;
        };
        let tree = trees.tree_of(first.start.0);
        let is_next = |release: &Release| trees.tree_of(release.start.0) == tree;
        if large(first).is_none() || large(second).is_none() || !is_next(second) {
            return 0;
        }
        let (Some(local), Some(header)) = (self.local(cpu), trees.header(tree)) else {
            return 0;
        };
        if !local.frees_into(&header.owner) {
            return 0;
        }
        let (mut words, mut count) = (0, 0);
        for release in releases.iter().take_while(|release| is_next(release)) {
            let Some(order) = large(release) else {
                break;
            };
            let own = trees.mask_of(release.start.0, order.frames() / WORD);
            // A block that is named twice has no head the second time.
            if header.split.get() & own != own
                || self.shared.heads.take(release.start.0, order).is_none()
            {
                break;
            }
            words |= own;
            count += 1;
        }
        if count != 0 && trees.give_mask(header, words) {
            local.became_whole(&self.shared, tree, header);
        }
        count
    }

    /// Frees a block of less than a word, and the next ones of its size as long as they lie in the same word, by one
    /// change of the word. Returns their number; 0 if there is no other one. Ends before the first one that is not
    /// allocated.
    #[inline]
    fn free_group(&self, cpu: &mut P::Cpu, release: Release, others: &[Release]) -> usize {
        match self.order_of(release.start, release.size) {
            // Frames are most of what bulks free: with an order that is known here, they cost less.
            Some(Order::ZERO) => self.free_in_group(cpu, (release.start, Order::ZERO), others),
            Some(order) if !is_large(order) => {
                self.free_blocks_in_group(cpu, (release.start, order), others)
            }
            _ => 0,
        }
    }

    #[inline(never)]
    fn free_blocks_in_group(
        &self,
        cpu: &mut P::Cpu,
        first: (Index, Order),
        others: &[Release],
    ) -> usize {
        self.free_in_group(cpu, first, others)
    }

    #[inline(always)]
    fn free_in_group(
        &self,
        cpu: &mut P::Cpu,
        (start, order): (Index, Order),
        others: &[Release],
    ) -> usize {
        // If no block starts there, the bits are too few. Then it has no head either.
        let bits = |start: Index| block(order) << (start.0 % WORD);
        let is_beside = |other: &Release| {
            other.start.0 / WORD == start.0 / WORD
                && self.order_of(other.start, other.size) == Some(order)
        };
        // A single block may enter the list.
        if !others.first().is_some_and(is_beside) {
            return 0;
        }
        let (Some(local), Some(part)) = (self.local(cpu.id()), self.shared.trees.part(start.0))
        else {
            return 0;
        };
        let has_head = |start: Index| self.shared.heads.take(start.0, order).is_some();
        if !has_head(start) {
            return 0;
        }
        let (mut frames, mut count) = (bits(start), 1);
        for other in others {
            // The first block without a head is misuse, also if it is named twice. It is left for the next group.
            if !is_beside(other) || !has_head(other.start) {
                break;
            }
            frames |= bits(other.start);
            count += 1;
        }
        let part = Part { frames, ..part };
        let all = (count as u32) << order.index();
        if local.give(&self.shared, &part, start.0, all) {
            return count;
        }
        let lowest = part.index * WORD + frames.trailing_zeros();
        let length = WORD - frames.leading_zeros() - frames.trailing_zeros();
        let open = self.begin_free(local, (lowest, length));
        if !local.put_back(&self.shared, open, &part) {
            return 0;
        }
        local.pass_over(part.header.kind_hint(), start.0, all);
        for _ in 0..count {
            P::probe(cpu).record(Event::Bypass(order));
        }
        count
    }
}
