//! `everybuddy scaling`: what the simulation predicts for a machine, and what the machine does.
//!
//! The model of caches was compared with machines of two CPUs only. The command checks it on larger ones: it
//! measures calls per second on more and more CPUs, and prints next to them what the simulation predicted.
//!
//! # Invariants
//! Measurement and prediction have the same loads, systems, memory, lists and seed. The prediction depends on the
//! machine's file alone, so it can be written down before a host is measured.

use std::num::NonZero;
use std::path::{Path, PathBuf};
use std::thread;

use clap::{Args, value_parser};
use everybuddy_measure::bench::{self, BenchPlan, ContenderSpec, rows};
use everybuddy_measure::replay::background_load::HostInfo;
use everybuddy_measure::replay::clock::Timer;
use everybuddy_measure::replay::host::Arena;
use everybuddy_measure::replay::machine;
use everybuddy_measure::replay::memory::Memory;
use everybuddy_measure::rows::{Platform, Row};
use everybuddy_measure::touched::Ablation;
use everybuddy_measure::{Error, choice};
use everybuddy_simulate::machines::{Machine, by_name_or_path, extremes, host};
use everybuddy_simulate::{Load, Plan};
use everybuddy_trace::shown;

use crate::export::{self, Outputs};
use crate::run::{Run, RunOptions, missing};
use crate::show::output;
use crate::show::progress::Progress;
use crate::show::scaling;

use super::files::{Files, titled};
use super::simulate;

/// The loads: bursts that exceed most lists, batches that fit into most, and frames that another CPU frees.
const LOADS: [&str; 3] = ["burst:random", "batch", "handover"];
/// One lock without lists and with them, Linux's lists, and three designs for many CPUs.
const SYSTEMS: [&str; 6] = [
    "bs",
    "lbs-31",
    "linux-6+percpu=locked",
    "spring",
    "llfree",
    "everybuddy",
];
/// Frames that are managed: 8 GiB.
const FRAMES: u32 = 1 << 21;
/// How much shorter the loads are where they are simulated, as by default in `everybuddy simulate`. Where they are much
/// shorter, the first accesses to lines are a larger share.
const SHRINK: u32 = 4;
/// The seed of loads.
const SEED: u64 = 1;
/// Cycles after which the calls of a CPU in a section end: where a lock has collapsed, they would take hours.
const CUT_OFF: u64 = 500_000_000;

/// Measure this host on more and more CPUs, next to what the simulation predicts for it.
///
/// The prediction is that of a machine file, and a band: what it would be if transfers between
/// caches and loads from memory took half of the time, or twice the time.
#[derive(Debug, Args)]
#[command(verbatim_doc_comment)]
#[command(after_help = include_str!("help/scaling.txt"))]
pub(super) struct Arguments {
    /// Predict for this machine: a name of `everybuddy machines`, or a file [default: this host]
    #[arg(long, value_name = "NAME")]
    machine: Option<String>,

    /// Select systems [default: bs, lbs-31, linux-6+percpu=locked, spring, llfree, everybuddy]
    #[arg(long, value_name = "A,B", value_delimiter = ',')]
    systems: Option<Vec<String>>,

    /// Select workloads [default: burst:random, batch, handover]
    #[arg(long, value_name = "W,X", value_delimiter = ',')]
    workloads: Option<Vec<String>>,

    /// Set the numbers of CPUs [default: 1,4,16,64 and so on, and all CPUs of the machine]
    #[arg(long, value_name = "N,M", value_delimiter = ',', value_parser = value_parser!(u16).range(1..))]
    cpus: Option<Vec<u16>>,

    /// Measure nothing: predict only
    #[arg(long, conflicts_with = "rounds")]
    predict: bool,

    /// Measure N rounds, in each of which all systems take turns
    #[arg(long, value_name = "N", default_value_t = BenchPlan::ROUNDS, value_parser = value_parser!(u32).range(1..))]
    rounds: u32,

    #[command(flatten)]
    run: RunOptions,

    /// Measure and predict nothing: take the rows from FILE, the --json of an earlier run
    #[arg(long, value_name = "FILE", conflicts_with_all = ["machine", "systems", "workloads", "cpus", "predict",
        "rounds", "RunOptions", "shrink", "locks"])]
    rows: Option<PathBuf>,

    /// Shorten everything N times more (smoke test; do not use the results)
    #[arg(long, value_name = "N", default_value_t = 1, value_parser = value_parser!(u32).range(1..=1024))]
    shrink: u32,

    /// Compare small programs of two CPUs that take turns at a lock, instead of systems
    #[arg(long, conflicts_with_all = ["systems", "workloads", "cpus", "predict", "rounds", "RunOptions", "shrink",
        "json", "csv", "parquet"])]
    locks: bool,

    #[command(flatten)]
    files: Files,
}

/// The heading of the page.
const TITLE: &str = "Calls per second, measured and predicted";

/// Runs the command.
pub(super) fn run(arguments: Arguments) -> Result<(), Error> {
    if let Some(file) = &arguments.rows {
        return earlier(&arguments, file);
    }
    let machine = match &arguments.machine {
        Some(name) => {
            let machine = by_name_or_path(name)?;
            if !arguments.predict {
                host::quiet()?;
            }
            machine
        }
        None => host::measure(&mut |what| output::note(&format!("measuring {what}")))?,
    };
    if arguments.locks {
        let sinks = arguments.files.open(&mut Outputs::default())?;
        sinks.show(scaling::locks(&machine)?)?;
        return sinks.write(&[], titled("Programs that take turns at a lock"));
    }
    let plan = plan(&arguments, &machine)?;
    let bench = if arguments.predict {
        None
    } else {
        Some(measured(&arguments, &plan)?)
    };
    let sinks = arguments.files.open(&mut Outputs::default())?;
    let mut rows = predict(&plan, &arguments.run)?;
    if let Some(bench) = bench {
        rows.extend(measure(&bench, &machine)?);
    }
    if !arguments.predict && machine.name == "host" {
        let before = f64::from(machine.hardware.near.modified) * 1000.0;
        let before = before / f64::from(machine.hardware.mhz);
        let moved = host::transfer().and_then(|after| scaling::moved(before, after));
        moved.iter().for_each(|moved| output::note(moved));
    }
    let host = (!arguments.predict).then(HostInfo::look);
    sinks.show(scaling::blocks(FRAMES, &rows, host.as_ref()))?;
    sinks.write(&rows, titled(TITLE))
}

/// Shows the rows of an earlier run.
fn earlier(arguments: &Arguments, file: &Path) -> Result<(), Error> {
    let rows = export::earlier::rows("--rows", file)?;
    if !rows.iter().any(|row| row.metric == "predicted_throughput") {
        return Err(Error::usage(format!(
            "--rows: {}: it has no predictions\nhelp: --rows takes what `everybuddy scaling --json FILE` wrote",
            shown(file)
        )));
    }
    let sinks = arguments
        .files
        .open(&mut Outputs::beside(vec![file.to_path_buf()]))?;
    let is_measured = rows.iter().any(|row| row.metric == "throughput");
    let host = is_measured.then(|| HostInfo {
        processor: Some(format!("the machine that wrote {}", shown(file))),
        ..HostInfo::default()
    });
    sinks.show(scaling::blocks(FRAMES, &rows, host.as_ref()))?;
    sinks.write(&rows, titled(TITLE))
}

/// Returns what is simulated.
fn plan(arguments: &Arguments, machine: &Machine) -> Result<Plan, Error> {
    let all = u16::try_from(machine.hardware.cpus()).unwrap_or(u16::MAX);
    let mut cpus = arguments.cpus.clone().unwrap_or_else(|| {
        let fours = (0..).map_while(|power| 4_u16.checked_pow(power));
        fours
            .take_while(|count| *count < all)
            .chain([all])
            .collect()
    });
    cpus.sort_unstable();
    cpus.dedup();
    if let Some(most) = cpus.last().filter(|most| **most > all) {
        return Err(Error::usage(format!(
            "--cpus {most}: machine `{}` has {all} CPUs\nhelp: choose fewer, or another --machine",
            machine.name
        )));
    }
    let systems = arguments.systems.clone();
    let systems = systems.unwrap_or_else(|| SYSTEMS.map(str::to_string).to_vec());
    let workloads = arguments.workloads.clone();
    let workloads = workloads.unwrap_or_else(|| LOADS.map(str::to_string).to_vec());
    let loads = choice::workloads(&workloads)?.into_iter();
    let loads = loads.map(Load::Workload).collect();
    Ok(Plan {
        cpus,
        frames: FRAMES,
        // The threads of a measurement do nothing between two calls.
        think: 0,
        shrink: SHRINK * arguments.shrink,
        cut_off: Some(CUT_OFF),
        seeds: vec![SEED],
        ..Plan::new(machine, loads, choice::parse(&systems)?)
    })
}

/// Returns what is measured on this host: as much of the plan as it has CPUs for.
fn measured(arguments: &Arguments, plan: &Plan) -> Result<BenchPlan, Error> {
    let host = thread::available_parallelism().map_or(1, NonZero::get);
    let threads: Vec<u16> = plan
        .cpus
        .iter()
        .copied()
        .filter(|own| usize::from(*own) <= host)
        .collect();
    let variants = plan.loads.iter().filter_map(|load| match load {
        Load::Workload(variant) => Some(*variant),
        Load::Trace(_) => None,
    });
    let bench = BenchPlan {
        contenders: plan
            .specs
            .iter()
            .map(|spec| ContenderSpec::System(*spec))
            .collect(),
        variants: variants.collect(),
        threads,
        memory: Memory::fresh(u64::from(plan.frames)),
        rounds: arguments.rounds,
        seed: SEED,
        shrink: arguments.shrink,
        ablation: Ablation::default(),
        is_strict: true,
    };
    if bench.cells().is_empty() {
        return Err(Error::usage(format!(
            "this host has {host} CPUs, too few for the numbers of --cpus\nhelp: choose fewer, or add --predict"
        )));
    }
    bench::vet(&bench, &Timer::calibrated(), &mut Arena::default())?;
    Ok(bench)
}

/// Simulates the plan on its machine and on the two extremes, and returns the predictions.
fn predict(plan: &Plan, options: &RunOptions) -> Result<Vec<Row>, Error> {
    let count = plan.cells().len();
    if count == 0 {
        return Err(Error::usage(
            "nothing to predict: the workloads need more CPUs\nhelp: choose other --workloads, or more --cpus",
        ));
    }
    let [fast, slow] = extremes(&plan.hardware);
    let machines = [("as it is", plan.hardware), ("fast", fast), ("slow", slow)];
    let plans = machines.map(|(name, hardware)| {
        let plan = Plan {
            hardware,
            ..plan.clone()
        };
        (format!("predicting, machine {name}"), plan)
    });
    let cells = plans
        .iter()
        .flat_map(|(name, plan)| simulate::of_plan(plan, options, name, |_| 0));
    let run = Run::new(cells.collect(), options, missing)?;
    let mut rows: Vec<Row> = Vec::new();
    run.go(
        |_, _| Ok(()),
        |stage| {
            for (at, (_, own)) in plans.iter().enumerate() {
                let (found, _) = simulate::simulate(own, at * count, stage)?;
                let rates = found.into_iter().filter(|row| row.metric == "throughput");
                rows.extend(rates.map(|row| Row {
                    experiment: "scaling".to_string(),
                    platform: Platform::Sim(plan.machine.clone()),
                    metric: "predicted_throughput",
                    ..row
                }));
            }
            Ok(())
        },
    )?;
    let each = rows.len() / 3;
    let mut joined = Vec::new();
    for at in 0..each {
        let values = [at, at + each, at + 2 * each].map(|own| rows[own].value);
        let least = values.into_iter().fold(f64::INFINITY, f64::min);
        let most = values.into_iter().fold(0.0, f64::max);
        for (statistic, value) in [("rate", values[0]), ("min", least), ("max", most)] {
            joined.push(Row {
                statistic,
                value,
                ..rows[at].clone()
            });
        }
    }
    Ok(joined)
}

/// Measures this host, with the lists of the machine.
fn measure(plan: &BenchPlan, machine: &Machine) -> Result<Vec<Row>, Error> {
    let cpus = u16::try_from(machine.hardware.cpus()).unwrap_or(u16::MAX);
    let installed = u64::from(machine.hardware.installed) << 8;
    let mut arena = Arena::default();
    arena.place(Some(machine::Machine::sized(Some(installed), cpus)));
    let progress = Progress::new(plan.visits());
    let results = bench::measure(plan, &Timer::calibrated(), &mut arena, |what| {
        progress.says(what);
        progress.step();
    })?;
    progress.done();
    let mut rows = rows::of(&results);
    // How much was discarded because the host was busy belongs to the numbers.
    let kept = ["throughput", "sections", "sections_dropped"];
    rows.retain(|row| kept.contains(&row.metric));
    for row in &mut rows {
        row.experiment = "scaling".to_string();
    }
    Ok(rows)
}
