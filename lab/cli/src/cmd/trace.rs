//! `everybuddy trace`: operations on trace files.
//!
//! Groups the subcommands for traces.
//!
//! # Invariants
//! No subcommand changes its input. Output files appear completely or not at all.

use clap::Subcommand;
use everybuddy_measure::Error;

use super::{trace_check, trace_cut, trace_export, trace_import, trace_info, trace_sizes};

/// Show, check, import, export and cut trace files, and gather statistics of sizes.
#[derive(Debug, Subcommand)]
#[command(after_help = include_str!("help/trace.txt"))]
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
