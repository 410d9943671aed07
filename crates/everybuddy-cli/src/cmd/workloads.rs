//! `everybuddy workloads`: what generators of requests there are.
//!
//! Exists so that names and sources are looked up in the program itself; all of it comes from
//! [`everybuddy_workload::WORKLOADS`].
//!
//! Invariant: every row is listed.

use clap::Args;
use everybuddy_workload::WORKLOADS;
use serde_json::json;

use crate::show::{output, systems};
use everybuddy_measure::Error;

/// List the workloads: generators of requests, with their sources.
#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  everybuddy workloads              the list
  everybuddy workloads --json       for programs, one JSON object a line")]
pub(super) struct Arguments {
    /// Print JSON lines
    #[arg(long)]
    json: bool,
}

/// Runs the command.
pub(super) fn run(arguments: Arguments) -> Result<(), Error> {
    if !arguments.json {
        return output::text(&systems::workloads());
    }
    let line = |row: &everybuddy_workload::Row| {
        let variants: Vec<_> = row.variants.iter().map(|variant| variant.name).collect();
        let object = json!({
            "name": row.name,
            "summary": row.summary,
            "source": row.source,
            "variants": variants,
        });
        format!("{object}\n")
    };
    output::text(&WORKLOADS.iter().map(line).collect::<String>())
}
