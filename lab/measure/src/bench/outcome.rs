//! Reduces many times to a few numbers.
//!
//! A single number hides its reliability. Each cell keeps the median of every round, so that the ratio of two
//! contenders has an interval.
//!
//! # Invariants
//! The result of a round is the median of its valid sections. A cell without valid sections is marked, and falls back
//! on the median of the disturbed sections.

use std::collections::BTreeMap;

use everybuddy_workload::{Part, Variant};

use super::visit::Visited;
use super::{BenchPlan, ContenderSpec};
use crate::refusals::Refusals;
use crate::replay::machine::Machine;
use crate::replay::pace::median;

/// The results of a run.
#[derive(Clone, Debug)]
pub struct Results {
    /// The parameters.
    pub plan: BenchPlan,
    /// The machine from which the parameters of lists follow, unless they follow from the managed memory.
    pub machine: Option<Machine>,
    /// The columns: workloads and numbers of threads.
    pub columns: Vec<(&'static Variant, u16)>,
    /// One cell per column and contender.
    pub cells: Vec<Vec<Cell>>,
    /// The part of the used frames that lies in huge pages, if it is known.
    pub huge: Option<f64>,
}

impl Results {
    pub(super) fn new(
        plan: &BenchPlan,
        machine: Option<Machine>,
        columns: &[(&'static Variant, u16)],
    ) -> Results {
        let empty = vec![Cell::default(); plan.contenders.len()];
        Results {
            plan: plan.clone(),
            machine,
            columns: columns.to_vec(),
            cells: vec![empty; columns.len()],
            huge: None,
        }
    }

    /// Returns the contenders.
    pub fn contenders(&self) -> &[ContenderSpec] {
        &self.plan.contenders
    }
}

/// The results of a contender on a workload.
#[derive(Clone, Debug, Default)]
pub struct Cell {
    /// For each part, the nanoseconds per item of each round: elapsed, and of CPU time.
    pub parts: Vec<(Part, [Vec<f64>; 2])>,
    /// The regions of 2 MiB that the last working set of each round spans, over the fewest.
    pub spread: Vec<f64>,
    /// The nanoseconds of a cache line between two threads and back, in each round; empty with one thread.
    pub round_trips: Vec<f64>,
    /// Whether all sections of some round were disturbed; its time is then the median of the disturbed sections.
    pub is_disturbed: bool,
    /// The number of valid sections.
    pub counted: u64,
    /// The number of dropped sections.
    pub dropped: u64,
    /// Operations per item.
    pub operations: f64,
    /// The requests, and those that failed.
    pub refusals: Refusals,
    /// By order, the large blocks that could still be allocated at the end of each round.
    pub large_blocks: BTreeMap<u8, Vec<f64>>,
    /// Bytes of metadata, if known.
    pub metadata_bytes: Option<usize>,
}

impl Cell {
    /// Adds a round.
    pub(super) fn add(&mut self, visited: Visited) {
        self.counted += visited.times.len() as u64;
        self.dropped += visited.disturbed.len() as u64;
        self.operations = visited.operations;
        self.refusals.join(&visited.refusals);
        for (order, blocks) in visited.large_blocks {
            self.large_blocks
                .entry(order)
                .or_default()
                .push(blocks as f64);
        }
        self.metadata_bytes = visited.metadata_bytes;
        self.spread.extend(visited.spread);
        self.round_trips.extend(visited.round_trip);
        for part in [Part::Pair, Part::Allocate, Part::Free, Part::Operation] {
            let of = |times: &[(Part, [f64; 2])]| -> [Vec<f64>; 2] {
                let of_part = || times.iter().filter(|time| time.0 == part);
                [0, 1].map(|kind| of_part().map(|time| time.1[kind]).collect())
            };
            let calm = of(&visited.times);
            let disturbed = of(&visited.disturbed);
            // Not the minimum of the disturbed sections: while one thread is switched out, another one runs without
            // contention.
            let nanos = match (calm[0].is_empty(), disturbed[0].is_empty()) {
                (false, _) => calm.map(median),
                (true, false) => {
                    self.is_disturbed = true;
                    disturbed.map(median)
                }
                (true, true) => continue,
            };
            if self.parts.iter().all(|own| own.0 != part) {
                self.parts.push((part, Default::default()));
            }
            for own in self.parts.iter_mut().filter(|own| own.0 == part) {
                own.1
                    .iter_mut()
                    .zip(nanos)
                    .for_each(|(all, own)| all.push(own));
            }
        }
    }

    /// Returns `true` if most requests failed: the times are then those of failures, and meaningless.
    pub fn is_refusing(&self) -> bool {
        self.refusals.refused.total() * 2 > self.refusals.requests.total()
    }

    /// Returns the nanoseconds of a part in each round; empty if the contender cannot run the workload.
    pub fn rounds(&self, part: Part) -> &[f64] {
        self.of(part, 0)
    }

    /// Returns the same of CPU time.
    pub fn cpu(&self, part: Part) -> &[f64] {
        self.of(part, 1)
    }

    fn of(&self, part: Part, kind: usize) -> &[f64] {
        if self.is_refusing() {
            return &[];
        }
        let own = self.parts.iter().find(|own| own.0 == part);
        own.map_or(&[], |own| &own.1[kind])
    }

    /// Returns the median over the rounds.
    pub fn median(&self, part: Part) -> Option<f64> {
        let rounds = self.rounds(part);
        (!rounds.is_empty()).then(|| median(rounds.to_vec()))
    }
}

/// Returns the minimum and the maximum.
pub fn extremes(values: &[f64]) -> Option<(f64, f64)> {
    let least = values.iter().copied().min_by(f64::total_cmp)?;
    let most = values.iter().copied().max_by(f64::total_cmp)?;
    Some((least, most))
}
