//! One system on one trace.
//!
//! Exists apart from the trace's own numbers, which no system changes.
//!
//! Invariant: `[T; 2]` is allocations, then frees.

use serde::Serialize;

use super::map::Map;
use super::statistics::Bin;
use crate::round;

/// One system on one trace.
#[derive(Clone, Debug, Default, Serialize)]
pub struct System {
    /// Its name with its options, such as `lbs-31+batch=7`.
    pub name: String,
    /// What its options and the memory made of it, in words.
    pub parameters: String,
    /// Metadata, in bytes for each managed frame.
    pub metadata_bytes_per_frame: f64,
    /// How long calls took.
    pub latency: [Latency; 2],
    /// Calls a second over the whole replay.
    pub throughput: f64,
    /// 1 - frames that crossed the border of the per-CPU layer / order-0 calls. May be negative.
    pub service_ratio: Option<f64>,
    /// Order-0 calls that entered the core layer / order-0 calls.
    pub miss_rate: Option<f64>,
    /// Locks taken for each call.
    pub locks_per_call: Option<f64>,
    /// Calls that met a lock that was taken / calls.
    pub contention_rate: Option<f64>,
    /// Contended visits of the core layer / visits.
    pub contention_rate_core: Option<f64>,
    /// Mean of the frames in the CPU's list when a run ends.
    pub residual: [Option<f64>; 2],
    /// Blocks split in two.
    pub splits: u64,
    /// Pairs of buddies joined.
    pub coalescings: u64,
    /// Requests that were refused.
    pub refused: u64,
    /// Free memory over the trace.
    pub samples: Samples,
    /// The memory, frame by frame, at some moments. The moments are the same for all systems of a trace.
    #[serde(skip)]
    pub maps: Vec<Map>,
}

/// How long the calls of one direction took, in nanoseconds.
#[derive(Clone, Debug, Default, Serialize)]
pub struct Latency {
    /// Mean; none if there were no calls.
    pub mean: Option<f64>,
    /// Standard deviation of calls timed one by one; this and what follows: none at or below the timer's floor.
    pub stddev: Option<f64>,
    /// Median.
    pub p50: Option<f64>,
    /// 99 of 100 calls took at most this.
    pub p99: Option<f64>,
    /// 999 of 1,000 calls took at most this.
    pub p999: Option<f64>,
    /// The longest.
    pub max: Option<f64>,
    /// Calls timed one by one, by rising upper edges, the edges at equal distances of their logarithms; the
    /// first bin holds all that is shorter. Ten bins a decade read well.
    pub histogram: Vec<Bin>,
    /// How the latency changed over the trace.
    pub over_trace: OverTrace,
    /// Successive calls, each with its time; empty where it was not recorded.
    pub window: Window,
}

/// Latency over the trace: equal stretches of its calls, about 300. Lists of the same length, or empty.
#[derive(Clone, Debug, Default, Serialize)]
pub struct OverTrace {
    /// Median of each stretch; not a number where the stretch has no call of this direction.
    #[serde(serialize_with = "round::times")]
    pub p50: Vec<f64>,
    /// 99 of 100.
    #[serde(serialize_with = "round::times")]
    pub p99: Vec<f64>,
    /// The longest.
    #[serde(serialize_with = "round::times")]
    pub max: Vec<f64>,
}

/// Successive calls of one direction, about 2,000 in the middle of the trace.
#[derive(Clone, Debug, Default, Serialize)]
pub struct Window {
    /// The number of the first, counted from 0 in the calls of this direction.
    pub first: u64,
    /// The time of each, in nanoseconds; 0 for what can't be told from nothing.
    #[serde(serialize_with = "round::times")]
    pub ns: Vec<f64>,
}

/// Free memory over the trace, about 200 samples. All lists have the length of `positions`.
#[derive(Clone, Debug, Default, Serialize)]
pub struct Samples {
    /// Where in the calls of the trace: 0 is before the first, 1 after the last.
    #[serde(serialize_with = "round::shares")]
    pub positions: Vec<f64>,
    /// Free frames, those in lists included.
    pub free_frames: Vec<u64>,
    /// Free blocks of 4 MiB that could be given without touching any list.
    pub large_blocks: Vec<u64>,
    /// The unusable free space index, for each order from 0 up; the last is the largest that the table shows.
    #[serde(serialize_with = "round::lists_of_shares")]
    pub unusable: Vec<Vec<f64>>,
    /// Parts that free memory is divided into.
    pub domains: Vec<u64>,
    /// Frames that per-CPU lists keep.
    pub buffered: Vec<u64>,
}
