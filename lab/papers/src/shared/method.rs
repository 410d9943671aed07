//! Shared by all methods: the declaration of a method, its input, and its tools.
//!
//! Tables, figures and claims use exported rows only.
//!
//! # Invariants
//! Every row contains its experiment's name, alone or before an `@`.

use std::fmt::Display;
use std::num::NonZero;

use everybuddy::SystemSpec;
use everybuddy_trace::{Leniency, Resolved, resolve};
use serde::de::DeserializeOwned;
use toml::Table;

use super::Repeats;
use super::experiment::Experiment;
use super::rows::{MEAN, row};
use everybuddy_measure::Error;
use everybuddy_measure::choice;
use everybuddy_measure::library;
use everybuddy_measure::refusals::Refusals;
use everybuddy_measure::replay::clock::Timer;
use everybuddy_measure::replay::host::Arena;
use everybuddy_measure::replay::memory::{Initial, Memory};
use everybuddy_measure::replay::merge;
use everybuddy_measure::replay::observe::Observer;
use everybuddy_measure::replay::pass::{self, Done, How};
use everybuddy_measure::replay::script::{Lane, Script};
use everybuddy_measure::rows::Row;

/// A way to measure, with the parameters of an experiment's file.
pub trait Measure: Send + Sync {
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

    /// Measures, and returns the rows.
    ///
    /// # Errors
    /// Returns the missing part of the experiment, or the system that broke its contract.
    fn measure(&self, run: &mut Run<'_, '_>) -> Result<Vec<Row>, Error>;

    /// Runs the measurement of an experiment.
    ///
    /// # Errors
    /// Like [`measure`](Self::measure).
    fn run(
        &self,
        experiment: &Experiment,
        conditions: &Conditions,
        bench: &mut Bench<'_>,
    ) -> Result<Vec<Row>, Error> {
        self.measure(&mut Run {
            experiment,
            conditions,
            bench,
        })
    }
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
    /// How many cells are simulated at the same time.
    pub jobs: NonZero<usize>,
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

/// A run of an experiment: what is measured, and with which tools.
pub struct Run<'r, 'b> {
    /// The experiment.
    pub experiment: &'r Experiment,
    /// The conditions.
    pub conditions: &'r Conditions,
    /// The tools.
    pub bench: &'r mut Bench<'b>,
}

impl<'r> Run<'r, '_> {
    /// Returns the systems.
    pub(crate) fn specs(&self) -> Result<Vec<SystemSpec>, Error> {
        self.experiment.specs()
    }

    /// Returns the divisor of a shortened run.
    pub(crate) fn shrink(&self) -> u32 {
        self.conditions.shrink.max(1)
    }

    /// Returns the number of rounds: one in a shortened run.
    pub(crate) fn rounds(&self, whole: u32) -> u32 {
        if self.shrink() > 1 { 1 } else { whole }
    }

    /// Reports a step.
    pub(crate) fn step(&mut self, what: impl Display) {
        (self.bench.step)(&what.to_string());
    }

    /// Returns the common columns of the rows of a system on a source.
    pub(crate) fn common(&self, source: &str, spec: &SystemSpec, cpus: u16) -> Row {
        Row {
            options: choice::options(spec),
            ..self.subject(source, spec.name(), cpus)
        }
    }

    /// Returns the common columns of the rows of a subject that is not a system.
    pub(crate) fn subject(&self, source: &str, subject: &str, cpus: u16) -> Row {
        Row {
            experiment: self.experiment.name.clone(),
            source: source.to_string(),
            system: subject.to_string(),
            platform: self.experiment.platform.clone(),
            cpus,
            seed: self.conditions.seed,
            operation: "all",
            ..Row::default()
        }
    }

    /// Reads the traces, with their names.
    pub(crate) fn traces(&self) -> Result<Vec<(String, Resolved)>, Error> {
        let read = |name: &String| {
            let (trace, _) = library::read(name, Leniency::Strict)?;
            let resolved = resolve(&trace)?;
            Ok((trace.name, merge::cut(resolved, self.conditions.shrink)))
        };
        self.experiment.traces().iter().map(read).collect()
    }

    /// Returns the memory of a replay; aged, if there is a seed.
    pub(crate) fn memory(&self, script: &Script, aged: Option<u64>) -> Result<Memory, Error> {
        memory(self.experiment, script, aged)
    }

    /// Reads the traces for replays with the given number of threads, or on one thread in the order of the trace. Each
    /// is prepared when its turn comes.
    pub(crate) fn replays(
        &self,
        threads: Option<u16>,
    ) -> Result<impl Iterator<Item = Result<Traced, Error>> + use<'r>, Error> {
        let experiment = self.experiment;
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
        Ok(self.traces()?.into_iter().map(prepare))
    }

    /// Calls `replay` for each trace and each system, on one thread in the order of the trace, and collects the rows.
    /// The common columns of these rows are the third argument.
    pub(crate) fn replay_each(
        &mut self,
        mut replay: impl FnMut(&Traced, &SystemSpec, &Row, &mut Bench<'_>) -> Result<Vec<Row>, Error>,
    ) -> Result<Vec<Row>, Error> {
        let specs = self.specs()?;
        let mut rows = Vec::new();
        for traced in self.replays(None)? {
            let traced = traced?;
            for spec in &specs {
                let common = self.common(&traced.name, spec, traced.script.cpus);
                rows.extend(replay(&traced, spec, &common, self.bench)?);
                self.step(format_args!("{} {spec}", traced.name));
            }
        }
        Ok(rows)
    }

    /// Calls `visit` for each system in each round, systems taking turns. Returns the results of each system.
    pub(crate) fn in_turns<T>(
        &mut self,
        rounds: u32,
        specs: &[SystemSpec],
        name: &str,
        mut visit: impl FnMut(&SystemSpec, &mut Bench<'_>) -> Result<T, Error>,
    ) -> Result<Vec<Vec<T>>, Error> {
        let mut all: Vec<Vec<T>> = specs.iter().map(|_| Vec::new()).collect();
        for round in 0..rounds as usize {
            for turn in 0..specs.len() {
                let who = (turn + round) % specs.len();
                all[who].push(visit(&specs[who], self.bench)?);
                self.step(format_args!("{name} {}", specs[who]));
            }
        }
        Ok(all)
    }
}

/// Returns the memory of a replay, according to the experiment; aged, if there is a seed.
fn memory(experiment: &Experiment, script: &Script, aged: Option<u64>) -> Result<Memory, Error> {
    let frames = experiment.frames().map_err(Error::usage)?;
    Memory::new(script, frames, &Initial::of_seed(aged))
}

/// Returns the refused requests of a replay.
pub(crate) fn refusals<O>(script: &Script, done: &Done<O>) -> Refusals {
    Refusals {
        requests: script.requests(),
        refused: done.played.trouble.refused,
    }
}

/// Returns the row of the batch with which a system works on a memory, unless its list has none.
pub(crate) fn batch(common: &Row, spec: &SystemSpec, memory: &Memory) -> Option<Row> {
    let ranges = memory.ranges();
    let parameters = spec.parameters(&memory.setup(None, &ranges, common.cpus));
    let parameters = parameters.ok()?;
    let frames = f64::from(parameters.batch()?);
    Some(row(common, "batch", "value", frames))
}
