//! The number of frames that a refill and a drain move, and their orders.
//!
//! A batch is what a list asks for, not what it gets, and because what one holds a lock for
//! is the frames that really move.
//!
//! # Invariants
//! Counted on one thread in the trace's order: the same numbers come out each time. The order of a refill or a drain is
//! that of the call that caused it. Lists of several orders drain in turns, so that a drain may move other orders, too.

use crate::shared::prelude::*;
use everybuddy::{Counts, Order};
use everybuddy_measure::replay::moments::Moments;
use everybuddy_measure::replay::observe::Notes;
use everybuddy_measure::replay::script::{Lane, Move, MoveKind};

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

impl Notes for Counting {
    fn note(&mut self, _: u32, performed: &Move, before: &Counts, after: &Counts) {
        let own = after.since(before);
        let (direction, bulks) = match performed.kind {
            MoveKind::Allocate => (0, (own.refills, own.frames_refilled)),
            _ => (1, (own.drains, own.frames_drained)),
        };
        self.0[direction].note(performed.order(), bulks);
    }
}

/// The parameters in the experiment's file.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct Parameters {}

impl Measure for Parameters {
    /// Replays a trace on every system.
    fn measure(&self, trace: usize, run: &mut Run<'_, '_>) -> Result<Vec<Row>, Error> {
        let experiment = run.experiment;
        run.replay_on_each(trace, |traced, spec, common, bench| {
            let done = traced.counted(spec, bench, |_: &Lane| Counting::default())?;
            let mut all = [Bulks::default(); 2];
            for own in &done.played.observers {
                all.iter_mut()
                    .zip(&own.0)
                    .for_each(|(all, own)| all.join(own));
            }
            let is_alike = experiment.comparable == Some(spec.to_string());
            let mut rows = Vec::new();
            for (own, bulks) in directions(common, &all) {
                for (metric, moments) in
                    [("bulk_frames", bulks.frames), ("bulk_order", bulks.orders)]
                {
                    let printed = printed(experiment, metric, own.operation);
                    let mean = own.expecting(printed.filter(|_| is_alike));
                    rows.put(&own, metric, "count", moments.count as f64);
                    rows.put(&mean, metric, "mean", moments.mean());
                    rows.put(&own, metric, "stddev", moments.stddev());
                }
            }
            Ok(rows)
        })
    }
}

/// Returns the mean of the means that the source printed.
fn printed(experiment: &Experiment, metric: &str, operation: &str) -> Option<f64> {
    let published = experiment.published.iter();
    let theirs = published.filter(|own| own.metric == metric && own.operation == operation);
    mean(theirs.map(|own| own.mean))
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
