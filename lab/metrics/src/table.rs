//! The table of metrics.
//!
//! One entry per metric. Metrics that are counts of the allocators are defined where they are counted, in
//! [`Counts`](everybuddy::Counts), and join this table by themselves.
//!
//! # Invariants
//! A definition consists of whole sentences and names the command or experiment where it differs between them.

use crate::Better::{Higher, Lower, Neither};
use crate::Group::{Bench, Inside, Memory, Time, Trace};
use crate::{Metric, SHARE};

/// Statistics of a number that there is once.
pub(crate) const VALUE: &[&str] = &["value"];
/// Statistics of something that every round has.
const ROUNDS: &[&str] = &["p50", "min", "max"];
/// Statistics of a share, of one replay or of every round.
const RATES: &[&str] = &["value", "p50", "min", "max"];
/// Statistics of a count: of a replay, or of its calls.
pub(crate) const OF_COUNTS: &[&str] = &[
    "mean", "stddev", "ci95", "p99", "p999", "max", "count", "rate",
];
/// Statistics of times.
#[rustfmt::skip]
const TIMES: &[&str] = &[
    "mean", "stddev", "ci95", "p50", "p99", "p999", "min", "max", "count", "value", "published",
];

/// Declares a table of metrics. The documentation of an entry is its definition; its words are the group, the name, the
/// heading, the unit, which values are good, the statistics and, where there is one, the formula.
macro_rules! metrics {
    ($($(#[doc = $line:literal])+
        $group:ident, $name:literal, $head:literal, $unit:expr, $better:ident,
        $statistics:expr $(, $formula:literal)?;)+
    ) => {
        /// The metrics of this file.
        pub(crate) const OWN: &[Metric] = &[$(Metric {
            name: $name,
            group: $group,
            head: $head,
            unit: $unit,
            better: $better,
            statistics: $statistics,
            formula: concat!($($formula)?),
            definition: concat!($($line),+).trim_ascii(),
            counted: None,
        }),+];
    };
}
pub(crate) use metrics;

metrics! {
    /// Time of a call, without the cost of the timer. `compare`: the mean is taken over segments of up to 64
    /// successive calls in one direction, each timed as a whole; percentiles, maximum and standard deviation are of
    /// calls timed one by one between fences, so that no call overlaps with the clock, and exist only above the
    /// timer's floor. `bench`: of a pair, an allocation, a free or an operation, per thread; each round is the median
    /// of its sections, and `p50`, `min` and `max` are over the rounds. `simulate`: of every single call on the
    /// simulated machine. `count` is the number of calls. Of the system `timer`: 100,000 empty measurements; `p50`
    /// and `value`, the floor, are of those between fences.
    Time, "latency", "latency", "ns", Lower, TIMES, "mean = (sum of segment times - segments * timer) / calls";
    /// Calls of all threads per second. `compare`: the time is that of a pass that reads the clock every 4,096 calls
    /// only; waiting and the replay's own work are included. `bench`: threads x operations of an item / median
    /// latency. `simulate`: calls of the measured round / its duration, both on the simulated machine.
    Time, "throughput", "throughput", "1/s", Higher, &["rate"], "calls / time of the whole replay";
    /// Time that a service with a thread of its own spends on an operation of the callers, and the number of its
    /// units (an area divided or linked, a request answered). The source is the trace, `:` and the service. By the
    /// clock: a unit lasts also while its thread is switched out or waits for a lock. Looking for work and sleeping
    /// do not count. `break-even`: per pair, median of the rounds. `simulate`: the sum over all services, each on a
    /// simulated CPU of its own or all on CPUs that wait; the source is the load.
    Time, "background_time", "background", "ns", Lower, &["mean", "count"],
        "time of units that did work / operations";
    /// Time from when a lock is wanted to when it is acquired, of the acquisitions that were not immediate; `rate` is
    /// their number per call. `simulate`: all locks of a system, in calls, and waits for a part of a domain. `trace
    /// info`, and the platform `recorded` of `simulate`: the lock of a zone, as the kernel reported it.
    Time, "contended_wait", "lock wait", "ns", Lower, &["count", "rate", "mean", "p50", "p99", "max"],
        "rate = waits / calls";
    /// Share of the CPUs' time in which they wait for locks: the waits of `contended_wait`. In a simulation the time
    /// depends on the time between calls.
    Time, "wait_share", "waiting", SHARE, Lower, VALUE, "sum of waits / (time * CPUs)";
    /// Share of the order-0 calls that the per-CPU lists served, by frames: `crossed` are the frames that moved
    /// between lists and zone during order-0 calls, by a refill, a drain, or one by one (iBuddy, figure 2). 0 if at
    /// least as many frames move as are asked for. A system without per-CPU lists has no value: what a CPU reserves
    /// there is not a list, and does not move.
    Inside, "service_ratio", "kept local", SHARE, Higher, VALUE, "1 - crossed / order-0 calls, at least 0";
    /// Frames that a refill or a drain of a CPU's list moves, if that is fixed. It follows from the options and the
    /// machine's memory. \[iBuddy\] states min(memory / 4 MiB - 1, 31), so the batch of `lbs-31` is smaller
    /// than 31 below 128 MiB.
    Inside, "batch", "list batch", "frames", Neither, VALUE;
    /// Memory of the machine from which the parameters of the CPUs' lists follow: what `--machine` says, or what the
    /// trace says about the machine that was recorded, or 16 GiB. Without this row, they follow from the managed
    /// memory.
    Inside, "machine_frames", "machine", "frames", Neither, VALUE;
    /// Frames that move between the lists of CPUs and the zone in calls for single frames: `allocate` are those of
    /// refills, `free` those of drains, both with frames that pass a list. `advise`: while the trace is replayed for
    /// the second time, since lists are empty at first.
    Inside, "moved_frames", "moved", "frames", Lower, &["count"];
    /// The value of vm.percpu_pagelist_high_fraction that is advised. No row if none is.
    Inside, "advised_fraction", "advised", "1", Neither, VALUE;
    /// Share of the order-0 calls that the CPU's own list, or its own trees, could not serve: refills, drains and
    /// bypasses (Spring Buddy, figure 10). It is not 1 - service ratio, since a refill is one miss and moves a batch.
    /// 1 without lists.
    Inside, "miss_rate", "list misses", SHARE, Lower, RATES,
        "order-0 calls that entered the zone layer / order-0 calls";
    /// Frames that a CPU's list keeps when a run of two or more calls ends, and the number of such runs (Spring
    /// Buddy, figure 11). A run is a sequence of order-0 calls on one CPU, of one task, address region and direction,
    /// with no pause above 1 ms. 0 without lists.
    Inside, "residual", "idle frames", "frames", Lower, &["mean", "count"],
        "mean of frames in the CPU's list at the end of a run";
    /// Locks acquired; the mean is per call. With `lock-hold`, the acquisitions whose hold counts.
    Inside, "lock_acquisitions", "locks", "1", Lower, &["count", "mean"];
    /// How often a waiting CPU looked at a lock again.
    Inside, "lock_polls", "lock polls", "1", Lower, &["count"];
    /// Share of the calls during which at least one lock was not acquired immediately, or the CPU waited for a part
    /// of a domain (Spring Buddy, figure 12). It varies from run to run: trust the order of systems, not the value. 0
    /// on one thread.
    Inside, "contention_rate", "waits", SHARE, Lower, RATES, "contended calls / calls";
    /// Share of the calls that entered the zone layer, of any order, that were contended. A list that seldom misses
    /// has few contended calls; this tells how the zone layer does when it is asked.
    Inside, "contention_rate_core", "zone waits", SHARE, Lower, RATES, "contended visits / visits of the zone layer";
    /// Areas in a queue when one more has gone in, that one included, over all queues; `count` is the number of areas
    /// that went in. It depends on how far the services are behind, and so on the machine.
    Inside, "queue_length", "queue length", "1", Lower, &["mean", "max", "count"];
    /// Areas that found no room in a queue, so that their caller did the work itself. `break-even`: per pair.
    Inside, "queue_full", "queue full", "1", Lower, &["count", "mean"];
    /// Requests for which no block was found. `rate` is their share of all requests. With an order, the requests of
    /// that order, and their share of them. `bench`: of all rounds, preparation left out. On several threads it
    /// varies from run to run.
    Inside, "blocking_probability", "refused", SHARE, Lower, &["count", "rate", "mean", "ci95", "published"],
        "requests refused / requests";
    /// Requests for more than one frame for which no block was found. `rate` is their share of the requests above
    /// order 0: where most requests are for single frames, a share of all requests hides that larger ones are
    /// refused. Without such requests there is no value.
    Inside, "blocking_probability_large", "refused large", SHARE, Lower, &["count", "rate"],
        "requests above order 0 refused / requests above order 0";
    /// All metadata of the system; of other people's allocators by their own arithmetic, where it is known.
    Inside, "metadata_bytes_per_frame", "metadata", "B", Lower, VALUE, "bytes of metadata / frames managed";
    /// Blocks of an order (9: 2 MiB, 10: 4 MiB, and the system's largest) that could be allocated without touching
    /// any list. `mean`, `min` and `max` are over about 200 samples at equal distances in the calls, `value` is one
    /// sample, after `@` its position. `bench`: blocks that the system still gives at the end, while everything else
    /// is held; the median over the rounds.
    Memory, "free_blocks", "free blocks", "1", Higher, &["mean", "min", "max", "value", "ci95"],
        "floor(frames in free blocks of at least the order / 2^order)";
    /// Unusable free space index for an order j, with k_i free blocks of order i: the share of free memory that
    /// cannot serve a request of that order. Frames in lists count as free and as unusable. 0 if nothing is free.
    /// Sampled as `free_blocks`; `giving-back`: at 100 moments at equal distances in time.
    Memory, "unusable_index", "unusable", SHARE, Lower, &["mean", "max", "value", "ci95"],
        "F(j) = 1 - sum over i >= j of k_i * 2^i / free frames";
    /// The unusable index at the system's largest order (Spring Buddy, figure 13), 4 MiB unless the options say
    /// otherwise. Two halves of a block in different domains or spaces are not a block.
    Memory, "fragmentation_rate", "unusable at 4M", SHARE, Lower, &["mean", "min", "max", "value"],
        "F(largest order)";
    /// Of the blocks of 2 MiB with frames in use, the share that contains both movable and other frames. Moving
    /// frames cannot free such a block. Frames in lists count as free; frames that aging keeps in use cannot move. At
    /// the moments of the memory maps: after each eighth of the calls, and at the fullest moment. `value` is one of
    /// them, after `@` its position. Only for traces that state the class of a request (`migratetype`).
    Memory, "mixed_blocks", "mixed 2M", SHARE, Lower, &["mean", "max", "value"],
        "blocks with movable and other frames / blocks with frames in use";
    /// Share of the frames in use that lie among frames of another class: unmovable, movable, reclaimable or never
    /// freed. At the moments of `mixed_blocks`.
    Memory, "misplaced_frames", "misplaced", SHARE, Lower, &["mean", "max", "value"],
        "frames of all but the most frequent class of each block of 2 MiB / frames in use";
    /// Aligned blocks of an order (9: 2 MiB; 18: 1 GiB, if memory has as much) that moving would free, given room
    /// elsewhere. At the moments of `mixed_blocks`.
    Memory, "movable_blocks", "by moving", "1", Higher, &["mean", "value"],
        "blocks with movable frames and no others";
    /// Over the blocks that are live at a sample: frames managed, minus those that were taken initially, are free, or
    /// lie in lists, per frame that was asked for and not yet freed. 1 if nothing is rounded up; a request for 5
    /// frames that gets 8 makes 1.6 (Serewa, 2.2.1). On several threads only at the end; samples at which nothing is
    /// live are left out.
    Memory, "internal_fragmentation", "held/asked", "1", Lower, &["mean", "ci95", "max", "value"],
        "frames held / frames asked for";
    /// Parts that free memory is divided into; blocks of different parts do not merge. 1 for one zone, the number of
    /// spaces for spaces, and varying where domains are elastic.
    Memory, "domains", "domains", "1", Lower, &["mean", "min", "max", "value"];
    /// Frames that the lists of all CPUs hold at a sample: free, but not available to other CPUs, and not part of a
    /// larger block.
    Memory, "buffered_frames", "frames in lists", "frames", Lower, &["mean", "value"];
    /// Calls of the allocator; with an order, allocations of that order, and their share of all allocations.
    /// `emulation`: calls of a function; expected: the paper's.
    Trace, "calls", "calls", "1", Neither, &["count", "rate", "mean", "ci95"];
    /// Frees of a part of a block.
    Trace, "partial_frees", "partial frees", "1", Neither, &["count"];
    /// Share of the frames that allocations of an order ask for.
    Trace, "frames", "frames", SHARE, Neither, &["rate"],
        "frames of allocations of the order / frames of all allocations";
    /// From the first call to the last.
    Trace, "duration", "duration", "ns", Neither, VALUE;
    /// Threads that called.
    Trace, "tasks", "tasks", "1", Neither, &["count"];
    /// Address regions that allocations served.
    Trace, "address_regions", "regions", "1", Neither, &["count"];
    /// Frames that are allocated: the maximum, and the number at a moment (`trace@0.2500`: a quarter of the time).
    Trace, "live_frames", "live frames", "frames", Neither, &["max", "value"];
    /// Calls of a run, and the number of runs. The system column tells what makes calls a run: `region`, calls of one
    /// task for one address region in one direction (Spring Buddy, table II); `task`, calls of one task in one
    /// direction; `buffer`, order-0 calls as a CPU's list meets them. `rate` is the share of the calls that lie in
    /// runs of at least the length after `@`. `prediction`: what came where the number after `@` was predicted.
    Trace, "run_length", "run length", "1", Neither,
        &["count", "mean", "p10", "p25", "p50", "p75", "p90", "p99", "max", "rate"];
    /// From an allocation to its free, one value per free.
    Trace, "lifetime", "lifetime", "ns", Neither, &["count", "mean", "p10", "p50", "p90", "p99", "max"];
    /// Share of the frees that happen on another CPU than the allocation.
    Trace, "cross_cpu_frees", "frees elsewhere", SHARE, Neither, &["rate"];
    /// Share of the frees by tasks that were exiting.
    Trace, "exit_frees", "frees at exit", SHARE, Neither, &["rate"];
    /// Share of the allocations whose address region is known.
    Trace, "region_known", "region known", SHARE, Neither, &["rate"];
    /// Share of the allocations made in a context, which is the row's system.
    Trace, "context", "context", SHARE, Neither, &["rate"];
    /// From the request for metadata to the first possible allocation, with a million frames and fresh memory.
    Bench, "start_time", "start", "ns", Lower, ROUNDS;
    /// Instructions of an operation (half a pair), the loop around it included, counted by callgrind.
    Bench, "instructions", "instructions", "1", Lower, &["mean"], "difference of two runs / operations";
    /// Timed sections that count.
    Bench, "sections", "sections", "1", Neither, &["count"];
    /// Timed sections during which the kernel took a CPU away, or threads hardly overlapped.
    Bench, "sections_dropped", "dropped", "1", Lower, &["count"];
    /// Rounds without a section that counts: their time is the median of the dropped sections, and decides no claim.
    Bench, "rounds_disturbed", "disturbed", "1", Lower, &["count"];
    /// `bench --check`: blocks that were allocated and freed in front of a shadow of memory; both calls count. A
    /// workload that the contender does not support has no row.
    Bench, "blocks_checked", "checked", "1", Neither, &["count"];
    /// `bench --check`: those of `blocks_checked` that were outside of memory, not aligned, or in the wrong state:
    /// allocated twice, or freed without being allocated.
    Bench, "blocks_wrong", "wrong", "1", Lower, &["count"];
}
