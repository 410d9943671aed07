//! Message buffers: what coalescing policies cost, refuse and take, under the traffic of \[BL89\].
//!
//! # Purpose
//!
//! That is the experiment which the policies were made for. What is measured is in
//! `crate::streams`; here numbers become rows.
//!
//! | file | what it measures |
//! |------|------------------|
//! | `costs` | operations and times of allocations and releases: table 2 |
//! | `blocking` | how often requests are refused, and in which arena: table 3 |
//! | `distribution` | single calls: figure 4; and coalescings of single releases |
//! | `memory` | how far memory grows over load: figure 5 |
//!
//! # Invariants
//!
//! All systems perform the same calls; seeds are rounds.

use crate::streams::interval::Interval;
use crate::streams::recording::Recording;
use crate::streams::runs::Failure;
use everybuddy::SystemSpec;
use everybuddy_workload::streams::{Timing, Traffic};

use crate::shared::experiment::Experiment;
use crate::shared::method::{Conditions, row};
use everybuddy_measure::Error;
use everybuddy_measure::rows::{Row, rounded};
use serde::Deserialize;

/// The recordings that an experiment makes.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct Recordings {
    /// Users, as in the paper.
    pub users: u32,
    /// Seeds.
    pub seeds: u64,
    /// Calls of a recording that count.
    pub calls: usize,
    /// Calls before, while the level rises.
    pub warm: usize,
}

/// Arrivals and departures, with their name in rows.
#[derive(Clone, Debug, Deserialize)]
#[serde(try_from = "String")]
pub(crate) struct Arrivals {
    /// The name.
    pub name: String,
    /// What it means.
    pub timing: Timing,
}

impl TryFrom<String> for Arrivals {
    type Error = String;

    fn try_from(name: String) -> Result<Arrivals, String> {
        let number = |prefix: &str| name.strip_prefix(prefix)?.parse().ok();
        let timing = match name.as_str() {
            "D/D/m" => Some(Timing::Deterministic),
            "M/M/m" => Some(Timing::Exponential),
            _ => number("batch-")
                .map(Timing::Batches)
                .or(number("geometric-").map(Timing::Geometric)),
        };
        let known = "`D/D/m`, `M/M/m`, `batch-N` and `geometric-N`";
        let timing = timing.ok_or_else(|| format!("traffic `{name}`: there are {known}"))?;
        Ok(Arrivals { name, timing })
    }
}

/// Records the calls of a round. The numbers of calls are those of a run at full length.
pub(crate) fn record(
    (timing, users): (Timing, u32),
    round: u64,
    (warm, calls): (usize, usize),
    conditions: &Conditions,
) -> Recording {
    let traffic = Traffic {
        timing,
        users,
        seed: conditions.seed << 16 | round,
    };
    let calls = calls / conditions.shrink.max(1) as usize;
    Recording::of(traffic, warm, calls.max(100))
}

/// Says which system failed.
pub(crate) fn failed(spec: &SystemSpec) -> impl Fn(Failure) -> Error {
    move |failure| match failure {
        Failure::Build(error) => Error::usage(format!("system {spec}: {error}")),
        Failure::Broken(what) => Error::Broken(format!("system {spec}: {what}")),
    }
}

/// Returns what the source printed of a system under some traffic, if it did.
pub(crate) fn published(
    experiment: &Experiment,
    source: &str,
    system: &str,
    operation: &str,
    metric: &str,
) -> Option<f64> {
    // Both kinds of batches are readings of the one that the source has.
    let source = match source {
        "batch-4" | "geometric-4" => "batch(4)",
        other => other,
    };
    let what = format!("{source}: {system}");
    let found = experiment
        .published
        .iter()
        .find(|own| own.what == what && own.operation == operation && own.metric == metric);
    found.map(|own| own.mean)
}

/// Returns the rows of a number that each seed has: its mean, half a confidence interval, and each seed's.
pub(crate) fn seeds(
    values: &[f64],
    common: &Row,
    metric: &'static str,
    expected: Option<f64>,
) -> Vec<Row> {
    let Some(interval) = Interval::of(values) else {
        return Vec::new();
    };
    let mut rows = vec![Row {
        expected: expected.map(rounded),
        ..row(common, metric, "mean", interval.mean)
    }];
    if interval.half.is_finite() {
        rows.push(row(common, metric, "ci95", interval.half));
    }
    rows.extend((1..).zip(values).map(|(seed, value)| Row {
        experiment: format!("{}@{seed}", common.experiment),
        ..row(common, metric, "mean", *value)
    }));
    rows
}

/// Returns the ratio of two numbers of each seed.
pub(crate) fn over(own: &[f64], other: &[f64]) -> Vec<f64> {
    let pairs = own.iter().zip(other);
    pairs.map(|(own, other)| own / other).collect()
}
