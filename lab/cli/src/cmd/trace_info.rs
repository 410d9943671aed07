//! `everybuddy trace info`: statistics of a trace.
//!
//! The requests of a trace explain the results of the allocators.
//!
//! # Invariants
//! The numbers are those of [`everybuddy_trace::Statistics`].

use clap::Args;
use everybuddy_page::document::Block;
use everybuddy_trace::{LockWaits, Machine, Statistics, WaitsOnly, resolve};

use crate::export::page::{Occasion, Page, Subject};
use crate::export::{self, Outputs};
use crate::left_out;
use crate::show::{output, trace};
use everybuddy_measure::Error;
use everybuddy_measure::library;
use everybuddy_measure::replay::background_load::HostInfo;

use super::files::{Files, Sinks, titled};
use super::trace_file::read_any;

/// Show statistics of a trace: its machine, orders, runs, lifetimes, memory in use.
#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  everybuddy trace info numpy_thp                   show a bundled trace
  everybuddy trace info recording.parquet --csv -   print one row per number (docs/metrics.md)")]
pub(super) struct Arguments {
    /// Show this trace: a file, or the name of a bundled trace
    #[arg(value_name = "TRACE")]
    trace: String,

    #[command(flatten)]
    files: Files,

    /// Repair an invalid trace and report the repairs, instead of rejecting it
    #[arg(long)]
    lenient: bool,
}

/// The heading of the page.
const TITLE: &str = "A page-allocation trace";

/// Runs the command.
pub(super) fn run(arguments: Arguments) -> Result<(), Error> {
    let mut outputs = Outputs::beside(library::file(&arguments.trace)?.into_iter().collect());
    let sinks = arguments.files.without_page(&mut outputs)?;
    let page = Page::open_named(&mut outputs, arguments.files.html.as_deref())?;
    let read = read_any(&arguments.trace, arguments.lenient)?;
    if let (Some(waits), Some(waits_only)) = (LockWaits::of(&read), WaitsOnly::of(&read)) {
        if page.is_some() {
            return Err(Error::usage(format!(
                "--html: trace {} has no page events, so there is nothing to draw\nhelp: leave --html out",
                read.name
            )));
        }
        let machine = Machine::of(&read);
        let text = trace::waits_only(&read.name, &waits, &waits_only, machine.as_ref());
        show(&sinks, text)?;
        return sinks.write(
            &export::trace::waits_only(&read.name, &waits),
            titled(TITLE),
        );
    }
    if let Some(text) = left_out::of(&read) {
        output::note(&format!("trace {}: {text}", read.name));
    }
    let resolved = resolve(&read)?;
    let statistics = Statistics::of(&read, &resolved);
    let machine = Machine::of(&read);
    show(
        &sinks,
        trace::text(&read.name, &statistics, machine.as_ref()),
    )?;
    if let Some(page) = page {
        let machine = HostInfo::look();
        let occasion = Occasion {
            title: TITLE,
            machine: &machine,
            timer: None,
            seed: 0,
            rounds: 0,
        };
        let mut report = export::page::report(&occasion);
        let subject = Subject::new(&read, &resolved);
        report
            .traces
            .push(export::page::trace(&read.name, &subject));
        page.write(&report)?;
    }
    let rows = export::trace::of(&read.name, &statistics);
    sinks.write(&rows, titled(TITLE))
}

/// Shows a text, unless a file is standard output: rows then say everything.
fn show(sinks: &Sinks, text: String) -> Result<(), Error> {
    if sinks.take_output() {
        sinks.keep(vec![Block::Verbatim(text)]);
        return Ok(());
    }
    sinks.print(&text)
}
