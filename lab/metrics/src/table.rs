//! The table of metrics.
//!
//! # Purpose
//!
//! One entry per metric. Metrics that are counts of the allocators are defined where they are counted, in
//! [`Counts`](everybuddy::Counts), and join this table by themselves.
//!
//! # Invariants
//!
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
const TIMES: &[&str] = &[
    "mean",
    "stddev",
    "ci95",
    "p50",
    "p99",
    "p999",
    "min",
    "max",
    "count",
    "value",
    "published",
];

/// The metrics of `compare`, `bench` and `trace info` that are not counts.
pub(crate) const OWN: &[Metric] = &[
    Metric {
        name: "latency",
        group: Time,
        head: "latency",
        unit: "ns",
        better: Lower,
        statistics: TIMES,
        formula: "mean = (sum of segment times - segments * timer) / calls",
        definition: "Time of a call, without the cost of the timer. `compare`: the mean is taken over segments of up \
                     to 64 successive calls in one direction, each timed as a whole; percentiles, maximum and \
                     standard deviation are of calls timed one by one between fences, so that no call overlaps with \
                     the clock, and exist only above the timer's floor. `bench`: of a pair, an allocation, a free or \
                     an operation, per thread; each round is the median of its sections, and `p50`, `min` and `max` \
                     are over the rounds. `simulate`: of every single call on the simulated machine. `count` is the \
                     number of calls. Of the system `timer`: 100,000 empty measurements; `p50` and `value`, the \
                     floor, are of those between fences.",
        counted: None,
    },
    Metric {
        name: "throughput",
        group: Time,
        head: "throughput",
        unit: "1/s",
        better: Higher,
        statistics: &["rate"],
        formula: "calls / time of the whole replay",
        definition: "Calls of all threads per second. `compare`: the time is that of a pass that reads the clock \
                     every 4,096 calls only; waiting and the replay's own work are included. `bench`: threads x \
                     operations of an item / median latency. `simulate`: calls of the measured round / its \
                     duration, both on the simulated machine.",
        counted: None,
    },
    Metric {
        name: "background_time",
        group: Time,
        head: "background",
        unit: "ns",
        better: Lower,
        statistics: &["mean", "count"],
        formula: "time of units that did work / operations",
        definition: "Time that a service with a thread of its own spends on an operation of the callers, and the \
                     number of its units (an area divided or linked, a request answered). The source is the trace, \
                     `:` and the service. By the clock: a unit lasts also while its thread is switched out or waits \
                     for a lock. Looking for work and sleeping do not count. `break-even`: per pair, median of the \
                     rounds. `simulate`: the sum over all services, each on a simulated CPU of its \
                     own or all on CPUs that wait; the source is the load.",
        counted: None,
    },
    Metric {
        name: "contended_wait",
        group: Time,
        head: "lock wait",
        unit: "ns",
        better: Lower,
        statistics: &["count", "rate", "mean", "p50", "p99", "max"],
        formula: "rate = waits / calls",
        definition: "Time from when a lock is wanted to when it is acquired, of the acquisitions that were not \
                     immediate; `rate` is their number per call. `simulate`: all locks of a system, in calls, and \
                     waits for a part of a domain. `trace info`, and the platform `recorded` of `simulate`: the lock \
                     of a zone, as the kernel reported it.",
        counted: None,
    },
    Metric {
        name: "wait_share",
        group: Time,
        head: "waiting",
        unit: SHARE,
        better: Lower,
        statistics: VALUE,
        formula: "sum of waits / (time * CPUs)",
        definition: "Share of the CPUs' time in which they wait for locks: the waits of `contended_wait`. In a \
                     simulation the time depends on the time between calls.",
        counted: None,
    },
    Metric {
        name: "service_ratio",
        group: Inside,
        head: "kept local",
        unit: SHARE,
        better: Higher,
        statistics: VALUE,
        formula: "1 - crossed / order-0 calls, at least 0",
        definition: "Share of the order-0 calls that the per-CPU lists served, by frames: `crossed` are the frames \
                     that moved between lists and zone during order-0 calls, by a refill, a drain, or one by one \
                     (iBuddy, figure 2). 0 if at least as many frames move as are asked for. A system without \
                     per-CPU lists has no value: what a CPU reserves there is not a list, and does not move.",
        counted: None,
    },
    Metric {
        name: "batch",
        group: Inside,
        head: "list batch",
        unit: "frames",
        better: Neither,
        statistics: VALUE,
        formula: "",
        definition: "Frames that a refill or a drain of a CPU's list moves, if that is fixed: as the options of the \
                     system and the machine's memory decide it. Linux 2.6.32 has min(memory / 4 MiB - 1, 31), so the \
                     batch of `lbs-31` is smaller than 31 below 128 MiB.",
        counted: None,
    },
    Metric {
        name: "machine_frames",
        group: Inside,
        head: "machine",
        unit: "frames",
        better: Neither,
        statistics: VALUE,
        formula: "",
        definition: "Memory of the machine from which the parameters of the CPUs' lists follow: what `--machine` says, \
                     or what the trace says about the machine that was recorded, or 16 GiB. Without this row, they \
                     follow from the managed memory.",
        counted: None,
    },
    Metric {
        name: "miss_rate",
        group: Inside,
        head: "list misses",
        unit: SHARE,
        better: Lower,
        statistics: RATES,
        formula: "order-0 calls that entered the zone layer / order-0 calls",
        definition: "Share of the order-0 calls that the CPU's own list, or its own trees, could not serve: refills, \
                     drains and bypasses (Spring Buddy, figure 10). It is not 1 - service ratio, since a refill is one \
                     miss and moves a batch. 1 without lists.",
        counted: None,
    },
    Metric {
        name: "residual",
        group: Inside,
        head: "idle frames",
        unit: "frames",
        better: Lower,
        statistics: &["mean", "count"],
        formula: "mean of frames in the CPU's list at the end of a run",
        definition: "Frames that a CPU's list keeps when a run of two or more calls ends, and the number of such \
                     runs (Spring Buddy, figure 11). A run is a sequence of order-0 calls on one CPU, of one task, \
                     address region and direction, with no pause above 1 ms. 0 without lists.",
        counted: None,
    },
    Metric {
        name: "lock_acquisitions",
        group: Inside,
        head: "locks",
        unit: "1",
        better: Lower,
        statistics: &["count", "mean"],
        formula: "",
        definition: "Locks acquired; the mean is per call. With `lock-hold`, the acquisitions whose hold counts.",
        counted: None,
    },
    Metric {
        name: "lock_polls",
        group: Inside,
        head: "lock polls",
        unit: "1",
        better: Lower,
        statistics: &["count"],
        formula: "",
        definition: "How often a waiting CPU looked at a lock again.",
        counted: None,
    },
    Metric {
        name: "contention_rate",
        group: Inside,
        head: "waits",
        unit: SHARE,
        better: Lower,
        statistics: RATES,
        formula: "contended calls / calls",
        definition: "Share of the calls during which at least one lock was not acquired immediately, or the CPU \
                     waited for a part of a domain (Spring Buddy, figure 12). It varies from run to run: trust the \
                     order of systems, not the value. 0 on one thread.",
        counted: None,
    },
    Metric {
        name: "contention_rate_core",
        group: Inside,
        head: "zone waits",
        unit: SHARE,
        better: Lower,
        statistics: RATES,
        formula: "contended visits / visits of the zone layer",
        definition: "Share of the calls that entered the zone layer, of any order, that were contended. A list that \
                     seldom misses has few contended calls; this tells how the zone layer does when it is asked.",
        counted: None,
    },
    Metric {
        name: "queue_length",
        group: Inside,
        head: "queue length",
        unit: "1",
        better: Lower,
        statistics: &["mean", "max", "count"],
        formula: "",
        definition: "Areas in a queue when one more has gone in, that one included, over all queues; `count` is \
                     the number of areas that went in. It depends on how far the services are behind, and so on the \
                     machine.",
        counted: None,
    },
    Metric {
        name: "queue_full",
        group: Inside,
        head: "queue full",
        unit: "1",
        better: Lower,
        statistics: &["count", "mean"],
        formula: "",
        definition: "Areas that found no room in a queue, so that their caller did the work itself. `break-even`: \
                     per pair.",
        counted: None,
    },
    Metric {
        name: "blocking_probability",
        group: Inside,
        head: "refused",
        unit: SHARE,
        better: Lower,
        statistics: &["count", "rate", "mean", "ci95", "published"],
        formula: "requests refused / requests",
        definition: "Requests for which no block was found. `rate` is their share of all requests. With an order, the \
                     requests of that order, and their share of them. `bench`: of all rounds, preparation left out. \
                     On several threads it varies from run to run.",
        counted: None,
    },
    Metric {
        name: "blocking_probability_large",
        group: Inside,
        head: "refused large",
        unit: SHARE,
        better: Lower,
        statistics: &["count", "rate"],
        formula: "requests above order 0 refused / requests above order 0",
        definition: "Requests for more than one frame for which no block was found. `rate` is their share of the \
                     requests above order 0: where most requests are for single frames, a share of all requests \
                     hides that larger ones are refused. Without such requests there is no value.",
        counted: None,
    },
    Metric {
        name: "metadata_bytes_per_frame",
        group: Inside,
        head: "metadata",
        unit: "B",
        better: Lower,
        statistics: VALUE,
        formula: "bytes of metadata / frames managed",
        definition: "All metadata of the system; of other people's allocators by their own arithmetic, where it is \
                     known.",
        counted: None,
    },
    Metric {
        name: "free_blocks",
        group: Memory,
        head: "free blocks",
        unit: "1",
        better: Higher,
        statistics: &["mean", "min", "max", "value", "ci95"],
        formula: "floor(frames in free blocks of at least the order / 2^order)",
        definition: "Blocks of an order (9: 2 MiB, 10: 4 MiB, and the system's largest) that could be allocated \
                     without touching any list. `mean`, `min` and `max` are over about 200 samples at equal \
                     distances in the calls, `value` is one sample, after `@` its position. `bench`: blocks that \
                     the system still gives at the end, while everything else is held; the median over the rounds.",
        counted: None,
    },
    Metric {
        name: "unusable_index",
        group: Memory,
        head: "unusable",
        unit: SHARE,
        better: Lower,
        statistics: &["mean", "max", "value"],
        formula: "F(j) = 1 - sum over i >= j of k_i * 2^i / free frames",
        definition: "Unusable free space index for an order j, with k_i free blocks of order i: the share of free \
                     memory that cannot serve a request of that order. Frames in lists count as free and as \
                     unusable. 0 if nothing is free. Sampled as `free_blocks`.",
        counted: None,
    },
    Metric {
        name: "fragmentation_rate",
        group: Memory,
        head: "unusable at 4M",
        unit: SHARE,
        better: Lower,
        statistics: &["mean", "min", "max", "value"],
        formula: "F(largest order)",
        definition: "The unusable index at the system's largest order (Spring Buddy, figure 13), 4 MiB unless the \
                     options say otherwise. Two halves of a block in different domains or spaces are not a block.",
        counted: None,
    },
    Metric {
        name: "mixed_blocks",
        group: Memory,
        head: "mixed 2M",
        unit: SHARE,
        better: Lower,
        statistics: &["mean", "max", "value"],
        formula: "blocks with movable and other frames / blocks with frames in use",
        definition: "Of the blocks of 2 MiB with frames in use, the share that contains both movable and other \
                     frames. Moving frames cannot free such a block. Frames in lists count as free; frames that \
                     aging keeps in use cannot move. At the moments of the memory maps: after each eighth of the \
                     calls, and at the fullest moment. `value` is one of them, after `@` its position. Only for \
                     traces that state the class of a request (`migratetype`).",
        counted: None,
    },
    Metric {
        name: "misplaced_frames",
        group: Memory,
        head: "misplaced",
        unit: SHARE,
        better: Lower,
        statistics: &["mean", "max", "value"],
        formula: "frames of all but the most frequent class of each block of 2 MiB / frames in use",
        definition: "Share of the frames in use that lie among frames of another class: unmovable, movable, \
                     reclaimable or never freed. At the moments of `mixed_blocks`.",
        counted: None,
    },
    Metric {
        name: "movable_blocks",
        group: Memory,
        head: "by moving",
        unit: "1",
        better: Higher,
        statistics: &["mean", "value"],
        formula: "blocks with movable frames and no others",
        definition: "Aligned blocks of an order (9: 2 MiB; 18: 1 GiB, if memory has as much) that moving would free, \
                     given room elsewhere. At the moments of `mixed_blocks`.",
        counted: None,
    },
    Metric {
        name: "internal_fragmentation",
        group: Memory,
        head: "held/asked",
        unit: "1",
        better: Lower,
        statistics: &["mean", "ci95", "max", "value"],
        formula: "frames held / frames asked for",
        definition: "Over the blocks that are live at a sample: frames managed, minus those that were taken \
                     initially, are free, or lie in lists, per frame that was asked for and not yet freed. 1 if \
                     nothing is rounded up; a request for 5 frames that gets 8 makes 1.6 (Serewa, 2.2.1). On \
                     several threads only at the end; samples at which nothing is live are left out.",
        counted: None,
    },
    Metric {
        name: "domains",
        group: Memory,
        head: "domains",
        unit: "1",
        better: Lower,
        statistics: &["mean", "min", "max", "value"],
        formula: "",
        definition: "Parts that free memory is divided into; blocks of different parts do not merge. 1 for one \
                     zone, the number of spaces for spaces, and varying where domains are elastic.",
        counted: None,
    },
    Metric {
        name: "buffered_frames",
        group: Memory,
        head: "frames in lists",
        unit: "frames",
        better: Lower,
        statistics: &["mean", "value"],
        formula: "",
        definition: "Frames that the lists of all CPUs hold at a sample: free, but not available to other CPUs, \
                     and not part of a larger block.",
        counted: None,
    },
    Metric {
        name: "calls",
        group: Trace,
        head: "calls",
        unit: "1",
        better: Neither,
        statistics: &["count", "rate", "mean", "ci95"],
        formula: "",
        definition: "Calls of the allocator; with an order, allocations of that order, and their share of all \
                     allocations. `emulation`: calls of a function; expected: the paper's.",
        counted: None,
    },
    Metric {
        name: "partial_frees",
        group: Trace,
        head: "partial frees",
        unit: "1",
        better: Neither,
        statistics: &["count"],
        formula: "",
        definition: "Frees of a part of a block.",
        counted: None,
    },
    Metric {
        name: "frames",
        group: Trace,
        head: "frames",
        unit: SHARE,
        better: Neither,
        statistics: &["rate"],
        formula: "frames of allocations of the order / frames of all allocations",
        definition: "Share of the frames that allocations of an order ask for.",
        counted: None,
    },
    Metric {
        name: "duration",
        group: Trace,
        head: "duration",
        unit: "ns",
        better: Neither,
        statistics: VALUE,
        formula: "",
        definition: "From the first call to the last.",
        counted: None,
    },
    Metric {
        name: "tasks",
        group: Trace,
        head: "tasks",
        unit: "1",
        better: Neither,
        statistics: &["count"],
        formula: "",
        definition: "Threads that called.",
        counted: None,
    },
    Metric {
        name: "address_regions",
        group: Trace,
        head: "regions",
        unit: "1",
        better: Neither,
        statistics: &["count"],
        formula: "",
        definition: "Address regions that allocations served.",
        counted: None,
    },
    Metric {
        name: "live_frames",
        group: Trace,
        head: "live frames",
        unit: "frames",
        better: Neither,
        statistics: &["max", "value"],
        formula: "",
        definition: "Frames that are allocated: the maximum, and the number at a moment (`trace@0.2500`: a quarter \
                     of the time).",
        counted: None,
    },
    Metric {
        name: "run_length",
        group: Trace,
        head: "run length",
        unit: "1",
        better: Neither,
        statistics: &[
            "count", "mean", "p10", "p25", "p50", "p75", "p90", "p99", "max", "rate",
        ],
        formula: "",
        definition: "Calls of a run, and the number of runs. The system column tells what makes calls a run: \
                     `region`, calls of one task for one address region in one direction (Spring Buddy, table II); \
                     `task`, calls of one task in one direction; `buffer`, order-0 calls as a CPU's list meets \
                     them. `rate` is the share of the calls that lie in runs of at least the length after `@`. \
                     `prediction`: what came where the number after `@` was predicted.",
        counted: None,
    },
    Metric {
        name: "lifetime",
        group: Trace,
        head: "lifetime",
        unit: "ns",
        better: Neither,
        statistics: &["count", "mean", "p10", "p50", "p90", "p99", "max"],
        formula: "",
        definition: "From an allocation to its free, one value per free.",
        counted: None,
    },
    Metric {
        name: "cross_cpu_frees",
        group: Trace,
        head: "frees elsewhere",
        unit: SHARE,
        better: Neither,
        statistics: &["rate"],
        formula: "",
        definition: "Share of the frees that happen on another CPU than the allocation.",
        counted: None,
    },
    Metric {
        name: "exit_frees",
        group: Trace,
        head: "frees at exit",
        unit: SHARE,
        better: Neither,
        statistics: &["rate"],
        formula: "",
        definition: "Share of the frees by tasks that were exiting.",
        counted: None,
    },
    Metric {
        name: "region_known",
        group: Trace,
        head: "region known",
        unit: SHARE,
        better: Neither,
        statistics: &["rate"],
        formula: "",
        definition: "Share of the allocations whose address region is known.",
        counted: None,
    },
    Metric {
        name: "context",
        group: Trace,
        head: "context",
        unit: SHARE,
        better: Neither,
        statistics: &["rate"],
        formula: "",
        definition: "Share of the allocations made in a context, which is the row's system.",
        counted: None,
    },
    Metric {
        name: "start_time",
        group: Bench,
        head: "start",
        unit: "ns",
        better: Lower,
        statistics: ROUNDS,
        formula: "",
        definition: "From the request for metadata to the first possible allocation, with a million frames and \
                     fresh memory.",
        counted: None,
    },
    Metric {
        name: "instructions",
        group: Bench,
        head: "instructions",
        unit: "1",
        better: Lower,
        statistics: &["mean"],
        formula: "difference of two runs / operations",
        definition: "Instructions of an operation (half a pair), the loop around it included, counted by \
                     callgrind.",
        counted: None,
    },
    Metric {
        name: "sections",
        group: Bench,
        head: "sections",
        unit: "1",
        better: Neither,
        statistics: &["count"],
        formula: "",
        definition: "Timed sections that count.",
        counted: None,
    },
    Metric {
        name: "sections_dropped",
        group: Bench,
        head: "dropped",
        unit: "1",
        better: Lower,
        statistics: &["count"],
        formula: "",
        definition: "Timed sections during which the kernel took a CPU away, or threads hardly overlapped.",
        counted: None,
    },
    Metric {
        name: "rounds_disturbed",
        group: Bench,
        head: "disturbed",
        unit: "1",
        better: Lower,
        statistics: &["count"],
        formula: "",
        definition: "Rounds without a section that counts: their time is the median of the dropped sections, and \
                     decides no claim.",
        counted: None,
    },
    Metric {
        name: "blocks_checked",
        group: Bench,
        head: "checked",
        unit: "1",
        better: Neither,
        statistics: &["count"],
        formula: "",
        definition: "`bench --check`: blocks that were allocated and freed in front of a shadow of memory; both calls \
                     count. A workload that the contender does not support has no row.",
        counted: None,
    },
    Metric {
        name: "blocks_wrong",
        group: Bench,
        head: "wrong",
        unit: "1",
        better: Lower,
        statistics: &["count"],
        formula: "",
        definition: "`bench --check`: those of `blocks_checked` that were outside of memory, not aligned, or in the \
                     wrong state: allocated twice, or freed without being allocated.",
        counted: None,
    },
];
