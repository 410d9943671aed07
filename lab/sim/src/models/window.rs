//! What a core executes past loads that miss.
//!
//! A core goes on after a load that misses, up to a number of instructions. It executes these meanwhile, and starts
//! the loads among them. When they are executed, it waits for the load. So a miss costs its latency minus the time of
//! the instructions that fit into the window, and misses that are near each other overlap.
//!
//! # Source
//! Karkhanis and Smith, "A first-order superscalar processor model", ISCA 2004: the penalty of a load that misses.
//!
//! # Invariants
//! The loads are in the order in which they were made, which is that in which a core ends them.
//!
//! # Not modelled
//! Which addresses come from which load: a number of loads is under way at a time. The two threads of a core do not
//! divide the window.

use std::collections::VecDeque;

/// A load that misses.
#[derive(Clone, Copy)]
struct Miss {
    done: u64,
    /// The instructions that the CPU had executed before it, in thousandths.
    before: u64,
}

/// The instructions of a CPU, and the loads that they have overtaken.
#[derive(Clone, Default)]
pub(super) struct Window {
    misses: VecDeque<Miss>,
    /// The instructions that the CPU has executed, in thousandths.
    executed: u64,
    /// Millionths of a cycle that it owes.
    owed: u64,
}

impl Window {
    /// Notes a load that is done at this time.
    pub(super) fn add(&mut self, done: u64) {
        let before = self.executed;
        self.misses.push_back(Miss { done, before });
    }

    /// Returns the time from `now` on at which fewer than `most` loads are under way; `now` if that is zero.
    pub(super) fn free(&self, most: usize, now: u64) -> u64 {
        let mut under_way: Vec<u64> = Vec::new();
        if most > 0 {
            let all = self.misses.iter().map(|own| own.done);
            under_way.extend(all.filter(|done| *done > now));
        }
        if under_way.len() < most || most == 0 {
            return now;
        }
        under_way.sort_unstable();
        under_way[under_way.len() - most]
    }

    /// Returns the time from `now` on at which all loads are done.
    pub(super) fn done(&self, now: u64) -> u64 {
        let done = self.misses.iter().map(|own| own.done).max();
        done.map_or(now, |done| done.max(now))
    }

    /// The same, and forgets the loads: what follows waits for them.
    pub(super) fn drain(&mut self, now: u64) -> u64 {
        let done = self.done(now);
        self.misses.clear();
        done
    }

    /// Returns the cycles of some thousandths of an instruction from the time `now` on, with the wait for loads that
    /// are not done. `size` is the number of instructions of the window, and `rate` the cycles of a thousand of them.
    #[inline]
    pub(super) fn execute(&mut self, thousandths: u64, now: u64, size: u32, rate: u32) -> u64 {
        let millionths = self.owed + thousandths * u64::from(rate);
        self.owed = millionths % 1_000_000;
        let mut end = now + millionths / 1_000_000;
        self.executed += thousandths;
        while let Some(first) = self.misses.front() {
            let beyond = (self.executed - first.before).saturating_sub(u64::from(size) * 1000);
            let full = end - (beyond * u64::from(rate) / 1_000_000).min(end);
            if beyond == 0 && first.done > end {
                break;
            }
            end += first.done.saturating_sub(full);
            self.misses.pop_front();
        }
        end - now
    }
}
