//! How many requests follow each other in the same way.
//!
//! # Purpose
//!
//! Batches and predictions live on runs: what a program asks next is what it asked before, for
//! how long? A trace alone answers; no system takes part.
//!
//! Where other experiments have systems, rows have what makes requests belong together: [`REGION`], [`TASK`]
//! or [`BUFFER`].
//!
//! # Invariants
//!
//! Counted, so the same numbers come out each time.

use everybuddy_trace::{Quantiles, Resolved, Step, cpu_runs, region_runs, task_runs};

use crate::shared::Repeats;
use crate::shared::experiment::Experiment;
use crate::shared::method::{Bench, Conditions, DIRECTIONS, MEAN, Measure, row, traces};
use everybuddy_measure::Error;
use everybuddy_measure::replay::outcome::mean;
use everybuddy_measure::rows::Row;
use serde::Deserialize;

/// Requests of one task for one address region; other tasks may call in between.
const REGION: &str = "region";
/// Requests of one task.
const TASK: &str = "task";
/// Requests for single frames of one task and region on one CPU, without a pause: runs as its list meets them.
const BUFFER: &str = "buffer";

/// What the experiment's file sets.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct Parameters {}

impl Measure for Parameters {
    fn repeats(&self) -> Repeats {
        Repeats::Counted
    }

    /// How many traces there are.
    fn steps(&self, experiment: &Experiment) -> u64 {
        experiment.traces().len() as u64
    }

    /// Counts the runs of each trace.
    fn run(
        &self,
        experiment: &Experiment,
        conditions: &Conditions,
        bench: &mut Bench<'_>,
    ) -> Result<Vec<Row>, Error> {
        let mut rows = Vec::new();
        for (name, resolved) in traces(experiment, conditions)? {
            for (kind, lengths) in kinds(&resolved) {
                for (operation, lengths) in DIRECTIONS.into_iter().zip(lengths) {
                    let common = Row {
                        experiment: experiment.name.clone(),
                        source: name.clone(),
                        system: kind.to_string(),
                        platform: experiment.platform.clone(),
                        cpus: resolved.cpus as u16,
                        seed: conditions.seed,
                        operation,
                        ..Row::default()
                    };
                    rows.extend(summary(lengths, &common));
                }
            }
            (bench.step)(&name);
        }
        let means = means(&rows);
        rows.extend(means);
        Ok(rows)
    }
}

/// The lengths of a trace's runs, of allocations and of frees, by what makes them belong together.
fn kinds(resolved: &Resolved) -> [(&'static str, [Vec<u64>; 2]); 3] {
    let steps = &resolved.steps;
    let buffered = cpu_runs(steps, |step: &Step| step.cpu);
    let buffered = [true, false].map(|allocates| {
        let runs = buffered.iter().filter(|run| run.allocates == allocates);
        runs.map(|run| u64::from(run.length)).collect()
    });
    [
        (REGION, region_runs(steps)),
        (TASK, task_runs(steps)),
        (BUFFER, buffered),
    ]
}

/// Where the lengths lie, and which share of the requests is in runs of each length and longer.
fn summary(mut lengths: Vec<u64>, common: &Row) -> Vec<Row> {
    let all = Quantiles::of(&mut lengths);
    let length = |statistic, value: f64| row(common, "run_length", statistic, value);
    let mut rows = vec![length("count", all.count as f64)];
    if all.count == 0 {
        return rows;
    }
    rows.push(length("mean", all.mean));
    for (statistic, value) in [("p50", all.p50), ("p99", all.p99), ("max", all.max)] {
        rows.push(length(statistic, value as f64));
    }
    let requests: u64 = lengths.iter().sum();
    for bound in (0..).map(|power| 1u64 << power) {
        // Sorted by `Quantiles`: the longer ones come last.
        let longer = &lengths[lengths.partition_point(|length| *length < bound)..];
        if longer.is_empty() {
            break;
        }
        let share = longer.iter().sum::<u64>() as f64 / requests as f64;
        rows.push(Row {
            experiment: format!("{}@{bound}", common.experiment),
            ..length("rate", share)
        });
    }
    rows
}

/// The mean of the traces' means, as the source has it in its last line.
fn means(rows: &[Row]) -> Vec<Row> {
    let mut averages = Vec::new();
    for kind in [REGION, TASK, BUFFER] {
        for operation in DIRECTIONS {
            let is_own = |row: &&Row| {
                row.system == kind && row.operation == operation && row.statistic == "mean"
            };
            let own: Vec<&Row> = rows.iter().filter(is_own).collect();
            let value = mean(own.iter().map(|row| row.value));
            averages.extend(own.first().zip(value).map(|(first, value)| Row {
                source: MEAN.to_string(),
                ..row(first, "run_length", "mean", value)
            }));
        }
    }
    averages
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn shares_count_requests_and_not_runs() {
        // Runs of 1, 3 and 12 requests: of 16 requests 15 lie in runs of two and more, 12 in runs of four.
        let common = Row {
            experiment: "x".to_string(),
            ..Row::default()
        };
        let rows = summary(vec![12, 1, 3], &common);
        let value = |experiment: &str, statistic| {
            let is_own = |row: &&Row| row.experiment == experiment && row.statistic == statistic;
            rows.iter().find(is_own).map(|row| row.value)
        };
        assert_eq!(value("x", "count"), Some(3.0));
        assert_eq!(value("x", "mean"), Some(5.33333));
        assert_eq!(value("x@1", "rate"), Some(1.0));
        assert_eq!(value("x@2", "rate"), Some(15.0 / 16.0));
        assert_eq!(value("x@4", "rate"), Some(12.0 / 16.0));
        assert_eq!(value("x@16", "rate"), None);
        assert_eq!(summary(Vec::new(), &common).len(), 1);
    }
}
