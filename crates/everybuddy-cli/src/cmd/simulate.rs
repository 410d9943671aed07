//! `everybuddy simulate`: systems on simulated machines with many CPUs.
//!
//! # Purpose
//!
//! Shows up to how many CPUs each system scales, and which part of its metadata it waits for then.
//!
//! # Invariants
//!
//! All names are parsed and checked before the first run. The same command line gives the same rows on every host.

use std::collections::BTreeSet;
use std::num::NonZero;
use std::thread;

use clap::{Args, value_parser};
use everybuddy_machines::Machine;
use everybuddy_measure::Error;
use everybuddy_measure::choice;
use everybuddy_measure::size::Size;
use everybuddy_simulate::{Load, Plan};

use crate::export::Outputs;
use crate::show::progress::Progress;
use crate::show::simulated;

use super::files::Files;

/// Simulate systems on a machine with many CPUs.
///
/// The systems run on virtual CPUs, with a model of caches that are kept coherent. Nothing is
/// measured on this machine: all results are simulated and are the same everywhere.
#[derive(Debug, Args)]
#[command(
    verbatim_doc_comment,
    after_help = "\
Examples:
  everybuddy simulate
        all systems on bursts of single frames, on 1 to 64 CPUs
  everybuddy simulate --workloads burst,handover --systems bs,spring --cpus 2,16,128
        two systems on two workloads, on up to 128 CPUs
  everybuddy simulate --machine x5570 --cpus 1,2,4,8
        a machine of one of the papers; `everybuddy machines` lists all
  everybuddy simulate --json - | jq 'select(.metric == \"linearity\")'
        write every number as JSON lines; docs/metrics.md defines the metrics

A system has stopped scaling where twice as many CPUs bring less than 1.2 times the calls.

If FILE is -, the rows go to standard output and the tables to standard error."
)]
pub(super) struct Arguments {
    /// Select workloads or variants, see `everybuddy workloads`
    #[arg(
        long,
        value_name = "W,X",
        value_delimiter = ',',
        default_value = "burst:in-order"
    )]
    workloads: Vec<String>,

    /// Select systems: NAME or NAME+key=value..., see `everybuddy systems` [default: all]
    #[arg(long, value_name = "A,B", value_delimiter = ',')]
    systems: Option<Vec<String>>,

    /// Set the numbers of CPUs
    #[arg(long, value_name = "N,M", value_delimiter = ',', default_value = "1,2,4,8,16,32,64",
          value_parser = value_parser!(u16).range(1..))]
    cpus: Vec<u16>,

    /// Select the machine: a name of `everybuddy machines`, or a machine file
    #[arg(long, value_name = "NAME", default_value = "epyc-7763")]
    machine: String,

    /// Set the memory that the systems manage
    #[arg(long, value_name = "SIZE", default_value = "8GiB")]
    memory: Size,

    /// Let each CPU work for N cycles between two calls, half more or less
    #[arg(long, value_name = "CYCLES", default_value_t = 1000)]
    think: u32,

    /// Repeat with N seeds
    #[arg(long, value_name = "N", default_value_t = 1, value_parser = value_parser!(u64).range(1..))]
    seeds: u64,

    /// Shorten the workloads N times
    #[arg(long, value_name = "N", default_value_t = 4, value_parser = value_parser!(u32).range(1..))]
    shrink: u32,

    /// Simulate on N CPUs of this machine at the same time [default: all]
    #[arg(long, value_name = "N")]
    jobs: Option<NonZero<usize>>,

    #[command(flatten)]
    files: Files,
}

/// Runs the command.
pub(super) fn run(arguments: Arguments) -> Result<(), Error> {
    let machine = everybuddy_machines::by_name_or_path(&arguments.machine)
        .map_err(|error| Error::usage(error.to_string()))?;
    let plan = plan(&arguments, &machine)?;
    let mut outputs = Outputs::default();
    let sinks = arguments.files.open(&mut outputs)?;
    let jobs = arguments
        .jobs
        .or_else(|| thread::available_parallelism().ok());
    let cells = plan.cells();
    let progress = Progress::new(cells.len() as u64);
    let (rows, scalings) = plan.run(
        jobs.unwrap_or(NonZero::<usize>::MIN),
        vec![None; cells.len()],
        &mut |id, _| {
            progress.says(&plan.name(id));
            progress.step();
            Ok(())
        },
    )?;
    progress.done();
    sinks.print(&simulated::text(&plan, &scalings, &rows, &sinks.style()))?;
    sinks.write(&rows)
}

fn plan(arguments: &Arguments, machine: &Machine) -> Result<Plan, Error> {
    let variants = choice::workloads(&arguments.workloads)?;
    let cpus: BTreeSet<u16> = arguments.cpus.iter().copied().collect();
    let most = cpus.last().copied().unwrap_or(1);
    if u32::from(most) > machine.hardware.cpus() {
        return Err(Error::usage(format!(
            "--cpus {most}: machine `{}` has {} CPUs\nhelp: `everybuddy machines` lists larger ones",
            machine.name,
            machine.hardware.cpus()
        )));
    }
    if let Some(variant) = variants.iter().find(|variant| variant.threads > most) {
        return Err(Error::usage(format!(
            "--cpus {most}: workload `{}` needs {} CPUs",
            variant.name, variant.threads
        )));
    }
    // Each CPU needs a share that the workloads can use.
    let least = u64::from(most) * LEAST_SHARE;
    let frames = arguments.memory.frames.next_multiple_of(1024);
    if !(least.max(LEAST_SHARE * 2)..=MOST).contains(&frames) {
        return Err(Error::usage(format!(
            "--memory: {most} CPUs need from {} to 64 GiB",
            everybuddy_measure::size::frames(least.max(LEAST_SHARE * 2))
        )));
    }
    Ok(Plan {
        machine: machine.name.clone(),
        hardware: machine.hardware,
        loads: variants.into_iter().map(Load::Workload).collect(),
        specs: match &arguments.systems {
            Some(texts) => choice::parse(texts)?,
            None => choice::all(),
        },
        cpus: cpus.into_iter().collect(),
        frames: frames as u32,
        think: arguments.think,
        shrink: arguments.shrink,
        seeds: (1..=arguments.seeds).collect(),
    })
}

/// 8 MiB for each CPU.
const LEAST_SHARE: u64 = 2048;
/// 64 GiB.
const MOST: u64 = 1 << 24;
