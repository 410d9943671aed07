//! `everybuddy experiments`: the list of experiments.
//!
//! Users look up names, sources and claims in the program itself, which reads them from the files in
//! `everybuddy-papers`.
//!
//! # Invariants
//! Every experiment is listed.

use clap::Args;
use serde_json::json;

use crate::show::{experiments, output};
use everybuddy_measure::Error;
use everybuddy_papers::list::method;
use everybuddy_papers::{Experiment, named};

/// List the experiments: figures and tables of papers that can be reproduced.
#[derive(Debug, Args)]
#[command(after_help = include_str!("help/experiments.txt"))]
pub(super) struct Arguments {
    /// Describe these experiments in full: by name or TOML file
    #[arg(value_name = "NAME")]
    names: Vec<String>,

    /// Print JSON lines
    #[arg(long)]
    json: bool,
}

/// Runs the command.
pub(super) fn run(arguments: Arguments) -> Result<(), Error> {
    let chosen = named(&arguments.names)?;
    if !arguments.json {
        return output::text(&if arguments.names.is_empty() {
            experiments::listed(&chosen)
        } else {
            chosen
                .iter()
                .map(experiments::full)
                .collect::<Vec<_>>()
                .join("\n")
        });
    }
    let line = |own: &Experiment| -> Result<String, Error> {
        let claims: Vec<&str> = own.claims.iter().map(|claim| claim.text.as_str()).collect();
        let object = json!({
            "name": own.name,
            "title": own.title,
            "source": own.source,
            "needs": own.needs,
            "platform": own.platform.to_string(),
            "timed": method(own)?.repeats().is_timed(),
            "systems": own.systems,
            "figure": own.figure,
            "claims": claims,
        });
        Ok(format!("{object}\n"))
    };
    output::text(&chosen.iter().map(line).collect::<Result<String, Error>>()?)
}
