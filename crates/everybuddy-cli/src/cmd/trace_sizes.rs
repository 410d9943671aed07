//! `everybuddy trace sizes`: which sizes a workload asks for, as a file for the next run.
//!
//! Exists so that a system can divide memory beforehand as an earlier run needed it.
//!
//! Invariant: the traces are checked before anything is written; the file appears whole or not at all.

use std::path::{Path, PathBuf};

use clap::Args;
use everybuddy_trace::{Leniency, Sizes, resolve};

use crate::export::Pending;
use crate::show::output;
use everybuddy_measure::Error;
use everybuddy_measure::library;
use everybuddy_measure::replay::Script;
use everybuddy_measure::replay::memory::Memory;
use everybuddy_measure::size::{Size, count, frames};

/// Gather statistics of sizes: how many blocks of each order the first requests need.
#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  everybuddy trace sizes gcc_build                            writes gcc_build.sizes.json
  everybuddy trace sizes day1.parquet day2.parquet -o days.sizes.json
  everybuddy trace sizes gcc_build --memory 1GiB -o - | jq .first

They count for a memory of one size: 1.25 times the most frames that were live at once, which is
what `compare` gives a trace, unless --memory says otherwise. Of several traces the larger need
counts. `compare --sizes FILE` divides memory by them.")]
pub(super) struct Arguments {
    /// Traces: files, or names of bundled ones
    #[arg(value_name = "TRACE", required = true)]
    traces: Vec<String>,

    /// The file to write, or - for standard output [default: TRACE.sizes.json]
    #[arg(short, long, value_name = "FILE")]
    output: Option<PathBuf>,

    /// Memory that is to be divided, like 512MiB [default: 1.25 x the largest peak]
    #[arg(long, value_name = "SIZE")]
    memory: Option<Size>,

    /// Repair traces that contradict themselves, and say how
    #[arg(long)]
    lenient: bool,
}

/// Runs the command.
pub(super) fn run(arguments: Arguments) -> Result<(), Error> {
    let leniency = match arguments.lenient {
        true => Leniency::Lenient,
        false => Leniency::Strict,
    };
    let mut joined: Option<Sizes> = None;
    for name in &arguments.traces {
        let (trace, repairs) = library::read(name, leniency)?;
        if !repairs.is_empty() {
            output::note(&format!("trace {}: repaired: {repairs}", trace.name));
        }
        let resolved = resolve(&trace)?;
        let script = Script::new(&trace.name, &resolved, None)?;
        let memory = Memory::new(&script, arguments.memory.map(|size| size.frames), None)?;
        let own = Sizes::of(&trace.name, &resolved, memory.frames);
        match &mut joined {
            Some(joined) => joined.join(&own),
            None => joined = Some(own),
        }
    }
    let Some(sizes) = joined else {
        return Err(Error::usage("no trace is named"));
    };
    let path = match arguments.output {
        Some(path) => path,
        None => PathBuf::from(format!("{}.sizes.json", sizes.source.replace(", ", "+"))),
    };
    if path == Path::new("-") {
        return output::text(&sizes.to_json());
    }
    for name in &arguments.traces {
        library::check_distinct(&path, &library::locate(name)?)?;
    }
    let written =
        Pending::create(&path).and_then(|pending| pending.finish(sizes.to_json().as_bytes()));
    written.map_err(|cause| Error::Write {
        path: path.clone(),
        cause,
    })?;
    output::note(&format!(
        "sizes of {} requests written: {} (for {} of memory)",
        count(sizes.total()),
        path.display(),
        frames(sizes.frames)
    ));
    Ok(())
}
