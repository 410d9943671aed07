//! Calls of the Parquet library that survive its panics.
//!
//! Exists because the library takes some of its input on trust: a few damaged files (1 in 100
//! flipped bits of a small one) make it panic where it should refuse. A damaged file is an error
//! for people, so such a panic becomes one, and its message does not reach standard error.
//!
//! Invariant: panics outside of a guarded call are reported as if this module did not exist.

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

/// Calls the library about `file`; its errors and panics mean that the file is damaged.
///
/// Costs a few nanoseconds; needs a program whose panics unwind.
pub(crate) fn guarded<T>(
    file: &Path,
    call: impl FnOnce() -> Result<T, ParquetError>,
) -> Result<T, TraceError> {
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
    // What the call may leave half done is thrown away with the error.
    let result = catch_unwind(AssertUnwindSafe(call));
    GUARDED.set(false);
    let why = match result {
        Ok(Ok(value)) => return Ok(value),
        Ok(Err(error)) => error.to_string(),
        Err(_) => "its structure contradicts itself".to_string(),
    };
    Err(TraceError::new(file, None, Problem::NotParquet(why)))
}
