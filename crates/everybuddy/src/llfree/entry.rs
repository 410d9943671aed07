//! The entries of the children: how many frames are free, and whether all are one huge frame.
//!
//! A request lowers the counter of a child before it looks for bits, so it looks only where it will find some. A huge
//! frame is taken by one exchange of the entry, two adjacent ones by one exchange of the word that holds both.
//!
//! # Invariants
//! 1. At every moment, the counter of a child is at most the number of its free bits. It is lowered before bits are
//!    taken, and raised after bits are given back.
//! 2. A huge frame is allocated by its flag alone. The same exchange inverts the polarity of the child's bits, so the
//!    bits of 512 free frames now mean 512 allocated frames. A free of a part first clears the flag.
//! 3. The version of a pair changes whenever one of its counters rises. A CPU that reads the same version twice knows
//!    that no frame was freed in between.

use super::field::{CHILD, Polarity};
use crate::platform::{AtomicWord, Ordering, Platform};

const COUNT: u32 = 0x3ff;
const HUGE: u32 = 1 << 10;
const TURNED: u32 = 1 << 11;
const WITHDRAWN_CHILD: u32 = 1 << 12;

/// The entries of a pair: two of 16 bits.
const ENTRIES: u64 = 0xffff_ffff;
/// One step of a pair's version.
const PAIR_VERSION: u64 = 1 << 32;

/// How often a word is tried again after another CPU changed it. A pair has 1024 frames, so fewer attempts than this
/// fail if other CPUs only lower its counters.
const PAIR_RETRIES: u32 = 2048;

/// The entry of a child.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Entry(u32);

impl Entry {
    /// The entry of a child without memory.
    const ABSENT: Entry = Entry(WITHDRAWN_CHILD);

    /// Returns the number of free frames.
    #[inline(always)]
    pub(crate) const fn free(self) -> u32 {
        self.0 & COUNT
    }

    /// Returns `true` if the child is allocated as one huge frame.
    #[inline(always)]
    pub(crate) const fn is_huge(self) -> bool {
        self.0 & HUGE != 0
    }

    /// Returns `true` if frames of the child may be holes or reserved.
    #[inline(always)]
    pub(crate) const fn has_withdrawn(self) -> bool {
        self.0 & WITHDRAWN_CHILD != 0
    }

    /// Returns which value of a bit means "allocated".
    #[inline(always)]
    pub(crate) const fn polarity(self) -> Polarity {
        match self.0 & TURNED {
            0 => Polarity::SET,
            _ => Polarity::CLEAR,
        }
    }

    /// Returns the entry after its 512 frames were allocated as one, if they are free.
    const fn as_huge(self) -> Option<Entry> {
        match self.free() {
            CHILD => Some(Entry((self.0 & !COUNT ^ TURNED) | HUGE)),
            _ => None,
        }
    }

    /// Returns the entry after the huge frame was freed, if it is one.
    const fn as_free(self) -> Option<Entry> {
        if self.is_huge() {
            Some(Entry((self.0 & !HUGE ^ TURNED) | CHILD))
        } else {
            None
        }
    }

    /// Returns the entry with `frames` frames fewer, if there are so many.
    const fn lowered(self, frames: u32) -> Option<Entry> {
        if self.free() >= frames {
            Some(Entry(self.0 - frames))
        } else {
            None
        }
    }
}

/// The entries of all children, two in a word.
pub(crate) struct Entries<'m, P: Platform> {
    pub(crate) pairs: &'m [P::AtomicU64],
}

/// The words of two children without memory.
pub(crate) const ABSENT_PAIR: u64 = Entry::ABSENT.0 as u64 | (Entry::ABSENT.0 as u64) << 16;

/// Returns the place of a child's entry in its pair.
#[inline(always)]
const fn shift(child: u32) -> u32 {
    (child & 1) * 16
}

#[inline(always)]
const fn entry_in(pair: u64, child: u32) -> Entry {
    Entry((pair >> shift(child)) as u32 & 0xffff)
}

#[inline(always)]
const fn with_entry(pair: u64, child: u32, entry: Entry) -> u64 {
    pair & !(0xffff << shift(child)) | (entry.0 as u64) << shift(child)
}

impl<P: Platform> Entries<'_, P> {
    #[inline(always)]
    fn pair(&self, child: u32) -> Option<&P::AtomicU64> {
        self.pairs.get((child / 2) as usize)
    }

    /// Returns the number of children.
    pub(crate) fn children(&self) -> u32 {
        self.pairs.len() as u32 * 2
    }

    /// Returns the entry of a child. A hint while other CPUs work, except what concerns the caller's own frames.
    #[inline(always)]
    pub(crate) fn load(&self, child: u32) -> Entry {
        let pair = self.pair(child);
        pair.map_or(Entry::ABSENT, |pair| {
            entry_in(pair.load(Ordering::Relaxed), child)
        })
    }

    /// Replaces the entry of a child with the result of `change`. Returns the old entry, or `None` if `change` returns
    /// `None` or if all attempts fail.
    #[inline(always)]
    fn update(
        &self,
        child: u32,
        success: Ordering,
        version: u64,
        change: impl Fn(Entry) -> Option<Entry>,
    ) -> Option<Entry> {
        let pair = self.pair(child)?;
        let mut seen = pair.load(Ordering::Relaxed);
        for _ in 0..PAIR_RETRIES {
            let old = entry_in(seen, child);
            let new = with_entry(seen, child, change(old)?).wrapping_add(version);
            match pair.compare_exchange(seen, new, success, Ordering::Relaxed) {
                Ok(_) => return Some(old),
                Err(now) => seen = now,
            }
        }
        None
    }

    /// Lowers the counter of a child, if it is high enough. Returns the entry before.
    #[inline]
    pub(crate) fn lower(&self, child: u32, frames: u32) -> Option<Entry> {
        // Acquire: pairs with the release in `free_huge`: what the holder of a huge frame did is seen. It pairs with
        // the release in `raise`, too: the bits that were given back are seen.
        self.update(child, Ordering::Acquire, 0, |entry| entry.lowered(frames))
    }

    /// Raises the counter of a child, after its bits were given back.
    #[inline]
    pub(crate) fn raise(&self, child: u32, frames: u32) {
        if let Some(pair) = self.pair(child) {
            let more = (u64::from(frames) << shift(child)) + PAIR_VERSION;
            // Release: pairs with the acquires in `lower` and `take_huge`: the bits are seen as free.
            pair.fetch_add(more, Ordering::Release);
        }
    }

    /// Allocates all frames of a child as one, if all are free.
    pub(crate) fn take_huge(&self, child: u32) -> bool {
        // Acquire: pairs with the releases in `raise` and `free_huge`: what the last holders did is seen.
        self.update(child, Ordering::Acquire, 0, Entry::as_huge)
            .is_some()
    }

    /// Frees a child that is allocated as one.
    pub(crate) fn free_huge(&self, child: u32) -> bool {
        // Release: pairs with the acquires in `take_huge` and `lower`: the next holder sees what this one did.
        self.update(child, Ordering::Release, PAIR_VERSION, Entry::as_free)
            .is_some()
    }

    /// Exchanges both entries of the pair that starts at a child.
    fn update_both(
        &self,
        child: u32,
        success: Ordering,
        version: u64,
        change: impl Fn(Entry) -> Option<Entry>,
    ) -> Option<()> {
        let pair = self.pair(child)?;
        let mut seen = pair.load(Ordering::Relaxed);
        for _ in 0..PAIR_RETRIES {
            let (low, high) = (change(entry_in(seen, 0))?, change(entry_in(seen, 1))?);
            let entries = u64::from(low.0) | u64::from(high.0) << 16;
            let new = (seen & !ENTRIES | entries).wrapping_add(version);
            match pair.compare_exchange(seen, new, success, Ordering::Relaxed) {
                Ok(_) => return Some(()),
                Err(now) => seen = now,
            }
        }
        None
    }

    /// Allocates the frames of two adjacent children, if all are free.
    pub(crate) fn take_both(&self, child: u32) -> bool {
        // Acquire: pairs with the releases in `raise`, `free_huge` and `free_both`, as in `take_huge`.
        self.update_both(child, Ordering::Acquire, 0, Entry::as_huge)
            .is_some()
    }

    /// Frees two adjacent children, if each is allocated as one.
    pub(crate) fn free_both(&self, child: u32) -> bool {
        // Release: pairs with the acquires in `take_both`, `take_huge` and `lower`, as in `free_huge`.
        self.update_both(child, Ordering::Release, PAIR_VERSION, Entry::as_free)
            .is_some()
    }

    /// Makes 512 allocated frames of a huge one: clears the flag, if it is set.
    pub(crate) fn split_huge(&self, child: u32) {
        let split = |entry: Entry| entry.is_huge().then_some(Entry(entry.0 & !HUGE));
        self.update(child, Ordering::Relaxed, 0, split);
    }

    /// Lowers the counter of a child for frames that are withdrawn, and says so in the same exchange.
    pub(crate) fn withdraw(&self, child: u32, frames: u32) -> Option<Entry> {
        let withdrawn = |entry: Entry| {
            let entry = entry.lowered(frames)?;
            Some(Entry(entry.0 | WITHDRAWN_CHILD))
        };
        // Acquire: pairs with the releases in `raise` and `free_huge`, as in `lower`.
        self.update(child, Ordering::Acquire, 0, withdrawn)
    }

    /// Raises the counter of a child by frames that were withdrawn. If all are free now, none is withdrawn.
    pub(crate) fn restore(&self, child: u32, frames: u32) {
        self.raise(child, frames);
        let whole = |entry: Entry| {
            let is_whole = entry.free() == CHILD && entry.has_withdrawn();
            is_whole.then_some(Entry(entry.0 & !WITHDRAWN_CHILD))
        };
        self.update(child, Ordering::Relaxed, 0, whole);
    }

    /// Returns the sum of all versions. Later operations of this CPU come after it.
    pub(crate) fn versions(&self) -> u64 {
        let version = |pair: &P::AtomicU64| {
            // Acquire: pairs with no release on purpose. It keeps the reads of `last_versions` after this read.
            pair.load(Ordering::Acquire) >> 32
        };
        self.pairs.iter().map(version).sum()
    }

    /// The same, of the latest versions: a load may return older ones.
    pub(crate) fn last_versions(&self) -> u64 {
        let version = |pair: &P::AtomicU64| {
            // Acquire and release: pairs with `versions`, whose reads come before.
            pair.fetch_add(0, Ordering::AcqRel) >> 32
        };
        self.pairs.iter().map(version).sum()
    }
}
