//! The trace that a subcommand of `everybuddy trace` reads.
//!
//! # Purpose
//!
//! All of them repair traces in the same way, and report the repairs in the same words.
//!
//! # Invariants
//!
//! Nothing is repaired unless `--lenient` was given.

use everybuddy_measure::{Error, library};
use everybuddy_trace::{Leniency, Trace};

use crate::show::output;

/// Reads a trace, and reports what was repaired.
pub(super) fn read(name: &str, lenient: bool) -> Result<Trace, Error> {
    let (trace, repairs) = library::read(name, leniency(lenient))?;
    if !repairs.is_empty() {
        output::note(&format!("trace {}: repaired: {repairs}", trace.name));
    }
    Ok(trace)
}

/// Returns what `--lenient` asks for.
pub(super) fn leniency(lenient: bool) -> Leniency {
    if lenient {
        Leniency::Lenient
    } else {
        Leniency::Strict
    }
}
