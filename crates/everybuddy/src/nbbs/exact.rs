//! Given frames: parts of allocations, ranges, holes and reserved frames.
//!
//! The tree knows blocks. A run of frames is taken, freed or withdrawn block by block, or word by word, and undone if a
//! frame is not free.
//!
//! # Invariants
//! 1. A withdrawn frame is an occupied frame of a lowest word that says so. It is never part of a larger block.
//! 2. A free checks all frames that it names before it changes anything.

use super::Nbbs;
use super::search::CallerState;
use super::tree::{At, NotTaken, WORD_RETRIES};
use super::word::{BOTTOM_SHIFT, WITHDRAWN, WordLevel};
use crate::bit_runs::{WORD, first};
use crate::error::{FreeError, RangeError};
use crate::frame::{Block, Index, Order};
use crate::free_bits::FreeBits;
use crate::platform::Platform;
use crate::withdrawn::Withdrawn;

/// Splits a run at the borders of the lowest words: each part is a word, its first unit and its length.
fn parts(start: u32, frames: u32) -> impl Iterator<Item = (At, u32, u32)> {
    let (mut at, mut left) = (start, frames);
    core::iter::from_fn(move || {
        let unit = WordLevel::BOTTOM.unit_of(at);
        let length = left.min((1 << BOTTOM_SHIFT) - unit);
        let part = (At::of(WordLevel::BOTTOM, at), unit, length);
        at = at.wrapping_add(length);
        left -= length;
        (length > 0).then_some(part)
    })
}

impl<P: Platform> Nbbs<'_, P> {
    /// Frees the block of an order that starts at a frame.
    #[inline(always)]
    pub(super) fn free_block(
        &self,
        caller: &CallerState<'_, P>,
        start: Index,
        order: Order,
    ) -> Result<(), FreeError> {
        let level = WordLevel::of(order);
        if start.0 >= self.span.frames() {
            return Err(FreeError::Foreign);
        }
        if level > self.search.tree.top || !start.is_aligned(order) {
            return Err(self.refused(start));
        }
        let at = At::of(level, start.0);
        let part = level.part(start.0, order);
        let freed = self.search.tree.free(at, |word| {
            if part.size == 0 && word & WITHDRAWN != 0 && self.withdrawn.reason(start.0).is_some() {
                return None;
            }
            level.freed(word, part)
        });
        match freed {
            Some(is_empty) => {
                let is_large = is_empty || level > WordLevel::BOTTOM;
                caller.freed(start.0, order, is_large);
                Ok(())
            }
            None => Err(self.refused(start)),
        }
    }

    /// Says why no block of the order starts at a frame of the span.
    #[cold]
    #[inline(never)]
    fn refused(&self, start: Index) -> FreeError {
        if let Err(error) = self.withdrawn.none_in(start.0, 1) {
            return error;
        }
        match self.search.tree.holder(start.0) {
            None => FreeError::NotAllocated,
            Some((at, part)) => {
                let order = at.level.order(part);
                if start.is_aligned(order) {
                    FreeError::WrongOrder { allocated: order }
                } else {
                    FreeError::InsideBlock { order }
                }
            }
        }
    }

    /// Frees a run of frames that lies in the span: blocks, and parts of blocks.
    #[cold]
    #[inline(never)]
    pub(super) fn free_run(
        &self,
        caller: &CallerState<'_, P>,
        start: u32,
        frames: u32,
    ) -> Result<(), FreeError> {
        // A frame that was allocated as such.
        if frames == 1 && self.free_block(caller, Index(start), Order::ZERO).is_ok() {
            return Ok(());
        }
        self.check_run(start, frames)?;
        let tree = &self.search.tree;
        let (mut at, mut left) = (start, frames);
        while left > 0 {
            let (place, part) = tree.holder(at).ok_or(FreeError::NotAllocated)?;
            let level = place.level;
            let order = level.order(part);
            let (freed, length) = if level == WordLevel::BOTTOM {
                let unit = level.unit_of(at);
                let length = left.min((1 << BOTTOM_SHIFT) - unit);
                let freed = tree.free(place, |word| level.without_run(word, unit, length));
                (freed, length)
            } else if Index(at).is_aligned(order) && order.frames() <= left {
                let freed = tree.free(place, |word| level.freed(word, part));
                (freed, order.frames())
            } else {
                tree.divide(place, at);
                continue;
            };
            // Whatever is free now was counted in this call. A part that fails was freed by another CPU, too.
            let is_empty = freed.ok_or(FreeError::NotAllocated)?;
            caller.freed(at, order, is_empty || level > WordLevel::BOTTOM);
            at = at.wrapping_add(length);
            left -= length;
        }
        Ok(())
    }

    /// Checks that all frames of a run are allocated.
    fn check_run(&self, start: u32, frames: u32) -> Result<(), FreeError> {
        let (mut at, end) = (u64::from(start), u64::from(start) + u64::from(frames));
        while at < end {
            let frame = at as u32;
            let Some((place, part)) = self.search.tree.holder(frame) else {
                return Err(FreeError::NotAllocated);
            };
            let order = place.level.order(part);
            if order == Order::ZERO {
                self.withdrawn.none_in(frame, 1)?;
            }
            at = u64::from(frame & !(order.frames() - 1)) + u64::from(order.frames());
        }
        Ok(())
    }

    /// Allocates exactly the frames of a range, in aligned blocks, or none.
    pub(super) fn take_range(
        &self,
        caller: &CallerState<'_, P>,
        start: u32,
        frames: u32,
    ) -> Result<(), RangeError> {
        for block in Block::cover(Index(start), frames, self.max_order) {
            let level = WordLevel::of(block.order);
            let at = At::of(level, block.start.0);
            let part = level.part(block.start.0, block.order);
            let taken = self.take_exactly(block.start.0, block.order.frames(), || {
                let tree = &self.search.tree;
                tree.take(at, level.mask(part), level.block(part))
            });
            if let Err(error) = taken {
                let done = block.start.0 - start;
                for block in Block::cover(Index(start), done, self.max_order) {
                    // Taken just now, so only misuse can have freed it.
                    let _ = self.free_block(caller, block.start, block.order);
                }
                return Err(error);
            }
        }
        Ok(())
    }

    /// Takes frames out of service, or none.
    pub(super) fn take_out(
        &self,
        caller: &CallerState<'_, P>,
        start: u32,
        frames: u32,
        to: Withdrawn,
    ) -> Result<(), RangeError> {
        let mut done = 0;
        for (at, unit, length) in parts(start, frames) {
            let mask = first(length) << unit;
            let taken = self.take_exactly(start + done, length, || {
                self.search.tree.take(at, mask, mask | WITHDRAWN)
            });
            if let Err(error) = taken {
                self.bring_back(caller, start, done);
                return Err(error);
            }
            done += length;
        }
        self.withdrawn.mark(start, frames, to);
        Ok(())
    }

    /// Calls `take` until it succeeds, or until one of the frames that it takes is in use.
    fn take_exactly(
        &self,
        start: u32,
        frames: u32,
        take: impl Fn() -> Result<(), NotTaken>,
    ) -> Result<(), RangeError> {
        for _ in 0..WORD_RETRIES {
            if take().is_ok() {
                return Ok(());
            }
            let in_use = (start..start + frames).find(|frame| !self.is_free(*frame));
            if let Some(frame) = in_use {
                return Err(RangeError::NotFree(Index(frame)));
            }
        }
        Err(RangeError::Busy)
    }

    /// Puts withdrawn frames into service, or none.
    pub(super) fn put_into_service(
        &self,
        caller: &CallerState<'_, P>,
        start: u32,
        frames: u32,
        from: Withdrawn,
    ) -> Result<(), RangeError> {
        self.withdrawn.claim(start, frames, from)?;
        self.bring_back(caller, start, frames);
        Ok(())
    }

    /// Makes frames free that are occupied one by one.
    fn bring_back(&self, caller: &CallerState<'_, P>, start: u32, frames: u32) {
        for (at, unit, length) in parts(start, frames) {
            let mask = first(length) << unit;
            self.search.tree.free(at, |word| Some(word & !mask));
            caller.freed(at.index << BOTTOM_SHIFT | unit, Order::ZERO, true);
        }
    }

    /// Returns `true` if a frame is free. A hint while other CPUs work.
    fn is_free(&self, frame: u32) -> bool {
        self.free_bits(frame / WORD) >> (frame % WORD) & 1 != 0
    }
}
