//! `everybuddy rows`: what two files of rows differ in.
//!
//! A new run replaces thousands of rows, of which few move, and no `diff` reads packed files.
//!
//! # Invariants
//! Nothing is measured or written, and no difference is a failure.

use std::path::PathBuf;

use clap::Args;
use everybuddy_measure::Error;

use crate::export::earlier;
use crate::show::output::{self, Style};
use crate::show::rows;

/// Show what two files of rows differ in: what changed most, by experiment and metric.
#[derive(Debug, Args)]
#[command(after_help = include_str!("help/rows.txt"))]
pub(super) struct Arguments {
    /// The rows before: what --json wrote, packed with gzip or not, or a folder of such files
    #[arg(value_name = "A")]
    before: PathBuf,

    /// The rows after
    #[arg(value_name = "B")]
    after: PathBuf,

    /// List the rows that changed by more than PERCENT
    #[arg(long, value_name = "PERCENT", default_value = "10%", value_parser = percentage)]
    above: f64,

    /// List all of them, and not only the ten of each metric that changed most
    #[arg(long)]
    all: bool,
}

/// Runs the command.
pub(super) fn run(arguments: &Arguments) -> Result<(), Error> {
    let before = earlier::rows("A", &arguments.before)?;
    let after = earlier::rows("B", &arguments.after)?;
    let most = if arguments.all { usize::MAX } else { 10 };
    let style = Style::of_output(false);
    output::text(&rows::text(&before, &after, arguments.above, most, &style))
}

/// Reads a percentage.
fn percentage(text: &str) -> Result<f64, String> {
    let number = text.strip_suffix('%').unwrap_or(text).parse::<f64>();
    let number = number.ok().filter(|number| (0.0..1e9).contains(number));
    number.ok_or_else(|| "a percentage is a number such as 10% or 0.5%".to_owned())
}
