//! Calls of libraries that survive their panics.
//!
//! Exists because libraries take some of their input on trust: a few damaged files (1 in 100
//! flipped bits of a small Parquet file) make them panic where they should refuse. A damaged file
//! is an error for people, so such a panic becomes one, and its message does not reach standard
//! error.
//!
//! Invariant: panics outside of a guarded call are reported as if this module did not exist. The
//! hook that a fuzzer sets, which ends the program, is one of those reports.

use std::cell::Cell;
use std::panic::{AssertUnwindSafe, catch_unwind, set_hook, take_hook};
use std::path::Path;
use std::sync::Once;

use parquet::errors::ParquetError;

use crate::error::{Problem, TraceError};

thread_local! {
    /// Whether this thread is inside of a guarded call.
    static GUARDED: Cell<bool> = const { Cell::new(false) };
}

/// Calls a library; `None` when it panics.
///
/// Costs a few nanoseconds; needs a program whose panics unwind. What the call may leave half done
/// must be thrown away.
pub fn quietly<T>(call: impl FnOnce() -> T) -> Option<T> {
    static QUIET: Once = Once::new();
    QUIET.call_once(|| {
        let report = take_hook();
        set_hook(Box::new(move |panic| {
            if !GUARDED.get() {
                report(panic);
            }
        }));
    });
    GUARDED.set(true);
    let result = catch_unwind(AssertUnwindSafe(call));
    GUARDED.set(false);
    result.ok()
}

/// Calls the Parquet library about `file`; its errors and panics mean that the file is damaged.
pub(crate) fn guarded<T>(
    file: &Path,
    call: impl FnOnce() -> Result<T, ParquetError>,
) -> Result<T, TraceError> {
    let why = match quietly(call) {
        Some(Ok(value)) => return Ok(value),
        Some(Err(error)) => error.to_string(),
        None => "its structure contradicts itself".to_string(),
    };
    Err(TraceError::new(file, None, Problem::NotParquet(why)))
}
