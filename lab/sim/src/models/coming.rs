//! Copies of shared lines that are on their way to a last-level cache.
//!
//! # Invariants
//! The last entry of a line and a cache is the one that counts. Entries that have arrived may be missing.

/// A copy on its way.
struct Copy {
    line: u32,
    group: u16,
    done: u64,
}

/// All copies on their way.
#[derive(Default)]
pub(super) struct Coming(Vec<Copy>);

impl Coming {
    /// Records that a last-level cache gets a line at the time `done`. The current time is `now`.
    pub(super) fn add(&mut self, line: u32, group: u16, done: u64, now: u64) {
        self.0.retain(|own| own.done > now);
        self.0.push(Copy { line, group, done });
    }

    /// Returns when the last-level cache gets the line, or zero if that is not known any more.
    pub(super) fn when(&self, line: u32, group: u16) -> u64 {
        let mut all = self.0.iter().rev();
        let last = all.find(|own| (own.line, own.group) == (line, group));
        last.map_or(0, |last| last.done)
    }
}
