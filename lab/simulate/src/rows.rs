//! The rows of a plan.
//!
//! A cell becomes rows in the columns of every other result. How a system scales is a summary of the rows of its cells,
//! so a cell whose rows were stored need not be simulated again.
//!
//! # Invariants
//! A system that has stopped scaling is named together with the part of its metadata on which its calls spend most of
//! their time with memory.

use std::collections::BTreeMap;

use everybuddy_measure::rows::Row;

use crate::cell::Cell;
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
    /// The part on which calls spend most of their time with memory, and its share: on the first number of CPUs beyond
    /// the limit, or on the largest one.
    pub hottest: Option<(String, f64)>,
}

impl Scaling {
    /// Returns the number of CPUs that a system scales to, as text: `8`, `> 128` where it has not stopped, and `-`
    /// where fewer than two numbers of CPUs were simulated.
    pub fn scales_to(&self) -> String {
        match (self.limit, &self.rates[..]) {
            (Some(limit), _) => limit.to_string(),
            (None, [_, .., (most, _)]) => format!("> {most}"),
            (None, _) => "-".to_string(),
        }
    }
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
    for (operation, latency) in [("allocate", &cell.allocate), ("free", &cell.free)] {
        for (statistic, cycles) in latency.statistics() {
            add(operation, "latency", statistic, cycles * 1e3 / mhz);
        }
        add(operation, "latency", "count", latency.calls as f64);
    }
    add("all", "throughput", "rate", cell.rate() * mhz * 1e6);
    let refused = cell.refused as f64 / cell.requests.max(1) as f64;
    add("allocate", "blocking_probability", "rate", refused);
    if let Some(cut_off) = cell.cut_off {
        add(
            "all",
            "cut_off",
            "value",
            cut_off as f64 / f64::from(base.cpus),
        );
    }
    let time = cell.cycles.max(1) as f64 * f64::from(base.cpus);
    add("all", "idle_share", "value", cell.idle as f64 / time);
    let per_call = |count: u64| count as f64 / cell.calls().max(1) as f64;
    add("all", "preemptions", "value", cell.preemptions as f64);
    let accesses: u64 = cell.parts.iter().map(|part| part.traffic.accesses).sum();
    let is_together = phases == Phases::Together;
    if is_together {
        add("all", "lock_acquisitions", "count", cell.locks as f64);
        add("all", "lock_acquisitions", "mean", per_call(cell.locks));
        let [allocate, free] = cell.contended;
        for (operation, contended, calls) in [
            ("all", allocate + free, cell.calls()),
            ("allocate", allocate, cell.allocate.calls),
            ("free", free, cell.free.calls),
        ] {
            let share = contended as f64 / calls.max(1) as f64;
            add(operation, "contention_rate", "value", share);
        }
        let waits = &cell.waits;
        add("all", "contended_wait", "count", waits.calls as f64);
        add("all", "contended_wait", "rate", per_call(waits.calls));
        let times = waits.statistics();
        for (statistic, cycles) in times.into_iter().filter(|_| waits.calls > 0) {
            add("all", "contended_wait", statistic, cycles * 1e3 / mhz);
        }
        let waited = waits.mean * waits.calls as f64;
        add("all", "wait_share", "value", waited / time);
        add("all", "accesses", "value", per_call(accesses));
    }
    if is_together && cell.background.1 > 0 {
        let (busy, units) = cell.background;
        let each = busy as f64 * 1e3 / mhz / cell.calls().max(1) as f64;
        add("all", "background_time", "mean", each);
        add("all", "background_time", "count", units as f64);
    }
    add("all", "accesses_outside", "value", cell.outside as f64);
    add("all", "metadata_bytes_per_frame", "value", cell.metadata);
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

/// Summarizes the rows of the cells of one system under one load, in the order of their numbers of CPUs. Cells that
/// were left out have no rows.
pub(crate) fn scaling(load: &str, system: String, cells: &[&[Row]]) -> Scaling {
    let mut sums: Vec<(u16, f64, f64)> = Vec::new();
    let is_rate = |row: &&Row| row.metric == "throughput";
    for row in cells.iter().filter_map(|rows| rows.iter().find(is_rate)) {
        match sums.last_mut() {
            Some((cpus, sum, seeds)) if *cpus == row.cpus => {
                (*sum, *seeds) = (*sum + row.value, *seeds + 1.0);
            }
            _ => sums.push((row.cpus, row.value, 1.0)),
        }
    }
    let rates = sums.iter().map(|(cpus, sum, seeds)| (*cpus, sum / seeds));
    let rates: Vec<(u16, f64)> = rates.collect();
    let limit = limit(&rates);
    let beyond = rates.iter().map(|(cpus, _)| *cpus);
    let beyond = beyond.filter(|cpus| limit.is_some_and(|limit| *cpus > limit));
    let at = beyond.min().or(rates.last().map(|(cpus, _)| *cpus));
    // The parts of a cell are sorted, the largest share first. All seeds have nearly the same: that of the last counts.
    let is_share = |row: &&Row| row.metric == "memory_time_share" && Some(row.cpus) == at;
    let shares = cells
        .iter()
        .rev()
        .find_map(|rows| rows.iter().find(is_share));
    Scaling {
        system,
        limit,
        rates,
        hottest: shares.and_then(|row| Some((part_of(load, row)?.to_string(), row.value))),
        load: load.to_string(),
    }
}

/// Returns the part of the metadata that a row is about: what follows the name of the load in its source. Returns
/// `None` if the row is about another load, or about no part. The name of a load can be the beginning of another one.
pub fn part_of<'r>(load: &str, row: &'r Row) -> Option<&'r str> {
    row.source.strip_prefix(load)?.strip_prefix(": ")
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

/// The metrics of `of_scaling`: they are about several cells.
pub const OF_SEVERAL_CELLS: [&str; 2] = ["linearity", "scaling_limit"];

/// Returns the rows about all numbers of CPUs together, from the rows of the cells of one system under one load, which
/// another run may have stored. The cells are in the order of [`Plan::cells`](crate::Plan::cells).
pub fn of_cells(cells: &[&[Row]]) -> Vec<Row> {
    let mut all = cells.iter().flat_map(|rows| rows.iter());
    let Some(rate) = all.find(|row| row.metric == "throughput") else {
        return Vec::new();
    };
    let scaling = scaling(&rate.source, rate.name(), cells);
    of_scaling(rate, &scaling)
}

/// Summarizes the rows of an earlier run: how each system scales under each load, in the order of the rows.
pub fn scalings(rows: &[Row]) -> Vec<Scaling> {
    type Cells = BTreeMap<(u16, u64), Vec<Row>>;
    let mut order: Vec<(&str, String)> = Vec::new();
    let mut of: BTreeMap<(&str, String), Cells> = BTreeMap::new();
    for row in rows.iter().filter(|row| row.metric == "throughput") {
        let key = (row.source.as_str(), row.name());
        if !of.contains_key(&key) {
            order.push(key.clone());
        }
        let cells = of.entry(key).or_default();
        cells
            .entry((row.cpus, row.seed))
            .or_default()
            .push(row.clone());
    }
    // The name of a load may contain what separates it from a part.
    for row in rows.iter().filter(|row| row.metric == "memory_time_share") {
        let load = row.source.rsplit_once(": ").map(|(load, _)| load);
        let cells = load.and_then(|load| of.get_mut(&(load, row.name())));
        if let Some(cell) = cells.and_then(|cells| cells.get_mut(&(row.cpus, row.seed))) {
            cell.push(row.clone());
        }
    }
    let scalings = order.into_iter().map(|key| {
        let own: Vec<&[Row]> = of[&key].values().map(Vec::as_slice).collect();
        scaling(key.0, key.1, &own)
    });
    scalings.collect()
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
    use everybuddy_sim::Traffic;

    use super::*;
    use crate::cell::{Latency, PartTraffic};

    fn part(what: &'static str, cycles: u64, waited: u64) -> PartTraffic {
        let traffic = Traffic {
            accesses: 30,
            cycles,
            waits: waited,
            waited,
            ..Traffic::default()
        };
        PartTraffic { what, traffic }
    }

    /// Rows of a cell of two CPUs with six calls in 1000 cycles.
    fn rows(phases: Phases) -> Vec<Row> {
        let latency = |calls| Latency {
            calls,
            ..Latency::default()
        };
        let cell = Cell {
            cycles: 1000,
            idle: 500,
            allocate: latency(4),
            free: latency(2),
            refused: 1,
            requests: 4,
            locks: 12,
            contended: [1, 2],
            waits: Latency {
                calls: 3,
                mean: 200.0,
                p50: 100,
                p99: 400,
                max: 400,
            },
            cut_off: Some(1),
            preemptions: 7,
            moments: Vec::new(),
            layout: Vec::new(),
            parts: vec![
                part("lock", 100, 300),
                part("map", 500, 97),
                part("rare", 3, 0),
            ],
            memory_cycles: 1000,
            background: (600, 5),
            outside: 0,
            metadata: 8.25,
        };
        let base = Row {
            source: "load".to_string(),
            cpus: 2,
            ..Row::default()
        };
        of_cell(&base, 2000, phases, &cell)
    }

    fn value(rows: &[Row], metric: &str, source: &str) -> Option<f64> {
        let mut found = rows
            .iter()
            .filter(|row| row.metric == metric && row.source == source && row.statistic != "count");
        found.next().map(|row| row.value)
    }

    #[test]
    fn rows_of_a_cell_are_computed_by_hand() {
        let rows = rows(Phases::Together);
        let expected = [
            ("throughput", "load", 12e6),
            ("blocking_probability", "load", 0.25),
            ("cut_off", "load", 0.5),
            // 500 of the 2000 cycles of both CPUs.
            ("idle_share", "load", 0.25),
            ("lock_acquisitions", "load", 2.0),
            // Of all calls; those of each kind follow.
            ("contention_rate", "load", 0.5),
            // Three waits of six calls; 600 of the 2000 cycles of both CPUs.
            ("contended_wait", "load", 0.5),
            ("wait_share", "load", 0.3),
            ("preemptions", "load", 7.0),
            ("accesses", "load", 15.0),
            // 600 cycles are 300 ns, of six calls.
            ("background_time", "load", 50.0),
            ("memory_time_share", "load: lock", 0.4),
            ("memory_time_share", "load: map", 0.597),
            ("waits", "load: lock", 50.0),
        ];
        for (metric, source, expected) in expected {
            assert_eq!(
                value(&rows, metric, source),
                Some(expected),
                "{metric} of {source}"
            );
        }
        let contended = |operation| {
            let mut own = rows.iter().filter(|row| row.metric == "contention_rate");
            own.find(|row| row.operation == operation)
                .map(|row| row.value)
        };
        assert_eq!(contended("allocate"), Some(0.25));
        assert_eq!(contended("free"), Some(1.0));
        let rare = rows.iter().find(|row| row.source == "load: rare");
        assert_eq!(rare, None, "less than a hundredth");
    }

    #[test]
    fn where_cpus_are_apart_only_shares_of_lines_are_meaningful() {
        let rows = rows(Phases::Apart);
        assert_eq!(value(&rows, "memory_time_share", "load: lock"), Some(0.4));
        for metric in [
            "accesses",
            "line_moves",
            "waits",
            "lock_acquisitions",
            "contention_rate",
            "contended_wait",
            "wait_share",
        ] {
            assert!(rows.iter().all(|row| row.metric != metric), "{metric}");
        }
    }

    #[test]
    fn a_part_belongs_to_one_load() {
        let of = |load: &str, source: &str| {
            let row = Row {
                source: source.to_string(),
                ..Row::default()
            };
            part_of(load, &row).map(str::to_string)
        };
        let lock = Some("zone lock".to_string());
        assert_eq!(of("steady:50", "steady:50: zone lock"), lock);
        assert_eq!(of("steady:50:mixed", "steady:50:mixed: zone lock"), lock);
        assert_eq!(of("steady:50", "steady:50:mixed: zone lock"), None);
        assert_eq!(of("steady:50", "steady:50"), None);
    }

    #[test]
    fn a_scaling_is_a_mean_over_seeds_and_names_the_hottest_part_of_most_cpus() {
        let cell = |cpus, rate, part: &str, share| {
            let row = |metric, source: String, value| Row {
                metric,
                source,
                value,
                cpus,
                ..Row::default()
            };
            vec![
                row("throughput", "load".to_string(), rate),
                row("memory_time_share", format!("load: {part}"), share),
            ]
        };
        let cells = [
            cell(2, 10.0, "map", 0.5),
            cell(2, 30.0, "map", 0.5),
            cell(4, 20.0, "lock", 0.9),
            cell(4, 24.0, "lock", 0.7),
        ];
        let cells: Vec<&[Row]> = cells.iter().map(Vec::as_slice).collect();
        let scaling = scaling("load", "bs".to_string(), &cells);
        assert_eq!(scaling.rates, [(2, 20.0), (4, 22.0)]);
        assert_eq!(scaling.limit, Some(2));
        assert_eq!(scaling.hottest, Some(("lock".to_string(), 0.7)));
        let rows = of_scaling(&Row::default(), &scaling);
        let rows = rows.iter().map(|row| (row.metric, row.cpus, row.value));
        // Ten calls for each of two CPUs.
        let expected = [
            ("linearity", 2, 1.0),
            ("linearity", 4, 22.0 / 40.0),
            ("scaling_limit", 4, 2.0),
        ];
        assert_eq!(rows.collect::<Vec<_>>(), expected);
    }

    #[test]
    fn the_cause_is_that_beyond_the_limit_and_seeds_are_counted_for_each_number_of_cpus() {
        let cell = |cpus, seed, rate, part: &str| {
            let row = |metric, source: &str, value| Row {
                metric,
                source: source.to_string(),
                system: "bs".to_string(),
                value,
                cpus,
                seed,
                ..Row::default()
            };
            let part = row("memory_time_share", &format!("a: trace: {part}"), 0.5);
            [row("throughput", "a: trace", rate), part]
        };
        let rows = [
            cell(1, 1, 10.0, "map"),
            cell(1, 2, 30.0, "map"),
            cell(2, 1, 40.0, "list"),
            cell(4, 1, 41.0, "lock"),
            cell(8, 1, 42.0, "depot"),
        ];
        let found = scalings(&rows.concat());
        let expected = Scaling {
            load: "a: trace".to_string(),
            system: "bs".to_string(),
            rates: vec![(1, 20.0), (2, 40.0), (4, 41.0), (8, 42.0)],
            limit: Some(2),
            hottest: Some(("lock".to_string(), 0.5)),
        };
        assert_eq!(found, [expected]);
        let found = scalings(&rows[..3].concat());
        assert_eq!(
            (found[0].limit, &found[0].hottest),
            (None, &Some(("list".to_string(), 0.5)))
        );
    }

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

    #[test]
    fn one_number_of_cpus_says_nothing_about_scaling() {
        let text = |rates: &[(u16, f64)]| {
            let (load, system, hottest) = (String::new(), String::new(), None);
            let (limit, rates) = (limit(rates), rates.to_vec());
            Scaling {
                load,
                system,
                rates,
                limit,
                hottest,
            }
            .scales_to()
        };
        assert_eq!(text(&[]), "-");
        assert_eq!(text(&[(128, 5.0)]), "-");
        assert_eq!(text(&[(64, 1.0), (128, 2.0)]), "> 128");
        assert_eq!(text(&[(64, 1.0), (128, 1.0)]), "64");
    }
}
