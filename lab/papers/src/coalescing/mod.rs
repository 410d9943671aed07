//! The numbers of splits and coalescings on traces, and their effect on free memory.
//!
//! Delayed coalescing was designed for message buffers in 1989. Its savings on today's page traces, and the blocks
//! that it leaves uncoalesced for requests of large blocks, are counted in the same replays.
//!
//! # Invariants
//! Counted on one thread in the trace's order: the numbers are reproducible.

use crate::shared::prelude::*;
use everybuddy_measure::replay::observe::{Counting, Tally};

/// The parameters in the experiment's file.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct Parameters {
    /// The orders whose free blocks are counted.
    orders: Vec<u8>,
}

impl Measure for Parameters {
    fn design(&self, experiment: &Experiment, _: &Conditions) -> Result<Design, Error> {
        let design = Design::of_traces(experiment, experiment.systems.len());
        Ok(design.with_mean(Metrics::All))
    }

    /// Replays a trace on every system.
    fn measure(&self, trace: usize, run: &mut Run<'_, '_>) -> Result<Vec<Row>, Error> {
        run.replay_on_each(trace, |traced, spec, common, bench| {
            let done = traced.counted(spec, bench, Counting::new)?;
            let observers = &done.played.observers;
            let tallies = Tally::sums(observers.iter().map(|own| &own.tallies));
            let mut rows = Vec::new();
            let (mut calls, mut moved) = (0, 0);
            for (own, tally) in directions(common, &tallies) {
                let (splits, coalescings) = (tally.counts.splits, tally.counts.coalescings);
                let each = |count: u64| count as f64 / tally.operations.max(1) as f64;
                rows.put(&own, "calls", "count", tally.operations as f64);
                rows.put(&own, "splits", "mean", each(splits));
                rows.put(&own, "coalescings", "mean", each(coalescings));
                calls += tally.operations;
                moved += splits + coalescings;
            }
            let moved = moved as f64 / calls.max(1) as f64;
            rows.put(common, "splits_and_coalescings", "mean", moved);
            rows.extend(refusal_rows(&refusals(&traced.script, &done), common));
            let snapshots = || {
                let samples = observers.iter().flat_map(|observer| &observer.samples);
                samples.map(|sample| &sample.snapshot)
            };
            for (own, order) in orders(common, &self.orders) {
                let blocks = snapshots().map(|own| own.available_blocks(order) as f64);
                rows.put(&own, "free_blocks", "mean", mean(blocks));
                let unusable = snapshots().map(|own| own.unusable_index(order));
                rows.put(&own, "unusable_index", "mean", mean(unusable));
            }
            Ok(rows)
        })
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
