//! `everybuddy play`: the page in which systems run step by step.
//!
//! [`everybuddy_play`] has the page. This file writes it.

use std::path::PathBuf;

use clap::Args;
use everybuddy_measure::Error;
use everybuddy_trace::shown;

use crate::export::Outputs;
use crate::show::output;

/// Write a page in which all systems run step by step, in a memory that one can see.
///
/// It plays the walk-throughs of the papers, bursts, handovers and fragmentation, forward and backward, on two systems
/// next to each other, and your own steps. It is one file for a browser, and needs no network.
#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  everybuddy play                               write everybuddy-play.html
  everybuddy play -o page.html                  write another file")]
pub(super) struct Arguments {
    /// Write the page to this file
    #[arg(
        short,
        long,
        value_name = "FILE",
        default_value = "everybuddy-play.html"
    )]
    output: PathBuf,
}

/// Runs the command.
pub(super) fn run(arguments: &Arguments) -> Result<(), Error> {
    let path = &arguments.output;
    let file = Outputs::default().open("--output", path)?;
    file.finish(everybuddy_play::page().as_bytes())?;
    output::note(&format!("wrote {}: open it in a browser", shown(path)));
    Ok(())
}
