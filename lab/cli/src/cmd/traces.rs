//! `everybuddy traces`: the list of bundled traces.
//!
//! The bundled traces are part of the program, so no folder shows which there are.
//!
//! # Invariants
//! Every bundled trace is listed, with numbers that are computed from the trace itself.

use clap::Args;
use everybuddy_measure::Error;
use everybuddy_measure::library::{BUNDLED, Bundled, DEFAULT};
use everybuddy_trace::{Leniency, Statistics, read_embedded, resolve};
use serde_json::json;

use crate::show::{output, trace};

/// List the bundled traces: calls of real programs to the kernel's page allocator.
#[derive(Debug, Args)]
#[command(after_help = include_str!("help/traces.txt"))]
pub(super) struct Arguments {
    /// Print JSON lines
    #[arg(long)]
    json: bool,
}

/// Runs the command.
pub(super) fn run(arguments: Arguments) -> Result<(), Error> {
    let mut known = Vec::with_capacity(BUNDLED.len());
    for own in &BUNDLED {
        let (read, _) = read_embedded(&own.trace, Leniency::Strict)?;
        let resolved = resolve(&read)?;
        known.push((own, Statistics::of(&read, &resolved)));
    }
    output::text(&if arguments.json {
        known.iter().map(line).collect()
    } else {
        trace::list(&known)
    })
}

fn line((own, statistics): &(&Bundled, Statistics)) -> String {
    let object = json!({
        "name": own.trace.name,
        "program": own.program,
        "is_default": DEFAULT.contains(&own.trace.name),
        "calls": statistics.events,
        "cpus": statistics.cpus,
        "tasks": statistics.tasks,
        "peak_frames": statistics.peak_frames,
        "duration_ns": statistics.duration_ns,
    });
    format!("{object}\n")
}
