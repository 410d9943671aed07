//! The bit fields: one bit for each frame, 512 bits for each child.
//!
//! A search for a run of free frames within 64 is arithmetic on one word. Longer runs cover several words, which are
//! taken one by one, and given back if another CPU takes a frame in between.
//!
//! # Invariants
//! 1. Which value of a bit means "allocated" is the [`Polarity`] of the child. It changes only while no frame of the
//!    child is allocated by itself, and no CPU may take one.
//! 2. Only the holder of a frame, or a CPU that lowered the child's counter for it, changes its bit. So the holder can
//!    change it by an addition.

use crate::bit_runs::{WORD, find, first, part};
use crate::frame::Order;
use crate::platform::{AtomicWord, Ordering, Platform};

/// The frames of a child.
pub(crate) const CHILD: u32 = 512;
/// The words of a child.
pub(crate) const CHILD_WORDS: u32 = CHILD / WORD;

/// How often a word is tried again after another CPU changed it.
const FIELD_RETRIES: u32 = 64;

/// Which value of a bit means "allocated", in all bits of a word.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Polarity(pub(crate) u64);

impl Polarity {
    /// A set bit means "allocated".
    pub(crate) const SET: Polarity = Polarity(u64::MAX);
    /// A clear bit means "allocated".
    pub(crate) const CLEAR: Polarity = Polarity(0);

    /// Returns the free frames of a word, as set bits.
    #[inline(always)]
    pub(crate) const fn free(self, word: u64) -> u64 {
        word ^ self.0
    }
}

/// The bits of all children.
pub(crate) struct Fields<'m, P: Platform> {
    pub(crate) words: &'m [P::AtomicU64],
}

impl<P: Platform> Fields<'_, P> {
    /// Returns a word of a child.
    #[inline(always)]
    fn word(&self, child: u32, word: u32) -> Option<&P::AtomicU64> {
        self.words.get((child * CHILD_WORDS + word) as usize)
    }

    /// Returns the free frames of a word of a child, as set bits. A hint while other CPUs work.
    #[inline]
    pub(crate) fn free_bits(&self, child: u32, word: u32, polarity: Polarity) -> u64 {
        let word = self.word(child, word);
        word.map_or(0, |word| polarity.free(word.load(Ordering::Relaxed)))
    }

    /// Returns the first word of a free run that fits, searching the child from word `from` on and wrapping around. A
    /// hint.
    #[inline]
    pub(crate) fn candidate(
        &self,
        child: u32,
        polarity: Polarity,
        (frames, order): (u32, Order),
        from: u32,
    ) -> Option<u32> {
        let (words, group) = groups(order);
        (0..words)
            .map(|step| ((from + step * group) % CHILD_WORDS) & !(group - 1))
            .find(|at| {
                let free = |word: u32| self.free_bits(child, at + word, polarity);
                match group {
                    1 => find(free(0), frames, order).is_some(),
                    _ => (0..group).all(|word| {
                        let part = part(word, 0, frames);
                        free(word) & part == part
                    }),
                }
            })
    }

    /// Takes a run of free frames at a multiple of 2^order, looking from word `from` of the child on. Returns the
    /// first frame's number within the child. The caller has lowered the child's counter.
    #[inline]
    pub(crate) fn take(
        &self,
        child: u32,
        polarity: Polarity,
        (frames, order): (u32, Order),
        from: u32,
    ) -> Option<u32> {
        let (words, group) = groups(order);
        for step in 0..words {
            let at = ((from + step * group) % CHILD_WORDS) & !(group - 1);
            if group > 1 {
                if self.take_exactly(child, polarity, at * WORD, frames) {
                    return Some(at * WORD);
                }
                continue;
            }
            let word = self.word(child, at)?;
            let mut seen = word.load(Ordering::Relaxed);
            for _ in 0..FIELD_RETRIES {
                let Some(bit) = find(polarity.free(seen), frames, order) else {
                    break;
                };
                let new = seen ^ first(frames) << bit;
                // Acquire: pairs with the release in `free`: what the last holder did with the frames is seen.
                match word.compare_exchange(seen, new, Ordering::Acquire, Ordering::Relaxed) {
                    Ok(_) => return Some(at * WORD + bit),
                    Err(now) => seen = now,
                }
            }
        }
        None
    }

    /// Takes exactly these frames, or none. The caller has lowered the child's counter.
    pub(crate) fn take_exactly(
        &self,
        child: u32,
        polarity: Polarity,
        offset: u32,
        frames: u32,
    ) -> bool {
        let taken = (0..CHILD_WORDS).find(|at| {
            let bits = part(*at, offset, frames);
            bits != 0 && !self.take_bits(child, *at, polarity, bits)
        });
        let Some(failed) = taken else {
            return true;
        };
        for at in 0..failed {
            self.free_held(child, at, polarity, part(at, offset, frames));
        }
        false
    }

    /// Takes frames of one word, if all of them are free.
    fn take_bits(&self, child: u32, at: u32, polarity: Polarity, bits: u64) -> bool {
        let Some(word) = self.word(child, at) else {
            return false;
        };
        let mut seen = word.load(Ordering::Relaxed);
        for _ in 0..FIELD_RETRIES {
            if polarity.free(seen) & bits != bits {
                return false;
            }
            // Acquire: pairs with the release in `free`, as in `take`.
            match word.compare_exchange(seen, seen ^ bits, Ordering::Acquire, Ordering::Relaxed) {
                Ok(_) => return true,
                Err(now) => seen = now,
            }
        }
        false
    }

    /// Makes frames free that the caller holds and has not used. A later holder sees what earlier ones did: an
    /// exchange or an addition continues the chain of the releases before it.
    fn free_held(&self, child: u32, at: u32, polarity: Polarity, bits: u64) {
        if let Some(word) = self.word(child, at)
            && bits != 0
        {
            match polarity {
                Polarity::SET => word.fetch_sub(bits, Ordering::Relaxed),
                _ => word.fetch_add(bits, Ordering::Relaxed),
            };
        }
    }

    /// Returns `true` if all these frames are allocated.
    pub(crate) fn are_allocated(
        &self,
        child: u32,
        polarity: Polarity,
        offset: u32,
        frames: u32,
    ) -> bool {
        (0..CHILD_WORDS).all(|at| {
            let bits = part(at, offset, frames);
            bits == 0 || self.free_bits(child, at, polarity) & bits == 0
        })
    }

    /// Frees frames of a child, or returns `false` and frees none if one of them is free.
    ///
    /// If another CPU frees some of the same frames simultaneously, which is misuse, this free is undone. Frames that a
    /// third CPU has taken meanwhile cannot be taken back: they stay freed, and `freed` is called with their number.
    #[inline]
    pub(crate) fn free(
        &self,
        child: u32,
        polarity: Polarity,
        (offset, frames): (u32, u32),
        freed: impl FnMut(u32),
    ) -> bool {
        let at = offset / WORD;
        if (offset + frames - 1) / WORD == at {
            let bits = first(frames) << (offset % WORD);
            return self.free_bits_of(child, at, polarity, bits);
        }
        self.free_words(child, polarity, (offset, frames), freed)
    }

    #[cold]
    #[inline(never)]
    fn free_words(
        &self,
        child: u32,
        polarity: Polarity,
        (offset, frames): (u32, u32),
        mut freed: impl FnMut(u32),
    ) -> bool {
        if !self.are_allocated(child, polarity, offset, frames) {
            return false;
        }
        let failed = (0..CHILD_WORDS).find(|at| {
            let bits = part(*at, offset, frames);
            bits != 0 && !self.free_bits_of(child, *at, polarity, bits)
        });
        let Some(failed) = failed else {
            return true;
        };
        for at in 0..failed {
            let bits = part(at, offset, frames);
            if bits != 0 && !self.take_bits(child, at, polarity, bits) {
                freed(bits.count_ones());
            }
        }
        false
    }

    /// Frees frames of one word, or returns `false` and frees none if one of them is free.
    #[inline]
    fn free_bits_of(&self, child: u32, at: u32, polarity: Polarity, bits: u64) -> bool {
        let Some(word) = self.word(child, at) else {
            return false;
        };
        let mut seen = word.load(Ordering::Relaxed);
        for _ in 0..FIELD_RETRIES {
            if polarity.free(seen) & bits != 0 {
                return false;
            }
            // Release: pairs with the acquire in `take`: the next holder sees what this one did with the frames.
            match word.compare_exchange(seen, seen ^ bits, Ordering::Release, Ordering::Relaxed) {
                Ok(_) => return true,
                Err(now) => seen = now,
            }
        }
        // Others changed the word each time, and never these bits: their holder needs no comparison.
        match polarity {
            // Release: pairs with the acquire in `take`, as above.
            Polarity::SET => word.fetch_sub(bits, Ordering::Release),
            // Release: pairs with the acquire in `take`, as above.
            _ => word.fetch_add(bits, Ordering::Release),
        };
        true
    }
}

/// Returns the number of places where a run may start, in words or in groups of words, and the words of a group.
#[inline(always)]
const fn groups(order: Order) -> (u32, u32) {
    let group = match order.index() {
        0..=6 => 1,
        7 => 2,
        8 => 4,
        _ => CHILD_WORDS,
    };
    (CHILD_WORDS / group, group)
}
