//! What was read of a recording, and what was not.
//!
//! Exists so that nobody takes an import for more than it is: what was lost, skipped or not understood
//! is counted, and the first of it named.
//!
//! Invariant: every event of the input is in exactly one of the counts.

use std::collections::BTreeMap;
use std::fmt;

use super::Source;

/// Names of skipped events that are told apart, at most: damaged files have names without end.
const MOST_NAMES: usize = 100;

/// Complaints that are kept.
const MOST_COMPLAINTS: usize = 5;

/// Letters of a line that a complaint shows, at most.
const SHOWN: usize = 100;

/// What was read of a recording, and what was not.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Heard {
    /// What the recording was read as.
    pub source: Source,
    /// Lines of text, or records of perf.data.
    pub read: u64,
    /// Events that were understood.
    pub understood: u64,
    /// Events that say nothing about memory, by name.
    pub skipped: BTreeMap<String, u64>,
    /// Events that say again what others said.
    pub repeated: u64,
    /// Lines or records that can't be understood.
    pub unclear: u64,
    /// The first of these: the line, or the place in the file in bytes, and what stands there.
    pub complaints: Vec<(u64, String)>,
    /// Events that the recording says it lost.
    pub lost: u64,
    /// Events that came after a later one, and were put in order.
    pub out_of_order: u64,
}

impl Heard {
    pub(crate) fn new(source: Source) -> Heard {
        Heard {
            source,
            read: 0,
            understood: 0,
            skipped: BTreeMap::new(),
            repeated: 0,
            unclear: 0,
            complaints: Vec::new(),
            lost: 0,
            out_of_order: 0,
        }
    }

    pub(crate) fn skip(&mut self, event: &str) {
        let name = match self.skipped.len() < MOST_NAMES || self.skipped.contains_key(event) {
            true => event,
            false => "others",
        };
        match self.skipped.get_mut(name) {
            Some(count) => *count += 1,
            None => {
                self.skipped.insert(name.to_string(), 1);
            }
        }
    }

    pub(crate) fn complain(&mut self, place: u64, what: &str) {
        self.unclear += 1;
        if self.complaints.len() < MOST_COMPLAINTS {
            let what = what.trim();
            let mut shown: String = what.chars().take(SHOWN).collect();
            if shown.len() < what.len() {
                shown.push('…');
            }
            self.complaints.push((place, shown));
        }
    }

    /// Returns the number of events that were skipped.
    pub fn skipped_events(&self) -> u64 {
        self.skipped.values().sum()
    }

    /// Returns what a complaint's place is: `line` or `byte`.
    pub fn place_name(&self) -> &'static str {
        match self.source {
            Source::PerfData => "byte",
            _ => "line",
        }
    }
}

impl fmt::Display for Heard {
    /// Says it in one sentence: `perf-script: 812 events understood, 3 skipped (sched_switch), ...`.
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(
            out,
            "{}: {} events understood",
            self.source, self.understood
        )?;
        if !self.skipped.is_empty() {
            let mut names: Vec<_> = self.skipped.iter().collect();
            names.sort_by_key(|(_, count)| std::cmp::Reverse(**count));
            let first: Vec<&str> = names
                .iter()
                .take(3)
                .map(|(name, _)| name.as_str())
                .collect();
            let more = if names.len() > 3 { ", ..." } else { "" };
            write!(
                out,
                ", {} skipped ({}{more})",
                self.skipped_events(),
                first.join(", ")
            )?;
        }
        for (count, what) in [
            (self.repeated, "repeated by others"),
            (self.unclear, "not understood"),
            (self.lost, "lost by the recorder"),
            (self.out_of_order, "put in order of time"),
        ] {
            if count > 0 {
                write!(out, ", {count} {what}")?;
            }
        }
        Ok(())
    }
}
