//! Shared by all methods: the declaration of a method, its input, and its tools.
//!
//! Tables, figures and claims use exported rows only.
//!
//! # Invariants
//! Every row contains its experiment's name, alone or before an `@`.

use std::fmt::Display;

use everybuddy::SystemSpec;
use everybuddy_trace::{Leniency, Resolved, resolve};
use serde::de::DeserializeOwned;
use toml::Table;

use super::Repeats;
use super::design::Design;
use super::experiment::Experiment;
use super::rows::row;
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

    /// Returns what is measured; by default a cell for each trace, with a step for each system.
    ///
    /// # Errors
    /// A usage error that names what is wrong with the experiment.
    fn design(&self, experiment: &Experiment, _: &Conditions) -> Result<Design, Error> {
        Ok(Design::of_traces(experiment, experiment.systems.len()))
    }

    /// Reads what the cells need besides traces, once, before the first of them is measured. What can be said of rows
    /// without it, [`design`](Self::design) says.
    ///
    /// # Errors
    /// A usage error that names what cannot be read.
    fn prepare(&mut self, _: &Experiment, _: &Conditions) -> Result<(), Error> {
        Ok(())
    }

    /// Describes all that the rows of a cell depend on besides the program. Returns `None`, as by default, if that is
    /// the whole experiment.
    ///
    /// # Errors
    /// Like [`design`](Self::design).
    fn identity(
        &self,
        _: &Experiment,
        _: &Conditions,
        _cell: usize,
    ) -> Result<Option<String>, Error> {
        Ok(None)
    }

    /// Measures a cell of the design, by its number, and returns its rows.
    ///
    /// # Errors
    /// Returns the missing part of the experiment, or the system that broke its contract.
    fn measure(&self, cell: usize, run: &mut Run<'_, '_>) -> Result<Vec<Row>, Error>;

    /// Returns the rows of the experiment, from the rows of each cell of the design; by default they are the same.
    ///
    /// # Errors
    /// Like [`design`](Self::design).
    fn conclude(
        &self,
        _: &Experiment,
        _: &Conditions,
        cells: Vec<Vec<Row>>,
    ) -> Result<Vec<Row>, Error> {
        Ok(cells.concat())
    }
}

/// Measures a cell of a design, and checks that its rows are about what the design says.
///
/// # Errors
/// Like [`Measure::measure`]. [`Error::Broken`] if the method contradicts its design.
pub fn measure(
    method: &dyn Measure,
    design: &Design,
    cell: usize,
    run: &mut Run<'_, '_>,
) -> Result<Vec<Row>, Error> {
    let rows = method.measure(cell, run)?;
    let own = &design.cells[cell];
    match rows.iter().find(|row| !own.has(&row.source)) {
        None => Ok(rows),
        Some(row) => Err(Error::Broken(format!(
            "experiment {}: cell {} has rows about `{}`, of which its method says nothing",
            run.experiment.name, own.name, row.source
        ))),
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

impl Conditions {
    /// The conditions of a run that is not shortened, with the default seed of the command line.
    pub const WHOLE: Conditions = Conditions { seed: 1, shrink: 1 };
}

/// The tools of all methods.
pub struct Bench<'b> {
    /// The timer.
    pub timer: &'b Timer,
    /// Memory for metadata.
    pub arena: &'b mut Arena,
    /// Is called with a description after each step.
    pub step: &'b mut dyn FnMut(&str),
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

impl Run<'_, '_> {
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
        let all = self.experiment.traces();
        all.iter().map(|name| self.read(name)).collect()
    }

    /// Reads the trace with this number.
    pub(crate) fn trace(&self, number: usize) -> Result<(String, Resolved), Error> {
        self.read(&self.experiment.traces()[number])
    }

    fn read(&self, name: &str) -> Result<(String, Resolved), Error> {
        let (trace, _) = library::read(name, Leniency::Strict)?;
        let resolved = resolve(&trace)?;
        Ok((trace.name, merge::cut(resolved, self.conditions.shrink)))
    }

    /// Returns the memory of a replay, according to the experiment; aged, if there is a seed.
    pub(crate) fn memory(&self, script: &Script, aged: Option<u64>) -> Result<Memory, Error> {
        let frames = self.experiment.frames().map_err(Error::usage)?;
        Memory::new(script, frames, &Initial::of_seed(aged))
    }

    /// Reads the trace with this number for replays with some number of threads, or on one thread in the order of the
    /// trace.
    pub(crate) fn traced(&self, number: usize, threads: Option<u16>) -> Result<Traced, Error> {
        let (name, resolved) = self.trace(number)?;
        let script = Script::new(&name, &resolved, threads)?;
        let memory = self.memory(&script, None)?;
        Ok(Traced {
            name,
            resolved,
            script,
            memory,
        })
    }

    /// Calls `replay` for each system with the trace of this number, on one thread in the order of the trace, and
    /// collects the rows. The common columns of these rows are the third argument.
    pub(crate) fn replay_on_each(
        &mut self,
        trace: usize,
        mut replay: impl FnMut(&Traced, &SystemSpec, &Row, &mut Bench<'_>) -> Result<Vec<Row>, Error>,
    ) -> Result<Vec<Row>, Error> {
        let traced = self.traced(trace, None)?;
        let mut rows = Vec::new();
        for spec in &self.specs()? {
            let common = self.common(&traced.name, spec, traced.script.cpus);
            rows.extend(replay(&traced, spec, &common, self.bench)?);
            self.step(format_args!("{} {spec}", traced.name));
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

#[cfg(test)]
mod tests {
    use super::*;

    /// A method whose rows are about something else than its design says.
    struct Wrong;

    impl Measure for Wrong {
        fn measure(&self, trace: usize, run: &mut Run<'_, '_>) -> Result<Vec<Row>, Error> {
            let names = run.experiment.trace_names();
            let common = run.subject(["elsewhere", &names[0]][trace % 2], "trace", 1);
            Ok(vec![row(&common, "calls", "count", 1.0)])
        }
    }

    #[test]
    fn rows_are_about_what_the_design_says() {
        let experiment = &crate::named(&["coalescing".to_string()]).unwrap()[0];
        let design = Wrong.design(experiment, &Conditions::WHOLE).unwrap();
        let timer = Timer::calibrated();
        let mut bench = Bench {
            timer: &timer,
            arena: &mut Arena::default(),
            step: &mut |_| {},
        };
        let mut run = Run {
            experiment,
            conditions: &Conditions::WHOLE,
            bench: &mut bench,
        };
        let wrong = measure(&Wrong, &design, 0, &mut run).unwrap_err();
        assert!(
            wrong.to_string().contains("rows about `elsewhere`"),
            "{wrong}"
        );
        // The second cell has rows about the first trace.
        let wrong = measure(&Wrong, &design, 1, &mut run).unwrap_err();
        let first = &design.cells[0].name;
        assert!(wrong.to_string().contains(&format!("rows about `{first}`")));
    }
}
