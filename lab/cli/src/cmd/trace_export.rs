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

    /// Select the format: csv or perf-script [default: csv if FILE ends in .csv]
    #[arg(long, value_name = "FORMAT")]
    to: Option<ExportFormat>,

    /// Write to this file, or replace it, instead of standard output
    #[arg(short, long, value_name = "FILE")]
    output: Option<PathBuf>,

    /// Repair an invalid trace and report the repairs, instead of rejecting it
    #[arg(long)]
    lenient: bool,
}

/// Runs the command.
pub(super) fn run(arguments: Arguments) -> Result<(), Error> {
    let is_csv = |path: &PathBuf| {
        path.extension()
            .is_some_and(|own| own.eq_ignore_ascii_case("csv"))
    };
    let named = arguments.output.as_ref().filter(|path| is_csv(path));
    let Some(to) = arguments.to.or(named.map(|_| ExportFormat::Csv)) else {
        return Err(Error::usage(
            "the format is not known\nhelp: choose --to csv or --to perf-script, or a FILE in .csv"
                .to_string(),
        ));
    };
    let given = arguments.output.filter(|path| path.as_os_str() != "-");
    let mut outputs = Outputs::beside(library::file(&arguments.trace)?.into_iter().collect());
    let file = given.as_deref().map(|path| outputs.open("-o", path));
    let file = file.transpose()?;
    let trace = read(&arguments.trace, arguments.lenient)?;
    let Some(mut file) = file else {
        return output::pieces(|out| export(&trace, to, out));
    };
    export(&trace, to, &mut file).map_err(|cause| refused(file.path(), cause))?;
    file.finish(&[])
}
