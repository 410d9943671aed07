//! Message buffers: the costs, failures and memory consumption of coalescing policies, under the traffic of \[BL89\].
//!
//! The policies were designed for this experiment. The measurements are in `crate::streams`; this module converts
//! numbers to rows.
//!
//! | file | measurement |
//! |------|------------------|
//! | `costs` | operations and times of allocations and frees: table 2 |
//! | `blocking` | the failure rate, and the arena: table 3 |
//! | `distribution` | single calls: figure 4; and coalescings of single frees |
//! | `memory` | the growth of memory over load: figure 5 |
//!
//! # Invariants
//! All systems perform the same calls; seeds are rounds.

use crate::shared::prelude::*;
use crate::streams::interval::Interval;
use crate::streams::recording::Recording;
use crate::streams::runs::Failure;
use everybuddy_workload::streams::{Timing, Traffic};

use crate::shared::experiment::Published;

/// The recordings of an experiment.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct Recordings {
    /// The number of users, as in the paper.
    pub users: f64,
    /// The number of seeds.
    pub seeds: u64,
    /// The number of counted calls of a recording.
    pub calls: usize,
    /// The number of calls before them, while the level rises.
    pub warm: usize,
}

/// Arrivals and departures, with their name in rows.
#[derive(Clone, Debug, Deserialize)]
#[serde(try_from = "String")]
pub(crate) struct Arrivals {
    /// The name.
    pub name: String,
    /// The distributions of times.
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
                .or(number("geometric-").map(Timing::Geometric))
                .or(number("largest-").map(Timing::GeometricLargest)),
        };
        let known = "`D/D/m`, `M/M/m`, `batch-N`, `geometric-N` and `largest-N`";
        let timing = timing.ok_or_else(|| format!("traffic `{name}`: there are {known}"))?;
        Ok(Arrivals { name, timing })
    }
}

/// Records the calls of a round. The numbers of calls are those of an unshortened run.
pub(crate) fn record(
    (timing, users): (Timing, f64),
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

/// Adds the system's name to a failure.
pub(crate) fn failed(spec: &SystemSpec) -> impl Fn(Failure) -> Error {
    move |failure| match failure {
        Failure::Build(error) => Error::usage(format!("system {spec}: {error}")),
        Failure::Broken(what) => Error::Broken(format!("system {spec}: {what}")),
    }
}

/// Calls `visit` repeatedly for each system, systems taking turns, and for no system: the cost of performing the calls
/// and of reading the clock. Returns the results of each system, and those of none.
pub(crate) fn in_turns<T>(
    specs: &[SystemSpec],
    repeats: usize,
    mut visit: impl FnMut(Option<&SystemSpec>) -> Result<T, Failure>,
) -> Result<(Vec<Vec<T>>, Vec<T>), Error> {
    let mut all: Vec<Vec<T>> = Vec::new();
    all.resize_with(specs.len() + 1, Vec::new);
    for turn in 0..repeats * all.len() {
        // Every system is first once.
        let who = (turn + turn / all.len()) % all.len();
        let spec = specs.get(who);
        all[who].push(visit(spec).map_err(|failure| match spec {
            Some(spec) => failed(spec)(failure),
            None => Error::Broken("performing alone failed".to_string()),
        })?);
    }
    let alone = all.pop().unwrap_or_default();
    Ok((all, alone))
}

/// Returns what the source printed for a system under some traffic, if anything.
pub(crate) fn printed(
    experiment: &Experiment,
    source: &str,
    system: &str,
    operation: &str,
    metric: &str,
) -> Option<Published> {
    // All kinds of batches are interpretations of the one in the source.
    let source = match source {
        "batch-4" | "geometric-4" | "largest-4" => "batch(4)",
        other => other,
    };
    let what = format!("{source}: {system}");
    let found = experiment
        .published
        .iter()
        .find(|own| own.what == what && own.operation == operation && own.metric == metric);
    found.cloned()
}

/// Returns the mean of what the source printed.
pub(crate) fn published(
    experiment: &Experiment,
    source: &str,
    system: &str,
    operation: &str,
    metric: &str,
) -> Option<f64> {
    printed(experiment, source, system, operation, metric).map(|own| own.mean)
}

/// Returns the rows of a number with a value per seed: its mean, and half a confidence interval. A claim applies to the
/// mean itself.
pub(crate) fn means(
    values: &[f64],
    common: &Row,
    metric: &'static str,
    expected: Option<f64>,
) -> Vec<Row> {
    let Some(interval) = Interval::of(values) else {
        return Vec::new();
    };
    let own = common.expecting(expected.map(rounded));
    let half = Some(interval.half).filter(|half| half.is_finite());
    let mut rows = Vec::new();
    rows.put(&own, metric, "mean", interval.mean);
    rows.put(common, metric, "ci95", half);
    rows
}

/// Returns the rows of [`means`], and each seed's value. A claim fails only if it is false for all seeds.
pub(crate) fn seeds(
    values: &[f64],
    common: &Row,
    metric: &'static str,
    expected: Option<f64>,
) -> Vec<Row> {
    let mut rows = means(values, common, metric, expected);
    for (seed, value) in (1..).zip(values) {
        rows.put(&common.at(seed), metric, "mean", *value);
    }
    rows
}

/// Returns the ratio of two numbers for each seed.
pub(crate) fn over(own: &[f64], other: &[f64]) -> Vec<f64> {
    let pairs = own.iter().zip(other);
    pairs.map(|(own, other)| own / other).collect()
}
