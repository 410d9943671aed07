//! The log of an import: counts of imported and omitted events.
//!
//! The completeness of an import is visible: lost, skipped and unrecognized events are counted, and the first of them
//! are listed.
//!
//! # Invariants
//! Every event of the input is in exactly one of the counts.

use std::collections::BTreeMap;
use std::fmt;

use super::Source;
use everybuddy_trace::shown;

/// The maximum number of distinct names of skipped events: damaged files have endless names.
const MOST_NAMES: usize = 100;

/// The maximum number of stored complaints.
const MOST_COMPLAINTS: usize = 5;

/// The maximum number of characters of a line in a complaint.
const SHOWN: usize = 100;

/// The log of an import.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ImportLog {
    /// The kind of the recording.
    pub source: Source,
    /// Lines of text, or records of perf.data.
    pub read: u64,
    /// Recognized events.
    pub understood: u64,
    /// Events that are unrelated to memory, by name.
    pub skipped: BTreeMap<String, u64>,
    /// Events that repeat others.
    pub repeated: u64,
    /// Unrecognized lines or records.
    pub unclear: u64,
    /// The first of these: the line, or the offset in bytes, and its contents.
    pub complaints: Vec<(u64, String)>,
    /// Events that the recording reports as lost.
    pub lost: u64,
    /// Events that followed a later one, and were sorted.
    pub out_of_order: u64,
    /// Call chains of lock waits that contain addresses of kernel functions.
    pub chains: u64,
    /// What the import assumed, one sentence each.
    pub remarks: Vec<&'static str>,
    /// Events that name a page only by the address of its descriptor, from which its frame is unknown.
    pub unknown_frames: u64,
}

impl ImportLog {
    pub(crate) fn new(source: Source) -> ImportLog {
        ImportLog {
            source,
            read: 0,
            understood: 0,
            skipped: BTreeMap::new(),
            repeated: 0,
            unclear: 0,
            complaints: Vec::new(),
            lost: 0,
            out_of_order: 0,
            chains: 0,
            remarks: Vec::new(),
            unknown_frames: 0,
        }
    }

    pub(crate) fn remark(&mut self, text: &'static str) {
        if !self.remarks.contains(&text) {
            self.remarks.push(text);
        }
    }

    pub(crate) fn skip(&mut self, event: &str) {
        let name = if self.skipped.len() < MOST_NAMES || self.skipped.contains_key(event) {
            event
        } else {
            "others"
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
            let mut start: String = what.chars().take(SHOWN).collect();
            if start.len() < what.len() {
                start.push('…');
            }
            self.complaints.push((place, shown(start)));
        }
    }

    /// Returns the number of events that were skipped.
    pub fn skipped_events(&self) -> u64 {
        self.skipped.values().sum()
    }

    /// Returns the unit of a complaint's place: `line` or `byte`.
    pub fn place_name(&self) -> &'static str {
        match self.source {
            Source::PerfData => "byte",
            _ => "line",
        }
    }
}

impl fmt::Display for ImportLog {
    /// Formats one sentence: `perf-script: 812 events recognized, 3 skipped (sched_switch), ...`.
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(
            out,
            "{}: {} events recognized",
            self.source.name(),
            self.understood
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
            (self.repeated, "duplicates"),
            (self.unclear, "not recognized"),
            (self.lost, "lost by the recorder"),
            (self.out_of_order, "sorted by time"),
        ] {
            if count > 0 {
                write!(out, ", {count} {what}")?;
            }
        }
        Ok(())
    }
}
