//! A core: its caches, its store buffer, and the misses that it has under way.
//!
//! # Invariants
//! What the inner cache has, the outer one has too.

use std::cmp::Reverse;
use std::collections::{BinaryHeap, VecDeque};

use super::hardware::Hardware;
use super::tags::Tags;

/// The caches of a core, and the stores that it has under way.
pub(super) struct Core {
    pub(super) inner: Tags,
    pub(super) outer: Option<Tags>,
    /// The buffered stores. The times at which they are done never decrease.
    pub(super) stores: VecDeque<Buffered>,
    /// When the misses are done that each have a fill buffer.
    fills: BinaryHeap<Reverse<u64>>,
    /// Which lines had come to the last-level cache when lines left this core.
    past: Past,
}

/// The foreign lines that had come to a last-level cache when some had come to a core.
#[derive(Default)]
struct Past(VecDeque<(u64, u64)>);

impl Past {
    /// More than the lines between the first one and the last one that a cache still has.
    const MOST: usize = 1 << 12;

    /// Notes both numbers. Those of the core grow by `step` at least between two notes, except that the last one is
    /// always the present.
    fn add(&mut self, own: u64, group: u64, step: u64) {
        let before = self.0.len().checked_sub(2).map(|at| self.0[at].0);
        match self.0.back_mut() {
            Some(last) if before.is_some_and(|before| own < before + step) => *last = (own, group),
            _ => {
                if self.0.len() == Self::MOST {
                    self.0.pop_front();
                }
                self.0.push_back((own, group));
            }
        }
    }

    /// Returns the lines of the last-level cache when the core had this many. `now` is their number now.
    fn when(&self, own: u64, now: u64) -> u64 {
        let later = self.0.partition_point(|note| note.0 < own);
        let Some(after) = self.0.get(later) else {
            return now;
        };
        let before = match later.checked_sub(1) {
            Some(at) => self.0[at],
            // Notes before the first one are forgotten.
            None if self.0.len() == Self::MOST => return after.1,
            None => (0, 0),
        };
        // Between two notes, those of both came in turn.
        let (come, of) = (own - before.0, after.0 - before.0);
        before.1 + (after.1 - before.1) * come / of.max(1)
    }
}

/// A store in a buffer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Buffered {
    pub(super) line: u32,
    /// When the core has the line.
    pub(super) arrives: u64,
    /// When it takes effect: as soon as the core has the line and all earlier stores are done.
    pub(super) done: u64,
}

impl Core {
    pub(super) fn new(hardware: &Hardware) -> Self {
        Self {
            inner: Tags::new(&hardware.l1),
            outer: hardware.l2.as_ref().map(Tags::new),
            stores: VecDeque::new(),
            fills: BinaryHeap::new(),
            past: Past::default(),
        }
    }

    /// Lets foreign lines come, `inner` to the first cache and `outer` to the second one. `group` is the number of
    /// those that have come to the last-level cache.
    pub(super) fn add_foreign(&mut self, inner: u64, outer: u64, group: u64) {
        let mut own = self.inner.add_foreign(inner);
        let mut last = &self.inner;
        if let Some(cache) = &mut self.outer {
            own = cache.add_foreign(outer);
            last = cache;
        }
        self.past.add(own, group, last.sets());
    }

    /// Lets the sets of a line take in the foreign lines that have come. `left` gets the lines that had to leave the
    /// core, each with the foreign lines of the last-level cache at that time; `group` is their number now.
    #[inline]
    pub(super) fn settle(&mut self, line: u32, group: u64, left: &mut Vec<(u32, u64)>) {
        let Self {
            inner, outer, past, ..
        } = self;
        let Some(outer) = outer else {
            inner.settle(line, |line, clock| {
                left.push((line, past.when(clock, group)))
            });
            return;
        };
        let before = left.len();
        outer.settle(line, |line, clock| {
            left.push((line, past.when(clock, group)))
        });
        for (victim, _) in &left[before..] {
            inner.settle(*victim, |_, _| ());
            inner.remove(*victim);
        }
        inner.settle(line, |_, _| ());
    }

    /// Returns when a miss begins that is made at the time `now`: when one of this many fill buffers is free.
    pub(super) fn begin_fill(&mut self, now: u64, buffers: u16) -> u64 {
        let mut begin = now;
        while let Some(Reverse(first)) = self.fills.peek() {
            if self.fills.len() < usize::from(buffers) && *first > begin {
                break;
            }
            begin = begin.max(*first);
            self.fills.pop();
        }
        begin
    }

    /// Notes that a fill buffer is in use until this time.
    pub(super) fn fill_until(&mut self, done: u64) {
        self.fills.push(Reverse(done));
    }

    /// Returns the cycles of a hit, beyond its instruction.
    #[inline]
    pub(super) fn hit(&mut self, line: u32, hardware: &Hardware) -> Option<u64> {
        if self.inner.touch(line) {
            if let Some(outer) = self.outer.as_mut().filter(|outer| outer.clock() > 0) {
                // What a program uses does not push it out of the second cache, and so out of the first one: those of
                // processors keep a line of the first cache that the second one has replaced.
                outer.touch(line);
            }
            return Some(hardware.hit());
        }
        let (outer, cache) = (self.outer.as_mut()?, hardware.l2?);
        outer.touch(line).then(|| {
            // What leaves the inner cache stays in the outer one.
            let _ = self.inner.insert(line);
            u64::from(cache.cycles)
        })
    }

    /// Takes in a line, and returns the one that leaves the core.
    pub(super) fn fill(&mut self, line: u32) -> Option<u32> {
        let Some(outer) = &mut self.outer else {
            return self.inner.insert(line);
        };
        let victim = outer.insert(line);
        if let Some(victim) = victim {
            self.inner.settle(victim, |_, _| ());
            self.inner.remove(victim);
        }
        let _ = self.inner.insert(line);
        victim
    }

    /// Returns when the last buffered store is done.
    pub(super) fn last_done(&self) -> Option<u64> {
        self.stores.back().map(|last| last.done)
    }

    /// Returns `true` if a buffered store to the line is not done at the time `now`.
    pub(super) fn is_storing(&self, line: u32, now: u64) -> bool {
        let mut under_way = self.stores.iter().rev().take_while(|own| own.done > now);
        under_way.any(|own| own.line == line)
    }

    /// Returns when the line arrives, if a store to it takes effect together with buffered ones: they are the last
    /// ones, and the line has not arrived at the time `now`. Otherwise another core may have taken it since.
    pub(super) fn merge(&self, line: u32, now: u64) -> Option<u64> {
        let last = self.last_done().filter(|last| *last > now)?;
        let mut together = self.stores.iter().rev().take_while(|own| own.done == last);
        let own = together.find(|own| own.line == line)?;
        (own.arrives > now).then_some(own.arrives)
    }

    pub(super) fn invalidate(&mut self, line: u32) {
        self.inner.remove(line);
        if let Some(outer) = &mut self.outer {
            outer.remove(line);
        }
    }
}
