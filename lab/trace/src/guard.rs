//! Library calls that survive the library's panics.
//!
//! Libraries trust some of their input: a few damaged files (1 in 100 flipped bits of a small Parquet file) make them
//! panic instead of returning an error. A damaged file is a user error, so such a panic becomes an error, and its
//! message does not reach standard error.
//!
//! # Invariants
//! Panics outside a guarded call are reported as if this module did not exist. That includes the panic hook of a
//! fuzzer, which ends the program.

use std::cell::Cell;
use std::panic::{AssertUnwindSafe, catch_unwind, set_hook, take_hook};
use std::path::Path;
use std::sync::Once;

use parquet::errors::ParquetError;

use crate::error::{Problem, TraceError};

thread_local! {
    /// Whether this thread is inside a guarded call.
    static GUARDED: Cell<bool> = const { Cell::new(false) };
}

/// Calls a library. Returns `None` if it panics.
///
/// Costs a few nanoseconds and requires a program whose panics unwind. State that the call may leave half-finished
/// must be discarded.
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

/// Calls the Parquet library for `file`; its errors and panics mean that the file is damaged.
pub(crate) fn guarded<T>(
    file: &Path,
    call: impl FnOnce() -> Result<T, ParquetError>,
) -> Result<T, TraceError> {
    let why = match quietly(call) {
        Some(Ok(value)) => return Ok(value),
        Some(Err(error)) => error.to_string(),
        None => "its structure is inconsistent".to_string(),
    };
    Err(TraceError::new(file, None, Problem::NotParquet(why)))
}
