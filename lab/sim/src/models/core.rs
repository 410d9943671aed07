//! A core: its caches and its store buffer.
//!
//! # Invariants
//! What the inner cache has, the outer one has too.

use std::collections::VecDeque;

use super::hardware::Hardware;
use super::tags::Tags;

/// The caches of a core, and the stores that it has under way.
pub(super) struct Core {
    pub(super) inner: Tags,
    pub(super) outer: Option<Tags>,
    /// The buffered stores. The times at which they are done never decrease.
    pub(super) stores: VecDeque<Buffered>,
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
        }
    }

    /// Returns the cycles of a hit, beyond its instruction.
    #[inline]
    pub(super) fn hit(&mut self, line: u32, hardware: &Hardware) -> Option<u64> {
        if self.inner.touch(line) {
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
