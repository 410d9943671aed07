//! The statistics of a trace as tidy rows.
//!
//! Programs that compare results can also compare traces.
//!
//! # Invariants
//! The numbers are those of [`Statistics`]; shares are fractions from 0 to 1.

use everybuddy_trace::{Context, LockWaits, Quantiles, RunLengths, Statistics};

use everybuddy_measure::rows::{Platform, Row, rounded};

/// The name of the experiment.
const TRACE: &str = "trace";

/// Converts the statistics of a trace to rows.
pub fn of(name: &str, s: &Statistics) -> Vec<Row> {
    let mut rows = Rows {
        source: name.to_string(),
        cpus: s.cpus.min(u32::from(u16::MAX)) as u16,
        rows: Vec::new(),
    };
    rows.push("all", "calls", "count", s.events as f64);
    rows.push("allocate", "calls", "count", s.allocations as f64);
    rows.push("free", "calls", "count", s.frees as f64);
    rows.push("free", "partial_frees", "count", s.partial_frees as f64);
    rows.push("all", "duration", "value", s.duration_ns as f64);
    rows.push("all", "tasks", "count", f64::from(s.tasks));
    rows.push("all", "address_regions", "count", f64::from(s.regions));
    for order in &s.orders {
        for (metric, statistic, value) in [
            ("calls", "count", order.allocations as f64),
            ("calls", "rate", order.allocation_share),
            ("frames", "rate", order.frame_share),
        ] {
            rows.push("allocate", metric, statistic, value);
            rows.last().order = Some(order.order);
        }
    }
    rows.push("all", "live_frames", "max", s.peak_frames as f64);
    let samples = s.live.len().max(2) - 1;
    for (sample, live) in s.live.iter().enumerate() {
        let at = sample as f64 / samples as f64;
        rows.push("all", "live_frames", "value", live.frames as f64);
        rows.last().experiment = format!("{TRACE}@{at:.4}");
    }
    for (key, operation, runs) in [
        ("task", "allocate", &s.allocation_runs),
        ("task", "free", &s.free_runs),
        ("region", "allocate", &s.region_allocation_runs),
        ("region", "free", &s.region_free_runs),
    ] {
        rows.runs(key, operation, runs);
    }
    rows.quantiles("", "free", "lifetime", &s.lifetime_ns);
    rows.push("free", "cross_cpu_frees", "rate", s.cross_cpu_free_share);
    rows.push("free", "exit_frees", "rate", s.exit_free_share);
    rows.push("allocate", "region_known", "rate", s.region_share);
    for (context, share) in Context::ALL.iter().zip(s.context_shares) {
        rows.push("allocate", "context", "rate", share);
        rows.last().system = context.name().to_string();
    }
    let mut rows = rows.rows;
    rows.extend(s.lock_waits.iter().flat_map(|waits| locks(name, waits)));
    rows
}

/// Converts the recorded waits for the zone's lock to rows.
pub fn locks(name: &str, waits: &LockWaits) -> Vec<Row> {
    let mut rows = Rows {
        source: name.to_string(),
        cpus: waits.cpus.min(u32::from(u16::MAX)) as u16,
        rows: Vec::new(),
    };
    let own = &waits.wait_ns;
    rows.push("all", "contended_wait", "count", own.count as f64);
    rows.push("all", "contended_wait", "rate", waits.per_call());
    if own.count > 0 {
        for (statistic, value) in [
            ("mean", own.mean),
            ("p50", own.p50 as f64),
            ("p99", own.p99 as f64),
            ("max", own.max as f64),
        ] {
            rows.push("all", "contended_wait", statistic, value);
        }
    }
    rows.push("all", "wait_share", "value", waits.share());
    rows.rows
}

/// Converts a recording of waits alone to rows.
pub fn waits_only(name: &str, waits: &LockWaits) -> Vec<Row> {
    let mut rows = locks(name, waits);
    // Without calls, waits cannot be counted per call.
    rows.retain(|row| row.statistic != "rate");
    rows.push(Row {
        metric: "duration",
        statistic: "value",
        value: waits.duration_ns as f64,
        ..rows.first().cloned().unwrap_or_default()
    });
    rows
}

/// A list of rows under construction.
struct Rows {
    source: String,
    cpus: u16,
    rows: Vec<Row>,
}

impl Rows {
    fn push(
        &mut self,
        operation: &'static str,
        metric: &'static str,
        statistic: &'static str,
        value: f64,
    ) {
        self.rows.push(Row {
            experiment: TRACE.to_string(),
            source: self.source.clone(),
            platform: Platform::Recorded,
            cpus: self.cpus,
            operation,
            metric,
            statistic,
            value: rounded(value),
            ..Row::default()
        });
    }

    /// Returns the last row.
    fn last(&mut self) -> &mut Row {
        let last = self.rows.len() - 1;
        &mut self.rows[last]
    }

    fn runs(&mut self, key: &str, operation: &'static str, runs: &RunLengths) {
        self.quantiles(key, operation, "run_length", &runs.length);
        let calls: u64 = runs.calls.iter().sum();
        let mut in_longer = calls;
        for (power, own) in runs.calls.iter().enumerate() {
            if in_longer == 0 {
                break;
            }
            let share = in_longer as f64 / calls as f64;
            self.push(operation, "run_length", "rate", share);
            self.last().system = key.to_string();
            self.last().experiment = format!("{TRACE}@{}", 1u64 << power);
            in_longer -= own;
        }
    }

    fn quantiles(
        &mut self,
        system: &str,
        operation: &'static str,
        metric: &'static str,
        q: &Quantiles,
    ) {
        self.push(operation, metric, "count", q.count as f64);
        self.last().system = system.to_string();
        if q.count == 0 {
            return;
        }
        for (statistic, value) in [
            ("mean", q.mean),
            ("p10", q.p10 as f64),
            ("p50", q.p50 as f64),
            ("p90", q.p90 as f64),
            ("p99", q.p99 as f64),
            ("max", q.max as f64),
        ] {
            self.push(operation, metric, statistic, value);
            self.last().system = system.to_string();
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use everybuddy_trace::{Event, Op, Trace, resolve};

    #[test]
    fn shares_of_runs_fall_from_one() {
        let mut trace = Trace::default();
        for i in 0..10 {
            trace.events.push(Event::new(i, 0, 1, Op::Allocate, i, 0));
        }
        trace.events.push(Event::new(20, 0, 2, Op::Allocate, 20, 0));
        for i in 0..10 {
            trace.events.push(Event::new(30 + i, 1, 1, Op::Free, i, 0));
        }
        let statistics = Statistics::of(&trace, &resolve(&trace).unwrap());
        let rows = of("x", &statistics);
        let rates = |operation: &str| -> Vec<(String, f64)> {
            let own = rows.iter().filter(|row| {
                row.metric == "run_length" && row.statistic == "rate" && row.system == "task"
            });
            own.filter(|row| row.operation == operation)
                .map(|row| (row.experiment.clone(), row.value))
                .collect()
        };
        let frees = ["trace@1", "trace@2", "trace@4", "trace@8"].map(|at| (at.to_string(), 1.0));
        assert_eq!(rates("free"), frees);
        assert_eq!(rates("allocate")[0].1, 1.0);
        assert_eq!(rates("allocate")[1].1, rounded(10.0 / 11.0));
        let one = |metric: &str| rows.iter().find(|row| row.metric == metric).unwrap().value;
        assert_eq!(one("cross_cpu_frees"), 1.0);
        assert_eq!(one("lifetime"), 10.0);
        // Regions are unknown: their runs are counted as zero.
        let regions: Vec<f64> = rows
            .iter()
            .filter(|row| row.system == "region" && row.metric == "run_length")
            .map(|row| row.value)
            .collect();
        assert_eq!(regions, [0.0, 0.0]);
    }
}
