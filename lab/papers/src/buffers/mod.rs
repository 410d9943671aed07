//! The miss rate of lists of different sizes, and their residual at the end of a run.
//!
//! The two goals conflict: a longer list misses less and leaves more frames unused. Only a comparison with all fixed
//! lists shows whether an adaptive list is better. What its constants were fitted to is tested on other traces.
//!
//! # Invariants
//! Counted on one thread in the trace's order: the numbers are reproducible.

pub(crate) mod figure;
mod held_out;

use self::held_out::Multiple;
use crate::shared::prelude::*;
use everybuddy_measure::replay::observe::{Counting, Tally};

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
    fn design(&self, experiment: &Experiment, _: &Conditions) -> Result<Design, Error> {
        // `residual_ratio` has no mean: for each trace, the variant is chosen on the other traces.
        let design = Design::of_traces(experiment, experiment.systems.len());
        Ok(design.with_mean(Metrics::But(&["residual_ratio"])))
    }

    /// Replays a trace on every system.
    fn measure(&self, trace: usize, run: &mut Run<'_, '_>) -> Result<Vec<Row>, Error> {
        run.replay_on_each(trace, |traced, spec, common, bench| {
            let tallies = count(traced, spec, bench)?;
            let mut rows = Vec::from_iter(batch(common, spec, &traced.memory));
            for (own, tally) in directions(common, &tallies) {
                rows.put(&own, "miss_rate", "value", tally.miss_rate());
                rows.put(&own, "residual", "mean", tally.residual());
                rows.put(&own, "residual", "count", tally.runs as f64);
            }
            Ok(rows)
        })
    }

    fn conclude(
        &self,
        experiment: &Experiment,
        _: &Conditions,
        cells: Vec<Vec<Row>>,
    ) -> Result<Vec<Row>, Error> {
        let mut rows = cells.concat();
        let (candidates, multiples) = (&self.candidates, &self.multiples);
        rows.extend(held_out::rows(experiment, candidates, multiples, &rows));
        rows.extend(means_over_sources(&rows, |row| {
            ["miss_rate", "residual"].contains(&row.metric) && row.statistic != "count"
        }));
        Ok(rows)
    }
}

/// Counts the internal events of the allocations and frees of a replay.
pub(crate) fn count(
    traced: &Traced,
    spec: &SystemSpec,
    bench: &mut Bench<'_>,
) -> Result<[Tally; 2], Error> {
    let done = traced.counted(spec, bench, Counting::new)?;
    let observers = done.played.observers.iter();
    Ok(Tally::sums(observers.map(|own| &own.tallies)))
}
