//! `everybuddy compare`: systems side by side on traces.
//!
//! Exists as the command that a newcomer runs first: without arguments it compares everything on
//! the bundled traces.
//!
//! Invariant: all input is read and checked before the first pass begins, and files are written
//! after the last.

use std::path::PathBuf;

use clap::Args;
use everybuddy_trace::{Leniency, resolve};

use crate::export;
use crate::export::page::{Occasion, Page, Subject};
use crate::show::{self, output, progress::Progress};
use everybuddy_measure::Error;
use everybuddy_measure::choice;
use everybuddy_measure::library;
use everybuddy_measure::replay::bystanders::Machine;
use everybuddy_measure::replay::clock::Timer;
use everybuddy_measure::replay::host::Arena;
use everybuddy_measure::replay::{self, Plan, Script};
use everybuddy_measure::rows::{Row, comparison as rows};
use everybuddy_measure::size::Size;
use everybuddy_measure::sizes;

use super::files::Files;

/// Compare systems on traces of real programs.
///
/// Each trace is replayed on each system: what the traced program asked of the kernel's page
/// allocator is asked of the system, call by call. Timed passes are repeated in turns; counts come
/// from a pass of their own.
#[derive(Debug, Args)]
#[command(
    verbatim_doc_comment,
    after_help = "\
Examples:
  everybuddy compare
        all systems on the bundled traces (gcc_build, dbench_tar, numpy_thp), as tables here and as
        pictures in everybuddy-report.html
  everybuddy compare gcc_build --systems bs,lbs-31,linux-6
        three systems on one of them
  everybuddy compare recording.parquet --systems lbs-31,lbs-31+batch=7,lbs-31+percpu=locked
        variants of a system on a trace of your own
  everybuddy compare --cpus 2
        the same on two threads at once: contention shows
  everybuddy compare numpy_thp --aged 1 --memory 1GiB
        in memory with long-lived blocks scattered in it
  everybuddy compare gcc_build --systems bs,serewa --sizes gcc_build.sizes.json
        memory divided beforehand, as an earlier run needed it (`everybuddy trace sizes`)
  everybuddy compare --json - | jq 'select(.metric == \"service_ratio\")'
        every number for programs; docs/metrics.md defines them

Memory: 1.25 times the most frames that the trace had live at once, at least 8 MiB, unless
--memory says otherwise; rounded up to whole blocks of order 10 (4 MiB). Frames are 4 KiB.

Threads: without --cpus one thread performs the trace in its order, acting as each of the trace's
CPUs in turn. With --cpus N each CPU is a thread; if the trace has another number of CPUs, threads
of the trace are dealt out by their id modulo N. A free waits for its allocation.

With - for FILE rows go to standard output, and the tables to standard error; then a page is
written only where --html asks for it."
)]
pub(super) struct Arguments {
    /// Traces: files, or names of bundled ones [default: all bundled traces]
    #[arg(value_name = "TRACE")]
    traces: Vec<String>,

    /// Systems, as NAME or NAME+key=value...; `everybuddy systems` lists them [default: all]
    #[arg(long, value_name = "A,B", value_delimiter = ',')]
    systems: Option<Vec<String>>,

    /// Replay on N threads, each a CPU [default: one thread, in the trace's order]
    #[arg(long, value_name = "N")]
    cpus: Option<u16>,

    /// Memory that the systems manage, like 512MiB [default: 1.25 x the trace's peak]
    #[arg(long, value_name = "SIZE")]
    memory: Option<Size>,

    /// Begin with long-lived blocks scattered in a tenth of memory, chosen by this seed
    #[arg(long, value_name = "SEED")]
    aged: Option<u64>,

    /// Divide memory beforehand by these sizes, for systems with division=on
    #[arg(long, value_name = "FILE", value_delimiter = ',')]
    sizes: Vec<PathBuf>,

    /// Divide for the first N requests [default: for all that were counted]
    #[arg(long, value_name = "N", requires = "sizes")]
    sizes_first: Option<u64>,

    /// Seed of the order in which systems take turns
    #[arg(long, value_name = "N", default_value_t = 1)]
    seed: u64,

    /// Write the page: tables, pictures, maps of memory [default: everybuddy-report.html]
    #[arg(long, value_name = "FILE")]
    html: Option<PathBuf>,

    /// Write no page
    #[arg(long, conflicts_with = "html")]
    no_html: bool,

    #[command(flatten)]
    files: Files,

    /// Repair traces that contradict themselves, and say how, instead of refusing them
    #[arg(long)]
    lenient: bool,
}

/// Runs the command.
pub(super) fn run(arguments: Arguments) -> Result<(), Error> {
    let systems = match &arguments.systems {
        Some(texts) => choice::parse(texts)?,
        None => choice::all(),
    };
    let sinks = arguments.files.open()?;
    let page = match (&arguments.html, arguments.no_html) {
        (Some(path), _) => Some(Page::open(path)?),
        (None, true) => None,
        (None, false) if sinks.take_output() => None,
        (None, false) => Page::open_default(),
    };
    let (scripts, subjects) = scripts(&arguments, page.is_some())?;
    let print = |text: &str| sinks.print(text);
    let plan = Plan {
        systems,
        memory: arguments.memory.map(|size| size.frames),
        aged: arguments.aged,
        seed: arguments.seed,
        rounds: Plan::ROUNDS,
    };
    let known = sizes::read(&arguments.sizes)?;
    let mut divisions = Vec::with_capacity(scripts.len());
    for script in &scripts {
        // Refuses what can't be set up before anything has run.
        let memory = replay::memory::Memory::new(script, plan.memory, plan.aged)?;
        let requests = arguments.sizes_first.unwrap_or(u64::MAX);
        divisions.push(sizes::division(
            &known,
            script,
            memory.frames,
            requests,
            &mut output::note,
        ));
    }
    let machine = Machine::look();
    let progress = Progress::new(plan.passes() * scripts.len() as u64);
    let timer = Timer::calibrated();
    let style = sinks.style();
    let mut arena = Arena::default();
    let mut comparisons = Vec::with_capacity(scripts.len());
    for (script, division) in scripts.iter().zip(divisions) {
        progress.says(&script.name);
        arena.divide(division);
        let comparison = replay::compare(script, &plan, &timer, &mut arena, || progress.step())?;
        progress.hidden(|| print(&show::comparison::text(&comparison, &timer, &style)))?;
        comparisons.push(comparison);
    }
    progress.done();
    print(&show::comparison::closing(
        &comparisons,
        &machine,
        &timer,
        &style,
    ))?;
    if let Some(page) = page {
        let occasion = Occasion {
            title: "Buddy systems on real traces",
            machine: &machine,
            timer: Some(&timer),
            seed: plan.seed,
            rounds: plan.rounds,
        };
        let mut report = export::page::report(&occasion);
        let traces = comparisons.iter().zip(&subjects);
        report.traces = traces
            .map(|(c, subject)| export::page::compared(c, subject))
            .collect();
        page.write(&report)?;
    }
    if sinks.is_empty() {
        return Ok(());
    }
    let of = |comparison| rows::of(comparison, &timer, plan.seed, plan.memory.is_some());
    let exported: Vec<Row> = comparisons.iter().flat_map(of).collect();
    sinks.write(&exported)?;
    Ok(())
}

/// Reads all traces; what a page says of them is kept only if one is wanted.
fn scripts(
    arguments: &Arguments,
    is_page_wanted: bool,
) -> Result<(Vec<Script>, Vec<Subject>), Error> {
    let bundled = library::BUNDLED.map(String::from);
    let names = if arguments.traces.is_empty() {
        &bundled[..]
    } else {
        &arguments.traces
    };
    let leniency = if arguments.lenient {
        Leniency::Lenient
    } else {
        Leniency::Strict
    };
    let mut scripts = Vec::with_capacity(names.len());
    let mut subjects = Vec::new();
    for name in names {
        let (trace, repairs) = library::read(name, leniency)?;
        if !repairs.is_empty() {
            output::note(&format!("trace {}: repaired: {repairs}", trace.name));
        }
        let resolved = resolve(&trace)?;
        scripts.push(Script::new(&trace.name, &resolved, arguments.cpus)?);
        if is_page_wanted {
            subjects.push(Subject::new(&trace, resolved));
        }
    }
    Ok((scripts, subjects))
}
