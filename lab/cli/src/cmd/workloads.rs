//! `everybuddy workloads`: the list of request generators.
//!
//! Users look up names and sources in the program itself, which reads them from [`everybuddy_workload::WORKLOADS`].
//!
//! # Invariants
//! Every row is listed.

use clap::Args;
use everybuddy_workload::WORKLOADS;
use serde_json::json;

use crate::show::{output, systems};
use everybuddy_measure::Error;

/// List the workloads: request generators, with their sources.
#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  everybuddy workloads              list all
  everybuddy workloads --json       print one JSON object per line")]
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
    let line = |row: &everybuddy_workload::WorkloadInfo| {
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
