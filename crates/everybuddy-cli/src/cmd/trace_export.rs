//! `everybuddy trace export`: a trace as text for other programs.
//!
//! Exists so that a trace can go wherever Parquet can't.
//!
//! Invariant: `trace import` reads what this writes.

use std::io::{self, Write};
use std::path::PathBuf;

use clap::Args;
use everybuddy_trace::{ExportFormat, Leniency, export};

use crate::export::Pending;
use crate::show::output;
use everybuddy_measure::Error;
use everybuddy_measure::library;

/// Write a trace as CSV, or as `perf script` would print it.
#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  everybuddy trace export gcc_build --to csv | head        the first calls, as a table
  everybuddy trace export run.parquet --to csv -o run.csv  columns as in traces/README.md
  everybuddy trace export run.parquet --to perf-script     lines of kmem:mm_page_alloc and _free

CSV has the columns of the calls and of their faults (vpn, vma, fault), not where regions lie.")]
pub(super) struct Arguments {
    /// The trace: a file, or the name of a bundled one
    #[arg(value_name = "TRACE")]
    trace: String,

    /// The format: csv or perf-script
    #[arg(long, value_name = "FORMAT")]
    to: ExportFormat,

    /// The file to write, instead of standard output
    #[arg(short, long, value_name = "FILE")]
    output: Option<PathBuf>,

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
    let given = arguments.output.filter(|path| path.as_os_str() != "-");
    if let Some(path) = &given {
        library::check_distinct(path, &library::locate(&arguments.trace)?)?;
    }
    let (trace, repairs) = library::read(&arguments.trace, leniency)?;
    if !repairs.is_empty() {
        output::note(&format!("trace {}: repaired: {repairs}", trace.name));
    }
    let Some(path) = given else {
        let mut out = io::stdout().lock();
        let written = export(&trace, arguments.to, &mut out).and_then(|()| out.flush());
        return written.map_err(|cause| Error::stream("standard output", cause));
    };
    let write = || -> io::Result<()> {
        let mut pending = Pending::create(&path)?;
        export(&trace, arguments.to, &mut pending)?;
        pending.finish(&[])
    };
    write().map_err(|cause| Error::Write {
        path: path.clone(),
        cause,
    })
}
