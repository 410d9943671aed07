//! `everybuddy trace export`: converts a trace to text for other programs.
//!
//! Programs without Parquet support can read the text.
//!
//! # Invariants
//! `trace import` can read the output.

use std::path::PathBuf;

use clap::Args;
use everybuddy_trace::{ExportFormat, export};

use super::trace_file::read;

use crate::export::{Outputs, refused};
use crate::show::output;
use everybuddy_measure::Error;
use everybuddy_measure::library;

/// Convert a trace to CSV, or to the output format of `perf script`.
#[derive(Debug, Args)]
#[command(after_help = include_str!("help/trace_export.txt"))]
pub(super) struct Arguments {
    /// Export this trace: a file, or the name of a bundled trace
    #[arg(value_name = "TRACE")]
    trace: String,

    /// Select the format: csv or perf-script
    #[arg(long, value_name = "FORMAT")]
    to: ExportFormat,

    /// Write to this file, or replace it, instead of standard output
    #[arg(short, long, value_name = "FILE")]
    output: Option<PathBuf>,

    /// Repair an invalid trace and report the repairs, instead of rejecting it
    #[arg(long)]
    lenient: bool,
}

/// Runs the command.
pub(super) fn run(arguments: Arguments) -> Result<(), Error> {
    let given = arguments.output.filter(|path| path.as_os_str() != "-");
    let mut outputs = Outputs::beside(library::file(&arguments.trace)?.into_iter().collect());
    let file = given.as_deref().map(|path| outputs.open("-o", path));
    let file = file.transpose()?;
    let trace = read(&arguments.trace, arguments.lenient)?;
    let Some(mut file) = file else {
        return output::pieces(|out| export(&trace, arguments.to, out));
    };
    export(&trace, arguments.to, &mut file).map_err(|cause| refused(file.path(), cause))?;
    file.finish(&[])
}
