//! The rows of a plan.
//!
//! # Purpose
//!
//! A cell becomes rows in the columns of every other result. How a system scales is a summary of the rows of its cells,
//! so a cell whose rows were stored need not be simulated again.
//!
//! # Invariants
//!
//! A system that has stopped scaling is named together with the part of its metadata on which its calls spend most of
//! their time with memory.

use everybuddy_measure::rows::Row;

use crate::cell::{Cell, Latency};
use crate::workload::Phases;

/// How a system scales under a load.
#[derive(Clone, Debug, PartialEq)]
pub struct Scaling {
    /// The name of the load.
    pub load: String,
    /// The system.
    pub system: String,
    /// Calls per second with each number of CPUs, means over the seeds.
    pub rates: Vec<(u16, f64)>,
    /// The number of CPUs beyond which twice as many bring less than 1.2 times the calls.
    pub limit: Option<u16>,
    /// With the largest number of CPUs: the part on which calls spend most of their time with memory, and its share.
    pub hottest: Option<(String, f64)>,
}

/// Twice the CPUs must bring this many times the calls, or the system has stopped scaling.
pub const WORTH: f64 = 1.2;

/// The smallest share of the time with memory for which a part gets rows.
const LEAST_SHARE: f64 = 0.01;

/// Returns the rows of a cell. `base` has everything but a measurement. Where CPUs are apart, lines and locks are
/// counted at another time than calls: then only shares are meaningful.
pub(crate) fn of_cell(base: &Row, mhz: u32, phases: Phases, cell: &Cell) -> Vec<Row> {
    let (mhz, mut rows) = (f64::from(mhz), Vec::new());
    let mut add = |operation, metric, statistic, value| {
        rows.push(Row {
            operation,
            metric,
            statistic,
            value,
            ..base.clone()
        });
    };
    let calls: [(&'static str, &Latency); 2] = [("allocate", &cell.allocate), ("free", &cell.free)];
    for (operation, latency) in calls {
        let times = [
            ("mean", latency.mean),
            ("p50", latency.p50 as f64),
            ("p99", latency.p99 as f64),
            ("max", latency.max as f64),
        ];
        for (statistic, cycles) in times {
            add(operation, "latency", statistic, cycles * 1e3 / mhz);
        }
        add(operation, "latency", "count", latency.calls as f64);
    }
    add("all", "throughput", "rate", cell.rate() * mhz * 1e6);
    let refused = cell.refused as f64 / cell.requests.max(1) as f64;
    add("allocate", "blocking_probability", "rate", refused);
    let time = cell.cycles.max(1) as f64 * f64::from(base.cpus);
    add("all", "idle_share", "value", cell.idle as f64 / time);
    let per_call = |count: u64| count as f64 / cell.calls().max(1) as f64;
    add("all", "preemptions", "value", cell.preemptions as f64);
    let accesses: u64 = cell.parts.iter().map(|part| part.traffic.accesses).sum();
    let is_together = phases == Phases::Together;
    if is_together {
        add("all", "lock_acquisitions", "count", cell.locks as f64);
        add("all", "lock_acquisitions", "mean", per_call(cell.locks));
        let contended = per_call(cell.contended);
        add("all", "contention_rate", "value", contended);
        add("all", "accesses", "value", per_call(accesses));
    }
    add("all", "accesses_outside", "value", cell.outside as f64);
    for part in &cell.parts {
        let traffic = &part.traffic;
        let share = (traffic.cycles + traffic.waited) as f64 / cell.memory_cycles.max(1) as f64;
        if share < LEAST_SHARE {
            continue;
        }
        let values = [
            ("memory_time_share", share),
            ("line_moves", per_call(traffic.transfers)),
            ("waits", per_call(traffic.waits)),
        ];
        for (metric, value) in values.into_iter().take(if is_together { 3 } else { 1 }) {
            rows.push(Row {
                source: format!("{}: {}", base.source, part.what),
                metric,
                statistic: "value",
                value,
                ..base.clone()
            });
        }
    }
    rows
}

/// Summarizes the rows of the cells of one system under one load: for each number of CPUs, and each of `seeds` seeds.
pub(crate) fn scaling(load: &str, system: String, seeds: usize, cells: &[&[Row]]) -> Scaling {
    let mut rates: Vec<(u16, f64)> = Vec::new();
    let is_rate = |row: &&Row| row.metric == "throughput";
    for row in cells.iter().filter_map(|rows| rows.iter().find(is_rate)) {
        let rate = row.value / seeds as f64;
        match rates.last_mut() {
            Some((cpus, sum)) if *cpus == row.cpus => *sum += rate,
            _ => rates.push((row.cpus, rate)),
        }
    }
    // The parts of a cell are sorted.
    let is_share = |row: &&Row| row.metric == "memory_time_share";
    let last = cells.last().and_then(|rows| rows.iter().find(is_share));
    Scaling {
        system,
        limit: limit(&rates),
        rates,
        hottest: last.map(|row| (part_of(load, row).to_string(), row.value)),
        load: load.to_string(),
    }
}

/// Returns the part of the metadata that a row is about: what follows the name of the load in its source.
pub fn part_of<'r>(load: &str, row: &'r Row) -> &'r str {
    let part = row.source.strip_prefix(load);
    part.and_then(|part| part.strip_prefix(": ")).unwrap_or("")
}

/// Returns the rows about all numbers of CPUs together. `base` has everything else.
pub(crate) fn of_scaling(base: &Row, scaling: &Scaling) -> Vec<Row> {
    let row = |cpus, metric, value| Row {
        cpus,
        metric,
        statistic: "value",
        value,
        ..base.clone()
    };
    let mut rows = Vec::new();
    if let Some((least, alone)) = scaling.rates.first() {
        for (cpus, rate) in &scaling.rates {
            let linear = alone / f64::from(*least) * f64::from(*cpus);
            rows.push(row(*cpus, "linearity", rate / linear));
        }
    }
    let most = scaling.rates.last().map_or(0, |(cpus, _)| *cpus);
    if let Some(limit) = scaling.limit {
        rows.push(row(most, "scaling_limit", f64::from(limit)));
    }
    rows
}

/// Returns the number of CPUs beyond which twice as many bring too little. Where numbers are not doubled, as many
/// doublings count as lie between them.
fn limit(rates: &[(u16, f64)]) -> Option<u16> {
    rates.windows(2).find_map(|pair| {
        let [(cpus, rate), (more, faster)] = [pair[0], pair[1]];
        let doublings = (f64::from(more) / f64::from(cpus)).log2();
        (faster < WORTH.powf(doublings) * rate).then_some(cpus)
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_system_stops_where_twice_the_cpus_bring_too_little() {
        let rates = [(1, 1.0), (2, 1.9), (4, 3.0), (6, 3.1), (8, 3.5), (16, 9.0)];
        assert_eq!(limit(&rates), Some(4));
        assert_eq!(limit(&rates[..3]), None);
        assert_eq!(limit(&[(1, 1.0), (2, 1.2)]), None);
        // Two doublings must bring 1.44 times the calls.
        assert_eq!(limit(&[(1, 1.0), (4, 1.45)]), None);
        assert_eq!(limit(&[(1, 1.0), (4, 1.43)]), Some(1));
        assert_eq!(limit(&[]), None);
    }
}
