//! The lower level: which frames are free, exactly.
//!
//! Entries and bit fields together take and free runs of frames within children. This level knows nothing of CPUs and
//! trees, and it is complete: what the level above counts decides only where a request looks first.
//!
//! # Invariants
//! 1. A frame that is a hole or reserved is allocated in its bit, and counted nowhere. The two cold bitmaps say which
//!    of the two it is, and the entry of its child says that they must be read.
//! 2. A free checks all frames that it names before it changes anything.

use super::entry::{Entries, Entry};
use super::field::{CHILD, CHILD_WORDS, Fields};
use crate::bit_runs::WORD;
use crate::error::{FreeError, RangeError};
use crate::frame::{Index, Order};
use crate::platform::Platform;
use crate::withdrawn::{Withdrawn, WithdrawnFrames};

/// How often frames are tried again that another CPU is about to take or to free.
const CHILD_RETRIES: u32 = 64;

/// The lower level.
pub(crate) struct Lower<'m, P: Platform> {
    pub(crate) fields: Fields<'m, P>,
    pub(crate) entries: Entries<'m, P>,
    pub(crate) withdrawn: WithdrawnFrames<'m, P>,
}

/// Splits a run of frames at the borders of children: each part is a child, an offset in it and a length.
fn parts(start: u32, frames: u32) -> impl Iterator<Item = (u32, u32, u32)> {
    let (mut at, mut left) = (start, frames);
    core::iter::from_fn(move || {
        let offset = at % CHILD;
        let length = left.min(CHILD - offset);
        let part = (at / CHILD, offset, length);
        at = at.wrapping_add(length);
        left -= length;
        (length > 0).then_some(part)
    })
}

impl<P: Platform> Lower<'_, P> {
    /// Returns `true` if a child may have a free run of `frames` frames at a multiple of 2^order. A hint.
    #[inline(always)]
    pub(crate) fn may_have(&self, child: u32, frames: u32, order: Order) -> bool {
        let needs_both = order.index() > 9;
        let free = |child| self.entries.load(child).free();
        if needs_both {
            child.is_multiple_of(2) && free(child) == CHILD && free(child + 1) == CHILD
        } else {
            free(child) >= frames
        }
    }

    /// Takes `frames` free frames from a multiple of 2^order on, in one child or in two that are a pair. Looks from a
    /// word of the child on. Returns the first frame.
    #[inline]
    pub(crate) fn take(&self, child: u32, frames: u32, order: Order, from: u32) -> Option<u32> {
        match order.index() {
            0 => self.take_bits(child, (1, Order::ZERO), from),
            10.. => self.take_pair(child, frames),
            9 if frames == CHILD => self.entries.take_huge(child).then_some(child * CHILD),
            _ => {
                // An undone attempt would look like frames that came back.
                let polarity = self.entries.load(child).polarity();
                let run = (frames, order);
                let from = self.fields.candidate(child, polarity, run, from)?;
                self.take_bits(child, run, from)
            }
        }
    }

    #[inline]
    fn take_bits(&self, child: u32, (frames, order): (u32, Order), from: u32) -> Option<u32> {
        let entry = self.entries.lower(child, frames)?;
        let run = (frames, order);
        match self.fields.take(child, entry.polarity(), run, from) {
            Some(offset) => Some(child * CHILD + offset),
            None => self.give_up(child, frames),
        }
    }

    /// Raises a counter again: the bits were taken by others, or no run is long enough.
    #[cold]
    fn give_up(&self, child: u32, frames: u32) -> Option<u32> {
        self.entries.raise(child, frames);
        None
    }

    /// Takes `frames` frames, more than 512, from the start of a pair on.
    #[cold]
    fn take_pair(&self, child: u32, frames: u32) -> Option<u32> {
        if !child.is_multiple_of(2) || !self.entries.take_both(child) {
            return None;
        }
        let rest = 2 * CHILD - frames;
        if rest > 0 {
            // The rest of the upper child, whose frames no other CPU knows.
            self.entries.split_huge(child + 1);
            let polarity = self.entries.load(child + 1).polarity();
            let tail = (CHILD - rest, rest);
            self.fields.free(child + 1, polarity, tail, |_| ());
            self.entries.raise(child + 1, rest);
        }
        Some(child * CHILD)
    }

    /// Frees a run of frames, or returns an error and frees none. The run lies in the span.
    #[inline]
    pub(crate) fn free(&self, start: u32, frames: u32) -> Result<(), FreeError> {
        let offset = start % CHILD;
        if frames <= CHILD - offset {
            self.free_part((start / CHILD, offset, frames))
        } else {
            self.free_parts(start, frames)
        }
    }

    /// Frees a run in several children. Each part is checked first. Only another CPU that frees some of the same
    /// frames simultaneously, a misuse, can make one fail afterwards: then those before it are freed.
    #[cold]
    #[inline(never)]
    fn free_parts(&self, start: u32, frames: u32) -> Result<(), FreeError> {
        let is_pair = frames == 2 * CHILD && start.is_multiple_of(2 * CHILD);
        if is_pair && self.entries.free_both(start / CHILD) {
            return Ok(());
        }
        parts(start, frames).try_for_each(|part| self.check_part(part))?;
        parts(start, frames).try_for_each(|part| self.free_part(part))
    }

    /// Checks that a run of a child is allocated.
    fn check_part(&self, (child, offset, frames): (u32, u32, u32)) -> Result<(), FreeError> {
        let entry = self.entries.load(child);
        if entry.has_withdrawn() {
            self.withdrawn.none_in(child * CHILD + offset, frames)?;
        }
        let fields = &self.fields;
        if entry.is_huge() || fields.are_allocated(child, entry.polarity(), offset, frames) {
            Ok(())
        } else {
            Err(FreeError::NotAllocated)
        }
    }

    /// Frees a run of a child.
    #[inline]
    fn free_part(&self, (child, offset, frames): (u32, u32, u32)) -> Result<(), FreeError> {
        let mut entry = self.entries.load(child);
        if entry.is_huge() {
            if frames == CHILD && self.entries.free_huge(child) {
                return Ok(());
            }
            self.entries.split_huge(child);
            entry = self.entries.load(child);
        }
        if entry.has_withdrawn() {
            self.withdrawn.none_in(child * CHILD + offset, frames)?;
        }
        let stay_free = |frames| self.entries.raise(child, frames);
        if self
            .fields
            .free(child, entry.polarity(), (offset, frames), stay_free)
        {
            self.entries.raise(child, frames);
            Ok(())
        } else {
            Err(FreeError::NotAllocated)
        }
    }

    /// Takes exactly these free frames out of service, or none.
    pub(crate) fn withdraw(
        &self,
        start: u32,
        frames: u32,
        to: Withdrawn,
    ) -> Result<(), RangeError> {
        self.take_at(start, frames, &|child, frames| {
            self.entries.withdraw(child, frames)
        })?;
        self.withdrawn.mark(start, frames, to);
        Ok(())
    }

    /// Allocates exactly these free frames, or none.
    pub(crate) fn allocate_at(&self, start: u32, frames: u32) -> Result<(), RangeError> {
        self.take_at(start, frames, &|child, frames| {
            self.entries.lower(child, frames)
        })
    }

    /// Takes exactly these free frames, or none. `lower` lowers the counter of a child.
    fn take_at(
        &self,
        start: u32,
        frames: u32,
        lower: &dyn Fn(u32, u32) -> Option<Entry>,
    ) -> Result<(), RangeError> {
        for part in parts(start, frames) {
            if let Err(error) = self.take_part(part, lower) {
                let done = part.0 * CHILD + part.1 - start;
                self.return_frames(start, done);
                return Err(error);
            }
        }
        Ok(())
    }

    fn take_part(
        &self,
        (child, offset, frames): (u32, u32, u32),
        lower: &dyn Fn(u32, u32) -> Option<Entry>,
    ) -> Result<(), RangeError> {
        let start = child * CHILD + offset;
        for _ in 0..CHILD_RETRIES {
            let in_use = (start..start + frames).find(|frame| !self.is_free(*frame));
            if let Some(frame) = in_use {
                return Err(RangeError::NotFree(Index(frame)));
            }
            // A CPU may have lowered the counter and not taken its frame yet.
            let Some(entry) = lower(child, frames) else {
                continue;
            };
            let polarity = entry.polarity();
            if self.fields.take_exactly(child, polarity, offset, frames) {
                return Ok(());
            }
            self.entries.restore(child, frames);
        }
        Err(RangeError::Busy)
    }

    /// Makes frames free that are allocated in their bits, and no longer holes or reserved.
    fn return_frames(&self, start: u32, frames: u32) {
        for (child, offset, frames) in parts(start, frames) {
            let polarity = self.entries.load(child).polarity();
            // With releases: the next holder of a frame must see, when it frees it, that it is not withdrawn.
            let run = (offset, frames);
            self.fields.free(child, polarity, run, |_| ());
            self.entries.restore(child, frames);
        }
    }

    /// Puts withdrawn frames into service.
    pub(crate) fn restore(
        &self,
        start: u32,
        frames: u32,
        from: Withdrawn,
    ) -> Result<(), RangeError> {
        self.withdrawn.claim(start, frames, from)?;
        self.return_frames(start, frames);
        Ok(())
    }

    /// Returns `true` if a frame is free. A hint while other CPUs work.
    pub(crate) fn is_free(&self, frame: u32) -> bool {
        self.free_bits(frame / WORD) >> (frame % WORD) & 1 != 0
    }

    /// Returns the free frames of a word, counted over all children. A hint while other CPUs work.
    pub(crate) fn free_bits(&self, word: u32) -> u64 {
        let child = word / CHILD_WORDS;
        let polarity = self.entries.load(child).polarity();
        let at = word % CHILD_WORDS;
        self.fields.free_bits(child, at, polarity)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::bit_runs::words;
    use std::vec::Vec;

    #[test]
    fn runs_are_split_at_borders_without_gaps() {
        for start in [0, 1, 63, 64, 511, 512, 700] {
            for frames in [1, 2, 63, 64, 65, 512, 513, 1500] {
                let mut at = start;
                for (child, offset, length) in parts(start, frames) {
                    assert_eq!(child * CHILD + offset, at);
                    assert!(length > 0 && offset + length <= CHILD);
                    at += length;
                }
                assert_eq!(at, start + frames);
                let named: Vec<u32> = words(start, frames)
                    .flat_map(|(word, bits)| {
                        let set = (0..WORD).filter(move |bit| bits >> bit & 1 != 0);
                        set.map(move |bit| word as u32 * WORD + bit)
                    })
                    .collect();
                assert_eq!(named, (start..start + frames).collect::<Vec<_>>());
            }
        }
    }
}
