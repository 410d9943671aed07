//! `everybuddy trace check`: whether traces replay by themselves.
//!
//! Exists so that a recording can be judged before it is trusted.
//!
//! Invariant: one line for each trace on standard output when it is right; the first fault of each
//! that is not, on standard error, and exit code 2 if there is any.

use clap::Args;
use everybuddy_trace::Leniency;

use crate::show::output;
use everybuddy_measure::Error;
use everybuddy_measure::library;
use everybuddy_measure::size::count;

/// Check that traces replay by themselves, without contradictions.
#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  everybuddy trace check gcc_build                  a bundled trace
  everybuddy trace check recordings/*.parquet       each file; exit code 2 if any is refused
  everybuddy trace check broken.parquet --lenient   what a repair would drop and change")]
pub(super) struct Arguments {
    /// Traces: files, or names of bundled ones
    #[arg(value_name = "TRACE", required = true)]
    traces: Vec<String>,

    /// Say what a lenient reading would repair, instead of refusing
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
    let mut refused = Vec::new();
    let given = &arguments.traces;
    for name in given.iter().filter(|name| !is_companion(name, given)) {
        match library::read(name, leniency) {
            Ok((trace, repairs)) => {
                let events = count(trace.events.len() as u64);
                let repaired = match repairs.is_empty() {
                    true => String::new(),
                    false => format!(", repaired: {repairs}"),
                };
                output::text(&format!("ok       {name}: {events} events{repaired}\n"))?;
            }
            Err(error) => refused.push(error),
        }
    }
    // All but the last are told here, the last by whoever runs commands.
    let last = refused.pop();
    for error in &refused {
        output::error(&error.to_string());
    }
    last.map_or(Ok(()), Err)
}

/// Tells whether a file lies beside a trace that is given too: `*.parquet` names both, and both are
/// checked as one.
fn is_companion(name: &str, given: &[String]) -> bool {
    [".faults.parquet", ".vmas.parquet"].iter().any(|suffix| {
        let main = name
            .strip_suffix(suffix)
            .map(|stem| format!("{stem}.parquet"));
        main.is_some_and(|main| given.contains(&main))
    })
}
