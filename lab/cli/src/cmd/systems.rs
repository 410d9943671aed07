//! `everybuddy systems`: the list of systems.
//!
//! Users look up names, options and sources in the program itself, which reads them from [`everybuddy::systems::ROWS`].
//!
//! # Invariants
//! Every row is listed, and aliases are marked.

use clap::Args;
use everybuddy::SystemSpec;
use everybuddy::systems::{Parameters, ROWS, Row};
use serde_json::json;

use crate::show::{output, systems};
use everybuddy_measure::Error;
use everybuddy_measure::choice;

/// List the systems, with their composition and their source.
#[derive(Debug, Args)]
#[command(after_help = include_str!("help/systems.txt"))]
pub(super) struct Arguments {
    /// Describe these systems in full
    #[arg(value_name = "NAME")]
    names: Vec<String>,

    /// Print JSON lines
    #[arg(long)]
    json: bool,
}

/// Runs the command.
pub(super) fn run(arguments: Arguments) -> Result<(), Error> {
    let one = |name: &String| {
        let spec = choice::one(name)?;
        let built = systems::built(&spec)?;
        Ok((spec, built))
    };
    let specs = arguments.names.iter().map(one);
    let specs = specs.collect::<Result<Vec<(SystemSpec, Parameters)>, Error>>()?;
    let text = match (specs.is_empty(), arguments.json) {
        (true, false) => systems::list(),
        (false, false) => specs
            .iter()
            .map(|(spec, built)| systems::full(spec, built))
            .collect::<Vec<_>>()
            .join("\n"),
        (true, true) => ROWS.iter().map(|row| line(row, row.name, None)).collect(),
        (false, true) => specs
            .iter()
            .map(|(spec, built)| line(spec.row(), &spec.to_string(), Some(built.to_string())))
            .collect(),
    };
    output::text(&text)
}

fn line(row: &Row, name: &str, built: Option<String>) -> String {
    let object = json!({
        "name": name,
        "built": built,
        "summary": row.summary,
        "composition": row.composition().to_string(),
        "source": row.source,
        "faithful": row.faithful,
        "deviates": row.deviates,
        "options": row.options().map(|option| option.key).collect::<Vec<_>>(),
    });
    format!("{object}\n")
}
