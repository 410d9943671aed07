//! What allocated memory, by the kernel's profiling: `/proc/allocinfo`, and the largest ones at the end of a report.
//!
//! # Invariants
//! A line that is cut is not used.

use everybuddy_text::size;

use super::fields::shown;
use crate::state::Caller;

/// Reads `38.4 MiB 5505 mm/slub.c:3075 [module] func:name`, or a line with the size in bytes.
pub(crate) fn caller(text: &[u8]) -> Option<Caller> {
    memchr::memmem::find(text, b" func:")?;
    let mut words = std::str::from_utf8(text).ok()?.split_whitespace();
    let (number, mut calls) = (words.next()?, words.next()?);
    let bytes = match size::unit(calls).filter(|_| calls.ends_with('B')) {
        Some(unit) => {
            let number: f64 = number.parse().ok()?;
            calls = words.next()?;
            // A number that is not one becomes 0.
            (number * (1u64 << unit) as f64) as u64
        }
        None => number.parse().ok()?,
    };
    let calls = calls.parse().ok()?;
    let mut place = words.next()?.to_owned();
    place.contains(':').then_some(())?;
    let mut last = words.next()?;
    if last.starts_with('[') {
        place.push_str(&format!(" {last}"));
        last = words.next()?;
    }
    let function = last.strip_prefix("func:")?;
    let is_whole = !function.is_empty() && !function.ends_with('=') && words.next().is_none();
    is_whole.then(|| Caller {
        function: shown(function.as_bytes()),
        place: shown(place.as_bytes()),
        bytes,
        calls,
    })
}
