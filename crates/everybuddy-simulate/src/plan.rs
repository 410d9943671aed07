//! All cells of a run, and their rows.
//!
//! # Purpose
//!
//! A plan is what the command line asks for. Its rows are in the columns of every other result; the machine's clock
//! rate turns cycles into times.
//!
//! # Invariants
//!
//! A system that has stopped scaling is named together with the part of its metadata on which its calls spend most of
//! their time with memory.

use everybuddy::SystemSpec;
use everybuddy_measure::rows::{Platform, Row};
use everybuddy_measure::{Error, choice};
use everybuddy_sim::Hardware;
use everybuddy_workload::Variant;

use crate::cell::{Cell, CellPlan, Latency, simulate};

/// What is simulated: each system on each workload with each number of CPUs.
#[derive(Clone, Debug)]
pub struct Plan {
    /// The name of the machine.
    pub machine: String,
    /// The machine.
    pub hardware: Hardware,
    /// The workloads.
    pub variants: Vec<&'static Variant>,
    /// The systems.
    pub specs: Vec<SystemSpec>,
    /// The numbers of CPUs, ascending.
    pub cpus: Vec<u16>,
    /// The frames of the memory.
    pub frames: u32,
    /// The mean number of cycles between two calls.
    pub think: u32,
    /// The factor by which workloads are shortened.
    pub shrink: u32,
    /// The seeds.
    pub seeds: Vec<u64>,
}

/// How a system scales on a workload.
#[derive(Clone, Debug, PartialEq)]
pub struct Scaling {
    /// The workload.
    pub workload: &'static str,
    /// The system.
    pub system: String,
    /// Calls per second with each number of CPUs, means over the seeds.
    pub rates: Vec<(u16, f64)>,
    /// The number of CPUs beyond which twice as many bring less than 1.2 times the calls.
    pub limit: Option<u16>,
    /// With the largest number of CPUs: the part on which calls spend most of their time with memory, and its share.
    pub hottest: Option<(&'static str, f64)>,
}

/// Twice the CPUs must bring this many times the calls, or the system has stopped scaling.
pub const WORTH: f64 = 1.2;

/// The smallest share of the time with memory for which a part gets rows.
const LEAST_SHARE: f64 = 0.01;

impl Plan {
    /// Returns the number of cells.
    pub fn steps(&self) -> u64 {
        let variants: usize = self
            .variants
            .iter()
            .map(|variant| self.counts(variant).len())
            .sum();
        (variants * self.specs.len() * self.seeds.len()) as u64
    }

    /// Returns the numbers of CPUs on which a workload runs.
    fn counts(&self, variant: &Variant) -> Vec<u16> {
        let enough = |cpus: &u16| *cpus >= variant.threads;
        self.cpus.iter().copied().filter(enough).collect()
    }

    /// Simulates all cells. Calls `step` after each of them with its name.
    ///
    /// # Errors
    /// The first [`Error`] of a cell.
    pub fn run(&self, step: &mut dyn FnMut(&str)) -> Result<(Vec<Row>, Vec<Scaling>), Error> {
        let (mut rows, mut scalings) = (Vec::new(), Vec::new());
        for variant in &self.variants {
            for spec in &self.specs {
                let mut scaling = Scaling {
                    workload: variant.name,
                    system: spec.to_string(),
                    rates: Vec::new(),
                    limit: None,
                    hottest: None,
                };
                for cpus in self.counts(variant) {
                    let mut rate = 0.0;
                    for seed in &self.seeds {
                        let cell = simulate(&CellPlan {
                            hardware: &self.hardware,
                            spec,
                            variant,
                            cpus,
                            frames: self.frames,
                            think: self.instructions(self.think),
                            shrink: self.shrink,
                            seed: *seed,
                        })?;
                        rate += self.per_second(&cell) / self.seeds.len() as f64;
                        scaling.hottest = hottest(&cell);
                        let base = self.base(variant, spec, cpus, *seed);
                        self.rows_of(&cell, &base, &mut rows);
                        step(&format!("{}, {spec}, {cpus} CPUs", variant.name));
                    }
                    scaling.rates.push((cpus, rate));
                }
                scaling.limit = limit(&scaling.rates);
                rows.extend(self.rows_of_scaling(variant, spec, &scaling));
                scalings.push(scaling);
            }
        }
        Ok((rows, scalings))
    }

    /// Returns the number of instructions that take this many cycles.
    fn instructions(&self, cycles: u32) -> u32 {
        (u64::from(cycles) * 1000 / u64::from(self.hardware.work)).min(u64::from(u32::MAX / 2))
            as u32
    }

    fn per_second(&self, cell: &Cell) -> f64 {
        cell.rate() * f64::from(self.hardware.mhz) * 1e6
    }

    fn base(&self, variant: &Variant, spec: &SystemSpec, cpus: u16, seed: u64) -> Row {
        Row {
            experiment: "simulate".to_string(),
            source: variant.name.to_string(),
            system: spec.name().to_string(),
            options: choice::options(spec),
            platform: Platform::Sim(self.machine.clone()),
            cpus,
            seed,
            operation: "all",
            ..Row::default()
        }
    }

    fn rows_of(&self, cell: &Cell, base: &Row, rows: &mut Vec<Row>) {
        let nanoseconds = |cycles: f64| cycles * 1e3 / f64::from(self.hardware.mhz);
        let mut add = |operation, metric, statistic, value| {
            rows.push(Row {
                operation,
                metric,
                statistic,
                value,
                ..base.clone()
            });
        };
        let calls: [(&'static str, &Latency); 2] =
            [("allocate", &cell.allocate), ("free", &cell.free)];
        for (operation, latency) in calls {
            let times = [
                ("mean", latency.mean),
                ("p50", latency.p50 as f64),
                ("p99", latency.p99 as f64),
                ("max", latency.max as f64),
            ];
            for (statistic, cycles) in times {
                add(operation, "latency", statistic, nanoseconds(cycles));
            }
            add(operation, "latency", "count", latency.calls as f64);
        }
        add("all", "throughput", "rate", self.per_second(cell));
        let refused = cell.refused as f64 / cell.allocate.calls.max(1) as f64;
        add("allocate", "blocking_probability", "rate", refused);
        let accesses: u64 = cell.parts.iter().map(|part| part.traffic.accesses).sum();
        let accesses = accesses as f64 / cell.calls().max(1) as f64;
        add("all", "accesses", "value", accesses);
        add("all", "accesses_outside", "value", cell.outside as f64);
        for part in &cell.parts {
            let traffic = &part.traffic;
            let share = (traffic.cycles + traffic.waited) as f64 / cell.memory_cycles.max(1) as f64;
            if share < LEAST_SHARE {
                continue;
            }
            let moves = traffic.transfers as f64 / cell.calls().max(1) as f64;
            let waits = traffic.waits as f64 / cell.calls().max(1) as f64;
            for (metric, value) in [
                ("memory_time_share", share),
                ("line_moves", moves),
                ("waits", waits),
            ] {
                rows.push(Row {
                    source: format!("{}: {}", base.source, part.what),
                    metric,
                    statistic: "value",
                    value,
                    ..base.clone()
                });
            }
        }
    }

    fn rows_of_scaling(&self, variant: &Variant, spec: &SystemSpec, scaling: &Scaling) -> Vec<Row> {
        let seed = self.seeds.first().copied().unwrap_or(0);
        let row = |cpus, metric, value| Row {
            metric,
            statistic: "value",
            value,
            ..self.base(variant, spec, cpus, seed)
        };
        let mut rows = Vec::new();
        if let Some((first, alone)) = scaling.rates.first() {
            for (cpus, rate) in &scaling.rates {
                let linear = alone / f64::from(*first) * f64::from(*cpus);
                rows.push(row(*cpus, "linearity", rate / linear));
            }
        }
        let most = scaling.rates.last().map_or(0, |(cpus, _)| *cpus);
        if let Some(limit) = scaling.limit {
            rows.push(row(most, "scaling_limit", f64::from(limit)));
        }
        rows
    }
}

/// Returns the part on which calls spend most of their time with memory, and its share.
fn hottest(cell: &Cell) -> Option<(&'static str, f64)> {
    let first = cell.parts.first()?;
    let cycles = first.traffic.cycles + first.traffic.waited;
    Some((first.what, cycles as f64 / cell.memory_cycles.max(1) as f64))
}

/// Returns the number of CPUs beyond which twice as many bring too little.
fn limit(rates: &[(u16, f64)]) -> Option<u16> {
    rates.iter().find_map(|(cpus, rate)| {
        let double = cpus.checked_mul(2)?;
        let (_, more) = rates.iter().find(|(other, _)| *other == double)?;
        (*more < WORTH * rate).then_some(*cpus)
    })
}

#[cfg(test)]
mod tests {
    use everybuddy_measure::rows::checked;

    use super::*;

    #[test]
    fn rows_are_defined_and_say_that_they_are_simulated() {
        let machine = everybuddy_machines::by_name_or_path("x5570").unwrap();
        let names =
            |names: &[&str]| -> Vec<String> { names.iter().map(ToString::to_string).collect() };
        let plan = Plan {
            machine: machine.name.clone(),
            hardware: machine.hardware,
            variants: choice::workloads(&names(&["burst:in-order", "handover"])).unwrap(),
            specs: choice::parse(&names(&["bs", "is+order=9"])).unwrap(),
            cpus: vec![1, 2, 4],
            frames: 8192,
            think: 100,
            shrink: 64,
            seeds: vec![1, 2],
        };
        let mut steps = 0;
        let (rows, scalings) = plan.run(&mut |_| steps += 1).unwrap();
        // `handover` needs two CPUs.
        assert_eq!((steps, plan.steps()), (2 * 2 * (3 + 2), 2 * 2 * (3 + 2)));
        checked(&rows).unwrap();
        assert!(rows.iter().all(|row| row.platform.is_simulated()));
        let find = |metric: &str, cpus| {
            let mut found = rows
                .iter()
                .filter(|row| row.metric == metric && row.cpus == cpus);
            found.next().map(|row| row.value)
        };
        assert_eq!(find("linearity", 1), Some(1.0));
        assert!(
            find("linearity", 4).unwrap() < 0.8,
            "one lock serves four CPUs"
        );
        assert!(find("accesses", 1).unwrap() > 5.0);
        assert_eq!(scalings.len(), 4);
        assert_eq!(scalings[0].limit, Some(1));
        let shares = rows.iter().filter(|row| row.metric == "memory_time_share");
        assert!(
            shares
                .clone()
                .any(|row| row.source == "burst:in-order: zone lock")
        );
        assert!(shares.into_iter().all(|row| row.value <= 1.0));
    }

    #[test]
    fn a_system_stops_where_twice_the_cpus_bring_too_little() {
        let rates = [(1, 1.0), (2, 1.9), (4, 3.0), (6, 3.1), (8, 3.5), (16, 9.0)];
        assert_eq!(limit(&rates), Some(4));
        assert_eq!(limit(&rates[..4]), None, "no number is the double of 4");
        assert_eq!(limit(&[(1, 1.0), (2, 1.2)]), None);
        assert_eq!(limit(&[]), None);
    }
}
