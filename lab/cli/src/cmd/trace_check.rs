//! `everybuddy trace check`: checks that traces replay by themselves.
//!
//! Validates a recording before its results are trusted.
//!
//! # Invariants
//! Each valid trace gives one line on standard output. For each invalid trace, the first error is printed on standard
//! error, and the exit code is 2.

use std::path::Path;

use clap::Args;
use everybuddy_trace::{files, shown};

use super::trace_file::leniency;

use crate::left_out;
use crate::show::output;
use everybuddy_measure::Error;
use everybuddy_measure::library;
use everybuddy_measure::size::count;

/// Check that traces are valid: they must replay by themselves.
#[derive(Debug, Args)]
#[command(after_help = include_str!("help/trace_check.txt"))]
pub(super) struct Arguments {
    /// Check these traces: files, or names of bundled traces
    #[arg(value_name = "TRACE", required = true)]
    traces: Vec<String>,

    /// Report the repairs of lenient reading instead of rejecting
    #[arg(long)]
    lenient: bool,
}

/// Runs the command.
pub(super) fn run(arguments: Arguments) -> Result<(), Error> {
    let leniency = leniency(arguments.lenient);
    let mut refused = Vec::new();
    let given = &arguments.traces;
    for name in given.iter().filter(|name| !is_companion(name, given)) {
        match library::read_any(name, leniency) {
            Ok((trace, repairs)) => {
                let events = count(trace.events.len() as u64);
                let locks = match trace.acquisitions.len() {
                    0 => String::new(),
                    some => format!(", {} acquisitions of a zone's lock", count(some as u64)),
                };
                let repaired = if repairs.is_empty() {
                    String::new()
                } else {
                    format!(", repaired: {repairs}")
                };
                let name = shown(name);
                output::text(&format!(
                    "ok       {name}: {events} events{locks}{repaired}\n"
                ))?;
                // A valid trace may still be a part of what was recorded.
                if let Some(text) = left_out::of(&trace) {
                    output::note(&format!("trace {name}: {text}"));
                }
            }
            Err(error) => refused.push(error),
        }
    }
    // All errors but the last are printed here; the caller prints the last.
    let last = refused.pop();
    for error in &refused {
        output::error(&error.to_string());
    }
    last.map_or(Ok(()), Err)
}

/// Returns `true` if a file is the companion of a trace that is checked too: `*.parquet` matches both, which are
/// checked together.
fn is_companion(name: &str, given: &[String]) -> bool {
    given.iter().any(|main| {
        let companions = files(Path::new(main)).into_iter().skip(1);
        companions.into_iter().any(|file| file == Path::new(name))
    })
}
