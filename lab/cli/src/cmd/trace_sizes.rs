//! `everybuddy trace sizes`: writes statistics of the requested sizes for the next run.
//!
//! A system can divide memory in advance according to an earlier run.
//!
//! # Invariants
//! The traces are checked before anything is written; the file appears completely or not at all.

use std::path::{Path, PathBuf};

use clap::Args;
use everybuddy_trace::{Sizes, resolve, shown};

use super::trace_file::read;

use crate::export::Outputs;
use crate::show::output;
use everybuddy_measure::Error;
use everybuddy_measure::library;
use everybuddy_measure::replay::Script;
use everybuddy_measure::replay::machine::Machine;
use everybuddy_measure::replay::memory::{Initial, Memory};
use everybuddy_measure::size::{Size, count, frames};

/// Gather statistics of sizes: the blocks of each order that the first requests need.
#[derive(Debug, Args)]
#[command(after_help = include_str!("help/trace_sizes.txt"))]
pub(super) struct Arguments {
    /// Read these traces: files, or names of bundled traces
    #[arg(value_name = "TRACE", required = true)]
    traces: Vec<String>,

    /// Write to FILE, or to standard output if FILE is - [default: TRACE.sizes.json]
    #[arg(short, long, value_name = "FILE")]
    output: Option<PathBuf>,

    /// Set the memory to divide, such as 512MiB [default: as `compare`]
    #[arg(long, value_name = "SIZE")]
    memory: Option<Size>,

    /// Repair invalid traces and report the repairs
    #[arg(long)]
    lenient: bool,
}

/// Runs the command.
pub(super) fn run(arguments: Arguments) -> Result<(), Error> {
    let mut joined: Option<Sizes> = None;
    for name in &arguments.traces {
        let trace = read(name, arguments.lenient)?;
        let resolved = resolve(&trace)?;
        let script = Script::new(&trace.name, &resolved, None)?;
        let room = match arguments.memory {
            Some(size) => size.frames,
            None => {
                let machine = Machine::new(&trace, None, script.cpus);
                Memory::room(&machine, script.peak_frames, script.cpus)
            }
        };
        let memory = Memory::new(&script, Some(room), &Initial::Fresh)?;
        let own = Sizes::of(&trace.name, &resolved, memory.frames);
        match &mut joined {
            Some(joined) => joined.join(&own),
            None => joined = Some(own),
        }
    }
    let Some(sizes) = joined else {
        return Err(Error::usage("no trace given"));
    };
    let path = match arguments.output {
        Some(path) => path,
        None => PathBuf::from(format!("{}.sizes.json", sizes.source.replace(", ", "+"))),
    };
    if path == Path::new("-") {
        return output::text(&sizes.to_json());
    }
    let mut inputs = Vec::new();
    for name in &arguments.traces {
        inputs.extend(library::file(name)?);
    }
    let mut outputs = Outputs::beside(inputs);
    let file = outputs.open("-o", &path)?;
    file.finish(sizes.to_json().as_bytes())?;
    output::note(&format!(
        "wrote the blocks that {} requests need in {} of memory to {} (for `compare --sizes`)",
        count(sizes.total()),
        frames(sizes.frames),
        shown(&path)
    ));
    Ok(())
}
