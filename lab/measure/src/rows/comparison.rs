//! The results of a comparison as tidy rows.
//!
//! The numbers of a comparison get the names of their metrics here. `docs/metrics.md` defines each name.
//!
//! # Invariants
//! Values below the resolution (single latencies below the timer's spread) and undefined values (ratios to zero) have
//! no row.

use everybuddy::Order;
use everybuddy_metrics::METRICS;

use crate::choice;
use crate::replay::classes::{ClassBlocks, ClassMap};
use crate::replay::clock::Timer;
use crate::replay::machine::Machine;
use crate::replay::memory::Initial;
use crate::replay::observe::Tally;
use crate::replay::outcome::{Comparison, Outcome, least, mean, share};
use crate::replay::owners::OwnerMap;
use crate::replay::pace::Latency;

use super::{Row, rounded};

/// The system's name in rows about the replay without an allocator.
pub const FLOOR: &str = "floor";
/// The system's name in rows about the timer.
pub const TIMER: &str = "timer";

const DIRECTIONS: [&str; 2] = ["allocate", "free"];

/// Orders whose free blocks are reported: 2 MiB, a huge page, and 4 MiB, the papers' largest.
const LARGE: [u8; 2] = [9, 10];

/// Numbers of a map, each if it is defined, or each as a `V`.
type Numbers<M, const COUNT: usize, V = Option<f64>> = [(&'static str, fn(&M) -> V); COUNT];

/// The share of what is in use that [`ClassMap`] states for blocks of its first order.
const SHARES: Numbers<ClassMap, 1> = [("misplaced_frames", ClassMap::misplaced)];

/// The counts that [`ClassMap`] has for blocks of each of its orders.
const COUNTS: Numbers<ClassBlocks, 2, u64> = [
    ("staying_blocks", |blocks| blocks.staying),
    ("movable_blocks", |blocks| blocks.movable),
];

/// The numbers of owners' regions.
const OF_OWNERS: Numbers<OwnerMap, 2> = [
    ("owner_spread", OwnerMap::spread),
    ("lone_regions", OwnerMap::lone),
];

/// Returns the reported orders: the large ones, and the system's largest.
fn orders(largest: Order) -> Vec<Order> {
    let mut orders: Vec<Order> = LARGE.into_iter().filter_map(Order::new).collect();
    if !orders.contains(&largest) {
        orders.push(largest);
    }
    orders
}

/// Converts a comparison to rows.
pub fn of(comparison: &Comparison, timer: &Timer, seed: u64, memory_given: bool) -> Vec<Row> {
    let mut experiment = "compare".to_string();
    if let Some(machine) = comparison.machine.filter(Machine::is_given) {
        experiment += &format!("+machine={}MiB", machine.frames >> 8);
    }
    if memory_given {
        let room = match comparison.memory.initial {
            Initial::As(_) => comparison.memory.frames - comparison.memory.taken,
            _ => comparison.memory.frames,
        };
        experiment += &format!("+memory={}MiB", room >> 8);
    }
    match &comparison.memory.initial {
        Initial::Fresh => {}
        Initial::Aged(seed) => experiment += &format!("+aged={seed}"),
        Initial::As(map) => experiment += &format!("+start={}", map.label()),
    }
    if comparison.touches {
        experiment += "+touch";
    }
    let common = Row {
        experiment,
        source: comparison.trace.clone(),
        cpus: comparison.cpus,
        seed,
        ..Row::default()
    };
    let mut rows = Rows {
        common,
        rows: Vec::new(),
    };
    rows.name(TIMER, "");
    rows.push("all", "latency", "mean", timer.mean());
    rows.push("all", "latency", "stddev", timer.stddev());
    rows.push("all", "latency", "p50", timer.cost());
    rows.push("all", "latency", "value", timer.floor());
    rows.name(FLOOR, "");
    rows.push("all", "throughput", "rate", comparison.floor.throughput);
    for (operation, latency) in DIRECTIONS.into_iter().zip(&comparison.floor.latency) {
        rows.latency(operation, latency);
    }
    for outcome in &comparison.systems {
        rows.name(outcome.spec.name(), &choice::options(&outcome.spec));
        rows.outcome(comparison, outcome);
    }
    rows.rows
}

/// A list of rows under construction.
struct Rows {
    common: Row,
    rows: Vec<Row>,
}

impl Rows {
    fn name(&mut self, system: &str, options: &str) {
        self.common.system = system.to_string();
        self.common.options = options.to_string();
    }

    fn push(
        &mut self,
        operation: &'static str,
        metric: &'static str,
        statistic: &'static str,
        value: f64,
    ) {
        let value = rounded(value);
        let row = Row {
            operation,
            metric,
            statistic,
            value,
            ..self.common.clone()
        };
        self.rows.push(row);
    }

    fn push_some(
        &mut self,
        operation: &'static str,
        metric: &'static str,
        statistic: &'static str,
        value: Option<f64>,
    ) {
        if let Some(value) = value {
            self.push(operation, metric, statistic, value);
        }
    }

    fn latency(&mut self, operation: &'static str, latency: &Latency) {
        self.push(operation, "latency", "count", latency.count as f64);
        self.push(operation, "latency", "mean", latency.mean);
        self.push_some(operation, "latency", "stddev", latency.stddev);
        let [p50, p99, p999, max] = latency.quantiles;
        for (statistic, value) in [("p50", p50), ("p99", p99), ("p999", p999), ("max", max)] {
            self.push_some(operation, "latency", statistic, value);
        }
    }

    fn outcome(&mut self, comparison: &Comparison, outcome: &Outcome) {
        self.push("all", "throughput", "rate", outcome.pace.throughput);
        let machine = comparison.machine.map(|machine| machine.frames as f64);
        self.push_some("all", "machine_frames", "value", machine);
        let batch = outcome.batch.map(f64::from);
        self.push_some("all", "batch", "value", batch);
        for (operation, latency) in DIRECTIONS.into_iter().zip(&outcome.pace.latency) {
            self.latency(operation, latency);
        }
        for (operation, tally) in DIRECTIONS.into_iter().zip(&outcome.tallies) {
            self.tally(operation, tally, outcome);
        }
        let all = outcome.all();
        self.tally("all", &all, outcome);
        // Callers and services together.
        for metric in METRICS.iter() {
            if let Some(counted) = metric.counted {
                let count = (counted.read)(&all.counts) + (counted.read)(&outcome.background);
                self.push("all", metric.name, "count", count as f64);
            }
        }
        self.services(outcome, all.operations);
        for (order, metric, statistic, value) in outcome.refusals.entries() {
            self.common.order = order;
            self.push("allocate", metric, statistic, value);
        }
        self.common.order = None;
        let per_frame = outcome.metadata_bytes as f64 / comparison.memory.frames as f64;
        self.push("all", "metadata_bytes_per_frame", "value", per_frame);
        self.fragmentation(comparison, outcome);
        self.classes_and_owners(comparison, outcome);
    }

    /// Pushes numbers of memory maps: each at its position in the calls, their mean, and their maximum.
    fn maps<M, const COUNT: usize>(
        &mut self,
        comparison: &Comparison,
        maps: &[M],
        position: fn(&M) -> u32,
        numbers: Numbers<M, COUNT>,
    ) {
        let experiment = self.common.experiment.clone();
        for (metric, of) in numbers {
            let values = || maps.iter().filter_map(of);
            self.push_some("all", metric, "mean", mean(values()));
            self.push_some("all", metric, "max", values().max_by(f64::total_cmp));
            for map in maps {
                let at = f64::from(position(map)) / f64::from(comparison.events.max(1));
                self.common.experiment = format!("{experiment}@{at:.4}");
                self.push_some("all", metric, "value", of(map));
            }
            self.common.experiment.clone_from(&experiment);
        }
    }

    /// Pushes which blocks frames of several classes share, and over how many regions owners are scattered.
    fn classes_and_owners(&mut self, comparison: &Comparison, outcome: &Outcome) {
        let (classes, owners) = (&outcome.classes, &outcome.owners);
        self.common.order = Some(ClassMap::ORDERS[0]);
        self.maps(comparison, classes, |map| map.position, SHARES);
        self.maps(comparison, owners, |map| map.position, OF_OWNERS);
        for (at, order) in ClassMap::ORDERS.into_iter().enumerate() {
            self.common.order = Some(order);
            for (metric, count) in COUNTS {
                let number = |map: &ClassMap| Some(count(map.blocks.get(at)?) as f64);
                let numbers = classes.iter().filter_map(number);
                self.push_some("all", metric, "mean", mean(numbers));
            }
        }
        let experiment = self.common.experiment.clone();
        for map in classes {
            let at = f64::from(map.position) / f64::from(comparison.events.max(1));
            self.common.experiment = format!("{experiment}@{at:.4}");
            for blocks in &map.blocks {
                self.common.order = Some(blocks.order);
                for (metric, count) in COUNTS {
                    self.push("all", metric, "value", count(blocks) as f64);
                }
            }
        }
        self.common.experiment = experiment;
        self.common.order = None;
    }

    /// Pushes the work of services, and the lengths of the queues to them.
    fn services(&mut self, outcome: &Outcome, operations: u64) {
        if outcome.services.is_empty() {
            return;
        }
        let queues = &outcome.queues;
        let (queued, full) = (queues.queued as f64, queues.queue_full as f64);
        let mean = share(queues.queue_lengths, queues.queued);
        self.push_some("all", "queue_length", "mean", mean);
        let longest = queues.queue_longest as f64;
        self.push("all", "queue_length", "max", longest);
        self.push("all", "queue_length", "count", queued);
        self.push("all", "queue_full", "count", full);
        let source = self.common.source.clone();
        for service in &outcome.services {
            self.common.source = format!("{source}:{}", service.name);
            let each = service.busy.as_nanos() as f64 / operations.max(1) as f64;
            self.push("all", "background_time", "mean", each);
            let units = service.units as f64;
            self.push("all", "background_time", "count", units);
        }
        self.common.source = source;
    }

    fn tally(&mut self, operation: &'static str, tally: &Tally, outcome: &Outcome) {
        let served = outcome.service_ratio(tally);
        self.push_some(operation, "service_ratio", "value", served);
        self.push_some(operation, "miss_rate", "value", tally.miss_rate());
        let residual = tally.residual();
        self.push_some(operation, "residual", "mean", residual);
        self.push(operation, "residual", "count", tally.runs as f64);
        let (all, core) = (tally.contention_rate(), tally.contention_rate_core());
        self.push_some(operation, "contention_rate", "value", all);
        self.push_some(operation, "contention_rate_core", "value", core);
        self.push(
            operation,
            "lock_acquisitions",
            "count",
            tally.counts.locks as f64,
        );
        self.push_some(operation, "lock_acquisitions", "mean", tally.locks());
        self.push(
            operation,
            "lock_polls",
            "count",
            tally.counts.lock_waits as f64,
        );
    }

    fn fragmentation(&mut self, comparison: &Comparison, outcome: &Outcome) {
        let experiment = self.common.experiment.clone();
        let orders = orders(outcome.max_order);
        for order in orders.iter().copied() {
            self.common.order = Some(order.get());
            let blocks = "free_blocks";
            self.push_some("all", blocks, "min", least(outcome.available(order)));
            self.push_some("all", blocks, "mean", mean(outcome.available(order)));
            let unusable = "unusable_index";
            self.push_some("all", unusable, "mean", mean(outcome.unusable(order)));
            let most = outcome.unusable(order).max_by(f64::total_cmp);
            self.push_some("all", unusable, "max", most);
        }
        self.common.order = Some(outcome.max_order.get());
        let rates = || outcome.unusable(outcome.max_order);
        let (metric, most) = ("fragmentation_rate", rates().max_by(f64::total_cmp));
        self.push_some("all", metric, "mean", mean(rates()));
        self.push_some("all", metric, "min", least(rates()));
        self.push_some("all", metric, "max", most);
        self.common.order = None;
        let (metric, most) = (
            "internal_fragmentation",
            outcome.internal().max_by(f64::total_cmp),
        );
        self.push_some("all", metric, "mean", mean(outcome.internal()));
        self.push_some("all", metric, "max", most);
        let most = outcome.domains().max_by(f64::total_cmp);
        self.push_some("all", "domains", "mean", mean(outcome.domains()));
        self.push_some("all", "domains", "min", least(outcome.domains()));
        self.push_some("all", "domains", "max", most);
        self.push_some("all", "buffered_frames", "mean", mean(outcome.buffered()));
        for sample in &outcome.samples {
            let at = f64::from(sample.position) / f64::from(comparison.events.max(1));
            self.common.experiment = format!("{experiment}@{at:.4}");
            for order in orders.iter().copied() {
                self.common.order = Some(order.get());
                let blocks = sample.snapshot.available_blocks(order) as f64;
                self.push("all", "free_blocks", "value", blocks);
                let unusable = sample.snapshot.unusable_index(order);
                self.push("all", "unusable_index", "value", unusable);
            }
            self.common.order = Some(outcome.max_order.get());
            let rate = sample.snapshot.unusable_index(outcome.max_order);
            self.push("all", "fragmentation_rate", "value", rate);
            self.common.order = None;
            let internal = outcome.internal_at(sample);
            self.push_some("all", "internal_fragmentation", "value", internal);
            let domains = f64::from(sample.snapshot.domains);
            self.push("all", "domains", "value", domains);
            let buffered = sample.snapshot.buffered_frames as f64;
            self.push("all", "buffered_frames", "value", buffered);
        }
        self.common.experiment = experiment;
    }
}
