//! `everybuddy simulate`: systems on simulated machines with many CPUs.
//!
//! Shows up to how many CPUs each system scales, and which part of its metadata it waits for then.
//!
//! # Invariants
//! All names are parsed and checked before the first run. The same command line gives the same rows on every host.

use everybuddy_trace::{by_name, shown};
use std::collections::BTreeSet;
use std::path::{Path, PathBuf};

use clap::builder::{PossibleValuesParser, TypedValueParser};
use clap::{Args, value_parser};
use everybuddy_measure::Error;
use everybuddy_measure::library;
use everybuddy_measure::rows::Row;
use everybuddy_measure::size::Size;
use everybuddy_page::document::{Block, Document};
use everybuddy_simulate::machines::variations;
use everybuddy_simulate::plan::CellId;
use everybuddy_simulate::sensitivity::differences;
use everybuddy_simulate::{Frees, Load, Phases, Plan, Program, Scaling, Services, Zones};

use crate::export::{self, Outputs};
use crate::run::{Cell, Run, RunOptions, Stage, missing};
use crate::show::limits::Limits;
use crate::show::output;
use crate::show::sensitivity::{self, Changed};
use crate::show::simulated;

use super::files::Files;
use super::start::Start;

mod plan;

use plan::{machine, plan};

/// Simulate systems on a machine with many CPUs.
///
/// The systems run on virtual CPUs, with a model of caches that are kept coherent. Nothing is
/// measured on this machine: all results are simulated and are the same everywhere.
#[derive(Debug, Args)]
#[command(verbatim_doc_comment)]
#[command(after_help = include_str!("help/simulate.txt"))]
pub(super) struct Arguments {
    /// Select workloads or variants [default: burst:in-order,handover]
    #[arg(long, value_name = "W,X", value_delimiter = ',')]
    workloads: Option<Vec<String>>,

    /// Select traces: files, or names of bundled traces; without --workloads, only these
    #[arg(long, value_name = "T,U", value_delimiter = ',')]
    trace: Vec<String>,

    /// Select systems [default: lbs-31, linux-6+percpu=locked, llfree, everybuddy]
    #[arg(long, value_name = "A,B", value_delimiter = ',')]
    systems: Option<Vec<String>>,

    /// Simulate all systems, see `everybuddy systems`: hours
    #[arg(long, conflicts_with = "systems")]
    all: bool,

    /// Set the numbers of CPUs [default: 1,2,4 and so on up to 64, as the machine has them]
    #[arg(long, value_name = "N,M", value_delimiter = ',', value_parser = value_parser!(u16).range(1..))]
    cpus: Option<Vec<u16>>,

    /// Select the machine: a name of `everybuddy machines`, or a machine file
    #[arg(long, value_name = "NAME", default_value = "epyc-7763")]
    machine: String,

    /// Set the memory, for a trace that of each copy [default: 8GiB; for a trace what it needs]
    #[arg(long, value_name = "SIZE")]
    memory: Option<Size>,

    #[command(flatten)]
    start: Start,

    /// Let each CPU work for N cycles between two calls; programs of papers have their own pace
    #[arg(long, value_name = "CYCLES", default_value_t = 1000)]
    think: u32,

    /// Add N instructions to each call, as a kernel executes them around an allocator
    #[arg(long, value_name = "N", default_value_t = 0)]
    around: u32,

    /// Let programs use caches: zeroes=N,record=BYTES,touch,sweep=N/SIZE
    #[arg(long, value_name = "A,B")]
    program: Option<Program>,

    /// Set the first seed
    #[arg(long, value_name = "N", default_value_t = 1, value_parser = value_parser!(u64).range(..=u64::from(u32::MAX)))]
    seed: u64,

    /// Repeat with N seeds, which follow each other
    #[arg(long, value_name = "N", default_value_t = 3, value_parser = value_parser!(u64).range(1..=1000))]
    seeds: u64,

    /// Shorten workloads or traces N times [default: 4 for workloads, 1 for traces]
    #[arg(long, value_name = "N", value_parser = value_parser!(u32).range(1..))]
    shrink: Option<u32>,

    /// Repair invalid traces and report the repairs, instead of rejecting them
    #[arg(long)]
    lenient: bool,

    #[command(flatten)]
    run: RunOptions,

    /// Let all CPUs of a workload allocate and then all free, or let them be apart
    #[arg(long, default_value = "together", value_parser = variant(&Phases::ALL, Phases::name))]
    phases: Phases,

    /// Select the CPU that frees what a CPU has allocated: its own, another one, or one for all
    #[arg(long, default_value = "own", value_parser = variant(&Frees::ALL, Frees::name))]
    frees: Frees,

    /// Give the machine one zone, or each socket its own, with CPUs of all sockets in turn
    #[arg(long, default_value = "one", value_parser = variant(&Zones::ALL, Zones::name))]
    zones: Zones,

    /// Allow more CPUs than the machine has: they take turns on its CPUs, N cycles each
    #[arg(long, value_name = "N", value_parser = value_parser!(u64).range(1000..1_000_000_000))]
    slice: Option<u64>,

    /// With --slice: take turns between calls only, as kernels do that disable preemption
    #[arg(long, requires = "slice")]
    whole_calls: bool,

    /// End a CPU's section once its calls have taken this many cycles (metric `cut_off`)
    #[arg(long, value_name = "CYCLES", value_parser = value_parser!(u64).range(1..))]
    cut_off: Option<u64>,

    /// Where services run: nowhere (callers do the work), on own CPUs, or on CPUs that wait
    #[arg(long, default_value = "callers", value_parser = variant(&Services::ALL, Services::name))]
    services: Services,

    /// Do not simulate a system on more CPUs once it has stopped scaling under a load
    #[arg(long, conflicts_with = "sensitivity")]
    to_limit: bool,

    /// Simulate nothing: show the limits of systems in FILEs that --json of earlier runs wrote
    #[arg(long, value_name = "FILE,G", value_delimiter = ',', conflicts_with_all = ["workloads", "trace", "systems",
        "all", "cpus", "machine", "memory", "start", "think", "around", "program", "seed", "seeds", "shrink", "lenient",
        "RunOptions", "phases", "frees", "zones", "slice", "whole_calls", "cut_off", "services",
        "sensitivity", "timeline", "to_limit", "json", "csv", "parquet"])]
    rows: Vec<PathBuf>,

    /// Repeat with each number of the machine halved and doubled: do conclusions change?
    #[arg(long)]
    sensitivity: bool,

    /// Write what CPUs do, also hand-overs of locks, to FILE in Perfetto's format: of one run
    #[arg(long, value_name = "FILE")]
    timeline: Option<PathBuf>,

    #[command(flatten)]
    files: Files,
}

/// Reads one of the variants of an enum, by its name.
fn variant<T: Copy + Send + Sync + 'static>(
    all: &'static [T],
    name: fn(T) -> &'static str,
) -> impl TypedValueParser<Value = T> {
    let names = PossibleValuesParser::new(all.iter().map(|own| name(*own)));
    names.try_map(move |text| by_name(&text, ["value", "values"], all, name))
}

/// Checks the arguments without simulating anything.
pub(super) fn check(arguments: &Arguments) -> Result<(), Error> {
    plan(arguments, &machine(arguments)?).map(drop)
}

/// Runs the command.
pub(super) fn run(arguments: Arguments) -> Result<(), Error> {
    if !arguments.rows.is_empty() {
        return of_rows(&arguments);
    }
    let machine = machine(&arguments)?;
    let plan = plan(&arguments, &machine)?;
    let cells = plan.cells();
    let compared = plan.cpus.len().max(plan.specs.len());
    if arguments.sensitivity && compared < 2 {
        return Err(Error::usage(
            "--sensitivity: one system on one number of CPUs allows no conclusion that could change\nhelp: choose two \
             numbers of --cpus, or two systems",
        ));
    }
    let kinds: BTreeSet<_> = cells.iter().map(|id| (id.load, id.spec, id.cpus)).collect();
    if let (Some(path), true) = (&arguments.timeline, kinds.len() != 1) {
        return Err(Error::usage(format!(
            "--timeline {}: a timeline shows one run, and these are {}\nhelp: choose one system with --systems, one \
             number of --cpus and one workload or trace",
            shown(path),
            kinds.len()
        )));
    }
    let mut inputs = arguments.start.files().to_vec();
    for own in &arguments.trace {
        inputs.extend(library::file(own)?);
    }
    let mut outputs = Outputs::beside(inputs);
    let sinks = arguments.files.open(&mut outputs)?;
    if let Some(path) = arguments
        .timeline
        .as_ref()
        .filter(|path| path.as_os_str() == "-")
    {
        return Err(Error::usage(format!(
            "--timeline {}: a timeline is not text, and cannot go to standard output\nhelp: choose a file",
            shown(path)
        )));
    }
    let timeline = arguments.timeline.as_ref();
    let timeline = timeline.map(|path| outputs.open("--timeline", path));
    let timeline = timeline.transpose()?;
    let others = if arguments.sensitivity {
        others(&plan)
    } else {
        Vec::new()
    };
    let mut all = of_plan(&plan, &arguments.run, "", |id| id.load);
    for (changed, other) in &others {
        all.extend(of_plan(other, &arguments.run, &changed.key, |_| {
            plan.loads.len()
        }));
    }
    let run = Run::new(all, &arguments.run, |known| {
        let (own, more) = known.split_at(cells.len());
        plan.left(own) + missing(more)
    })?;
    let (mut rows, mut scalings) = (Vec::new(), Vec::new());
    let (mut changes, mut other_rows) = (Vec::new(), Vec::new());
    run.go(
        |table, rows| {
            let Some(load) = plan.loads.get(table) else {
                return Ok(());
            };
            let (rows, scalings) = plan.of_load(table, &rows[..cells.len()]);
            sinks.show(simulated::blocks(&plan, load, &scalings, &rows))
        },
        |stage| {
            (rows, scalings) = simulate(&plan, 0, stage)?;
            for (at, (mut changed, other)) in (1..).zip(others) {
                let (own, found) = simulate(&other, at * cells.len(), stage)?;
                changed.differences = differences(&scalings, &found);
                changes.push(changed);
                other_rows.extend(own);
            }
            Ok(())
        },
    )?;
    if let (Some(file), Some(cell)) = (timeline, cells.first()) {
        let path = shown(file.path());
        file.finish(&plan.timeline(cell)?)?;
        output::note(&format!(
            "timeline written: {path}; open it at ui.perfetto.dev"
        ));
    }
    sinks.show(simulated::closing(&machine, &plan))?;
    let limits = Limits::new(&scalings);
    let mut about = simulated::about(&machine, &plan);
    if limits.loads() > 1 {
        sinks.show(vec![Block::Space])?;
        sinks.show(limits.list())?;
        about.blocks = limits.section();
    }
    if arguments.sensitivity {
        let most = plan.cpus.last().copied().unwrap_or(1);
        sinks.show(vec![Block::Space])?;
        sinks.show(sensitivity::blocks(&changes, most))?;
    }
    // The waits of the kernel are not predicted: their rows are of the platform `recorded`.
    let recorded = plan.loads.iter().filter_map(|load| match load {
        Load::Trace(traced) => Some((traced.name(), traced.recorded()?)),
        Load::Workload(_) => None,
    });
    let recorded = recorded.flat_map(|(name, waits)| export::trace::locks(name, waits));
    let rows = [rows, other_rows, recorded.collect()].concat();
    sinks.write(&rows, about)
}

/// Shows where systems stop scaling in the rows of earlier runs.
fn of_rows(arguments: &Arguments) -> Result<(), Error> {
    let wrong = |path: &Path, what: String, help: &str| {
        Err(Error::usage(format!(
            "--rows: {}: {what}\nhelp: {help}",
            shown(path)
        )))
    };
    let (mut scalings, mut run) = (Vec::<Scaling>::new(), None);
    for path in &arguments.rows {
        let own = export::earlier::rows("--rows", path)?;
        let is_own = |row: &&Row| {
            row.platform.is_simulated() && row.experiment.split('+').next() == Some("simulate")
        };
        let own: Vec<Row> = own.iter().filter(is_own).cloned().collect();
        for row in &own {
            let name = (row.platform.to_string(), row.experiment.clone());
            let known = run.get_or_insert_with(|| name.clone());
            if *known != name {
                let what = format!(
                    "rows of {} on {} differ from rows of {} on {}",
                    name.1, name.0, known.1, known.0
                );
                return wrong(
                    path,
                    what,
                    "choose files of runs with the same machine and the same options",
                );
            }
        }
        let found = everybuddy_simulate::rows::scalings(&own);
        if found.iter().all(|own| own.rates.len() < 2) {
            let help = "--rows takes the files that `everybuddy simulate --json` wrote";
            let what = "no system was simulated on two numbers of CPUs";
            return wrong(path, what.to_string(), help);
        }
        let is_known = |one: &&Scaling| {
            let mut known = scalings.iter();
            known.any(|own| (&own.load, &own.system) == (&one.load, &one.system))
        };
        if let Some(both) = found.iter().find(is_known) {
            let what = format!(
                "an earlier file also has {} under {}",
                both.system, both.load
            );
            return wrong(path, what, "choose one of the files");
        }
        scalings.extend(found);
    }
    let (machine, experiment) = run.unwrap_or_default();
    let machine = machine.strip_prefix("sim:").unwrap_or(&machine);
    let title = match experiment.strip_prefix("simulate+") {
        Some(options) => format!("{machine}, {}", options.replace('+', ", ")),
        None => machine.to_string(),
    };
    let mut outputs = Outputs::beside(arguments.rows.clone());
    let sinks = arguments.files.open(&mut outputs)?;
    let limits = Limits::new(&scalings);
    sinks.show(limits.list())?;
    sinks.show(vec![Block::text(format!("Machine: {title}."))])?;
    let about = Document {
        blocks: limits.section(),
        ..simulated::about_rows(&title)
    };
    sinks.write(&[], about)
}

/// Returns the plans that differ from `plan` in one assumption.
fn others(plan: &Plan) -> Vec<(Changed, Plan)> {
    let other = |key: &str, from: String, to: String, plan: Plan| {
        let machine = format!("{} with {key} = {to}", plan.machine);
        let changed = Changed {
            key: key.to_string(),
            values: [from, to],
            differences: Vec::new(),
        };
        (changed, Plan { machine, ..plan })
    };
    let machines = variations(&plan.hardware).into_iter().map(|own| {
        let hardware = own.hardware;
        let plan = Plan {
            hardware,
            ..plan.clone()
        };
        other(own.key, own.from, own.to, plan)
    });
    let thinks = [plan.think / 2, plan.think * 2].map(|think| {
        let from = plan.think.to_string();
        let plan = Plan {
            think,
            ..plan.clone()
        };
        other("think", from, think.to_string(), plan)
    });
    machines.chain(thinks).collect()
}

/// Returns the cells of a plan: a prefix of their names, and the number of the table of each.
pub(super) fn of_plan(
    plan: &Plan,
    options: &RunOptions,
    prefix: &str,
    table: impl Fn(&CellId) -> usize,
) -> Vec<Cell> {
    let prefix = match prefix {
        "" => String::new(),
        prefix => format!("{prefix}, "),
    };
    let cell = |id: &CellId| Cell {
        name: format!("{prefix}{}", plan.name(id)),
        // Traces are hashed for it.
        identity: options.resume.is_some().then(|| plan.identity(id)),
        table: table(id),
        weight: Plan::cost(id),
        passes: None,
        is_timed: false,
    };
    plan.cells().iter().map(cell).collect()
}

/// Simulates a plan whose cells are those of a run from number `first` on.
pub(super) fn simulate(
    plan: &Plan,
    first: usize,
    stage: &Stage<'_>,
) -> Result<(Vec<Row>, Vec<Scaling>), Error> {
    let cells = plan.cells();
    let known = stage.known()[first..first + cells.len()].to_vec();
    plan.run(stage.jobs(), known, &mut |id, rows| {
        let at = cells.iter().position(|own| own == id).unwrap_or_default();
        stage.ended(first + at, rows.map(<[Row]>::to_vec))
    })
}
