//! The predictions of a list about runs, compared with their actual lengths.
//!
//! A prediction is only as good as the run that follows it: misses and residuals show what it is
//! worth, not whether it was right.
//!
//! A prediction is made during an operation, and refers to single frames of the operation's run: for allocations this
//! one and the following ones, for frees the following ones. `everybuddy_trace` defines runs.
//!
//! # Invariants
//! A prediction is judged when its run ends, and belongs to exactly one run.

pub(crate) mod figure;

use std::collections::BTreeMap;
use std::iter::Peekable;
use std::vec::IntoIter;

use everybuddy::{Counts, Order};
use everybuddy_trace::Quantiles;

use crate::shared::prelude::*;
use everybuddy_measure::replay::observe::Notes;
use everybuddy_measure::replay::script::{Lane, Move, MoveKind, RunEnd};

/// An evaluated prediction: frames predicted, and actual frames.
type Judged = (u64, u64);

/// Records predictions until the ends of their runs.
struct Predicting {
    ends: Peekable<IntoIter<RunEnd>>,
    /// For each CPU, the number of operations on single frames so far, and the predictions of the current run, each
    /// with the number of operations before it.
    cpus: Vec<(u64, Vec<(u64, u64)>)>,
    judged: [Vec<Judged>; 2],
}

impl Predicting {
    fn new(lane: &Lane) -> Predicting {
        Predicting {
            ends: lane.ends.clone().into_iter().peekable(),
            cpus: vec![(0, Vec::new()); lane.cpus.len()],
            judged: [Vec::new(), Vec::new()],
        }
    }
}

impl Notes for Predicting {
    fn note(&mut self, at: u32, performed: &Move, before: &Counts, after: &Counts) {
        if performed.order() != Order::ZERO || performed.kind == MoveKind::FreePart {
            return;
        }
        let (done, open) = &mut self.cpus[usize::from(performed.token)];
        // A prediction for frees starts after this one.
        let is_free = performed.kind == MoveKind::Free;
        if after.predictions > before.predictions {
            let predicted = after.frames_predicted - before.frames_predicted;
            open.push((predicted, *done + u64::from(is_free)));
        }
        *done += 1;
        if self.ends.next_if(|end| end.at == at).is_some() {
            let judged = open
                .drain(..)
                .map(|(predicted, from)| (predicted, *done - from));
            self.judged[usize::from(is_free)].extend(judged);
        }
    }

    /// It is a part of its run all the same.
    fn skip(&mut self, at: u32, release: &Move) {
        self.note(at, release, &Counts::default(), &Counts::default());
    }
}

/// The parameters in the experiment's file.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct Parameters {}

impl Measure for Parameters {
    /// Replays a trace on every predictive system.
    fn measure(&self, trace: usize, run: &mut Run<'_, '_>) -> Result<Vec<Row>, Error> {
        run.replay_on_each(trace, |traced, spec, common, bench| {
            let done = traced.counted(spec, bench, Predicting::new)?;
            let all = directions(common, [0, 1]).flat_map(|(own, direction)| {
                let observers = done.played.observers.iter();
                let judged = observers.flat_map(|own| own.judged[direction].iter().copied());
                summary(&judged.collect::<Vec<_>>(), &own)
            });
            Ok(all.collect())
        })
    }
}

/// Returns the error of a prediction in doublings.
fn error((predicted, actual): &Judged) -> f64 {
    let ratio = (*predicted as f64 + 1.0) / (*actual as f64 + 1.0);
    ratio.log2().abs()
}

/// Returns the errors of predictions, and the distribution of the actual lengths for predictions of each size.
fn summary(judged: &[Judged], common: &Row) -> Vec<Row> {
    let metric = "prediction_error";
    let mut rows = Vec::new();
    rows.put(common, metric, "count", judged.len() as f64);
    rows.put(common, metric, "mean", mean(judged.iter().map(error)));
    let too_long = judged.iter().map(|own| f64::from(u8::from(own.0 > own.1)));
    rows.put(common, "prediction_excess", "value", mean(too_long));
    let mut octaves: BTreeMap<u32, Vec<Judged>> = BTreeMap::new();
    for own in judged {
        let octave = own.0.checked_ilog2().map_or(0, |power| power + 1);
        octaves.entry(octave).or_default().push(*own);
    }
    for own in octaves.into_values() {
        let (mut predicted, mut came): (Vec<u64>, Vec<u64>) = own.into_iter().unzip();
        let own = common.at(Quantiles::of(&mut predicted).p50);
        let count = Quantiles::of(&mut came).count;
        rows.put(&own, "run_length", "count", count as f64);
        for (statistic, quarter) in [("p25", 1), ("p50", 2), ("p75", 3)] {
            // Nearest rank of sorted lengths.
            let length = came[(came.len() * quarter).div_ceil(4).max(1) - 1];
            rows.put(&own, "run_length", statistic, length as f64);
        }
    }
    rows
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn errors_are_doublings() {
        assert_eq!(error(&(7, 7)), 0.0);
        assert_eq!(error(&(7, 1)), 2.0);
        assert_eq!(error(&(1, 7)), 2.0);
        let rows = summary(
            &[(128, 4), (200, 8), (128, 16), (255, 2), (512, 9)],
            &Row::default(),
        );
        let value = |experiment: &str, statistic| {
            let is_own = |row: &&Row| row.experiment == experiment && row.statistic == statistic;
            rows.iter().find(is_own).map(|row| row.value)
        };
        assert_eq!(value("", "count"), Some(5.0));
        assert_eq!(value("", "value"), Some(1.0), "each is too long");
        assert_eq!(value("@128", "count"), Some(4.0));
        assert_eq!(value("@128", "p50"), Some(4.0));
        assert_eq!(value("@128", "p75"), Some(8.0));
        assert_eq!(value("@512", "p25"), Some(9.0));
    }
}
