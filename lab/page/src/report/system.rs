//! The results of one system on one trace.
//!
//! Separate from the statistics of the trace, which do not depend on a system.
//!
//! # Invariants
//! `[T; 2]` is allocations, then frees.

use serde::Serialize;

use super::map::Map;
use super::statistics::Bin;
use crate::round;

/// The results of one system on one trace.
#[derive(Clone, Debug, Default, Serialize)]
pub struct System {
    /// The name with its options, such as `lbs-31+batch=7`.
    pub name: String,
    /// The effective parameters on this memory, in words.
    pub parameters: String,
    /// Whether the system competes with no other one, since no kernel could have it.
    pub is_apart: bool,
    /// The latency of calls.
    pub latency: [Latency; 2],
    /// 1 - frames that crossed the border of the per-CPU layer / order-0 calls, at least 0. `None` without lists.
    pub service_ratio: Option<f64>,
    /// Order-0 calls that reached the zone layer / order-0 calls.
    pub miss_rate: Option<f64>,
    /// Lock acquisitions per call.
    pub locks_per_call: Option<f64>,
    /// Calls that found a lock already held / calls.
    pub contention_rate: Option<f64>,
    /// Contended visits to the zone layer / visits.
    pub contention_rate_core: Option<f64>,
    /// Mean number of frames in the CPU's list at the end of a run.
    pub residual: [Option<f64>; 2],
    /// The number of blocks that were split.
    pub splits: u64,
    /// The number of pairs of buddies that were coalesced.
    pub coalescings: u64,
    /// The number of failed requests.
    pub refused: u64,
    /// Free memory over the trace.
    pub samples: Samples,
    /// Memory maps at some moments, which are the same for all systems of a trace.
    #[serde(skip)]
    pub maps: Vec<Map>,
}

/// The latency of allocations or of frees, in nanoseconds.
#[derive(Clone, Debug, Default, Serialize)]
pub struct Latency {
    /// Mean; `None` if there were no calls.
    pub mean: Option<f64>,
    /// Standard deviation of calls timed one by one. This and the following fields are `None` at or below the timer's
    /// resolution.
    pub stddev: Option<f64>,
    /// Median.
    pub p50: Option<f64>,
    /// 99 of 100 calls took at most this.
    pub p99: Option<f64>,
    /// 999 of 1,000 calls took at most this.
    pub p999: Option<f64>,
    /// The maximum.
    pub max: Option<f64>,
    /// Histogram of calls timed one by one. The upper edges increase at equal logarithmic distances, about ten bins
    /// per decade; the first bin contains all shorter times.
    pub histogram: Vec<Bin>,
    /// The latency over the course of the trace.
    pub over_trace: OverTrace,
    /// The times of consecutive calls; empty if they were not recorded.
    pub window: Window,
}

/// The latency over the trace, in about 300 equal sections of its calls. All lists have the same length, or are empty.
#[derive(Clone, Debug, Default, Serialize)]
pub struct OverTrace {
    /// The median of each section; NaN if the section has no such calls.
    #[serde(serialize_with = "round::times")]
    pub p50: Vec<f64>,
    /// 99 of 100.
    #[serde(serialize_with = "round::times")]
    pub p99: Vec<f64>,
    /// The maximum.
    #[serde(serialize_with = "round::times")]
    pub max: Vec<f64>,
}

/// Consecutive calls of one kind, about 2,000 from the middle of the trace.
#[derive(Clone, Debug, Default, Serialize)]
pub struct Window {
    /// The index of the first call among the calls of this kind.
    pub first: u64,
    /// The time of each call in nanoseconds; 0 if it is below the timer's resolution.
    #[serde(serialize_with = "round::times")]
    pub ns: Vec<f64>,
}

/// Free memory over the trace, about 200 samples. All lists have the length of `positions`.
#[derive(Clone, Debug, Default, Serialize)]
pub struct Samples {
    /// Positions in the calls of the trace: 0 is before the first call, 1 after the last.
    #[serde(serialize_with = "round::shares")]
    pub positions: Vec<f64>,
    /// Free frames, including those in lists.
    pub free_frames: Vec<u64>,
    /// Free 4 MiB blocks that could be allocated without draining any list.
    pub large_blocks: Vec<u64>,
    /// The unusable free space index for each order from 0 up; the last one is the largest order of the table.
    #[serde(serialize_with = "round::lists_of_shares")]
    pub unusable: Vec<Vec<f64>>,
    /// The number of parts into which free memory is divided.
    pub domains: Vec<u64>,
    /// The number of frames in per-CPU lists.
    pub buffered: Vec<u64>,
}
