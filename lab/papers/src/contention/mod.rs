//! The contention rate between threads inside a system.
//!
//! A system that serves a request fast may still make the next CPU wait. Two rates are counted: among all operations,
//! which a per-CPU layer keeps small, and among the operations that reached the zone layer, which characterizes the
//! zone layer itself.
//!
//! # Invariants
//! Systems take turns in each round, and each round starts with a new system.

use everybuddy_workload::Variant;

use crate::buffers;
use crate::fill_levels as workloads;
use crate::shared::prelude::*;
use everybuddy_measure::bench;
use everybuddy_measure::replay::memory::Memory;
use everybuddy_measure::replay::observe::Tally;

/// The work of the threads.
enum Work {
    /// A workload.
    Workload(&'static Variant),
    /// A trace, on the number of threads in the experiment's file.
    Trace(Box<Traced>),
}

impl Work {
    fn name(&self) -> &str {
        match self {
            Work::Workload(variant) => variant.name,
            Work::Trace(traced) => &traced.name,
        }
    }

    /// Returns the memory on which the threads work.
    fn memory(&self, threads: u16, run: &Run<'_, '_>) -> Memory {
        match self {
            Work::Workload(_) => {
                let frames = workloads::setting(threads, run.conditions).frames;
                Memory::fresh(u64::from(frames))
            }
            Work::Trace(traced) => traced.memory.clone(),
        }
    }

    /// Counts the internal events of allocations and frees.
    fn count(
        &self,
        spec: &SystemSpec,
        threads: u16,
        run: &mut Run<'_, '_>,
    ) -> Result<[Tally; 2], Error> {
        match self {
            Work::Workload(variant) => {
                let setting = workloads::setting(threads, run.conditions);
                bench::count(variant, setting, spec, run.bench.timer, run.bench.arena)
            }
            Work::Trace(traced) => buffers::count(traced, spec, run.bench),
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

    fn design(&self, experiment: &Experiment, _: &Conditions) -> Result<Design, Error> {
        let traces = if experiment.traces.is_empty() {
            Vec::new()
        } else {
            experiment.trace_names()
        };
        let workloads = workloads::variants(experiment)?.into_iter();
        let workloads = workloads.map(|own| own.name.to_string());
        let works: Vec<String> = workloads.chain(traces).collect();
        let steps = works.len() * experiment.systems.len() * self.rounds;
        // One cell: a round is over all works.
        let works = works.into_iter().chain([MEAN.to_string()]);
        let cell = Cell::new("all", steps, works.map(About::all).collect());
        Ok(Design::new(vec![cell]))
    }

    /// Counts all systems on all work.
    fn measure(&self, _: usize, run: &mut Run<'_, '_>) -> Result<Vec<Row>, Error> {
        let specs = run.specs()?;
        let threads = self.threads;
        let workloads = workloads::variants(run.experiment)?.into_iter();
        let mut works: Vec<Work> = workloads.map(Work::Workload).collect();
        if !run.experiment.traces.is_empty() {
            for trace in 0..run.experiment.traces.len() {
                works.push(Work::Trace(Box::new(run.traced(trace, Some(threads))?)));
            }
        }
        // By system, by work, by round.
        let mut all: Vec<Vec<Vec<Vec<Number>>>> = vec![vec![Vec::new(); works.len()]; specs.len()];
        for round in 0..run.rounds(self.rounds as u32) as usize {
            for (at, work) in works.iter().enumerate() {
                for turn in 0..specs.len() {
                    let who = (turn + round) % specs.len();
                    all[who][at].push(numbers(&work.count(&specs[who], threads, run)?));
                    run.step(format_args!("{} {}", work.name(), specs[who]));
                }
            }
        }
        let mut rows = Vec::new();
        for (spec, own) in specs.iter().zip(&all) {
            for (work, rounds) in works.iter().zip(own) {
                let common = run.common(work.name(), spec, threads);
                rows.extend(batch(&common, spec, &work.memory(threads, run)));
                rows.extend(summary(rounds, &common));
            }
            rows.extend(summary(&over_all(own), &run.common(MEAN, spec, threads)));
        }
        Ok(rows)
    }
}

/// Returns the rates of a round: for allocations, frees and both.
fn numbers([allocations, frees]: &[Tally; 2]) -> Vec<Number> {
    let mut all = *allocations;
    all.add(frees);
    let mut numbers = Vec::new();
    let kinds = DIRECTIONS.into_iter().chain(["all"]);
    for (operation, tally) in kinds.zip([allocations, frees, &all]) {
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
    let is_it = |own: &&Number| (own.0, own.1) == (operation, metric);
    numbers.iter().find(is_it).map(|own| own.2)
}

/// Returns the mean over all work for each round; `None` if some work lacks the rate.
fn over_all(works: &[Vec<Vec<Number>>]) -> Vec<Vec<Number>> {
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
    let first = works.first().into_iter().flatten();
    first.enumerate().map(of_round).collect()
}

/// Returns the median, the minimum and the maximum over the rounds.
fn summary(rounds: &[Vec<Number>], common: &Row) -> Vec<Row> {
    let mut rows = Vec::new();
    for (operation, metric, _) in rounds.first().into_iter().flatten() {
        let own = rounds
            .iter()
            .filter_map(|round| find(round, operation, metric));
        let own: Vec<f64> = own.collect();
        rows.extend(crate::shared::rows::rounds(
            &common.of(operation),
            metric,
            &own,
        ));
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
