//! How a request finds a block, and what a CPU remembers for its next request.
//!
//! A request searches the words of its level by address. It starts at a place of its CPU, and continues at the first
//! word after the last one. The places of the CPUs are far apart, so CPUs seldom write the same word. When a CPU frees
//! a block below its place, the place moves back to that block, so the CPU's blocks stay close together.
//!
//! # Invariants
//! A request is refused as exhausted only if a search of all words found no block of its size, and no CPU finished a
//! free during that search that could have made one. For this each CPU counts its frees after they have taken effect. A
//! free that is not finished when the search ends still occupies its block at that moment.

use super::tree::{At, NotTaken, Tree, WORD_RETRIES};
use super::word::{WordBlock, WordLevel};
use crate::bit_runs::find;
use crate::cache_padded::CachePadded;
use crate::error::AllocateError;
use crate::frame::Order;
use crate::platform::{AtomicWord, Ordering, Platform};

/// How often a request searches all words before it fails as busy, because blocks came back each time.
const SEARCHES: u32 = 256;

/// The kinds of requests that a CPU continues at different places: single frames, blocks of a lowest word, and others.
const PLACES: usize = 3;

/// What a CPU keeps, on a cache line of its own.
pub(crate) struct CpuPlaces<P: Platform> {
    /// The frame where its searches begin.
    start: u32,
    /// The frame where its next search goes on, by the kind of the request.
    places: [P::AtomicU64; PLACES],
    /// The number of its frees, and of those that emptied a word or freed a block of a higher level.
    frees: [P::AtomicU64; 2],
}

/// The caller: a CPU, or code that interrupted one.
pub(crate) struct CallerState<'l, P: Platform> {
    pub(crate) local: &'l CpuPlaces<P>,
    /// Other CPUs use the same `local`.
    pub(crate) is_nested: bool,
}

impl<P: Platform> CpuPlaces<P> {
    /// Creates the cache line of a CPU that begins its searches at a frame.
    pub(crate) fn new(start: u32) -> Self {
        Self {
            start,
            places: [(); PLACES].map(|()| P::AtomicU64::new(start.into())),
            frees: [(); 2].map(|()| P::AtomicU64::new(0)),
        }
    }

    #[inline(always)]
    fn place(&self, order: Order) -> &P::AtomicU64 {
        let [singles, small, large] = &self.places;
        match (order.get(), WordLevel::of(order)) {
            (0, _) => singles,
            (_, WordLevel::BOTTOM) => small,
            _ => large,
        }
    }

    #[inline(always)]
    fn frees(&self, is_large: bool) -> &P::AtomicU64 {
        let [all, large] = &self.frees;
        if is_large { large } else { all }
    }
}

impl<P: Platform> CallerState<'_, P> {
    /// Counts a free, and goes back to its place if that is nearer to the start than the next search would be.
    #[inline(always)]
    pub(crate) fn freed(&self, start: u32, order: Order, is_large: bool) {
        let place = self.local.place(order);
        let next = place.load(Ordering::Relaxed) as u32;
        let from = self.local.start;
        if start.wrapping_sub(from) < next.wrapping_sub(from) {
            place.store(start.into(), Ordering::Relaxed);
        }
        self.count(self.local.frees(false));
        if is_large {
            self.count(self.local.frees(true));
        }
    }

    #[inline(always)]
    fn count(&self, frees: &P::AtomicU64) {
        if self.is_nested {
            // Release: pairs with the acquire in `counted`: a search that reads the number sees the free.
            frees.fetch_add(1, Ordering::Release);
        } else {
            let now = frees.load(Ordering::Relaxed).wrapping_add(1);
            // Release: pairs with the acquire in `counted`, as above. No other CPU writes another number.
            frees.store(now, Ordering::Release);
        }
    }
}

/// What a search looks for.
#[derive(Clone, Copy, Debug)]
struct SearchGoal {
    level: WordLevel,
    /// The number of units, at most 2^size.
    units: u32,
    /// The size that the first unit is aligned to.
    size: Order,
}

/// The outcome of a look at one word.
enum Look {
    Found(u32),
    /// It has no such block, nor has any before this number.
    Next(u64),
    /// Other CPUs changed it each time.
    Raced,
}

/// The search of all CPUs.
pub(crate) struct Search<'m, P: Platform> {
    pub(crate) tree: Tree<'m, P>,
    /// One for each CPU, and the last for all nested requests.
    pub(crate) locals: &'m [CachePadded<CpuPlaces<P>>],
}

impl<P: Platform> Search<'_, P> {
    /// Allocates `frames` frames from a multiple of 2^order on: less than a block only in a lowest word.
    #[inline(always)]
    pub(crate) fn allocate(
        &self,
        caller: &CallerState<'_, P>,
        frames: u32,
        order: Order,
    ) -> Result<u32, AllocateError> {
        let level = WordLevel::of(order);
        if level == WordLevel::BOTTOM {
            // Where the last one was found, there is often another one.
            let at = At::of(
                level,
                caller.local.place(order).load(Ordering::Relaxed) as u32,
            );
            if let Some(word) = self.tree.word(at) {
                let seen = word.load(Ordering::Relaxed);
                if !level.is_empty(seen)
                    && let Some(unit) = find(level.free(seen), frames, order)
                    && self.tree.take_seen(word, seen, level.run(unit, frames))
                {
                    return Ok(at.index << level.shift() | unit);
                }
            }
        }
        self.search(caller, frames, order)
    }

    #[cold]
    #[inline(never)]
    fn search(
        &self,
        caller: &CallerState<'_, P>,
        frames: u32,
        order: Order,
    ) -> Result<u32, AllocateError> {
        let level = WordLevel::of(order);
        let WordBlock { size, .. } = level.part(0, order);
        let wanted = SearchGoal {
            level,
            units: match level {
                WordLevel::BOTTOM => frames,
                _ => 1 << size,
            },
            size: Order::saturating(size),
        };
        let place = caller.local.place(order);
        // Only a free that empties a word, or a part of one, can make a block of a higher level.
        let is_large = level > WordLevel::BOTTOM;
        // The first search counts nothing: reading all counters takes longer than many searches.
        let mut counted = None;
        for _ in 0..=SEARCHES {
            let from = place.load(Ordering::Relaxed) as u32;
            match self.round(caller, from, wanted) {
                Ok(Some(start)) => {
                    place.store(start.into(), Ordering::Relaxed);
                    return Ok(start);
                }
                Ok(None) if counted.is_some_and(|before| self.counted_last(is_large) == before) => {
                    return Err(AllocateError::Exhausted);
                }
                Ok(None) | Err(_) => {}
            }
            counted = Some(self.counted(is_large));
        }
        Err(AllocateError::Busy)
    }

    /// Looks at all words once, from that of a frame on. Returns the first frame of what it took.
    fn round(
        &self,
        caller: &CallerState<'_, P>,
        from: u32,
        wanted: SearchGoal,
    ) -> Result<Option<u32>, NotTaken> {
        let level = wanted.level;
        let words = self.tree.levels.get(level.0 as usize);
        let words = words.map_or(0, |words| words.len() as u64);
        let first = u64::from(At::of(level, from).index).min(words);
        let mut raced = false;
        for (mut index, end) in [(first, words), (0, first)] {
            while index < end {
                let at = At {
                    level,
                    index: index as u32,
                };
                index = match self.look(caller, at, wanted) {
                    Look::Found(unit) => {
                        let units = at.index << level.shift() | unit << level.unit_shift();
                        return Ok(Some(units));
                    }
                    Look::Next(next) => next,
                    Look::Raced => {
                        raced = true;
                        index + 1
                    }
                };
            }
        }
        if raced {
            Err(NotTaken::Raced)
        } else {
            Ok(None)
        }
    }

    /// Takes what is wanted in a word, if it is there.
    fn look(&self, caller: &CallerState<'_, P>, at: At, wanted: SearchGoal) -> Look {
        let SearchGoal { level, units, size } = wanted;
        let next = u64::from(at.index) + 1;
        let Some(word) = self.tree.word(at) else {
            return Look::Next(next);
        };
        for _ in 0..WORD_RETRIES {
            let seen = word.load(Ordering::Relaxed);
            if level.is_empty(seen) {
                if let Some(end) = self.tree.cover(at) {
                    return Look::Next((end >> level.shift()).max(next));
                }
                if self
                    .tree
                    .take(at, level.mask(level.whole()), level.run(0, units))
                    .is_ok()
                {
                    return Look::Found(0);
                }
                // A mark that was set and cleared again may have hidden a block from another search.
                caller.count(caller.local.frees(true));
                continue;
            }
            let Some(unit) = find(level.free(seen), units, size) else {
                return Look::Next(next);
            };
            if self.tree.take_seen(word, seen, level.run(unit, units)) {
                return Look::Found(unit);
            }
        }
        Look::Raced
    }

    /// Returns the sum of a number of all CPUs.
    pub(super) fn counted(&self, is_large: bool) -> u64 {
        // Acquire: pairs with the releases in `count`: the search sees the frees that are counted.
        self.sum(|local| local.frees(is_large).load(Ordering::Acquire))
    }

    /// The same, of the latest numbers: a load may return older ones.
    fn counted_last(&self, is_large: bool) -> u64 {
        // Acquire and release: pairs with `count`; the reads of the search come before.
        self.sum(|local| local.frees(is_large).fetch_add(0, Ordering::AcqRel))
    }

    fn sum(&self, of: impl Fn(&CpuPlaces<P>) -> u64) -> u64 {
        self.locals
            .iter()
            .fold(0, |sum, local| sum.wrapping_add(of(local)))
    }
}
