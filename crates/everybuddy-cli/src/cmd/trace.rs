//! `everybuddy trace`: what can be done with trace files.
//!
//! Exists to hold the subcommands of traces together.
//!
//! Invariant: none of them changes what it reads; what they write appears whole or not at all.

use clap::Subcommand;

use everybuddy_measure::Error;

use super::{trace_check, trace_cut, trace_export, trace_import, trace_info, trace_sizes};

/// Look at, check, import, export and cut trace files; gather their sizes.
#[derive(Debug, Subcommand)]
#[command(after_help = "\
Examples:
  everybuddy trace info gcc_build            a bundled trace, in numbers
  everybuddy trace check *.parquet           whether files replay by themselves
  everybuddy trace import perf.data          a trace of what perf recorded
  everybuddy trace cut long.parquet -o short.parquet --first 100000
  everybuddy trace export gcc_build --to csv | head
  everybuddy trace sizes gcc_build           which blocks its first requests need, as a file

The format is described in traces/README.md; pandas, polars and DuckDB read it as it is.")]
pub(super) enum Command {
    Info(trace_info::Arguments),
    Check(trace_check::Arguments),
    Import(trace_import::Arguments),
    Export(trace_export::Arguments),
    Cut(trace_cut::Arguments),
    Sizes(trace_sizes::Arguments),
}

/// Runs the command.
pub(super) fn run(command: Command) -> Result<(), Error> {
    match command {
        Command::Info(arguments) => trace_info::run(arguments),
        Command::Check(arguments) => trace_check::run(arguments),
        Command::Import(arguments) => trace_import::run(arguments),
        Command::Export(arguments) => trace_export::run(arguments),
        Command::Cut(arguments) => trace_cut::run(arguments),
        Command::Sizes(arguments) => trace_sizes::run(arguments),
    }
}
