//! `everybuddy trace info`: what a trace is like.
//!
//! Exists so that a result can be explained by what was asked of the allocators.
//!
//! Invariant: the numbers are those of [`everybuddy_trace::Statistics`].

use std::path::PathBuf;

use clap::Args;
use everybuddy_trace::{Leniency, Statistics, resolve};

use crate::export;
use crate::export::page::{Occasion, Page, Subject};
use crate::show::{output, trace};
use everybuddy_measure::Error;
use everybuddy_measure::library;
use everybuddy_measure::replay::bystanders::Machine;

use super::files::Files;

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

    #[command(flatten)]
    files: Files,

    /// Write the page of the trace: the same as pictures, in one file
    #[arg(long, value_name = "FILE")]
    html: Option<PathBuf>,

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
    let sinks = arguments.files.open()?;
    let page = arguments.html.as_deref().map(Page::open).transpose()?;
    let (read, repairs) = library::read(&arguments.trace, leniency)?;
    if !repairs.is_empty() {
        output::note(&format!("trace {}: repaired: {repairs}", read.name));
    }
    let resolved = resolve(&read)?;
    let statistics = Statistics::of(&read, &resolved);
    if !sinks.take_output() {
        output::text(&trace::text(&read.name, &statistics))?;
    }
    if let Some(page) = page {
        let machine = Machine::look();
        let occasion = Occasion {
            title: "A page-allocation trace",
            machine: &machine,
            timer: None,
            seed: 0,
            rounds: 0,
        };
        let mut report = export::page::report(&occasion);
        let subject = Subject::new(&read, resolved);
        report
            .traces
            .push(export::page::trace(&read.name, &subject));
        page.write(&report)?;
    }
    let rows = export::trace::of(&read.name, &statistics);
    sinks.write(&rows)
}
