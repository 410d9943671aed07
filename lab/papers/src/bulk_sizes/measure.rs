//! The number of frames that a refill and a drain move, and their orders.
//!
//! # Purpose
//!
//! A batch is what a list asks for, not what it gets, and because what one holds a lock for
//! is the frames that really move.
//!
//! # Invariants
//!
//! Counted on one thread in the trace's order: the same numbers come out each time. The order of a refill or a drain is
//! that of the call that caused it. Lists of several orders drain in turns, so that a drain may move other orders, too.

use crate::shared::experiment::Experiment;
use crate::shared::method::{Bench, Conditions, DIRECTIONS, Measure, replay_each, row};
use everybuddy::{Counts, Order};
use everybuddy_measure::Error;
use everybuddy_measure::replay::adapter::{Adapter, REFUSED};
use everybuddy_measure::replay::moments::Moments;
use everybuddy_measure::replay::observe::Observer;
use everybuddy_measure::replay::outcome::mean;
use everybuddy_measure::replay::script::{Lane, Move, Segment};
use everybuddy_measure::rows::Row;
use serde::Deserialize;

/// Frames and orders of the refills, or of the drains.
#[derive(Clone, Copy, Default)]
struct Bulks {
    frames: Moments,
    orders: Moments,
}

impl Bulks {
    /// Adds the bulk call, if there was one during a call for a block of this order.
    fn note(&mut self, order: Order, (bulks, frames): (u64, u64)) {
        if let Some(frames_per_call) = frames.checked_div(bulks) {
            self.frames.add(frames_per_call);
            self.orders.add(u64::from(order.get()));
        }
    }

    fn join(&mut self, other: &Bulks) {
        self.frames.join(&other.frames);
        self.orders.join(&other.orders);
    }
}

/// The refills during allocations, and the drains during frees.
#[derive(Clone, Copy, Default)]
struct Counting([Bulks; 2]);

fn refilled(counts: &Counts) -> (u64, u64) {
    (counts.refills, counts.frames_refilled)
}

fn drained(counts: &Counts) -> (u64, u64) {
    (counts.drains, counts.frames_drained)
}

impl Observer for Counting {
    fn allocations<P: Adapter>(
        &mut self,
        adapter: &mut P,
        _: &Segment,
        moves: &[Move],
        places: &mut [u32],
    ) {
        for (request, place) in moves.iter().zip(places) {
            let before = adapter.counts(request.token);
            *place = adapter.allocate(request);
            let own = adapter.counts(request.token).since(&before);
            self.0[0].note(request.order(), refilled(&own));
        }
    }

    fn frees<P: Adapter>(
        &mut self,
        adapter: &mut P,
        _: &Segment,
        moves: &[Move],
        places: &mut [u32],
    ) {
        for (release, place) in moves.iter().zip(places) {
            if *place != REFUSED {
                let before = adapter.counts(release.token);
                adapter.free(release, *place);
                let own = adapter.counts(release.token).since(&before);
                self.0[1].note(release.order(), drained(&own));
            }
        }
    }
}

/// The parameters in the experiment's file.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct Parameters {}

impl Measure for Parameters {
    /// Replays every trace on every system.
    fn run(
        &self,
        experiment: &Experiment,
        conditions: &Conditions,
        bench: &mut Bench<'_>,
    ) -> Result<Vec<Row>, Error> {
        replay_each(
            experiment,
            conditions,
            bench,
            |traced, spec, common, bench| {
                let done = traced.counted(spec, bench, |_: &Lane| Counting::default())?;
                let mut all = [Bulks::default(); 2];
                for own in &done.played.observers {
                    for (all, own) in all.iter_mut().zip(&own.0) {
                        all.join(own);
                    }
                }
                let is_alike = experiment.comparable == Some(spec.to_string());
                let mut rows = Vec::new();
                for (operation, bulks) in DIRECTIONS.into_iter().zip(&all) {
                    let own = Row {
                        operation,
                        ..common.clone()
                    };
                    for (metric, moments) in
                        [("bulk_frames", bulks.frames), ("bulk_order", bulks.orders)]
                    {
                        let printed = printed(experiment, metric, operation);
                        let expected = printed.filter(|_| is_alike);
                        rows.extend(numbers(&own, metric, &moments, expected));
                    }
                }
                Ok(rows)
            },
        )
    }
}

/// Returns the mean of the means that the source printed.
fn printed(experiment: &Experiment, metric: &str, operation: &str) -> Option<f64> {
    let published = experiment.published.iter();
    let theirs = published.filter(|own| own.metric == metric && own.operation == operation);
    mean(theirs.map(|own| own.mean))
}

/// Returns the number of bulk calls, and the mean and the deviation of a quantity of theirs.
fn numbers(
    common: &Row,
    metric: &'static str,
    moments: &Moments,
    expected: Option<f64>,
) -> Vec<Row> {
    let mut rows = vec![row(common, metric, "count", moments.count as f64)];
    rows.extend(moments.mean().map(|mean| Row {
        expected,
        ..row(common, metric, "mean", mean)
    }));
    let stddev = moments.stddev();
    rows.extend(stddev.map(|own| row(common, metric, "stddev", own)));
    rows
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_call_without_a_bulk_call_counts_nothing() {
        let mut bulks = Bulks::default();
        bulks.note(Order::ZERO, (0, 0));
        assert_eq!(bulks.frames.count, 0);
        bulks.note(Order::new(1).unwrap_or(Order::ZERO), (1, 14));
        // Two bulk calls of one call count once, with their mean.
        bulks.note(Order::ZERO, (2, 14));
        assert_eq!((bulks.frames.count, bulks.frames.sum), (2, 21));
        assert_eq!(bulks.orders.mean(), Some(0.5));
    }
}
