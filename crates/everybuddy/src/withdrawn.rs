//! Frames that no request may take: holes, and reserved frames.
//!
//! Where no record of a frame exists, a frame that is withdrawn looks like an allocated one. Two bitmaps, which only
//! ranges of memory and frees nearby read, say which frames are memory and which of them are reserved. `llfree` and
//! `nbbs` share them.
//!
//! # Invariants
//! 1. A reserved frame is memory.
//! 2. A frame's bits change only while its system treats the frame as allocated. So no access here is stronger than
//!    relaxed: what the system does afterwards orders it.

use crate::arena::{Arena, ArenaPlan};
use crate::bit_runs::{WORD, words};
use crate::error::{BuildError, FreeError, RangeError};
use crate::frame::Index;
use crate::platform::{AtomicWord, Ordering, Platform};

/// How often a word is tried again after another CPU changed it.
const WITHDRAWAL_RETRIES: u32 = 64;

/// Why a frame is withdrawn.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Withdrawn {
    /// No memory is there.
    Hole,
    /// The memory is reserved.
    Reserved,
}

/// The two bitmaps.
pub(crate) struct WithdrawnFrames<'m, P: Platform> {
    /// One bit for each frame that is memory.
    present: &'m [P::AtomicU64],
    /// One bit for each frame that is reserved.
    reserved: &'m [P::AtomicU64],
}

impl<'m, P: Platform> WithdrawnFrames<'m, P> {
    /// Plans the memory of [`new`](Self::new).
    pub(crate) fn plan(plan: ArenaPlan, words: usize) -> ArenaPlan {
        plan.slice::<P::AtomicU64>(words)
            .slice::<P::AtomicU64>(words)
    }

    /// Creates the bitmaps of `words` words, of holes only.
    pub(crate) fn new(arena: &mut Arena<'m>, words: usize) -> Result<Self, BuildError> {
        let zero = |_| P::AtomicU64::new(0);
        Ok(Self {
            present: arena.slice("word of bits of present frames", words, zero)?,
            reserved: arena.slice("word of bits of reserved frames", words, zero)?,
        })
    }

    /// Creates the bitmaps of words of their own.
    #[cfg(test)]
    pub(crate) fn of(present: &'m [P::AtomicU64], reserved: &'m [P::AtomicU64]) -> Self {
        Self { present, reserved }
    }

    /// Says why a run can't be freed, if a hole or a reserved frame is the reason.
    #[cold]
    #[inline(never)]
    pub(crate) fn none_in(&self, start: u32, frames: u32) -> Result<(), FreeError> {
        for (word, bits) in words(start, frames) {
            let (present, reserved) = self.bits(word);
            let absent = bits & !present;
            let reserved = bits & reserved;
            let first = (absent | reserved).trailing_zeros();
            match () {
                () if absent | reserved == 0 => {}
                () if absent >> first & 1 != 0 => return Err(FreeError::Hole),
                () => return Err(FreeError::Reserved),
            }
        }
        Ok(())
    }

    /// Marks frames that the caller has taken.
    pub(crate) fn mark(&self, start: u32, frames: u32, to: Withdrawn) {
        for (word, bits) in words(start, frames) {
            self.mark_in(word, bits, to);
        }
    }

    fn mark_in(&self, word: usize, bits: u64, to: Withdrawn) {
        match to {
            Withdrawn::Hole => subtract::<P>(self.present, word, bits),
            Withdrawn::Reserved => add::<P>(self.reserved, word, bits),
        }
    }

    /// Claims withdrawn frames, which the caller then makes free, or none.
    ///
    /// # Errors
    /// The first frame that is not withdrawn for this reason.
    pub(crate) fn claim(&self, start: u32, frames: u32, from: Withdrawn) -> Result<(), RangeError> {
        let claims = || words(start, frames);
        let Some((failed, bit)) = claims().find_map(|(word, bits)| {
            let claimed = self.claim_in(word, bits, from);
            claimed.err().map(|bit| (word, bit))
        }) else {
            return Ok(());
        };
        for (word, bits) in claims().take_while(|(word, _)| *word < failed) {
            self.mark_in(word, bits, from);
        }
        let index = Index(failed as u32 * WORD + bit);
        Err(match from {
            Withdrawn::Hole => RangeError::AlreadyManaged(index),
            Withdrawn::Reserved => RangeError::NotReserved(index),
        })
    }

    /// Claims withdrawn frames of a word, or returns the first that is not withdrawn so.
    fn claim_in(&self, word: usize, bits: u64, from: Withdrawn) -> Result<(), u32> {
        let map = match from {
            Withdrawn::Hole => self.present,
            Withdrawn::Reserved => self.reserved,
        };
        let first = bits.trailing_zeros();
        let word = map.get(word).ok_or(first)?;
        let mut seen = word.load(Ordering::Relaxed);
        for _ in 0..WITHDRAWAL_RETRIES {
            let wrong = match from {
                Withdrawn::Hole => seen & bits,
                Withdrawn::Reserved => !seen & bits,
            };
            if wrong != 0 {
                return Err(wrong.trailing_zeros());
            }
            match word.compare_exchange(seen, seen ^ bits, Ordering::Relaxed, Ordering::Relaxed) {
                Ok(_) => return Ok(()),
                Err(now) => seen = now,
            }
        }
        Err(first)
    }

    /// Returns which frames of a word are memory, and which are reserved.
    pub(crate) fn bits(&self, word: usize) -> (u64, u64) {
        let load = |map: &[P::AtomicU64]| {
            let word = map.get(word);
            word.map_or(0, |word| word.load(Ordering::Relaxed))
        };
        (load(self.present), load(self.reserved))
    }

    /// Returns why a frame is withdrawn, or `None` if it is not.
    pub(crate) fn reason(&self, frame: u32) -> Option<Withdrawn> {
        let (present, reserved) = self.bits((frame / WORD) as usize);
        let bit = frame % WORD;
        match () {
            () if present >> bit & 1 == 0 => Some(Withdrawn::Hole),
            () if reserved >> bit & 1 != 0 => Some(Withdrawn::Reserved),
            () => None,
        }
    }
}

/// Sets bits that are clear, and that no other CPU changes.
fn add<P: Platform>(map: &[P::AtomicU64], word: usize, bits: u64) {
    if let Some(word) = map.get(word) {
        word.fetch_add(bits, Ordering::Relaxed);
    }
}

/// Clears bits that are set, and that no other CPU changes.
fn subtract<P: Platform>(map: &[P::AtomicU64], word: usize, bits: u64) {
    if let Some(word) = map.get(word) {
        word.fetch_sub(bits, Ordering::Relaxed);
    }
}
