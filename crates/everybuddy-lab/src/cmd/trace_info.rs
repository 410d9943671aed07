//! `everybuddy trace info`: what a trace is like.
//!
//! Exists so that a result can be explained by what was asked of the allocators.
//!
//! Invariant: the numbers are those of [`everybuddy_trace::Statistics`].

use std::path::PathBuf;

use clap::Args;
use everybuddy_trace::{Leniency, Statistics, resolve};

use crate::Error;
use crate::export::Pending;
use crate::library;
use crate::show::{output, trace};

/// Show what a trace is like: orders, runs, lifetimes, live memory.
#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  everybuddy trace info numpy_thp                   a bundled trace
  everybuddy trace info recording.parquet --json -  the same numbers as one JSON object")]
pub(super) struct Arguments {
    /// The trace: a file, or the name of a bundled one
    #[arg(value_name = "TRACE")]
    trace: String,

    /// Write the numbers as one JSON object; with - nothing else
    #[arg(long, value_name = "FILE")]
    json: Option<PathBuf>,

    /// Repair a trace that contradicts itself, and say how, instead of refusing it
    #[arg(long)]
    lenient: bool,
}

/// Runs the command.
pub(super) fn run(arguments: Arguments) -> Result<(), Error> {
    let leniency = if arguments.lenient {
        Leniency::Lenient
    } else {
        Leniency::Strict
    };
    let (read, repairs) = library::read(&arguments.trace, leniency)?;
    if !repairs.is_empty() {
        output::note(&format!("trace {}: repaired: {repairs}", read.name));
    }
    let statistics = Statistics::of(&read, &resolve(&read)?);
    let Some(path) = &arguments.json else {
        return output::text(&trace::text(&read.name, &statistics));
    };
    let mut json = trace::json(&read.name, &statistics).to_string();
    json.push('\n');
    if path.as_os_str() == "-" {
        return output::text(&json);
    }
    let written = Pending::create(path).and_then(|pending| pending.finish(json.as_bytes()));
    written.map_err(|cause| Error::Write {
        path: path.clone(),
        cause,
    })?;
    output::text(&trace::text(&read.name, &statistics))
}
