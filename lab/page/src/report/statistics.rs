//! The statistics of a trace, independent of any system.
//!
//! A page about a trace alone shows these numbers and nothing else.
//!
//! # Invariants
//! The numbers depend on the trace alone. `[T; 2]` is allocations, then frees.

use serde::Serialize;

use crate::round;

/// Statistics that describe a trace.
#[derive(Clone, Debug, Default, Serialize)]
pub struct Statistics {
    /// Allocations.
    pub allocations: u64,
    /// Frees; a block that is freed in parts counts once per part.
    pub frees: u64,
    /// Frees of a part of a block.
    pub partial_frees: u64,
    /// The time from the first call to the last, in nanoseconds.
    pub duration_ns: u64,
    /// Each order that occurs, in increasing order.
    pub orders: Vec<OrderShare>,
    /// Frames in use after the last call.
    pub final_frames: u64,
    /// Frames in use over time, about 201 samples.
    pub live: Vec<LiveSample>,
    /// Runs by task.
    pub task_runs: [RunLengths; 2],
    /// Runs by task and address region.
    pub region_runs: [RunLengths; 2],
    /// Share of allocations whose address region is known.
    pub region_share: f64,
    /// Share of frees that ran on another CPU than the allocation.
    pub cross_cpu_free_share: f64,
    /// Share of frees by exiting tasks.
    pub exit_free_share: f64,
    /// Time from allocation to free in nanoseconds, one per free.
    pub lifetime_ns: Quantiles,
    /// The same as a histogram with bins of a decade or half a decade, in nanoseconds.
    pub lifetimes: Vec<Bin>,
    /// The contexts in which threads allocated, with shares of allocations.
    pub contexts: Vec<Share>,
    /// CPUs that made calls.
    pub cpus: u32,
    /// Tasks (threads) that made calls.
    pub tasks: u32,
    /// Address regions that allocations served.
    pub regions: u32,
}

/// Allocations of one order.
#[derive(Clone, Debug, Default, Serialize)]
pub struct OrderShare {
    /// The order.
    pub order: u8,
    /// Allocations of this order.
    pub allocations: u64,
    /// Share of all allocations.
    pub allocation_share: f64,
    /// Share of all allocated frames.
    pub frame_share: f64,
}

/// Frames in use at one moment.
#[derive(Clone, Copy, Debug, Default, Serialize)]
pub struct LiveSample {
    /// Time since the first call, in nanoseconds.
    pub time_ns: u64,
    /// Frames.
    pub frames: u64,
}

/// Lengths of runs of consecutive calls. The mean and the quantiles are over runs; `long_share` and the histogram are
/// over calls.
#[derive(Clone, Debug, Default, Serialize)]
pub struct RunLengths {
    /// The number of runs; 0 if there are none or if they are unknown.
    pub runs: u64,
    /// Mean length in calls.
    #[serde(serialize_with = "round::number")]
    pub mean: f64,
    /// Median length.
    pub median: u64,
    /// 9 of 10 runs are at most this long.
    pub p90: u64,
    /// 99 of 100.
    pub p99: u64,
    /// The maximum length.
    pub max: u64,
    /// Share of the calls in runs of 64 or more.
    pub long_share: f64,
    /// The number of calls in runs of 1, of 2 and 3, of 4 to 7, and so on in powers of two.
    pub histogram: Vec<u64>,
}

/// Some quantiles, nearest rank.
#[derive(Clone, Debug, Default, Serialize)]
pub struct Quantiles {
    /// Median.
    pub p50: u64,
    /// 90 of 100.
    pub p90: u64,
    /// 99 of 100.
    pub p99: u64,
    /// The maximum.
    pub max: u64,
}

/// A bin of a histogram.
#[derive(Clone, Copy, Debug, Default, Serialize)]
pub struct Bin {
    /// The upper edge; the lower edge is the upper edge of the previous bin.
    #[serde(serialize_with = "round::number")]
    pub upper: f64,
    /// The number of values in the bin.
    pub count: u64,
}

/// A named share.
#[derive(Clone, Debug, Default, Serialize)]
pub struct Share {
    /// The name.
    pub name: String,
    /// The share, from 0 to 1.
    #[serde(serialize_with = "round::number")]
    pub share: f64,
}
