//! The rows that a claim needs.
//!
//! A file can contain a part of a run's rows. A claim that is judged by a part of its numbers can pass or fail wrongly:
//! the source that refutes it may be missing, or the rounds that disagree.
//!
//! # Invariants
//! A claim that lacks a row is inconclusive, and its verdict names the row.

use super::judge::{Case, Verdict};
use super::numbers::Finder;
use super::{Claim, Kind};
use crate::rows::Row;

/// The number of missing rows that a verdict names.
const NAMED: usize = 3;

/// The rows of a complete run, as an experiment's definition determines them.
pub struct Complete<'c> {
    /// The systems of the experiment, for a bound that names none.
    pub systems: &'c [String],
    /// The sources with rows of the claim's metric, for a claim that names none.
    pub sources: Vec<String>,
    /// Whether each median of rounds has rows of its minimum and maximum.
    pub has_ends: bool,
    /// The number of rounds of which a system's mean has rows of its own.
    pub rounds: &'c dyn Fn(&str) -> u32,
}

impl Claim {
    /// Checks the claim against rows that may be a part of an experiment's rows.
    pub fn judge_part(&self, experiment: &str, rows: &[Row], complete: &Complete<'_>) -> Verdict {
        let missing = self.missing(experiment, rows, complete);
        if missing.is_empty() {
            return self.judge(experiment, rows);
        }
        let named = missing.iter().take(NAMED).cloned().collect::<Vec<_>>();
        let more = match missing.len().saturating_sub(NAMED) {
            0 => String::new(),
            more => format!("; and {more} more"),
        };
        let reason = format!("rows missing: {}{more}", named.join("; "));
        Verdict::of(vec![Case::unknown(reason)])
    }

    /// Returns the rows that the claim needs but the file does not have.
    fn missing(&self, experiment: &str, rows: &[Row], complete: &Complete<'_>) -> Vec<String> {
        let finder = Finder {
            claim: self,
            experiment,
            rows,
        };
        let cells = finder.cells();
        let or = |own: &[String], all: &[String]| {
            if own.is_empty() {
                all.to_vec()
            } else {
                own.to_vec()
            }
        };
        let sources = or(&self.sources, &complete.sources);
        let systems = match self.kind {
            Kind::Bound => or(&self.systems, complete.systems),
            _ => self.systems.clone(),
        };
        let mut missing = Vec::new();
        for operation in self.operation.list() {
            for source in &sources {
                let place = match operation.as_str() {
                    "all" => source.clone(),
                    _ => format!("{source} {operation}"),
                };
                let is_own = |cell: &&_| finder.is_at(cell, source, operation);
                let mut own = cells.iter().filter(is_own).peekable();
                if own.peek().is_none() {
                    missing.push(format!("{place}, {}", self.metric));
                }
                for cell in own {
                    for system in &systems {
                        let ends: &[&str] = if complete.has_ends && self.statistic == "p50" {
                            &["min", "max"]
                        } else {
                            &[]
                        };
                        let lacks = |statistic: &&str| !finder.has(system, *cell, statistic);
                        let statistics = std::iter::once(self.statistic.as_str());
                        for statistic in statistics.chain(ends.iter().copied()).filter(lacks) {
                            missing.push(format!("{place}, {system}, {statistic}"));
                        }
                        let rounds = (complete.rounds)(system) as usize;
                        let found = finder.rounds(system, *cell, "mean").len();
                        if self.statistic == "mean" && found < rounds {
                            missing.push(format!("{place}, {system}, {found} of {rounds} rounds"));
                        }
                        if let Some(cost) = &self.against
                            && finder.price(system, *cell).is_none()
                        {
                            missing.push(format!("{place}, {system}, {cost}"));
                        }
                    }
                }
            }
        }
        missing
    }
}
