//! `everybuddy memory`: which large blocks a Linux machine has.
//!
//! # Purpose
//!
//! [`everybuddy_memory::command`] has the options and the output, which the program `everybuddy-memory` shares.
//!
//! # Invariants
//!
//! The exit codes of `--need` pass through unchanged.

use everybuddy_measure::Error;
pub(super) use everybuddy_memory::command::Arguments;

/// Runs the command and returns its exit code.
pub(super) fn run(arguments: &Arguments) -> Result<u8, Error> {
    everybuddy_memory::command::run(arguments).map_err(Error::Usage)
}
