//! `everybuddy compare`: a comparison of systems on traces.
//!
//! This is the first command that a new user runs: without arguments it compares all systems on the bundled traces.
//!
//! # Invariants
//! All input is read and checked before the first pass, and files are written after the last.

mod earlier;

use std::path::{Path, PathBuf};
use std::sync::{Mutex, PoisonError};

use clap::Args;
use everybuddy::SystemSpec;
use everybuddy_trace::{Leniency, Owners, resolve};

use crate::export::page::{Occasion, Page, Subject};
use crate::export::{self, Outputs};
use crate::run::{self, Cell, Known, Run, RunOptions, missing};
use crate::show::{self, output, systems};
use everybuddy_measure::Error;
use everybuddy_measure::answer;
use everybuddy_measure::choice;
use everybuddy_measure::library;
use everybuddy_measure::replay::background_load::HostInfo;
use everybuddy_measure::replay::clock::Timer;
use everybuddy_measure::replay::host::Arena;
use everybuddy_measure::replay::machine::Machine;
use everybuddy_measure::replay::memory::{Initial, Memory};
use everybuddy_measure::replay::outcome::Comparison;
use everybuddy_measure::replay::{self, ComparePlan, Script};
use everybuddy_measure::rows::table::Which;
use everybuddy_measure::rows::{Row, comparison as rows};
use everybuddy_measure::size::Size;
use everybuddy_measure::sizes;
use everybuddy_page::document::Block;

use self::earlier::Earlier;
use super::files::{Files, Sinks, titled};
use super::numbers::{at_least_one, threads};
use super::start::Start;

/// Compare systems on traces of real programs.
///
/// Each trace is replayed on each system: every call of the traced program to the kernel's page
/// allocator becomes a call to the system. Timed passes are repeated in turns; counts come from a
/// separate pass.
#[derive(Debug, Args)]
#[command(verbatim_doc_comment)]
#[command(after_help = include_str!("help/compare.txt"))]
pub(super) struct Arguments {
    /// Select traces: files, or names of bundled traces [default: gcc_build,dbench_tar,numpy_thp]
    #[arg(value_name = "TRACE")]
    traces: Vec<String>,

    /// Select systems: NAME or NAME+key=value..., see `everybuddy systems` [default: all]
    #[arg(long, value_name = "A,B", value_delimiter = ',')]
    systems: Option<Vec<String>>,

    /// Replay on N threads (1 to 256), one per CPU [default: one thread, in trace order]
    #[arg(long, value_name = "N", value_parser = threads)]
    cpus: Option<u16>,

    /// Set the machine's memory, which lists follow [default: the trace's, or 16GiB]
    #[arg(long, value_name = "SIZE")]
    machine: Option<Size>,

    /// Set the memory that the systems manage, such as 512MiB [default: see below]
    #[arg(long, value_name = "SIZE")]
    memory: Option<Size>,

    /// Start with long-lived blocks scattered over a tenth of memory, at random from this seed
    #[arg(long, value_name = "SEED", conflicts_with = "start")]
    aged: Option<u64>,

    #[command(flatten)]
    start: Start,

    /// Use the frames as the program did: times are the whole price of a frame
    #[arg(long)]
    touch: bool,

    /// Divide memory in advance by these sizes, for systems with division=on
    #[arg(long, value_name = "FILE", value_delimiter = ',')]
    sizes: Vec<PathBuf>,

    /// Divide for the first N requests [default: all counted requests]
    #[arg(long, value_name = "N", requires = "sizes", value_parser = at_least_one)]
    sizes_first: Option<u64>,

    /// Set the seed of the order in which systems take turns, and of a start that is drawn
    #[arg(long, value_name = "N", default_value_t = 1)]
    seed: u64,

    /// Do not write a page
    #[arg(long, conflicts_with = "html")]
    no_html: bool,

    #[command(flatten)]
    run: RunOptions,

    #[command(flatten)]
    files: Files,

    /// Measure nothing: take the rows from FILE, the --json of an earlier run
    #[arg(long, value_name = "FILE", conflicts_with_all = ["systems", "machine", "memory", "aged", "start",
        "touch", "sizes", "seed", "RunOptions"])]
    rows: Option<PathBuf>,

    /// Show all columns and counters instead of the most important ones
    #[arg(long)]
    all_columns: bool,

    /// Repair invalid traces and report the repairs, instead of rejecting them
    #[arg(long)]
    lenient: bool,
}

/// The heading of the page.
const TITLE: &str = "Buddy systems on real traces";

/// Checks the arguments without replaying anything.
pub(super) fn check(arguments: &Arguments) -> Result<(), Error> {
    if let Some(texts) = &arguments.systems {
        choice::parse(texts)?;
    }
    for subject in &scripts(arguments, &arguments.traces, false)?.0 {
        subject.memory(arguments)?;
    }
    sizes::read(&arguments.sizes).map(drop)
}

/// Runs the command.
pub(super) fn run(arguments: Arguments) -> Result<(), Error> {
    if let Some(file) = &arguments.rows {
        return earlier::run(&arguments, file);
    }
    let systems = match &arguments.systems {
        Some(texts) => choice::parse(texts)?,
        None => choice::compared(),
    };
    let names = if arguments.traces.is_empty() {
        &library::DEFAULT.map(String::from)[..]
    } else {
        &arguments.traces
    };
    let mut inputs = [&arguments.sizes[..], arguments.start.files()].concat();
    for name in names {
        inputs.extend(library::file(name)?);
    }
    let mut outputs = Outputs::beside(inputs);
    let sinks = arguments.files.without_page(&mut outputs)?;
    let page = page(&arguments, &mut outputs, &sinks)?;
    let (scripts, subjects) = scripts(&arguments, names, page.is_some())?;
    let plan = |memory: Option<u64>, initial| ComparePlan {
        systems: systems.clone(),
        memory,
        initial,
        seed: arguments.seed,
        rounds: ComparePlan::ROUNDS,
        touches: arguments.touch,
    };
    // Rows that do not name the room have that of the trace.
    let given = arguments.memory.is_some() || arguments.start.has_files();
    let known = sizes::read(&arguments.sizes)?;
    if !known.is_empty() {
        note_unused_sizes(&systems)?;
    }
    let mut divisions = Vec::with_capacity(scripts.len());
    for subject in &scripts {
        // Rejects an impossible set-up before anything has run.
        let (script, memory) = (&subject.script, subject.memory(&arguments)?);
        let requests = arguments.sizes_first.unwrap_or(u64::MAX);
        divisions.push(sizes::division(
            &known,
            script,
            memory.frames,
            requests,
            &mut output::note,
        ));
    }
    let host = HostInfo::look();
    let timer = Timer::calibrated();
    let which = which(&arguments);
    let plans: Vec<ComparePlan> = scripts
        .iter()
        .map(|own| plan(Some(own.room(&arguments)), own.initial.clone()))
        .collect();
    let cells: Result<Vec<Cell>, Error> = (0..scripts.len())
        .map(|at| cell(&arguments, &names[at], (&scripts[at], &plans[at]), at))
        .collect();
    let run = Run::new(cells?, &arguments.run, missing)?;
    // What only a replay knows of a comparison: its charts. One that was finished before has none.
    let measured = Mutex::new(vec![None; scripts.len()]);
    let mut comparisons = Vec::with_capacity(scripts.len());
    let mut results: Vec<Vec<Row>> = Vec::with_capacity(scripts.len());
    let mut answers = Vec::with_capacity(scripts.len());
    let table = |at: usize, known: &Known| {
        let Some(rows) = known[at].clone() else {
            return Ok(());
        };
        let own = measured.lock().unwrap_or_else(PoisonError::into_inner)[at].take();
        let comparison: Comparison = match own {
            Some(own) => own,
            None => Earlier::of(Path::new(names[at].as_str()), rows.clone())?
                .comparison(&scripts[at])?,
        };
        let answer = answer::of(&comparison, &rows, host.was_busy());
        let answered = answer.as_ref();
        sinks.show(show::comparison::blocks(
            &comparison,
            &rows,
            answered,
            which,
        ))?;
        answers.push(answer);
        comparisons.push(comparison);
        results.push(rows);
        Ok(())
    };
    run.go(table, |stage| {
        let mut arena = Arena::default();
        let all = scripts.iter().zip(&plans).zip(divisions);
        for (at, ((subject, plan), division)) in all.enumerate() {
            let script = &subject.script;
            if stage.known()[at].is_some() {
                continue;
            }
            stage.says(&script.name);
            arena.divide(division);
            arena.place(Some(subject.machine));
            let step = || stage.step(&script.name);
            let own = replay::compare(script, plan, &timer, &mut arena, step)?;
            let rows = rows::of(&own, &timer, plan.seed, given);
            measured.lock().unwrap_or_else(PoisonError::into_inner)[at] = Some(own);
            stage.ended(at, Some(rows))?;
        }
        Ok(())
    })?;
    let kept = comparisons.iter().filter(|own| own.rounds == 0).count();
    if kept == 0 {
        sinks.show(show::comparison::closing(
            &comparisons,
            &results,
            &answers,
            which,
            &host,
            &timer,
        ))?;
    } else {
        // How disturbed the machine was is known of this run alone.
        let legend = show::comparison::legend(&comparisons, &results, &answers, which);
        sinks.show(legend)?;
        let text = format!(
            "{kept} of {} comparisons were measured by other runs of this program, on the same kind of processor",
            comparisons.len()
        );
        sinks.show(vec![Block::text(text)])?;
    }
    if let Some(page) = page {
        let occasion = Occasion {
            title: TITLE,
            machine: &host,
            timer: Some(&timer),
            seed: arguments.seed,
            rounds: ComparePlan::ROUNDS,
        };
        let mut report = export::page::report(&occasion);
        let scripts = scripts.iter().map(|own| &own.script);
        let traces = comparisons.iter().zip(&results).zip(answers);
        let traces = traces.zip(subjects.iter().zip(scripts));
        report.traces = traces
            .map(|(((c, rows), answer), of)| export::page::compared(c, rows, answer, of))
            .collect();
        page.write(&report)?;
    }
    sinks.write(&results.concat(), titled(TITLE))
}

/// Returns a comparison on a trace as a cell of a run.
fn cell(
    arguments: &Arguments,
    name: &str,
    (subject, plan): (&OnMachine, &ComparePlan),
    table: usize,
) -> Result<Cell, Error> {
    let identity = || {
        let (cpus, first) = (arguments.cpus, arguments.sizes_first);
        let (machine, lenient) = (&subject.machine, arguments.lenient);
        let own = format!("{plan:?} {machine:?} {cpus:?} {first:?} {lenient}");
        let contents = run::contents(&[name.to_string()], &arguments.sizes)?;
        Ok(own + &run::host() + &contents)
    };
    Ok(Cell {
        name: subject.script.name.clone(),
        identity: arguments.run.identity(identity)?,
        table,
        weight: plan.passes(),
        passes: Some(plan.passes()),
        is_timed: true,
    })
}

/// Prepares the page, if one is wanted.
fn page(
    arguments: &Arguments,
    outputs: &mut Outputs,
    sinks: &Sinks,
) -> Result<Option<Page>, Error> {
    match (&arguments.files.html, arguments.no_html) {
        (Some(path), _) => Page::open(outputs, path).map(Some),
        (None, true) => Ok(None),
        (None, false) if sinks.take_output() => Ok(None),
        (None, false) => Page::open_default(outputs),
    }
}

impl OnMachine {
    /// Returns the size of the room: what was given, what is free at the start, or what the trace needs on its machine.
    fn room(&self, arguments: &Arguments) -> u64 {
        let given = arguments.memory.map(|size| size.frames);
        given.unwrap_or_else(|| match &self.initial {
            Initial::As(map) => map.free(),
            _ => Memory::room(&self.machine, self.script.peak_frames, self.script.cpus),
        })
    }

    /// Returns the memory of a replay.
    fn memory(&self, arguments: &Arguments) -> Result<Memory, Error> {
        Memory::new(&self.script, Some(self.room(arguments)), &self.initial)
    }
}

/// Returns the columns to show.
fn which(arguments: &Arguments) -> Which {
    if arguments.all_columns {
        Which::All
    } else {
        Which::Default
    }
}

/// Prints a note if no system divides memory in advance, so that `--sizes` changes nothing.
fn note_unused_sizes(selected: &[SystemSpec]) -> Result<(), Error> {
    let divides = |spec: &SystemSpec| -> Result<bool, Error> { Ok(systems::built(spec)?.division) };
    for spec in selected {
        if divides(spec)? {
            return Ok(());
        }
    }
    let mut users = Vec::new();
    for spec in choice::all() {
        if divides(&spec)? {
            users.push(format!("`{spec}`"));
        }
    }
    output::note(&format!(
        "--sizes is not used, because no selected system divides memory in advance (systems that do: {}, and others \
         that take the option division, with division=on)",
        users.join(", ")
    ));
    Ok(())
}

/// A trace to replay on a machine.
struct OnMachine {
    script: Script,
    /// The machine from which the lengths of the lists follow.
    machine: Machine,
    /// What is in use at the start.
    initial: Initial,
}

/// Reads all traces, with their machines; the data for a page is kept only if a page is written.
fn scripts(
    arguments: &Arguments,
    names: &[String],
    is_page_wanted: bool,
) -> Result<(Vec<OnMachine>, Vec<Subject>), Error> {
    let leniency = if arguments.lenient {
        Leniency::Lenient
    } else {
        Leniency::Strict
    };
    let mut scripts = Vec::with_capacity(names.len());
    let mut subjects = Vec::new();
    let seed = arguments.seed;
    let start = arguments.start.read(seed)?.map(Initial::As);
    let start = start.unwrap_or(Initial::of_seed(arguments.aged));
    for name in names {
        let (trace, repairs) = library::read(name, leniency)?;
        if !repairs.is_empty() {
            output::note(&format!("trace {}: repaired: {repairs}", trace.name));
        }
        let resolved = resolve(&trace)?;
        let mut script = Script::new(&trace.name, &resolved, arguments.cpus)?;
        script.owners = Owners::of(&trace);
        let given = arguments.machine.map(|size| size.frames);
        let machine = Machine::new(&trace, given, script.cpus);
        let own = || Start::of_trace(&trace, seed).map(Initial::As);
        let initial = match (arguments.start.is_recorded(), &arguments.rows) {
            (true, _) => own()?,
            // An earlier run may have started with it.
            (_, Some(_)) => own().unwrap_or_default(),
            (false, None) => start.clone(),
        };
        scripts.push(OnMachine {
            script,
            machine,
            initial,
        });
        if is_page_wanted {
            subjects.push(Subject::new(&trace, &resolved));
        }
    }
    Ok((scripts, subjects))
}
