//! Shared by all methods: the declaration of a method, its input, and the conversion of numbers to rows.
//!
//! # Purpose
//!
//! Tables, figures and claims use exported rows only.
//!
//! # Invariants
//!
//! Every row contains its experiment's name, alone or before an `@`.

use everybuddy::{Setup, SystemSpec};
use everybuddy_trace::{Leniency, Resolved, resolve};
use serde::de::DeserializeOwned;
use toml::Table;

use super::Repeats;
use super::experiment::Experiment;
use everybuddy_measure::Error;
use everybuddy_measure::choice;
use everybuddy_measure::library;
use everybuddy_measure::refusals::Refusals;
use everybuddy_measure::replay::clock::Timer;
use everybuddy_measure::replay::host::Arena;
use everybuddy_measure::replay::memory::Memory;
use everybuddy_measure::replay::merge;
use everybuddy_measure::replay::observe::Observer;
use everybuddy_measure::replay::outcome::{least, median};
use everybuddy_measure::replay::pass::{self, Done, How};
use everybuddy_measure::replay::script::{Lane, Script};
use everybuddy_measure::rows::{Row, rounded};

/// A way to measure, with the parameters of an experiment's file.
pub trait Measure {
    /// Returns the number of repetitions; by default none, since counts repeat exactly.
    fn repeats(&self) -> Repeats {
        Repeats::Counted
    }

    /// Returns `true` if times are measured, so that nothing else may run meanwhile.
    fn is_timed(&self) -> bool {
        self.repeats().is_timed()
    }

    /// Returns `true` if the measurement uses all CPUs of the host by itself.
    fn uses_all_cpus(&self) -> bool {
        false
    }

    /// Returns the number of steps, for the progress bar; by default one for each trace and system.
    fn steps(&self, experiment: &Experiment) -> u64 {
        (experiment.traces().len() * experiment.systems.len()) as u64
    }

    /// Returns the sources that its rows can have: tables and claims name no others.
    fn sources(&self, experiment: &Experiment) -> Vec<String> {
        let traces = experiment.trace_names().into_iter();
        let all = traces.chain(experiment.workloads.iter().cloned());
        all.chain([MEAN.to_string()]).collect()
    }

    /// Returns the sources of which a complete run has rows of a metric. A claim without `sources` needs all of them.
    fn sources_of(&self, experiment: &Experiment, metric: &str) -> Vec<String> {
        let _ = metric;
        let mut sources = self.sources(experiment);
        sources.retain(|name| name != MEAN);
        sources
    }

    /// Returns `true` for a cell that a run leaves out, so that no claim may need it.
    fn is_left_out(&self, system: &str, source: &str) -> bool {
        let _ = (system, source);
        false
    }

    /// Returns the number of rounds of which a complete run has rows `NAME@ROUND` next to a mean; by default none.
    fn rounds_of(&self, system: &str, metric: &str) -> u32 {
        let _ = (system, metric);
        0
    }

    /// Runs the measurement.
    ///
    /// # Errors
    /// Returns the missing part of the experiment, or the system that broke its contract.
    fn run(
        &self,
        experiment: &Experiment,
        conditions: &Conditions,
        bench: &mut Bench<'_>,
    ) -> Result<Vec<Row>, Error>;
}

/// A method by name.
pub struct Method {
    /// The name in an experiment's file.
    pub name: &'static str,
    read: fn(Table) -> Result<Box<dyn Measure>, toml::de::Error>,
}

impl Method {
    /// Declares a method by the type of its parameters.
    pub(crate) const fn of<M: Measure + DeserializeOwned + 'static>(name: &'static str) -> Method {
        Method {
            name,
            read: |table| Ok(Box::new(table.try_into::<M>()?)),
        }
    }

    /// Parses the parameters of an experiment.
    ///
    /// # Errors
    /// A usage error that names the parameter that is missing, unknown or wrong.
    pub fn read(&self, experiment: &Experiment) -> Result<Box<dyn Measure>, Error> {
        let refuse = |error: toml::de::Error| {
            let (name, what) = (&experiment.name, error.message());
            Error::usage(format!("experiment {name}: [parameters]: {what}"))
        };
        (self.read)(experiment.parameters.clone()).map_err(refuse)
    }
}

/// The operations, by their names in rows.
pub const DIRECTIONS: [&str; 2] = ["allocate", "free"];

/// The base system of ratios.
pub const BASE: &str = "bs";

/// The source of rows about the mean over all sources.
pub const MEAN: &str = "mean";

/// The conditions of a run from the command line.
#[derive(Clone, Copy, Debug)]
pub struct Conditions {
    /// The seed of random choices.
    pub seed: u64,
    /// Everything is divided by this number, for a smoke test; the results have no meaning then.
    pub shrink: u32,
}

/// The tools of all methods.
pub struct Bench<'b> {
    /// The timer.
    pub timer: &'b Timer,
    /// Memory for metadata.
    pub arena: &'b mut Arena,
    /// Is called with a description after each step.
    pub step: &'b mut dyn FnMut(&str),
    /// The finished cells of simulations.
    pub cells: &'b mut dyn Cells,
}

/// The cells of simulations that an earlier run has finished.
pub trait Cells {
    /// Returns the rows of the cell with this description. Returns `None` if it is not finished.
    ///
    /// # Errors
    /// The [`Error`] of the store.
    fn known(&mut self, described: &str) -> Result<Option<Vec<Row>>, Error>;

    /// Stores the rows of a cell.
    ///
    /// # Errors
    /// The [`Error`] of the store.
    fn finished(&mut self, described: &str, rows: &[Row]) -> Result<(), Error>;
}

/// No cells are kept.
#[derive(Clone, Copy, Debug)]
pub struct NoCells;

impl Cells for NoCells {
    fn known(&mut self, _described: &str) -> Result<Option<Vec<Row>>, Error> {
        Ok(None)
    }

    fn finished(&mut self, _described: &str, _rows: &[Row]) -> Result<(), Error> {
        Ok(())
    }
}

/// Reads the traces of an experiment, with their names.
pub(crate) fn traces(
    experiment: &Experiment,
    conditions: &Conditions,
) -> Result<Vec<(String, Resolved)>, Error> {
    let read = |name: &String| {
        let (trace, _) = library::read(name, Leniency::Strict)?;
        let resolved = resolve(&trace)?;
        Ok((trace.name, merge::cut(resolved, conditions.shrink)))
    };
    experiment.traces().iter().map(read).collect()
}

/// A trace of an experiment, prepared for replay.
pub(crate) struct Traced {
    /// The trace's name.
    pub(crate) name: String,
    /// The trace, shortened according to the conditions.
    pub(crate) resolved: Resolved,
    /// The trace as calls of threads.
    pub(crate) script: Script,
    /// The memory of the replay, as the experiment sets it.
    pub(crate) memory: Memory,
}

impl Traced {
    /// Replays the trace on a system while observers count, one for each lane; nothing is timed.
    pub(crate) fn counted<O: Observer>(
        &self,
        spec: &SystemSpec,
        bench: &mut Bench<'_>,
        observer: impl Fn(&Lane) -> O + Sync,
    ) -> Result<Done<O>, Error> {
        let (script, memory) = (&self.script, &self.memory);
        pass::watch(script, memory, bench.arena, spec, How::COUNTED, observer)
    }
}

/// Reads the traces of an experiment for replays with the given number of threads, or on one thread in the order of the
/// trace. Each is prepared when its turn comes.
pub(crate) fn replays<'e>(
    experiment: &'e Experiment,
    conditions: &Conditions,
    threads: Option<u16>,
) -> Result<impl Iterator<Item = Result<Traced, Error>> + 'e, Error> {
    let prepare = move |(name, resolved): (String, Resolved)| {
        let script = Script::new(&name, &resolved, threads)?;
        let memory = memory(experiment, &script, None)?;
        Ok(Traced {
            name,
            resolved,
            script,
            memory,
        })
    };
    Ok(traces(experiment, conditions)?.into_iter().map(prepare))
}

/// Calls `replay` for each trace and each system, on one thread in the order of the trace, and collects the rows. The
/// common columns of these rows are the third argument.
pub(crate) fn replay_each(
    experiment: &Experiment,
    conditions: &Conditions,
    bench: &mut Bench<'_>,
    mut replay: impl FnMut(&Traced, &SystemSpec, &Row, &mut Bench<'_>) -> Result<Vec<Row>, Error>,
) -> Result<Vec<Row>, Error> {
    let specs = experiment.specs()?;
    let mut rows = Vec::new();
    for traced in replays(experiment, conditions, None)? {
        let traced = traced?;
        let (name, cpus) = (&traced.name, traced.script.cpus);
        for spec in &specs {
            let common = common(experiment, conditions, name, spec, cpus);
            rows.extend(replay(&traced, spec, &common, bench)?);
            (bench.step)(&format!("{name} {spec}"));
        }
    }
    Ok(rows)
}

/// Returns the memory of a replay, according to the experiment; aged, if there is a seed.
pub(crate) fn memory(
    experiment: &Experiment,
    script: &Script,
    aged: Option<u64>,
) -> Result<Memory, Error> {
    let frames = experiment.frames().map_err(Error::usage)?;
    Memory::new(script, frames, aged)
}

/// Returns the common columns of the rows of a system on a source.
pub(crate) fn common(
    experiment: &Experiment,
    conditions: &Conditions,
    source: &str,
    spec: &SystemSpec,
    cpus: u16,
) -> Row {
    Row {
        experiment: experiment.name.clone(),
        source: source.to_string(),
        system: spec.name().to_string(),
        options: choice::options(spec),
        platform: experiment.platform.clone(),
        cpus,
        seed: conditions.seed,
        operation: "all",
        ..Row::default()
    }
}

/// Returns the row of the batch with which a system works on a memory, unless its list has none.
pub(crate) fn batch(common: &Row, spec: &SystemSpec, memory: &Memory) -> Option<Row> {
    let ranges = [memory.range()];
    let parameters = spec.parameters(&Setup::new(&ranges, common.cpus)).ok()?;
    let frames = f64::from(parameters.batch()?);
    Some(row(common, "batch", "value", frames))
}

/// Returns rows for a number with a value per round: its median, minimum and maximum.
pub(crate) fn rounds(common: &Row, metric: &'static str, values: &[f64]) -> Vec<Row> {
    let mut rows = Vec::new();
    let values: Vec<f64> = values.iter().copied().filter(|v| v.is_finite()).collect();
    if values.is_empty() {
        return rows;
    }
    let most = values.iter().copied().max_by(f64::total_cmp);
    rows.push(row(common, metric, "p50", median(values.clone())));
    let least = least(values.iter().copied());
    rows.extend(least.map(|value| row(common, metric, "min", value)));
    rows.extend(most.map(|value| row(common, metric, "max", value)));
    rows
}

/// Creates the rows about refused requests: of all requests, of those above order 0, and of each order.
pub(crate) fn refusal_rows(refusals: &Refusals, common: &Row) -> Vec<Row> {
    let entries = refusals.entries().into_iter();
    let own = |(order, metric, statistic, value)| Row {
        order,
        ..row(common, metric, statistic, value)
    };
    entries.map(own).collect()
}

/// Creates a row with a number.
pub(crate) fn row(common: &Row, metric: &'static str, statistic: &'static str, value: f64) -> Row {
    Row {
        metric,
        statistic,
        value: rounded(value),
        ..common.clone()
    }
}
