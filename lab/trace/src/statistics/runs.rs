//! Runs: sequences of similar calls by one task.
//!
//! Predictive buffers and batches benefit from runs. A run is a sequence of calls of one kind by one task and, if
//! requested, for one address region. Calls of other tasks do not end a run, since they are independent of the task.
//!
//! # Invariants
//! Every counted call belongs to exactly one run.

use std::collections::HashMap;

use super::{Quantiles, share};
use crate::resolve::Step;

/// Lengths of runs of consecutive calls.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct RunLengths {
    /// Lengths in calls, one value per run.
    pub length: Quantiles,
    /// Share of the calls in runs of at least [`RunLengths::LONG`] calls.
    pub share_in_long: f64,
    /// Position `i` counts the calls in runs of `2^i` to `2^(i+1) - 1` calls.
    pub calls: [u64; Self::BINS],
}

impl RunLengths {
    /// The length from which a run counts as long.
    pub const LONG: u64 = 64;
    /// The number of [bins](RunLengths::calls): a trace has fewer than 2^31 calls.
    pub const BINS: usize = 31;

    pub(super) fn of(mut lengths: Vec<u64>) -> RunLengths {
        let long: u64 = lengths
            .iter()
            .filter(|length| **length >= RunLengths::LONG)
            .sum();
        let mut calls = [0; RunLengths::BINS];
        for length in &lengths {
            calls[(length.max(&1).ilog2() as usize).min(RunLengths::BINS - 1)] += length;
        }
        RunLengths {
            share_in_long: share(long, lengths.iter().sum()),
            length: Quantiles::of(&mut lengths),
            calls,
        }
    }
}

/// Returns the lengths of all runs by task, unsorted: of allocations, of frees.
pub fn task_runs(steps: &[Step]) -> [Vec<u64>; 2] {
    lengths(steps.iter(), |_| 0)
}

/// Returns the lengths of all runs by task and address region, unsorted: of allocations, of frees. Steps without a
/// known region are ignored, and do not end a run.
pub fn region_runs(steps: &[Step]) -> [Vec<u64>; 2] {
    lengths(steps.iter().filter(|step| step.region != 0), |step| {
        step.region
    })
}

/// Counts runs of steps with the same task, kind and `key`.
fn lengths<'a>(steps: impl Iterator<Item = &'a Step>, key: impl Fn(&Step) -> u32) -> [Vec<u64>; 2] {
    let mut open: HashMap<u32, (u32, bool, u64)> = HashMap::new();
    let (mut allocations, mut frees) = (Vec::new(), Vec::new());
    let mut close = |(_, allocates, length): (u32, bool, u64)| {
        if allocates {
            allocations.push(length)
        } else {
            frees.push(length)
        }
    };
    for step in steps {
        let (key, allocates) = (key(step), step.kind.is_allocation());
        let run = open.entry(step.task).or_insert((key, allocates, 0));
        if (run.0, run.1) != (key, allocates) {
            close(std::mem::replace(run, (key, allocates, 0)));
        }
        run.2 += 1;
    }
    open.into_values().for_each(&mut close);
    [allocations, frees]
}
