//! What a trace is like, whatever serves it.
//!
//! Exists apart from systems: a page about a trace alone shows these and nothing else.
//!
//! Invariant: the numbers depend on the trace alone. `[T; 2]` is allocations, then frees.

use serde::Serialize;

use crate::round;

/// Numbers that describe a trace.
#[derive(Clone, Debug, Default, Serialize)]
pub struct Statistics {
    /// Allocations.
    pub allocations: u64,
    /// Frees; a block that is freed in parts counts once for each.
    pub frees: u64,
    /// Frees of a part of a block.
    pub partial_frees: u64,
    /// From the first call to the last, in nanoseconds.
    pub duration_ns: u64,
    /// Each order that occurs, by rising order.
    pub orders: Vec<OrderShare>,
    /// Frames live after the last call.
    pub final_frames: u64,
    /// Frames live over time, about 201 samples.
    pub live: Vec<LiveSample>,
    /// Runs of one task.
    pub task_runs: [RunLengths; 2],
    /// Runs of one task for one address region.
    pub region_runs: [RunLengths; 2],
    /// Share of allocations whose address region is known.
    pub region_share: f64,
    /// Share of frees on another CPU than that of the allocation.
    pub cross_cpu_free_share: f64,
    /// Share of frees by tasks that were exiting.
    pub exit_free_share: f64,
    /// From allocation to free, in nanoseconds; one for each free.
    pub lifetime_ns: Quantiles,
    /// The same in bins of decades or halves of them, in nanoseconds.
    pub lifetimes: Vec<Bin>,
    /// What threads were doing when they allocated, with shares of allocations.
    pub contexts: Vec<Share>,
    /// CPUs that called.
    pub cpus: u32,
    /// Tasks (threads) that called.
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
    /// Share of all frames that were allocated.
    pub frame_share: f64,
}

/// Frames live at a moment.
#[derive(Clone, Copy, Debug, Default, Serialize)]
pub struct LiveSample {
    /// Time since the first call, in nanoseconds.
    pub time_ns: u64,
    /// Frames.
    pub frames: u64,
}

/// How many calls came one after the other. Shares and quantiles are over runs, `long_share` and the
/// histogram over calls.
#[derive(Clone, Debug, Default, Serialize)]
pub struct RunLengths {
    /// Runs; 0 if there are none, or if they are unknown.
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
    /// The longest.
    pub max: u64,
    /// Share of the calls in runs of 64 and more.
    pub long_share: f64,
    /// Calls in runs of 1, of 2 and 3, of 4 to 7, and so on in powers of two.
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
    /// The most.
    pub max: u64,
}

/// A bin of a histogram.
#[derive(Clone, Copy, Debug, Default, Serialize)]
pub struct Bin {
    /// Its upper edge; the lower one is the edge of the bin before it.
    #[serde(serialize_with = "round::number")]
    pub upper: f64,
    /// What fell into it.
    pub count: u64,
}

/// A share with a name.
#[derive(Clone, Debug, Default, Serialize)]
pub struct Share {
    /// Of what.
    pub name: String,
    /// From 0 to 1.
    #[serde(serialize_with = "round::number")]
    pub share: f64,
}
