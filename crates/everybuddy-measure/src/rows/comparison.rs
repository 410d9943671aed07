//! A comparison as tidy rows.
//!
//! Exists as the one place where a number gets its metric's name. Each name is defined in
//! `docs/metrics.md`.
//!
//! Invariant: numbers that can't be told from noise (single latencies below the timer's floor) and
//! numbers that don't exist (ratios of nothing) have no row.

use everybuddy::Order;

use crate::choice;
use crate::replay::clock::Timer;
use crate::replay::observe::Tally;
use crate::replay::outcome::{Comparison, Outcome, least, mean, share};
use crate::replay::pace::Latency;

use super::{Row, rounded};

/// The system's name in rows about the replay with nothing behind it.
pub const FLOOR: &str = "floor";
/// The system's name in rows about the timer.
pub const TIMER: &str = "timer";

const DIRECTIONS: [&str; 2] = ["allocate", "free"];

/// Orders whose free blocks are reported: 2 MiB, a huge page, and 4 MiB, the papers' largest.
const LARGE: [u8; 2] = [9, 10];

/// Returns the orders that are reported: the large ones, and the system's largest.
fn orders(largest: Order) -> Vec<Order> {
    let mut orders: Vec<Order> = LARGE.into_iter().filter_map(Order::new).collect();
    if !orders.contains(&largest) {
        orders.push(largest);
    }
    orders
}

/// Turns a comparison into rows.
pub fn of(comparison: &Comparison, timer: &Timer, seed: u64, memory_given: bool) -> Vec<Row> {
    let mut experiment = "compare".to_string();
    if memory_given {
        experiment += &format!("+memory={}MiB", comparison.memory.frames >> 8);
    }
    if let Some(seed) = comparison.memory.seed {
        experiment += &format!("+aged={seed}");
    }
    let common = Row {
        experiment,
        source: comparison.trace.clone(),
        platform: "native".to_string(),
        cpus: comparison.cpus,
        seed,
        ..Row::default()
    };
    let mut rows = Rows {
        common,
        rows: Vec::new(),
    };
    rows.name(TIMER, "");
    rows.push("all", "latency", "mean", timer.mean(), "ns");
    rows.push("all", "latency", "stddev", timer.stddev(), "ns");
    rows.push("all", "latency", "p50", timer.cost(), "ns");
    rows.push("all", "latency", "value", timer.floor(), "ns");
    rows.name(FLOOR, "");
    rows.push(
        "all",
        "throughput",
        "rate",
        comparison.floor.throughput,
        "1/s",
    );
    for (operation, latency) in DIRECTIONS.into_iter().zip(&comparison.floor.latency) {
        rows.latency(operation, latency);
    }
    for outcome in &comparison.systems {
        rows.name(outcome.spec.name(), &choice::options(&outcome.spec));
        rows.outcome(comparison, outcome);
    }
    rows.rows
}

/// Rows in the making.
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
        unit: &'static str,
    ) {
        let value = rounded(value);
        let row = Row {
            operation,
            metric,
            statistic,
            value,
            unit,
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
        unit: &'static str,
    ) {
        if let Some(value) = value {
            self.push(operation, metric, statistic, value, unit);
        }
    }

    fn latency(&mut self, operation: &'static str, latency: &Latency) {
        self.push(operation, "latency", "count", latency.count as f64, "1");
        self.push(operation, "latency", "mean", latency.mean, "ns");
        self.push_some(operation, "latency", "stddev", latency.stddev, "ns");
        let [p50, p99, p999, max] = latency.quantiles;
        for (statistic, value) in [("p50", p50), ("p99", p99), ("p999", p999), ("max", max)] {
            self.push_some(operation, "latency", statistic, value, "ns");
        }
    }

    fn outcome(&mut self, comparison: &Comparison, outcome: &Outcome) {
        self.push("all", "throughput", "rate", outcome.pace.throughput, "1/s");
        for (operation, latency) in DIRECTIONS.into_iter().zip(&outcome.pace.latency) {
            self.latency(operation, latency);
        }
        for (operation, tally) in DIRECTIONS.into_iter().zip(&outcome.tallies) {
            self.tally(operation, tally);
        }
        let all = outcome.all();
        self.tally("all", &all);
        let (splits, coalescings) = outcome.moved();
        self.push("all", "splits", "count", splits as f64, "1");
        self.push("all", "coalescings", "count", coalescings as f64, "1");
        self.services(outcome, all.operations);
        self.push("all", "reclaims", "count", all.counts.reclaims as f64, "1");
        for (metric, count) in [
            ("ghosts", all.counts.ghosts),
            ("ghost_wait", all.counts.ghost_waits),
            ("extensions", all.counts.extensions),
            ("merges", all.counts.merges),
        ] {
            self.push("all", metric, "count", count as f64, "1");
        }
        let refused = outcome.refused;
        self.push(
            "allocate",
            "blocking_probability",
            "count",
            refused as f64,
            "1",
        );
        let requests = outcome.tallies[0].operations;
        self.push_some(
            "allocate",
            "blocking_probability",
            "rate",
            share(refused, requests),
            "1",
        );
        let per_frame = outcome.metadata_bytes as f64 / comparison.memory.frames as f64;
        self.push("all", "metadata_bytes_per_frame", "value", per_frame, "B");
        self.fragmentation(comparison, outcome);
    }

    /// What services did, and how long the queues to them were.
    fn services(&mut self, outcome: &Outcome, operations: u64) {
        if outcome.services.is_empty() {
            return;
        }
        let queues = &outcome.queues;
        let (queued, full) = (queues.queued as f64, queues.queue_full as f64);
        let mean = share(queues.queue_lengths, queues.queued);
        self.push_some("all", "queue_length", "mean", mean, "1");
        let longest = queues.queue_longest as f64;
        self.push("all", "queue_length", "max", longest, "1");
        self.push("all", "queue_length", "count", queued, "1");
        self.push("all", "queue_full", "count", full, "1");
        let source = self.common.source.clone();
        for service in &outcome.services {
            self.common.source = format!("{source}:{}", service.name);
            let each = service.busy.as_nanos() as f64 / operations.max(1) as f64;
            self.push("all", "background_time", "mean", each, "ns");
            let units = service.units as f64;
            self.push("all", "background_time", "count", units, "1");
        }
        self.common.source = source;
    }

    fn tally(&mut self, operation: &'static str, tally: &Tally) {
        self.push_some(
            operation,
            "service_ratio",
            "value",
            tally.service_ratio(),
            "1",
        );
        self.push_some(operation, "miss_rate", "value", tally.miss_rate(), "1");
        let residual = tally.residual();
        self.push_some(operation, "residual", "mean", residual, "frames");
        self.push(operation, "residual", "count", tally.runs as f64, "1");
        let (all, core) = (tally.contention_rate(), tally.contention_rate_core());
        self.push_some(operation, "contention_rate", "value", all, "1");
        self.push_some(operation, "contention_rate_core", "value", core, "1");
        self.push(
            operation,
            "lock_acquisitions",
            "count",
            tally.counts.locks as f64,
            "1",
        );
        self.push_some(operation, "lock_acquisitions", "mean", tally.locks(), "1");
        self.push(
            operation,
            "lock_wait",
            "count",
            tally.counts.lock_waits as f64,
            "1",
        );
    }

    fn fragmentation(&mut self, comparison: &Comparison, outcome: &Outcome) {
        let experiment = self.common.experiment.clone();
        let orders = orders(outcome.max_order);
        for order in orders.iter().copied() {
            self.common.order = Some(order.get());
            let blocks = "free_blocks";
            self.push_some("all", blocks, "min", least(outcome.available(order)), "1");
            self.push_some("all", blocks, "mean", mean(outcome.available(order)), "1");
            let unusable = "unusable_index";
            self.push_some("all", unusable, "mean", mean(outcome.unusable(order)), "1");
            let most = outcome.unusable(order).max_by(f64::total_cmp);
            self.push_some("all", unusable, "max", most, "1");
        }
        self.common.order = Some(outcome.max_order.get());
        let rates = || outcome.unusable(outcome.max_order);
        let (metric, most) = ("fragmentation_rate", rates().max_by(f64::total_cmp));
        self.push_some("all", metric, "mean", mean(rates()), "1");
        self.push_some("all", metric, "min", least(rates()), "1");
        self.push_some("all", metric, "max", most, "1");
        self.common.order = None;
        let (metric, most) = (
            "internal_fragmentation",
            outcome.internal().max_by(f64::total_cmp),
        );
        self.push_some("all", metric, "mean", mean(outcome.internal()), "1");
        self.push_some("all", metric, "max", most, "1");
        let most = outcome.domains().max_by(f64::total_cmp);
        self.push_some("all", "domains", "mean", mean(outcome.domains()), "1");
        self.push_some("all", "domains", "min", least(outcome.domains()), "1");
        self.push_some("all", "domains", "max", most, "1");
        self.push_some(
            "all",
            "buffered_frames",
            "mean",
            mean(outcome.buffered()),
            "frames",
        );
        for sample in &outcome.samples {
            let at = f64::from(sample.position) / f64::from(comparison.events.max(1));
            self.common.experiment = format!("{experiment}@{at:.4}");
            for order in orders.iter().copied() {
                self.common.order = Some(order.get());
                let blocks = sample.snapshot.available_blocks(order) as f64;
                self.push("all", "free_blocks", "value", blocks, "1");
                let unusable = sample.snapshot.unusable_index(order);
                self.push("all", "unusable_index", "value", unusable, "1");
            }
            self.common.order = Some(outcome.max_order.get());
            let rate = sample.snapshot.unusable_index(outcome.max_order);
            self.push("all", "fragmentation_rate", "value", rate, "1");
            self.common.order = None;
            let internal = outcome.internal_at(sample);
            self.push_some("all", "internal_fragmentation", "value", internal, "1");
            let domains = f64::from(sample.snapshot.domains);
            self.push("all", "domains", "value", domains, "1");
            let buffered = sample.snapshot.buffered_frames as f64;
            self.push("all", "buffered_frames", "value", buffered, "frames");
        }
        self.common.experiment = experiment;
    }
}
