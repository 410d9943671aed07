//! Statistics of a trace: the numbers for choosing traces and explaining results.
//!
//! Every program that prints or plots them computes them in the same way. All shares are fractions from 0 to 1, all
//! times are in nanoseconds, and all quantiles are nearest-rank (a value that occurred).
//!
//! # Invariants
//! The numbers depend on the trace alone, never on an allocator.

mod buffered;
mod locks;
mod runs;

use std::collections::HashSet;

use crate::model::{Context, EventFlags, Trace};
use crate::resolve::{Resolved, Step};

pub use buffered::{CpuRun, cpu_runs};
pub use locks::LockWaits;
pub use runs::{RunLengths, region_runs, task_runs};

/// The number of equal time intervals between the samples of [`Statistics::live`].
const STRETCHES: u64 = 200;

/// Numbers that describe a trace.
#[derive(Clone, Debug, PartialEq)]
#[non_exhaustive]
pub struct Statistics {
    /// Number of calls.
    pub events: u64,
    /// Number of allocations.
    pub allocations: u64,
    /// Number of frees; a block that is freed in parts counts once per part.
    pub frees: u64,
    /// Number of frees of a part of a block.
    pub partial_frees: u64,
    /// Time from the first call to the last.
    pub duration_ns: u64,
    /// Allocations of each order that occurs, sorted by order.
    pub orders: Vec<OrderShare>,
    /// Maximum number of frames in use.
    pub peak_frames: u64,
    /// Frames in use after the last call.
    pub final_frames: u64,
    /// Frames in use over time: 201 samples, evenly spaced from the first call to the last.
    pub live: Vec<LiveSample>,
    /// Runs of allocations by the same task.
    pub allocation_runs: RunLengths,
    /// Runs of frees by the same task.
    pub free_runs: RunLengths,
    /// Runs of allocations by the same task for the same address region. Calls without a known region are ignored,
    /// and do not end a run.
    pub region_allocation_runs: RunLengths,
    /// Runs of frees by the same task from the same address region, counted in the same way.
    pub region_free_runs: RunLengths,
    /// Share of allocations whose address region is known.
    pub region_share: f64,
    /// Share of frees on another CPU than the allocation.
    pub cross_cpu_free_share: f64,
    /// Share of frees by exiting tasks.
    pub exit_free_share: f64,
    /// Times from allocation to free, one per free.
    pub lifetime_ns: Quantiles,
    /// Position `i` counts the frees of blocks that had lived for `2^i` to `2^(i+1) - 1` nanoseconds; lifetimes below
    /// 2 ns count at position 0.
    pub lifetimes: [u64; 64],
    /// Share of allocations in each context, in the order of [`Context::ALL`].
    pub context_shares: [f64; Context::ALL.len()],
    /// Number of CPUs that made calls.
    pub cpus: u32,
    /// Number of tasks (threads) that made calls.
    pub tasks: u32,
    /// Number of address regions that allocations served.
    pub regions: u32,
    /// Acquisitions of a zone's lock; `None` if they were not recorded.
    pub lock_waits: Option<LockWaits>,
}

/// Allocations of one order.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct OrderShare {
    /// The order.
    pub order: u8,
    /// Number of allocations of this order.
    pub allocations: u64,
    /// Share of all allocations.
    pub allocation_share: f64,
    /// Share of all allocated frames.
    pub frame_share: f64,
}

/// Frames in use at one moment.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct LiveSample {
    /// The time since the recording started.
    pub time_ns: u64,
    /// Frames in use after all calls up to that time.
    pub frames: u64,
}

/// Quantiles of a distribution; all 0 if it is empty.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Quantiles {
    /// Number of values.
    pub count: u64,
    /// Mean.
    pub mean: f64,
    /// 10th percentile.
    pub p10: u64,
    /// The median.
    pub p50: u64,
    /// 90th percentile.
    pub p90: u64,
    /// 99th percentile.
    pub p99: u64,
    /// Largest value.
    pub max: u64,
}

impl Quantiles {
    /// Computes the quantiles of `values`, which are sorted in place.
    pub fn of(values: &mut [u64]) -> Quantiles {
        values.sort_unstable();
        let Some(max) = values.last().copied() else {
            return Quantiles::default();
        };
        let count = values.len() as u64;
        let at = |percent: usize| values[(values.len() * percent).div_ceil(100).max(1) - 1];
        let sum: u128 = values.iter().map(|value| u128::from(*value)).sum();
        let mean = sum as f64 / count as f64;
        Quantiles {
            count,
            mean,
            p10: at(10),
            p50: at(50),
            p90: at(90),
            p99: at(99),
            max,
        }
    }
}

/// Counts of one pass over the steps, from which the shares are computed.
#[derive(Default)]
struct Counts {
    by_order: [u64; 32],
    by_context: [u64; Context::ALL.len()],
    frees: u64,
    partial_frees: u64,
    cross_cpu: u64,
    at_exit: u64,
    with_region: u64,
    lifetimes: Vec<u64>,
}

impl Statistics {
    /// Computes the statistics of a trace; `resolved` must be its [`resolve`](crate::resolve()).
    ///
    /// # Complexity
    ///
    /// About 0.1 us and up to 20 bytes per event.
    pub fn of(trace: &Trace, resolved: &Resolved) -> Statistics {
        let steps = &resolved.steps;
        let counts = Counts::of(trace, resolved);
        let (first, last) = (
            steps.first().map_or(0, |step| step.time_ns),
            steps.last().map_or(0, |step| step.time_ns),
        );
        let allocations: u64 = counts.by_order.iter().sum();
        let [allocation_runs, free_runs] = task_runs(steps).map(RunLengths::of);
        let [region_allocation_runs, region_free_runs] = region_runs(steps).map(RunLengths::of);
        let distinct = |key: fn(&Step) -> u32| {
            steps
                .iter()
                .map(key)
                .filter(|key| *key != 0)
                .collect::<HashSet<_>>()
                .len() as u32
        };
        let mut ages = counts.lifetimes;
        let mut lifetimes = [0; 64];
        for age in &ages {
            lifetimes[age.max(&1).ilog2() as usize] += 1;
        }
        Statistics {
            events: steps.len() as u64,
            allocations,
            frees: counts.frees,
            partial_frees: counts.partial_frees,
            duration_ns: last - first,
            orders: order_shares(&counts.by_order),
            peak_frames: resolved.peak_frames,
            final_frames: resolved.final_frames,
            live: live_samples(steps, first, last),
            allocation_runs,
            free_runs,
            region_allocation_runs,
            region_free_runs,
            region_share: share(counts.with_region, allocations),
            cross_cpu_free_share: share(counts.cross_cpu, counts.frees),
            exit_free_share: share(counts.at_exit, counts.frees),
            lifetime_ns: Quantiles::of(&mut ages),
            lifetimes,
            context_shares: counts.by_context.map(|count| share(count, allocations)),
            cpus: distinct(|step| u32::from(step.cpu) + 1),
            // Task 0 is the idle task: it counts if an interrupt allocates.
            tasks: distinct(|step| step.task.wrapping_add(1)),
            regions: distinct(|step| step.region),
            lock_waits: LockWaits::of(trace),
        }
    }
}

impl Counts {
    fn of(trace: &Trace, resolved: &Resolved) -> Counts {
        let mut counts = Counts::default();
        // The time and the CPU of each block's allocation; an allocating step appends the next.
        let mut births = Vec::with_capacity(resolved.blocks as usize);
        for (event, step) in trace.events.iter().zip(&resolved.steps) {
            if step.kind.is_allocation() {
                births.push((step.time_ns, step.cpu));
                counts.by_order[usize::from(step.order)] += 1;
                counts.by_context[Context::from_value(event.context) as usize] += 1;
                counts.with_region += u64::from(step.region != 0);
                continue;
            }
            let (born_ns, cpu) = births[step.block as usize];
            counts.frees += 1;
            counts.partial_frees += u64::from(!step.kind.is_whole_free());
            counts.cross_cpu += u64::from(cpu != step.cpu);
            counts.at_exit += u64::from(event.flags.contains(EventFlags::AT_EXIT));
            counts.lifetimes.push(step.time_ns - born_ns);
        }
        counts
    }
}

fn share(part: u64, whole: u64) -> f64 {
    if whole == 0 {
        0.0
    } else {
        part as f64 / whole as f64
    }
}

fn order_shares(by_order: &[u64; 32]) -> Vec<OrderShare> {
    let occurring = || (0u8..).zip(by_order).filter(|(_, count)| **count > 0);
    let allocations: u64 = by_order.iter().sum();
    let frames: u64 = occurring().map(|(order, count)| count << order).sum();
    let row = |(order, count): (u8, &u64)| OrderShare {
        order,
        allocations: *count,
        allocation_share: share(*count, allocations),
        frame_share: share(count << order, frames),
    };
    occurring().map(row).collect()
}

fn live_samples(steps: &[Step], first: u64, last: u64) -> Vec<LiveSample> {
    let mut samples = Vec::new();
    let (mut steps, mut frames) = (steps.iter().peekable(), 0);
    for sample in 0..=STRETCHES {
        let passed = u128::from(last - first) * u128::from(sample) / u128::from(STRETCHES);
        let time_ns = first + passed as u64;
        while let Some(step) = steps.next_if(|step| step.time_ns <= time_ns) {
            if step.kind.is_allocation() {
                frames += step.frames()
            } else {
                frames -= step.frames()
            }
        }
        samples.push(LiveSample { time_ns, frames });
    }
    samples
}
