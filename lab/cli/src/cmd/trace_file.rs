//! The trace that a subcommand of `everybuddy trace` reads.
//!
//! All of them repair traces in the same way, and report the repairs in the same words.
//!
//! # Invariants
//! Nothing is repaired unless `--lenient` was given.

use everybuddy_measure::{Error, library};
use everybuddy_trace::{Leniency, Repairs, Trace};

use crate::show::output;

/// Reads a trace with calls, and reports what was repaired.
pub(super) fn read(name: &str, lenient: bool) -> Result<Trace, Error> {
    library::read(name, leniency(lenient)).map(reported)
}

/// Reads a trace like [`read`], or one that contains only waits for zones' locks.
pub(super) fn read_any(name: &str, lenient: bool) -> Result<Trace, Error> {
    library::read_any(name, leniency(lenient)).map(reported)
}

/// Reports what was repaired.
fn reported((trace, repairs): (Trace, Repairs)) -> Trace {
    if !repairs.is_empty() {
        output::note(&format!("trace {}: repaired: {repairs}", trace.name));
    }
    trace
}

/// Returns what `--lenient` asks for.
pub(super) fn leniency(lenient: bool) -> Leniency {
    if lenient {
        Leniency::Lenient
    } else {
        Leniency::Strict
    }
}
