//! `everybuddy completions`: a shell's script that completes the command line.
//!
//! A shell offers the commands and options of the installed program, because the script is made by that program.
//!
//! # Invariants
//! The script follows from the definition of the command line, and from nothing else.

use clap::{Args, Command};
use clap_complete::Shell;
use everybuddy_measure::Error;

use crate::show::output;

/// Print a script with which a shell completes commands and options.
#[derive(Debug, Args)]
#[command(after_help = include_str!("help/completions.txt"))]
pub(super) struct Arguments {
    /// Select the shell
    #[arg(value_name = "SHELL")]
    shell: Shell,
}

/// Runs the command for the program's command line.
pub(super) fn run(arguments: &Arguments, mut program: Command) -> Result<(), Error> {
    let mut script = Vec::new();
    let name = program.get_name().to_string();
    clap_complete::generate(arguments.shell, &mut program, name, &mut script);
    output::bytes(&script)
}
