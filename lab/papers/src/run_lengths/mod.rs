//! The lengths of runs of similar requests.
//!
//! Batches and predictions depend on runs: how long does a program continue with the same kind of request? The trace
//! alone answers this; no system is involved.
//!
//! In place of a system, rows contain the criterion that joins requests: `REGION`, `TASK` or `BUFFER`.
//!
//! # Invariants
//! Counted, so the numbers are reproducible.

pub(crate) mod figure;

use crate::shared::prelude::*;
use everybuddy_trace::{Quantiles, Resolved, Step, cpu_runs, region_runs, task_runs};

/// Requests of one task for one address region, with requests of other tasks in between.
const REGION: &str = "region";
/// Requests of one task.
const TASK: &str = "task";
/// Requests for single frames of one task and region on one CPU, without a pause: runs from the point of view of its
/// list.
const BUFFER: &str = "buffer";

/// The parameters in the experiment's file.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct Parameters {}

impl Measure for Parameters {
    fn design(&self, experiment: &Experiment, _: &Conditions) -> Result<Design, Error> {
        // Like the last line of the source.
        Ok(Design::of_traces(experiment, 1).with_mean(Metrics::Some))
    }

    /// Counts the runs of a trace.
    fn measure(&self, trace: usize, run: &mut Run<'_, '_>) -> Result<Vec<Row>, Error> {
        let (name, resolved) = run.trace(trace)?;
        let mut rows = Vec::new();
        for (kind, lengths) in kinds(&resolved) {
            let common = run.subject(&name, kind, resolved.cpus as u16);
            let average = |own: &Vec<u64>| mean(own.iter().map(|length| *length as f64));
            let [allocations, frees] = lengths.each_ref().map(average);
            let ratio = allocations.zip(frees).map(|(own, other)| other / own);
            rows.put(&common, "run_length_ratio", "value", ratio);
            for (own, lengths) in directions(&common, lengths) {
                rows.extend(summary(lengths, &own));
            }
        }
        run.step(&name);
        Ok(rows)
    }

    fn conclude(
        &self,
        _: &Experiment,
        _: &Conditions,
        cells: Vec<Vec<Row>>,
    ) -> Result<Vec<Row>, Error> {
        let mut rows = cells.concat();
        rows.extend(means_over_sources(&rows, |row| row.statistic == "mean"));
        Ok(rows)
    }
}

/// Returns the lengths of a trace's runs, of allocations and of frees, by criterion.
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

/// Returns the distribution of the lengths, and the share of the requests in runs of at least each length.
fn summary(mut lengths: Vec<u64>, common: &Row) -> Vec<Row> {
    const METRIC: &str = "run_length";
    let all = Quantiles::of(&mut lengths);
    let mut rows = Vec::new();
    rows.put(common, METRIC, "count", all.count as f64);
    if all.count == 0 {
        return rows;
    }
    rows.put(common, METRIC, "mean", all.mean);
    for (statistic, value) in [("p50", all.p50), ("p99", all.p99), ("max", all.max)] {
        rows.put(common, METRIC, statistic, value as f64);
    }
    let requests: u64 = lengths.iter().sum();
    for bound in (0..).map(|power| 1u64 << power) {
        // Sorted by `Quantiles`: the longer ones come last.
        let longer = &lengths[lengths.partition_point(|length| *length < bound)..];
        if longer.is_empty() {
            break;
        }
        let share = longer.iter().sum::<u64>() as f64 / requests as f64;
        rows.put(&common.at(bound), METRIC, "rate", share);
    }
    rows
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
