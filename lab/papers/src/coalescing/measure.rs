//! The numbers of splits and coalescings on traces, and their effect on free memory.
//!
//! # Purpose
//!
//! Delayed coalescing was designed for message buffers in 1989. Its savings on today's page traces, and the blocks
//! that it leaves uncoalesced for requests of large blocks, are counted in the same replays.
//!
//! # Invariants
//!
//! Counted on one thread in the trace's order: the numbers are reproducible.

use everybuddy::Order;

use crate::shared::experiment::Experiment;
use crate::shared::method::{
    Bench, Conditions, DIRECTIONS, MEAN, Measure, refusal_rows, replay_each, row,
};
use everybuddy_measure::Error;
use everybuddy_measure::refusals::Refusals;
use everybuddy_measure::replay::observe::{Counting, Tally};
use everybuddy_measure::replay::outcome::mean;
use everybuddy_measure::rows::Row;
use serde::Deserialize;

/// The parameters in the experiment's file.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct Parameters {
    /// The orders whose free blocks are counted.
    orders: Vec<u8>,
}

impl Measure for Parameters {
    fn sources_of(&self, experiment: &Experiment, _: &str) -> Vec<String> {
        let traces = experiment.trace_names().into_iter();
        traces.chain([MEAN.to_string()]).collect()
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
                let done = traced.counted(spec, bench, Counting::new)?;
                let mut rows = Vec::new();
                let observers = &done.played.observers;
                let mut tallies = [Tally::default(); 2];
                for observer in observers {
                    for (sum, own) in tallies.iter_mut().zip(&observer.tallies) {
                        sum.add(own);
                    }
                }
                let calls = tallies.iter().map(|tally| tally.operations).sum::<u64>();
                for (operation, tally) in DIRECTIONS.into_iter().zip(&tallies) {
                    let own = Row {
                        operation,
                        ..common.clone()
                    };
                    let each = |count: u64| count as f64 / tally.operations.max(1) as f64;
                    rows.push(row(&own, "calls", "count", tally.operations as f64));
                    rows.push(row(&own, "splits", "mean", each(tally.counts.splits)));
                    rows.push(row(
                        &own,
                        "coalescings",
                        "mean",
                        each(tally.counts.coalescings),
                    ));
                }
                let moved = tallies
                    .iter()
                    .map(|t| t.counts.splits + t.counts.coalescings);
                let moved = moved.sum::<u64>() as f64 / calls.max(1) as f64;
                rows.push(row(common, "splits_and_coalescings", "mean", moved));
                let refusals = Refusals {
                    requests: traced.script.requests(),
                    refused: done.played.trouble.refused,
                };
                rows.extend(refusal_rows(&refusals, common));
                let samples = || observers.iter().flat_map(|observer| &observer.samples);
                for order in self.orders.iter().copied().filter_map(Order::new) {
                    let own = Row {
                        order: Some(order.get()),
                        ..common.clone()
                    };
                    let blocks = samples().map(|s| s.snapshot.available_blocks(order) as f64);
                    let unusable = samples().map(|s| s.snapshot.unusable_index(order));
                    rows.extend(mean(blocks).map(|value| row(&own, "free_blocks", "mean", value)));
                    let index = mean(unusable);
                    rows.extend(index.map(|value| row(&own, "unusable_index", "mean", value)));
                }
                Ok(rows)
            },
        )?;
        let means = means(&rows);
        rows.extend(means);
        Ok(rows)
    }
}

/// Returns the mean over the traces of the counts per call.
fn means(rows: &[Row]) -> Vec<Row> {
    let alike = |a: &Row, b: &Row| {
        (a.operation, a.metric, a.order) == (b.operation, b.metric, b.order) && a.name() == b.name()
    };
    let mut means: Vec<Row> = Vec::new();
    for first in rows.iter().filter(|row| row.statistic == "mean") {
        if means.iter().any(|known| alike(known, first)) {
            continue;
        }
        let own = rows
            .iter()
            .filter(|row| row.statistic == "mean" && alike(row, first));
        means.extend(mean(own.map(|row| row.value)).map(|value| Row {
            source: MEAN.to_string(),
            ..row(first, first.metric, "mean", value)
        }));
    }
    means
}
