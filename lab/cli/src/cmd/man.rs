//! `everybuddy man`: manual pages.
//!
//! A package, or a user, installs the pages of exactly this program.
//!
//! # Invariants
//! One page per command, with the text that `--help` shows. A page appears completely or not at all.

use everybuddy_trace::shown;
use std::fs;
use std::path::PathBuf;

use clap::{Args, Command};
use clap_mangen::Man;
use everybuddy_measure::Error;

use crate::export::{Outputs, refused};
use crate::show::output;

/// Write the manual pages, one per command, into a folder.
#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  everybuddy man ~/.local/share/man/man1       `man everybuddy-compare` finds the pages there
  everybuddy man . && man ./everybuddy.1       write them here and read the first one")]
pub(super) struct Arguments {
    /// Write the pages into this folder, which is created if it does not exist
    #[arg(value_name = "FOLDER")]
    folder: PathBuf,
}

/// Runs the command for the program's command line.
pub(super) fn run(arguments: &Arguments, program: Command) -> Result<(), Error> {
    let folder = &arguments.folder;
    fs::create_dir_all(folder).map_err(|cause| refused(folder, cause))?;
    // Pages of `help` would repeat the others.
    let mut program = program.disable_help_subcommand(true);
    program.build();
    let mut waiting = vec![program];
    let mut outputs = Outputs::default();
    let mut pages = Vec::new();
    while let Some(command) = waiting.pop() {
        waiting.extend(command.get_subcommands().cloned());
        let page = Man::new(command);
        let path = folder.join(page.get_filename());
        let mut text = Vec::new();
        page.render(&mut text)
            .map_err(|cause| refused(&path, cause))?;
        pages.push((outputs.open("FOLDER", &path)?, text));
    }
    let count = pages.len();
    for (file, text) in pages {
        file.finish(&text)?;
    }
    output::note(&format!("wrote {count} pages to {}", shown(folder)));
    Ok(())
}
