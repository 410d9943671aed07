//! The program `everybuddy-memory`: `everybuddy memory` alone, as one small file.
//!
//! A machine in trouble often has no compiler. This program needs no other file of the machine.
//!
//! # Invariants
//! It does what [`everybuddy_memory::command`] does.

use std::io::Write;
use std::process::ExitCode;

use clap::FromArgMatches;
use everybuddy_memory::command::{self, Arguments};

fn main() -> ExitCode {
    let matches = command::program().get_matches();
    let result = Arguments::from_arg_matches(&matches).map_err(|mistake| mistake.to_string());
    let run = |arguments| command::run(&arguments).map_err(|error| error.to_string());
    match result.and_then(run) {
        Ok(code) => ExitCode::from(code),
        Err(message) => {
            let _ = writeln!(std::io::stderr(), "error: {message}");
            ExitCode::from(2)
        }
    }
}
