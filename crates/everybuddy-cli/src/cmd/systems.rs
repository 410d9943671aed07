//! `everybuddy systems`: what there is to compare.
//!
//! Exists so that names, options and sources are looked up in the program itself; all of it comes
//! from [`everybuddy::systems::ROWS`].
//!
//! Invariant: every row is listed, aliases as such.

use clap::Args;
use everybuddy::systems::{ROWS, Row};
use serde_json::json;

use crate::show::{output, systems};
use everybuddy_measure::Error;
use everybuddy_measure::choice;

/// List the systems, with what they are made of and where they are described.
#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  everybuddy systems                the list
  everybuddy systems lbs-31         one in full: what is faithful to its source, what deviates
  everybuddy systems --json         for programs, one JSON object a line

A variant of a system is written NAME+key=value..., everywhere a system can be named:
lbs-31+batch=7, linux-6+percpu=locked, bs+order=12.")]
pub(super) struct Arguments {
    /// Show only these, in full
    #[arg(value_name = "NAME")]
    names: Vec<String>,

    /// Print JSON lines
    #[arg(long)]
    json: bool,
}

/// Runs the command.
pub(super) fn run(arguments: Arguments) -> Result<(), Error> {
    let mut rows: Vec<&Row> = Vec::new();
    for name in &arguments.names {
        rows.push(choice::one(name)?.row());
    }
    let text = match (rows.is_empty(), arguments.json) {
        (true, false) => systems::list(),
        (false, false) => rows
            .iter()
            .map(|row| systems::full(row))
            .collect::<Vec<_>>()
            .join("\n"),
        (true, true) => ROWS.iter().map(line).collect(),
        (false, true) => rows.into_iter().map(line).collect(),
    };
    output::text(&text)
}

fn line(row: &Row) -> String {
    let object = json!({
        "name": row.name,
        "alias_of": row.alias_of,
        "summary": row.summary,
        "composition": row.composition().to_string(),
        "source": row.source,
        "faithful": row.faithful,
        "deviates": row.deviates,
        "options": row.options,
    });
    format!("{object}\n")
}
