//! Ranges of frames: allocated where they are, added, removed, reserved.
//!
//! Such a request names its frames, so it claims their trees, in ascending order, and holds all of them while it checks
//! and changes the frames. That a frame is absent is in the planes, and that it is reserved in its byte.
//!
//! # Invariants
//! Each frame of the span that is absent, and not reserved, is a hole.

use crate::bit_runs::WORD;
use crate::error::{RangeError, RegionError};
use crate::frame::Index;
use crate::platform::{AtomicWord, CpuId, CpuToken, Ordering, Platform, SharedCell};
use crate::region::FrameRange;

use super::OwnedTrees;
use super::local::Local;
use super::tree::Part;
use super::word::Kind;

impl<P: Platform> Part<'_, P> {
    /// Turns free frames of a word into absent ones, as the owner.
    fn withdraw(&self) {
        let Part { header, word, .. } = self;
        let split = header.split.get();
        if split & self.mask == 0 {
            // In this order: as in `Header::take`.
            word.own.set(u64::MAX);
            header.split.set(split | self.mask);
        }
        word.mark(self.frames, 0);
        self.update();
    }

    /// Turns absent frames of a word into free ones, as the owner.
    fn restore(&self) {
        let Part { header, word, .. } = self;
        word.mark(0, self.frames);
        if word.own.get() == u64::MAX && word.foreign.load(Ordering::Relaxed) == 0 {
            header.split.set(header.split.get() & !self.mask);
            word.own.set(0);
        }
        self.update();
    }

    /// Writes the bits of a word in `any` and `absent`.
    fn update(&self) {
        let Part { header, word, .. } = self;
        let (own, foreign) = (word.own.get(), word.foreign.load(Ordering::Relaxed));
        let with = |masks: u64, is_set: bool| {
            if is_set {
                masks | self.mask
            } else {
                masks & !self.mask
            }
        };
        header.any.set(with(header.any.get(), own & !foreign != 0));
        header.fresh.set(with(header.fresh.get(), true));
        header
            .absent
            .set(with(header.absent.get(), own & foreign != 0));
    }
}

/// What a range of free frames becomes, or what it was.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Absent {
    Hole,
    Reserved,
}

/// When an operation asks other CPUs for what they keep.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Ask {
    /// If one of them owns a tree that is needed.
    IfOwned,
    /// Always, so that all lists are empty meanwhile.
    Always,
}

/// When an operation asks, and the token of the CPU that does. `None` if it never asks.
type Asks<'c, P> = Option<(Ask, &'c mut <P as Platform>::Cpu)>;

impl<P: Platform> OwnedTrees<'_, P> {
    /// Calls `work` while this CPU owns all trees of a run. Asks other CPUs for what they keep as `asks` says; if one
    /// of them does not answer, or may not be asked, the operation fails as busy.
    fn with_trees<T>(
        &self,
        local: &Local<'_, P>,
        (start, frames): (Index, u32),
        asks: Asks<'_, P>,
        work: impl FnOnce() -> Result<T, RangeError>,
    ) -> Result<T, RangeError> {
        let first = self.shared.trees.tree_of(start.0);
        let last = self.shared.trees.tree_of(start.0 + (frames - 1));
        self.begin(local);
        local.release_all(&self.shared);
        let claim = |waits| self.shared.claim_all(local.id, first, last, waits);
        let finish = || {
            let result = work();
            self.shared.release_all(first, last);
            result
        };
        let asks_always = matches!(asks, Some((Ask::Always, _)));
        if (!asks_always || self.locals.len() == 1) && claim(false) {
            return finish();
        }
        let Some((ask, cpu)) = asks else {
            return Err(RangeError::Busy);
        };
        self.with_all_drained(cpu, local, true, |all_drained| {
            // A CPU that did not answer the drain is not waited for again.
            if (all_drained || ask == Ask::IfOwned) && claim(all_drained) {
                finish()
            } else {
                Err(RangeError::Busy)
            }
        })
    }

    /// Checks the frames of a run word by word: `wrong` returns those that are not as they should be.
    fn check_run(
        &self,
        (start, frames): (Index, u32),
        wrong: impl Fn(&Part<'_, P>) -> u64,
    ) -> Result<(), Index> {
        for part in self.shared.trees.parts(start.0, frames) {
            let wrong = wrong(&part) & part.frames;
            if wrong != 0 {
                return Err(Index(part.index * WORD + wrong.trailing_zeros()));
            }
        }
        Ok(())
    }

    /// Checks that all frames of a run are free, after those that were returned were collected.
    fn check_free(&self, run: (Index, u32)) -> Result<(), RangeError> {
        for part in self.shared.trees.parts(run.0.0, run.1) {
            // Whatever the inbox says: another CPU may be about to name the word.
            if part.word.has_foreign(u64::MAX) {
                self.shared
                    .trees
                    .collect_word(part.header, part.mask, part.word);
            }
        }
        let wrong = |part: &Part<'_, P>| match part.header.split.get() & part.mask {
            0 => 0,
            _ => !part.word.free(),
        };
        self.check_run(run, wrong).map_err(RangeError::NotFree)
    }

    /// Allocates the frames of a range.
    pub(super) fn allocate_range(
        &self,
        cpu: &mut P::Cpu,
        range: FrameRange,
        may_ask: bool,
    ) -> Result<Index, RegionError> {
        let local = self.local(cpu.id()).ok_or(RegionError::NoSuchCpu)?;
        // Before the search, as in `allocate_slow`: the planes call frames in lists allocated.
        let is_listed = self.may_be_kept(Some(local.id));
        self.span.on(range, |start, frames| {
            let run = (start, frames);
            let asks = may_ask.then_some((Ask::IfOwned, &mut *cpu));
            match self.take_range(local, run, asks) {
                Err(RangeError::NotFree(_)) if is_listed && may_ask => {
                    self.take_range(local, run, Some((Ask::Always, cpu)))
                }
                Err(RangeError::NotFree(_)) if is_listed => Err(RangeError::Busy),
                taken => taken,
            }
        })
    }

    /// Allocates a run before the system is in use.
    pub(crate) fn take_first(&self, start: Index, frames: u32) -> Result<(), RangeError> {
        let local = self.local(CpuId(0)).ok_or(RangeError::NoSuchCpu)?;
        let taken = self.take_range(local, (start, frames), None);
        // Not in use, so that no request waits for this CPU before it calls.
        self.park_local(local);
        taken.map(|_| ())
    }

    fn take_range(
        &self,
        local: &Local<'_, P>,
        run: (Index, u32),
        asks: Asks<'_, P>,
    ) -> Result<Index, RangeError> {
        self.with_trees(local, run, asks, || {
            self.check_free(run)?;
            for part in self.shared.trees.parts(run.0.0, run.1) {
                // The caller needs these frames and no others, so they stay.
                if self.shared.trees.is_whole(part.header) {
                    part.header.dedicate(Kind::Staying);
                }
                part.header.take(part.mask, part.word, part.frames);
            }
            self.note(run.0.0, run.1);
            Ok(run.0)
        })
    }

    /// Turns a range of free frames into holes or reserved frames.
    pub(super) fn withdraw(
        &self,
        cpu: &mut P::Cpu,
        range: FrameRange,
        to: Absent,
    ) -> Result<(), RegionError> {
        let local = self.local(cpu.id()).ok_or(RegionError::NoSuchCpu)?;
        self.span.on(range, |start, frames| {
            let run = (start, frames);
            // The planes call the frames in lists allocated.
            self.with_trees(local, run, Some((Ask::Always, cpu)), || {
                self.check_free(run)?;
                self.withdraw_run(run, to);
                Ok(())
            })
        })
    }

    /// Does the same in own trees, with frames that are free.
    pub(super) fn withdraw_run(&self, run: (Index, u32), to: Absent) {
        for part in self.shared.trees.parts(run.0.0, run.1) {
            // The bytes of other frames are zero already. In this order: a reserved frame never looks like a hole.
            if to == Absent::Reserved {
                self.mark_reserved(&part, true);
            }
            part.withdraw();
        }
    }

    /// Turns a range of holes or reserved frames into free ones.
    pub(super) fn restore(
        &self,
        cpu: &mut P::Cpu,
        range: FrameRange,
        from: Absent,
    ) -> Result<(), RegionError> {
        let local = self.local(cpu.id()).ok_or(RegionError::NoSuchCpu)?;
        self.span.on(range, |start, frames| {
            let run = (start, frames);
            self.with_trees(local, run, Some((Ask::IfOwned, cpu)), || {
                self.restore_run(run, from)
            })
        })
    }

    fn restore_run(&self, run: (Index, u32), from: Absent) -> Result<(), RangeError> {
        let wrong = |part: &Part<'_, P>| {
            let (absent, reserved) = self.absent_in(part);
            match from {
                Absent::Hole => !absent | reserved,
                Absent::Reserved => !reserved,
            }
        };
        self.check_run(run, wrong).map_err(|index| match from {
            Absent::Hole => RangeError::AlreadyManaged(index),
            Absent::Reserved => RangeError::NotReserved(index),
        })?;
        // A request that this CPU has acknowledged is counted against, and no other one can remember a refusal
        // meanwhile.
        self.requests.refused.forget();
        for part in self.shared.trees.parts(run.0.0, run.1) {
            part.restore();
            if from == Absent::Reserved {
                self.mark_reserved(&part, false);
            }
        }
        Ok(())
    }

    fn mark_reserved(&self, part: &Part<'_, P>, is_reserved: bool) {
        let heads = &self.shared.heads;
        heads.reserve(part.index * WORD, part.frames, is_reserved);
    }

    /// Returns the absent frames of a part, and the reserved ones among them. A hint while other CPUs work.
    pub(super) fn absent_in(&self, part: &Part<'_, P>) -> (u64, u64) {
        if part.header.absent.peek() & part.mask == 0 {
            return (0, 0);
        }
        let absent = part.word.own.peek() & part.word.foreign.load(Ordering::Relaxed) & part.frames;
        let reserved = self.shared.heads.reserved(part.index * WORD, absent);
        (absent, reserved)
    }
}
