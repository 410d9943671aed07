//! Ranges of frames: allocated where they are, added, removed, reserved.
//!
//! Such a request names its frames, so it claims their trees, in ascending order, and holds all of them while it checks
//! and changes the frames. That a frame is absent is in the planes. Whether it is a hole or reserved is in the header
//! of its tree, for all absent frames of a word together; only a word with frames of both kinds needs an entry in a
//! table.
//!
//! # Invariants
//! The table has an entry exactly for each word that has both holes and reserved frames: the reserved ones.

use crate::arena::zero_cells;
use crate::error::{RangeError, RegionError};
use crate::frame::Index;
use crate::lock::{RawLock, Section};
use crate::platform::{AtomicWord, CpuId, Ordering, Platform, SharedCell};
use crate::region::FrameRange;

use super::OwnedTrees;
use super::local::Local;
use super::tree::Part;
use super::word::Kind;

zero_cells! {
    /// The reserved frames of a word that has holes, too.
    #[repr(C)]
    struct Mixed {
        /// The number of the word plus one; 0 if the entry is not in use.
        word: Word<u64>,
        /// Its reserved frames.
        reserved: Word<u64>,
    }
}

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

/// Whether an operation asks other CPUs for what they keep.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Ask {
    Never,
    /// If one of them owns a tree that is needed.
    IfOwned,
    /// Always, so that all lists are empty meanwhile.
    Always,
}

impl<P: Platform> OwnedTrees<'_, P> {
    /// Calls `work` while this CPU owns all trees of a run. Asks other CPUs for what they keep as `ask` says; if one of
    /// them does not answer, or may not be asked, the operation fails as busy.
    fn with_trees<T>(
        &self,
        local: &Local<'_, P>,
        (start, frames): (Index, u32),
        ask: Ask,
        work: impl FnOnce() -> Result<T, RangeError>,
    ) -> Result<T, RangeError> {
        let first = self.shared.trees.tree_of(start.0);
        let last = self.shared.trees.tree_of(start.0 + (frames - 1));
        self.begin(local);
        local.release_all(&self.shared);
        let claim = |polls| self.shared.claim_all(local.id, first, last, polls);
        let finish = || {
            let result = work();
            self.shared.release_all(first, last);
            result
        };
        if (ask != Ask::Always || self.locals.len() == 1) && claim(0) {
            return finish();
        }
        if ask == Ask::Never {
            return Err(RangeError::Busy);
        }
        self.with_all_drained(local, |all_drained| {
            // A CPU that did not answer the drain is not waited for again.
            let polls = if all_drained { P::MAX_POLLS } else { 0 };
            if (all_drained || ask == Ask::IfOwned) && claim(polls) {
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
                return Err(Index(part.index * 64 + wrong.trailing_zeros()));
            }
        }
        Ok(())
    }

    /// Checks that all frames of a run are free, after those that were returned were collected.
    fn check_free(&self, run: (Index, u32)) -> Result<(), RangeError> {
        for part in self.shared.trees.parts(run.0.0, run.1) {
            // Whatever the inbox says: other CPUs may keep frames of the run.
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
        cpu: CpuId,
        range: FrameRange,
        may_ask: bool,
    ) -> Result<Index, RegionError> {
        let local = self.local(cpu).ok_or(RegionError::NoSuchCpu)?;
        // Before the search, as in `allocate_slow`: the planes call frames in lists allocated.
        let is_listed = self.may_be_kept(Some(local.id));
        let ask = if may_ask { Ask::IfOwned } else { Ask::Never };
        self.span.on(range, |start, frames| {
            let run = (start, frames);
            match self.take_range(local, run, ask) {
                Err(RangeError::NotFree(_)) if is_listed && may_ask => {
                    self.take_range(local, run, Ask::Always)
                }
                Err(RangeError::NotFree(_)) if is_listed => Err(RangeError::Busy),
                taken => taken,
            }
        })
    }

    fn take_range(
        &self,
        local: &Local<'_, P>,
        run: (Index, u32),
        ask: Ask,
    ) -> Result<Index, RangeError> {
        self.with_trees(local, run, ask, || {
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
        cpu: CpuId,
        range: FrameRange,
        to: Absent,
    ) -> Result<(), RegionError> {
        let local = self.local(cpu).ok_or(RegionError::NoSuchCpu)?;
        self.span.on(range, |start, frames| {
            let run = (start, frames);
            // The planes call the frames in lists allocated.
            self.with_trees(local, run, Ask::Always, || {
                self.check_free(run)?;
                let _section = Section::<P>::begin();
                self.mixed_lock.lock();
                let result = self.withdraw_run(run, to);
                self.mixed_lock.unlock(&());
                result
            })
        })
    }

    /// Does the same in own trees, under the lock of the table. Fails if the table has no room.
    pub(super) fn withdraw_run(&self, run: (Index, u32), to: Absent) -> Result<(), RangeError> {
        // A word that changes as a whole has no absent frame of the other kind.
        let mixes = |part: &Part<'_, P>| {
            let (absent, reserved) = self.absent_in(part);
            absent != 0
                && match to {
                    Absent::Hole => reserved == absent,
                    Absent::Reserved => reserved == 0,
                }
        };
        let parts = || self.shared.trees.parts(run.0.0, run.1);
        let needed = parts().filter(mixes).count();
        let unused = |entry: &&Mixed<P>| entry.word.load(Ordering::Relaxed) == 0;
        if needed > 0 && self.mixed.iter().filter(unused).count() < needed {
            return Err(RangeError::NoRoom);
        }
        for part in parts() {
            let (_, reserved) = self.absent_in(&part);
            part.withdraw();
            self.set_reserved(
                &part,
                match to {
                    Absent::Hole => reserved,
                    Absent::Reserved => reserved | part.frames,
                },
            );
        }
        Ok(())
    }

    /// Turns a range of holes or reserved frames into free ones.
    pub(super) fn restore(
        &self,
        cpu: CpuId,
        range: FrameRange,
        from: Absent,
    ) -> Result<(), RegionError> {
        let local = self.local(cpu).ok_or(RegionError::NoSuchCpu)?;
        self.span.on(range, |start, frames| {
            let run = (start, frames);
            self.with_trees(local, run, Ask::IfOwned, || {
                let _section = Section::<P>::begin();
                self.mixed_lock.lock();
                let result = self.restore_run(run, from);
                self.mixed_lock.unlock(&());
                result
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
            let (_, reserved) = self.absent_in(&part);
            part.restore();
            self.set_reserved(&part, reserved & !part.frames);
        }
        Ok(())
    }

    /// Returns the absent frames of a word, and the reserved ones among them. A hint while other CPUs work.
    pub(super) fn absent_in(&self, part: &Part<'_, P>) -> (u64, u64) {
        if part.header.absent.peek() & part.mask == 0 {
            return (0, 0);
        }
        let absent = part.word.own.peek() & part.word.foreign.load(Ordering::Relaxed);
        if part.header.reserved.peek() & part.mask == 0 {
            return (absent, 0);
        }
        let entry = self.entry(part.index);
        let reserved = entry.map_or(absent, |entry| entry.reserved.load(Ordering::Relaxed));
        (absent, reserved)
    }

    /// Returns the entry of a word.
    fn entry(&self, index: u32) -> Option<&Mixed<P>> {
        let word = u64::from(index) + 1;
        let has = |entry: &&Mixed<P>| entry.word.load(Ordering::Relaxed) == word;
        self.mixed.iter().find(has)
    }

    /// Records which absent frames of a word are reserved. An entry is unused if there has to be one.
    fn set_reserved(&self, part: &Part<'_, P>, reserved: u64) {
        let absent = match part.header.absent.get() & part.mask {
            0 => 0,
            _ => part.word.own.get() & part.word.foreign.load(Ordering::Relaxed),
        };
        let masks = part.header.reserved.get();
        part.header.reserved.set(match reserved {
            0 => masks & !part.mask,
            _ => masks | part.mask,
        });
        let own = self.entry(part.index);
        if reserved == 0 || reserved == absent {
            if let Some(entry) = own {
                entry.word.store(0, Ordering::Relaxed);
            }
            return;
        }
        let unused = || {
            let unused = |entry: &&Mixed<P>| entry.word.load(Ordering::Relaxed) == 0;
            self.mixed.iter().find(unused)
        };
        if let Some(entry) = own.or_else(unused) {
            // Relaxed: readers without the lock get a hint.
            entry.reserved.store(reserved, Ordering::Relaxed);
            entry
                .word
                .store(u64::from(part.index) + 1, Ordering::Relaxed);
        }
    }
}
