//! `everybuddy trace info`: what a trace is like.
//!
//! Exists so that a result can be explained by what was asked of the allocators.
//!
//! Invariant: the numbers are those of [`everybuddy_trace::Statistics`].

use std::path::PathBuf;

use clap::Args;
use everybuddy_trace::{Leniency, Statistics, resolve};

use crate::Error;
use crate::export::{self, Sink};
use crate::library;
use crate::show::{output, trace};

use super::compare::sinks;

/// Show what a trace is like: orders, runs, lifetimes, live memory.
#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  everybuddy trace info numpy_thp                   a bundled trace
  everybuddy trace info recording.parquet --csv -   every number, a row each (docs/metrics.md)")]
pub(super) struct Arguments {
    /// The trace: a file, or the name of a bundled one
    #[arg(value_name = "TRACE")]
    trace: String,

    /// Write every number as JSON lines; with - nothing else
    #[arg(long, value_name = "FILE")]
    json: Option<PathBuf>,

    /// Write every number as CSV; with - nothing else
    #[arg(long, value_name = "FILE")]
    csv: Option<PathBuf>,

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
    let sinks = sinks(&arguments.json, &arguments.csv)?;
    let (read, repairs) = library::read(&arguments.trace, leniency)?;
    if !repairs.is_empty() {
        output::note(&format!("trace {}: repaired: {repairs}", read.name));
    }
    let statistics = Statistics::of(&read, &resolve(&read)?);
    if !sinks.iter().any(Sink::is_output) {
        output::text(&trace::text(&read.name, &statistics))?;
    }
    let rows = export::trace::of(&read.name, &statistics);
    sinks.into_iter().try_for_each(|sink| sink.write(&rows))
}
