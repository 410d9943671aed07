//! `everybuddy trace`: what can be done with trace files.
//!
//! Exists to hold the subcommands of traces together.
//!
//! Invariant: none of them changes a file.

use clap::Subcommand;

use crate::Error;

use super::{trace_check, trace_info};

/// Look at and check trace files.
#[derive(Debug, Subcommand)]
#[command(after_help = "\
Examples:
  everybuddy trace info gcc_build            a bundled trace, in numbers
  everybuddy trace check *.parquet           whether files replay by themselves

The format is described in traces/README.md; pandas, polars and DuckDB read it as it is.")]
pub(super) enum Command {
    Info(trace_info::Arguments),
    Check(trace_check::Arguments),
}

/// Runs the command.
pub(super) fn run(command: Command) -> Result<(), Error> {
    match command {
        Command::Info(arguments) => trace_info::run(arguments),
        Command::Check(arguments) => trace_check::run(arguments),
    }
}
