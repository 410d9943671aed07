//! The contention rate between threads inside a system.
//!
//! # Purpose
//!
//! A system that serves a request fast may still make the next CPU wait. Two rates are counted: among all operations,
//! which a per-CPU layer keeps small, and among the operations that reached the zone layer, which characterizes the
//! zone layer itself.
//!
//! # Invariants
//!
//! Systems take turns in each round, and each round starts with a new system.

use everybuddy::SystemSpec;
use everybuddy_workload::Variant;

use crate::buffers::measure as buffers;
use crate::fill_levels::measure as workloads;
use crate::shared::Repeats;
use crate::shared::experiment::Experiment;
use crate::shared::method::{
    Bench, Conditions, DIRECTIONS, MEAN, Measure, Traced, batch, common, replays, row,
};
use everybuddy_measure::Error;
use everybuddy_measure::bench;
use everybuddy_measure::replay::memory::Memory;
use everybuddy_measure::replay::observe::Tally;
use everybuddy_measure::replay::outcome::{mean, median};
use everybuddy_measure::replay::script::Script;
use everybuddy_measure::rows::Row;
use serde::Deserialize;

/// The work of the threads.
enum Work {
    /// A workload.
    Workload(&'static Variant),
    /// A trace, on the number of threads in the experiment's file.
    Trace(Box<Script>, Memory),
}

impl Work {
    /// Returns the memory on which the threads work.
    fn memory(&self, threads: u16, conditions: &Conditions) -> Memory {
        match self {
            Work::Workload(_) => {
                let frames = workloads::setting(threads, conditions).frames;
                Memory::fresh(u64::from(frames))
            }
            Work::Trace(_, memory) => *memory,
        }
    }
}

/// A number from one round.
type Number = (&'static str, &'static str, f64);

/// The parameters in the experiment's file.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct Parameters {
    /// The number of counted runs of each system, in turns.
    rounds: usize,
    /// The number of threads.
    threads: u16,
}

impl Measure for Parameters {
    fn repeats(&self) -> Repeats {
        Repeats::Rounds(self.rounds as u32)
    }

    /// Returns the number of visits and replays.
    fn steps(&self, experiment: &Experiment) -> u64 {
        let works = experiment.workloads.len() + experiment.traces.len();
        (works * experiment.systems.len() * self.rounds) as u64
    }

    fn sources_of(&self, experiment: &Experiment, _: &str) -> Vec<String> {
        let mean = vec![MEAN.to_string()];
        let works = [experiment.workloads.clone(), experiment.traces.clone()];
        [works.concat(), mean].concat()
    }

    /// Counts all systems on all work.
    fn run(
        &self,
        experiment: &Experiment,
        conditions: &Conditions,
        bench: &mut Bench<'_>,
    ) -> Result<Vec<Row>, Error> {
        let specs = experiment.specs()?;
        let threads = self.threads;
        let works = works(experiment, conditions, threads)?;
        // By system, by work, by round.
        let mut all: Vec<Vec<Vec<Vec<Number>>>> = vec![vec![Vec::new(); works.len()]; specs.len()];
        for round in 0..self.rounds {
            for (at, (name, work)) in works.iter().enumerate() {
                for turn in 0..specs.len() {
                    let who = (turn + round) % specs.len();
                    let tallies = count(work, &specs[who], threads, conditions, bench)?;
                    all[who][at].push(numbers(&tallies));
                    (bench.step)(&format!("{name} {}", specs[who]));
                }
            }
        }
        let mut rows = Vec::new();
        for (spec, own) in specs.iter().zip(&all) {
            for ((name, work), rounds) in works.iter().zip(own) {
                let common = common(experiment, conditions, name, spec, threads);
                rows.extend(batch(&common, spec, &work.memory(threads, conditions)));
                rows.extend(summary(rounds, &common));
            }
            let common = common(experiment, conditions, MEAN, spec, threads);
            rows.extend(summary(&over_all(own), &common));
        }
        Ok(rows)
    }
}

/// Prepares workloads and traces, with their names.
fn works(
    experiment: &Experiment,
    conditions: &Conditions,
    threads: u16,
) -> Result<Vec<(String, Work)>, Error> {
    let variants = workloads::variants(experiment)?.into_iter();
    let mut works: Vec<(String, Work)> = variants
        .map(|variant| (variant.name.to_string(), Work::Workload(variant)))
        .collect();
    if experiment.traces.is_empty() {
        return Ok(works);
    }
    for traced in replays(experiment, conditions, Some(threads))? {
        let Traced {
            name,
            script,
            memory,
            ..
        } = traced?;
        works.push((name, Work::Trace(Box::new(script), memory)));
    }
    Ok(works)
}

/// Counts the internal events of allocations and frees.
fn count(
    work: &Work,
    spec: &SystemSpec,
    threads: u16,
    conditions: &Conditions,
    bench: &mut Bench<'_>,
) -> Result<[Tally; 2], Error> {
    match work {
        Work::Workload(variant) => {
            let setting = workloads::setting(threads, conditions);
            bench::count(variant, setting, spec, bench.timer, bench.arena)
        }
        Work::Trace(script, memory) => buffers::count(script, memory, spec, bench),
    }
}

/// Returns the rates of a round: for allocations, frees and both.
fn numbers([allocations, frees]: &[Tally; 2]) -> Vec<Number> {
    let mut all = *allocations;
    all.add(frees);
    let mut numbers = Vec::new();
    for (operation, tally) in DIRECTIONS
        .into_iter()
        .zip([*allocations, *frees])
        .chain([("all", all)])
    {
        let shares = [
            ("contention_rate", tally.contention_rate()),
            ("contention_rate_core", tally.contention_rate_core()),
            ("miss_rate", tally.miss_rate()),
        ];
        for (metric, share) in shares {
            numbers.extend(share.map(|share| (operation, metric, share)));
        }
    }
    numbers
}

fn find(numbers: &[Number], operation: &str, metric: &str) -> Option<f64> {
    let found = numbers
        .iter()
        .find(|own| (own.0, own.1) == (operation, metric));
    found.map(|own| own.2)
}

/// Returns the mean over all work for each round; `None` if some work lacks the rate.
fn over_all(works: &[Vec<Vec<Number>>]) -> Vec<Vec<Number>> {
    let Some(first) = works.first() else {
        return Vec::new();
    };
    let of_round = |(round, numbers): (usize, &Vec<Number>)| {
        let over = |(operation, metric, _): &Number| {
            let own = works
                .iter()
                .map(|rounds| find(&rounds[round], operation, metric));
            let own: Option<Vec<f64>> = own.collect();
            Some((*operation, *metric, mean(own?.into_iter())?))
        };
        numbers.iter().filter_map(over).collect()
    };
    first.iter().enumerate().map(of_round).collect()
}

/// Returns the median, the minimum and the maximum over the rounds.
fn summary(rounds: &[Vec<Number>], common: &Row) -> Vec<Row> {
    let mut rows = Vec::new();
    for (operation, metric, _) in rounds.first().into_iter().flatten() {
        let own = rounds
            .iter()
            .filter_map(|round| find(round, operation, metric));
        let own: Vec<f64> = own.collect();
        let common = Row {
            operation,
            ..common.clone()
        };
        let least = own.iter().copied().fold(f64::INFINITY, f64::min);
        let most = own.iter().copied().fold(0.0, f64::max);
        for (statistic, value) in [("p50", median(own)), ("min", least), ("max", most)] {
            rows.push(row(&common, metric, statistic, value));
        }
    }
    rows
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn means_are_over_work_and_medians_over_rounds() {
        let round = |share| vec![("all", "contention_rate", share)];
        let works = [
            vec![round(0.1), round(0.2), round(0.6)],
            vec![round(0.3), round(0.0), round(0.2)],
        ];
        let rows = summary(&over_all(&works), &Row::default());
        let values: Vec<(&str, f64)> = rows.iter().map(|row| (row.statistic, row.value)).collect();
        assert_eq!(values, [("p50", 0.2), ("min", 0.1), ("max", 0.4)]);
    }
}
