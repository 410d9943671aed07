//! Workloads on a simulated machine.
//!
//! Published numbers of machines with many CPUs become targets of the simulator: an experiment names the machine, the
//! numbers of CPUs and the claims.
//!
//! # Invariants
//! Every number is simulated: it is the same on every host, and the rows say so. A source is a workload with a number
//! of CPUs, `burst:in-order/16`, so that a table has a column for each. Where a paper leaves open which CPU frees a
//! frame, or whether CPUs do the same at the same time, there are several readings: the first one has no suffix,
//! and each other one has its name at the end of its sources.

mod printed;
mod reading;

use everybuddy_measure::choice;
use everybuddy_measure::rows::Platform;
use everybuddy_simulate::machines::{self, Machine};
use everybuddy_simulate::trace::LEAST_FRAMES;
use everybuddy_simulate::{CellId, Load, Plan};

use self::printed::{Printed, source_of};
use self::reading::{Reading, rename};
use crate::shared::prelude::*;

/// In a smoke test, a CPU makes no more calls in a section once its calls have taken this many cycles.
const SMOKE_CUT_OFF: u64 = 100_000;

/// The parameters in the experiment's file.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct Parameters {
    /// The numbers of CPUs, ascending.
    pub(super) cpus: Vec<u16>,
    /// The mean number of cycles between two calls.
    think: u32,
    /// The factor by which the workloads are shortened.
    shrink: u32,
    /// The number of seeds.
    seeds: u64,
    /// The cycles after which virtual CPUs take turns, if there may be more of them than the machine has CPUs.
    #[serde(default)]
    slice: u64,
    /// Whether they take turns between calls only.
    #[serde(default)]
    whole_calls: bool,
    /// The cycles in calls after which a CPU makes no more of them in a section of a workload; zero if it makes all.
    #[serde(default)]
    cut_off: u64,
    /// Cells that are left out because they take too long: a system, a workload, and the numbers of CPUs.
    #[serde(default)]
    without: Vec<(String, String, Vec<u16>)>,
    /// The machine's memory in MiB, which the lengths of Linux's lists follow; by default that of its file. A load that
    /// takes a share of the memory needs lists of that memory.
    installed: Option<u32>,
    /// What the source leaves open; one reading by default.
    #[serde(default)]
    readings: Vec<Reading>,
    /// The system whose times are divided by those of the others.
    examined: Option<String>,
    /// Tables of the source.
    #[serde(default)]
    pub(super) printed: Vec<Printed>,
    /// What is simulated of each reading, once it is prepared.
    #[serde(skip)]
    parts: Vec<Part>,
}

impl Parameters {
    /// Returns the readings, each with the end that it gives to sources.
    fn readings(&self) -> Vec<(String, Reading)> {
        if self.readings.is_empty() {
            return vec![Default::default()];
        }
        let named = |(at, own): (usize, &Reading)| {
            let end = match at {
                0 => String::new(),
                _ => format!("+{}", own.name),
            };
            (end, own.clone())
        };
        self.readings.iter().enumerate().map(named).collect()
    }

    /// Returns what is simulated, on any machine if it is not known.
    fn plan(
        &self,
        experiment: &Experiment,
        conditions: &Conditions,
        machine: Option<&Machine>,
    ) -> Result<Plan, Error> {
        let name = &experiment.name;
        let refuse = |what: String| Error::usage(format!("experiment {name}: {what}"));
        let most = machine.map_or(u32::MAX, |machine| machine.hardware.cpus());
        let is_wrong = |cpus: &u16| *cpus == 0 || (self.slice == 0 && u32::from(*cpus) > most);
        if self.cpus.iter().any(is_wrong) {
            return Err(refuse(match machine {
                Some(machine) => format!("[parameters]: cpus: {} has {most} CPUs", machine.name),
                None => "[parameters]: cpus: 0 CPUs simulate nothing".to_string(),
            }));
        }
        let machine = match machine {
            Some(machine) => machine,
            None => &machines::by_name_or_path(machines::names()[0])?,
        };
        let cpus = self.cpus.iter().copied().max().unwrap_or(1);
        for (system, workload, cpus) in &self.without {
            let is_known = experiment.systems.contains(system);
            let are_known = cpus.iter().all(|cpus| self.cpus.contains(cpus));
            if !is_known || !are_known || !experiment.workloads.contains(workload) {
                return Err(refuse(format!(
                    "[parameters]: without: unknown cell: {system} under {workload} on {cpus:?} CPUs"
                )));
            }
        }
        let systems: Vec<&str> = experiment.systems.iter().map(String::as_str).collect();
        choice::all_known("system", self.examined.as_slice(), &systems)
            .map_err(|what| refuse(format!("[parameters]: examined: {what}")))?;
        let check = |own: &Printed| own.check(experiment, &self.cpus);
        self.printed.iter().try_for_each(check).map_err(refuse)?;
        let frames = experiment.frames().map_err(refuse)?;
        let frames = frames.and_then(|frames| u32::try_from(frames).ok());
        let frames = frames.ok_or_else(|| refuse("memory: a size below 16 TiB".to_string()))?;
        let cut_off = (self.cut_off > 0).then_some(self.cut_off);
        // A smoke test has one seed, and little memory: the length of some workloads depends on it. Shrinking does not
        // shorten bursts, so the calls of collapsed locks are cut off. The memory is never exhausted: a call that finds
        // it so waits for other CPUs, which do not run if there are more of them than cores and calls keep their cores.
        let (seeds, frames, cut_off) = match conditions.shrink {
            0 | 1 => (self.seeds.max(1), frames, cut_off),
            shrink => {
                let least = 2 * LEAST_FRAMES * u32::from(cpus);
                let soonest = cut_off.map_or(SMOKE_CUT_OFF, |own| own.min(SMOKE_CUT_OFF));
                (1, (frames / shrink).max(least), Some(soonest))
            }
        };
        let mut hardware = machine.hardware;
        hardware.installed = self.installed.unwrap_or(hardware.installed);
        let loads = choice::workloads(&experiment.workloads)?.into_iter();
        let loads = loads.map(Load::Workload).collect();
        Ok(Plan {
            hardware,
            cpus: self.cpus.clone(),
            frames,
            think: self.think,
            shrink: self.shrink.max(1).saturating_mul(conditions.shrink.max(1)),
            slice: match self.slice {
                0 => u64::from(u32::MAX),
                given => given,
            },
            whole_calls: self.whole_calls,
            cut_off,
            seeds: (conditions.seed..conditions.seed + seeds).collect(),
            ..Plan::new(machine, loads, experiment.specs()?)
        })
    }
}

/// Reads the machine of an experiment.
fn machine(experiment: &Experiment) -> Result<Machine, Error> {
    let name = &experiment.name;
    let refuse = |what: String| Error::usage(format!("experiment {name}: platform: {what}"));
    match &experiment.platform {
        Platform::Sim(machine) => {
            machines::by_name_or_path(machine).map_err(|error| refuse(error.to_string()))
        }
        _ => Err(refuse(
            "the method `simulated` needs `sim:MACHINE`".to_string(),
        )),
    }
}

impl Measure for Parameters {
    fn repeats(&self) -> Repeats {
        match self.seeds {
            0 | 1 => Repeats::Simulated,
            seeds => Repeats::SimulatedMeans(seeds as u32),
        }
    }

    fn design(&self, experiment: &Experiment, conditions: &Conditions) -> Result<Design, Error> {
        let named = experiment.specs()?;
        let mut design = Design::new(Vec::new());
        // The machine's file may be gone when the rows of an earlier run are read.
        let machine = match (machine(experiment), &experiment.platform) {
            (Err(_), Platform::Sim(name)) if name.ends_with(".toml") => None,
            (own, _) => Some(own?),
        };
        for own in self.parts(experiment, conditions, machine.as_ref())? {
            let (plan, end) = (&own.plan, &own.end);
            design.cells.extend(own.cells.iter().map(|id| {
                let source = source_of(plan.loads[id.load].name(), id.cpus, end);
                let about = About::all(source).system(named[id.spec].to_string());
                Cell::new(format!("{}{end}", plan.name(id)), 1, vec![about])
            }));
            // What `over_loads` returns, and what a table of the source is judged by.
            let over = self.cpus.iter().filter(|_| self.examined.is_some());
            let over = over.map(|cpus| source_of(MEAN, *cpus, end));
            let over = over.map(|source| About::of(source, Metrics::Only(&OVER_LOADS)));
            let judged = About::of(format!("{MEAN}{end}"), Metrics::Some);
            design = design.concluding(over.chain([judged]));
        }
        Ok(design)
    }

    fn prepare(&mut self, experiment: &Experiment, conditions: &Conditions) -> Result<(), Error> {
        let machine = machine(experiment)?;
        self.parts = self.parts(experiment, conditions, Some(&machine))?;
        Ok(())
    }

    fn identity(
        &self,
        experiment: &Experiment,
        _: &Conditions,
        cell: usize,
    ) -> Result<Option<String>, Error> {
        let (own, id) = self.cell(experiment, cell)?;
        let simulated = own.plan.identity(&id);
        Ok(Some(format!("{}{} {simulated}", experiment.name, own.end)))
    }

    /// Simulates a cell.
    fn measure(&self, cell: usize, run: &mut Run<'_, '_>) -> Result<Vec<Row>, Error> {
        let (own, id) = self.cell(run.experiment, cell)?;
        let loads: Vec<&str> = own.plan.loads.iter().map(Load::name).collect();
        // Rows about parts of the metadata are for the command `simulate` only.
        let mut rows = own.plan.simulate(&id)?;
        rows.retain(|row| loads.contains(&row.source.as_str()));
        for row in &mut rows {
            row.experiment.clone_from(&run.experiment.name);
            row.source = source_of(&row.source, row.cpus, &own.end);
        }
        run.step(format_args!("{}{}", own.plan.name(&id), own.end));
        Ok(rows)
    }

    fn conclude(
        &self,
        experiment: &Experiment,
        _: &Conditions,
        cells: Vec<Vec<Row>>,
    ) -> Result<Vec<Row>, Error> {
        let named = experiment.specs()?;
        let (mut all, mut cells) = (Vec::new(), cells.into_iter());
        for own in &self.parts {
            let rows = cells.by_ref().take(own.cells.len()).flatten().collect();
            all.extend(self.read(own, &named, rows));
        }
        Ok(all)
    }
}

/// What is simulated of a reading.
#[derive(Clone, Debug)]
struct Part {
    /// The suffix that the reading adds to the names of sources.
    end: String,
    plan: Plan,
    /// The cells of the plan that are not left out.
    cells: Vec<CellId>,
}

impl Parameters {
    /// Returns what is simulated of each reading. Without the machine, it says only what the cells are.
    fn parts(
        &self,
        experiment: &Experiment,
        conditions: &Conditions,
        machine: Option<&Machine>,
    ) -> Result<Vec<Part>, Error> {
        let plan = self.plan(experiment, conditions, machine)?;
        let part = |(end, reading): (String, Reading)| {
            let think = reading.think.unwrap_or(plan.think);
            let refuse = |what| {
                let (name, reading) = (&experiment.name, &reading.name);
                Error::usage(format!("experiment {name}: reading {reading}: {what}"))
            };
            let plan = Plan {
                program: reading.program().map_err(refuse)?,
                hardware: match machine {
                    Some(_) => reading.hardware(&plan.hardware).map_err(refuse)?,
                    None => plan.hardware,
                },
                specs: reading.specs(&plan.specs).map_err(refuse)?,
                phases: reading.phases,
                frees: reading.frees,
                zones: reading.zones,
                services: reading.services,
                // Services search for work meanwhile, which takes most of the time of a smoke test.
                think: if conditions.shrink > 1 {
                    think.min(plan.think)
                } else {
                    think
                },
                around: reading.around,
                ..plan.clone()
            };
            let mut cells = plan.cells();
            cells.retain(|id| !self.is_without(&plan, experiment, id));
            Ok(Part { end, plan, cells })
        };
        self.readings().into_iter().map(part).collect()
    }

    /// Returns a cell of the design.
    fn cell(&self, experiment: &Experiment, mut cell: usize) -> Result<(&Part, CellId), Error> {
        for own in &self.parts {
            match own.cells.get(cell) {
                Some(id) => return Ok((own, *id)),
                None => cell -= own.cells.len(),
            }
        }
        let name = &experiment.name;
        Err(Error::Broken(format!("experiment {name}: no such cell")))
    }

    /// Returns `true` for a cell that is not simulated.
    fn is_without(&self, plan: &Plan, experiment: &Experiment, id: &CellId) -> bool {
        let (system, workload) = (&experiment.systems[id.spec], plan.loads[id.load].name());
        let mut all = self.without.iter();
        all.any(|(not, under, cpus)| not == system && under == workload && cpus.contains(&id.cpus))
    }

    /// Returns the rows of a reading, from those of its cells. `named` are the experiment's systems.
    fn read(
        &self,
        Part { end, plan, .. }: &Part,
        named: &[SystemSpec],
        rows: Vec<Row>,
    ) -> Vec<Row> {
        let mut rows = mean(rows, plan.seeds.len());
        // The paper's table has the systems without what a reading adds.
        rename(&mut rows, &plan.specs, named);
        if !self.printed.is_empty() {
            rows.extend(cycles(&rows, plan.hardware.mhz));
        }
        if let Some(examined) = &self.examined {
            rows.extend(relative_times(&rows, examined));
        }
        for printed in &self.printed {
            let operation = printed.operation.as_str();
            let base = rows.iter().find(|row| row.operation == operation);
            let base = base.cloned().unwrap_or_default();
            let base = base.expecting(None).of_order(None);
            let judged = printed.judge(&base, &rows, end);
            printed.mark(&mut rows, end);
            rows.extend(judged);
        }
        if self.examined.is_some() {
            rows.extend(over_loads(&rows, plan.loads.len(), end));
        }
        rename(&mut rows, named, &plan.specs);
        rows
    }
}

/// Returns the mean cycles of an allocation, of a free, and of a call, as papers print them.
fn cycles(rows: &[Row], mhz: u32) -> Vec<Row> {
    let is_time = |row: &&Row| row.metric == "latency" && row.statistic == "mean";
    let calls = |time: &Row| {
        let is_same = |row: &&Row| {
            let key = |row: &Row| (row.operation, row.source.clone(), row.name());
            row.metric == "latency" && row.statistic == "count" && key(row) == key(time)
        };
        rows.iter().find(is_same).map_or(0.0, |row| row.value)
    };
    let row = |time: &Row, operation, value: f64| Row {
        operation,
        metric: "cycles",
        value: rounded(value * f64::from(mhz) / 1e3),
        ..time.clone()
    };
    let mut all = Vec::new();
    for time in rows.iter().filter(is_time) {
        all.push(row(time, time.operation, time.value));
        let is_free_of = |row: &&Row| {
            let is_same = row.source == time.source && row.name() == time.name();
            row.operation == "free" && is_same
        };
        let free = rows.iter().filter(is_time).find(is_free_of);
        if let (Some(free), "allocate") = (free, time.operation) {
            let (of_one, of_other) = (calls(time), calls(free));
            let sum = time.value * of_one + free.value * of_other;
            all.push(row(time, "all", sum / (of_one + of_other).max(1.0)));
        }
    }
    all
}

/// Returns the time of a system's calls in units of the time of each other system's.
fn relative_times(rows: &[Row], examined: &str) -> Vec<Row> {
    let is_time = |row: &&Row| row.metric == "latency" && row.statistic == "mean";
    let times = || rows.iter().filter(is_time);
    let mut all = Vec::new();
    for own in times().filter(|row| row.name() == examined) {
        let is_same = |row: &&Row| row.source == own.source && row.operation == own.operation;
        let others = times().filter(is_same);
        let others = others.filter(|row| row.name() != examined && row.value > 0.0);
        all.extend(others.map(|other| Row {
            metric: "relative_time",
            value: rounded(own.value / other.value),
            ..other.clone()
        }));
    }
    all
}

/// The metrics whose means over all loads are printed in papers.
const OVER_LOADS: [&str; 3] = ["cycles", "relative_time", "contention_rate"];

/// Returns the means over all loads of what papers print such means of, and of what they print. `end` is that of the
/// reading.
fn over_loads(rows: &[Row], loads: usize, end: &str) -> Vec<Row> {
    let own = rows.iter().filter(|row| OVER_LOADS.contains(&row.metric));
    let mut means: Vec<(Row, Vec<&Row>)> = Vec::new();
    for row in own {
        let mean = Row {
            source: source_of(MEAN, row.cpus, end),
            value: 0.0,
            expected: None,
            ..row.clone()
        };
        match means.iter_mut().find(|(known, _)| *known == mean) {
            Some((_, all)) => all.push(row),
            None => means.push((mean, vec![row])),
        }
    }
    let whole = means.into_iter().filter(|(_, all)| all.len() == loads);
    let count = loads as f64;
    whole
        .map(|(mean, all)| {
            let expected: Option<f64> = all.iter().map(|row| row.expected).sum();
            Row {
                value: rounded(all.iter().map(|row| row.value).sum::<f64>() / count),
                expected: expected.map(|sum| rounded(sum / count)),
                ..mean
            }
        })
        .collect()
}

/// Replaces the rows of all seeds by their means.
fn mean(rows: Vec<Row>, seeds: usize) -> Vec<Row> {
    let same = |a: &Row, b: &Row| {
        let key = |row: &Row| (row.operation, row.metric, row.statistic, row.order);
        key(a) == key(b) && (&a.source, a.name()) == (&b.source, b.name())
    };
    let mut means: Vec<(Row, usize)> = Vec::new();
    for row in rows {
        match means.iter_mut().find(|(mean, _)| same(mean, &row)) {
            Some((mean, count)) => {
                mean.value += row.value;
                *count += 1;
            }
            None => means.push((row, 1)),
        }
    }
    // What one seed lacks, such as the time of waits, has no mean over all.
    let whole = means.into_iter().filter(|(_, count)| *count == seeds);
    whole
        .map(|(row, count)| Row {
            value: row.value / count as f64,
            seed: 0,
            ..row
        })
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn means_are_over_all_seeds() {
        let row = |source: &str, seed, value| Row {
            source: source.to_string(),
            seed,
            value,
            ..Row::default()
        };
        let rows = vec![row("a", 1, 2.0), row("b", 1, 8.0), row("a", 2, 4.0)];
        assert_eq!(mean(rows, 2), [row("a", 0, 3.0)]);
    }

    #[test]
    fn cycles_and_ratios_of_times_are_computed_by_hand() {
        let row = |system: &str, operation, statistic, value| Row {
            source: "w/8".to_string(),
            system: system.to_string(),
            operation,
            metric: "latency",
            statistic,
            value,
            ..Row::default()
        };
        let of = |system, [allocate, free]: [f64; 2]| {
            [
                row(system, "allocate", "mean", allocate),
                row(system, "allocate", "count", 30.0),
                row(system, "free", "mean", free),
                row(system, "free", "count", 10.0),
            ]
        };
        let rows = [of("bs", [100.0, 200.0]), of("is", [25.0, 100.0])].concat();
        let find = |rows: &[Row], system: &str, operation: &str| {
            let mut own = rows.iter().filter(|row| row.system == system);
            own.find(|row| row.operation == operation)
                .map(|row| row.value)
        };
        let own = cycles(&rows, 3000);
        assert_eq!(own.len(), 6);
        assert_eq!(find(&own, "bs", "free"), Some(600.0));
        // 30 allocations of 300 cycles, and 10 frees of 600.
        assert_eq!(find(&own, "bs", "all"), Some(375.0));
        let own = relative_times(&rows, "is");
        assert_eq!(own.len(), 2);
        assert_eq!(find(&own, "bs", "allocate"), Some(0.25));
        assert_eq!(find(&own, "bs", "free"), Some(0.5));
    }

    #[test]
    fn means_over_loads_are_of_what_all_loads_have() {
        let row = |load: &str, cpus, value, expected| Row {
            source: source_of(load, cpus, "+own"),
            cpus,
            metric: "relative_time",
            statistic: "mean",
            value,
            expected,
            ..Row::default()
        };
        let rows = [
            row("v", 8, 0.5, None),
            row("v", 24, 0.1, Some(0.25)),
            row("w", 24, 0.3, Some(0.75)),
        ];
        assert_eq!(
            over_loads(&rows, 2, "+own"),
            [row(MEAN, 24, 0.2, Some(0.5))]
        );
        assert_eq!(over_loads(&rows, 3, "+own"), []);
    }
}
