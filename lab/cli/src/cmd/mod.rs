//! The command line: one file per subcommand.
//!
//! A file contains a subcommand's arguments, its help and its implementation. To add a subcommand, add a file, a line
//! in `Command`, and a line in `Cli::run`.
//!
//! # Invariants
//! Results go to standard output, everything else to standard error. The exit code is 0 if the command succeeded, 1
//! if a claim or comparison failed, and 2 for errors in usage, input or files. `memory --need` documents its own codes.

mod advise;
mod bench;
mod compare;
mod completions;
mod experiments;
mod files;
mod machines;
mod man;
mod memory;
mod metrics;
mod numbers;
mod play;
#[cfg(target_os = "linux")]
mod record;
mod reproduce;
mod rows;
mod scaling;
mod simulate;
mod start;
mod sweep;
mod systems;
mod trace;
mod trace_check;
mod trace_cut;
mod trace_export;
mod trace_file;
mod trace_import;
mod trace_info;
mod trace_sizes;
mod traces;
mod workloads;

use std::ffi::OsString;

use clap::{CommandFactory, Parser, Subcommand};

use crate::show::output;
use everybuddy_measure::Error;
use everybuddy_trace::shown;

/// The whole command line.
#[derive(Debug, Parser)]
#[command(
    name = "everybuddy",
    version,
    about = "Compare page-frame allocators on real traces",
    after_help = include_str!("help/everybuddy.txt")
)]
struct Cli {
    #[command(subcommand)]
    command: Command,
}

/// The subcommands.
#[derive(Debug, Subcommand)]
enum Command {
    Compare(compare::Arguments),
    Bench(bench::Arguments),
    #[cfg(target_os = "linux")]
    Record(record::Arguments),
    #[command(subcommand)]
    Trace(trace::Command),
    Traces(traces::Arguments),
    Systems(systems::Arguments),
    Workloads(workloads::Arguments),
    Simulate(simulate::Arguments),
    Sweep(Box<sweep::Arguments>),
    Reproduce(reproduce::Arguments),
    Scaling(scaling::Arguments),
    Experiments(experiments::Arguments),
    Machines(machines::Arguments),
    Memory(memory::Arguments),
    Advise(advise::Arguments),
    Metrics(metrics::Arguments),
    Rows(rows::Arguments),
    Play(play::Arguments),
    Completions(completions::Arguments),
    Man(man::Arguments),
}

impl Cli {
    /// Runs the subcommand and returns its exit code.
    fn run(self) -> Result<u8, Error> {
        let done = match self.command {
            Command::Memory(arguments) => return memory::run(&arguments),
            Command::Compare(arguments) => compare::run(arguments),
            Command::Bench(arguments) => bench::run(arguments),
            #[cfg(target_os = "linux")]
            Command::Record(arguments) => record::run(arguments),
            Command::Trace(command) => trace::run(command),
            Command::Traces(arguments) => traces::run(arguments),
            Command::Systems(arguments) => systems::run(arguments),
            Command::Workloads(arguments) => workloads::run(arguments),
            Command::Simulate(arguments) => simulate::run(arguments),
            Command::Sweep(arguments) => sweep::run(*arguments),
            Command::Reproduce(arguments) => reproduce::run(arguments),
            Command::Scaling(arguments) => scaling::run(arguments),
            Command::Experiments(arguments) => experiments::run(arguments),
            Command::Machines(arguments) => machines::run(arguments),
            Command::Advise(arguments) => advise::run(arguments),
            Command::Metrics(arguments) => metrics::run(arguments),
            Command::Rows(arguments) => rows::run(&arguments),
            Command::Play(arguments) => play::run(&arguments),
            Command::Completions(arguments) => completions::run(&arguments, Cli::command()),
            Command::Man(arguments) => man::run(&arguments, Cli::command()),
        };
        done.map(|()| 0)
    }
}

/// Runs a command line, of which the first word is the name of the program, and returns its exit code.
pub fn run(words: impl IntoIterator<Item: Into<OsString>>) -> u8 {
    let words: Vec<OsString> = words.into_iter().map(Into::into).collect();
    let result = match Cli::try_parse_from(&words) {
        Ok(cli) => cli.run(),
        // A help text or the version is a result: clap itself would ignore that it could not be written.
        Err(text) if !text.use_stderr() => output::of_parser(&text).map(|()| 0),
        Err(mistake) => {
            // The message shows an argument, which may contain anything.
            let is_plain = |word: &OsString| shown(word) == word.to_string_lossy();
            let _ = if words.iter().all(is_plain) {
                output::of_parser(&mistake)
            } else {
                output::aside(&mistake.render().to_string())
            };
            return 2;
        }
    };
    let error = match result {
        Ok(code) => return code,
        Err(error) => error,
    };
    if !matches!(error, Error::ReaderGone | Error::Part) {
        output::error(&error.to_string());
    }
    error.exit_code()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_command_line_is_consistent() {
        Cli::command().debug_assert();
    }
}
