//! The miss rate of lists of different sizes, and their residual at the end of a run.
//!
//! # Purpose
//!
//! The two goals conflict: a longer list misses less and leaves more frames unused. Only a comparison with all fixed
//! lists shows whether an adaptive list is better. What its constants were fitted to is tested on other traces.
//!
//! # Invariants
//!
//! Counted on one thread in the trace's order: the numbers are reproducible.

use everybuddy::SystemSpec;

use super::held_out::{self, Multiple};
use crate::shared::experiment::Experiment;
use crate::shared::method::{
    Bench, Conditions, DIRECTIONS, MEAN, Measure, batch, replay_each, row,
};
use everybuddy_measure::Error;
use everybuddy_measure::replay::memory::Memory;
use everybuddy_measure::replay::observe::{Counting, Tally};
use everybuddy_measure::replay::outcome::mean;
use everybuddy_measure::replay::pass::{self, How};
use everybuddy_measure::replay::script::Script;
use everybuddy_measure::rows::Row;
use serde::Deserialize;

/// The parameters in the experiment's file.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct Parameters {
    /// The variants of a predicting list of which one is chosen for each trace on the others.
    candidates: Vec<String>,
    /// What the source's list leaves, in units of what fixed lists leave.
    multiples: Vec<Multiple>,
}

impl Measure for Parameters {
    /// Returns the traces and, unless a number was learned on one trace for the others, their mean.
    fn sources_of(&self, experiment: &Experiment, metric: &str) -> Vec<String> {
        let mean = (metric != "residual_ratio").then(|| MEAN.to_string());
        experiment.trace_names().into_iter().chain(mean).collect()
    }

    /// Replays every trace on every system.
    fn run(
        &self,
        experiment: &Experiment,
        conditions: &Conditions,
        bench: &mut Bench<'_>,
    ) -> Result<Vec<Row>, Error> {
        let mut rows = replay_each(
            experiment,
            conditions,
            bench,
            |traced, spec, common, bench| {
                let tallies = count(&traced.script, &traced.memory, spec, bench)?;
                let mut rows = Vec::from_iter(batch(common, spec, &traced.memory));
                for (operation, tally) in DIRECTIONS.into_iter().zip(&tallies) {
                    let own = Row {
                        operation,
                        ..common.clone()
                    };
                    rows.extend(numbers(tally, &own));
                }
                Ok(rows)
            },
        )?;
        let chosen = held_out::rows(experiment, &self.candidates, &self.multiples, &rows);
        rows.extend(chosen);
        let means = means(&rows);
        rows.extend(means);
        Ok(rows)
    }
}

/// Counts the internal events of the allocations and frees of a replay.
pub(crate) fn count(
    script: &Script,
    memory: &Memory,
    spec: &SystemSpec,
    bench: &mut Bench<'_>,
) -> Result<[Tally; 2], Error> {
    let new = Counting::new;
    let done = pass::watch(script, memory, bench.arena, spec, How::COUNTED, new)?;
    let mut tallies = [Tally::default(); 2];
    for observer in &done.played.observers {
        for (sum, own) in tallies.iter_mut().zip(&observer.tallies) {
            sum.add(own);
        }
    }
    Ok(tallies)
}

/// Returns the miss rates and the residuals.
fn numbers(tally: &Tally, common: &Row) -> Vec<Row> {
    let missed = tally.miss_rate();
    let missed = missed.map(|value| row(common, "miss_rate", "value", value));
    let left = tally.residual();
    let left = left.map(|value| row(common, "residual", "mean", value));
    let runs = row(common, "residual", "count", tally.runs as f64);
    missed.into_iter().chain(left).chain([runs]).collect()
}

/// Returns the mean of each number over the traces.
fn means(rows: &[Row]) -> Vec<Row> {
    let alike = |a: &Row, b: &Row| {
        (a.operation, a.metric, a.statistic) == (b.operation, b.metric, b.statistic)
            && a.name() == b.name()
    };
    let mut means: Vec<Row> = Vec::new();
    let has_mean =
        |row: &&Row| ["miss_rate", "residual"].contains(&row.metric) && row.statistic != "count";
    for first in rows.iter().filter(has_mean) {
        if means.iter().any(|known| alike(known, first)) {
            continue;
        }
        let own = rows.iter().filter(|row| alike(row, first));
        means.extend(mean(own.map(|row| row.value)).map(|value| Row {
            source: MEAN.to_string(),
            ..row(first, first.metric, first.statistic, value)
        }));
    }
    means
}
