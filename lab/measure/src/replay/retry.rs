//! The retry loop for requests.
//!
//! A request that fails because another CPU is busy may succeed at the next attempt. The number of retries affects the
//! measurements, so it is the same for all systems.
//!
//! # Invariants
//! Only [`AllocateError::Busy`] is repeated, and only a bounded number of times.

use everybuddy::platform::{NativeCpu, Waiting};
use everybuddy::{AllocateError, Index, Request};

use crate::replay::calls::Calls;
use crate::replay::platform::Yielding;
use crate::replay::watch::ReadableProbe;

/// The maximum number of retries.
pub const MAX_RETRIES: u32 = 64;

/// The maximum number of retries of the only caller, for whom a failure means that the system is broken.
pub const MAX_RETRIES_ALONE: u32 = 1 << 10;

/// Retries a request that failed with `error`, at most `limit` times, and calls `between` before each attempt.
///
/// Separate from the caller's loop, because this is the rare case.
///
/// # Errors
/// Returns the last error.
#[cold]
#[inline(never)]
pub fn retry<A, B>(
    system: &A,
    cpu: &mut NativeCpu<B>,
    request: Request,
    mut error: AllocateError,
    limit: u32,
    mut between: impl FnMut(),
) -> Result<Index, AllocateError>
where
    A: Calls<B> + ?Sized,
    B: ReadableProbe,
{
    for attempt in 0..limit {
        if error != AllocateError::Busy {
            break;
        }
        between();
        Yielding::pause(attempt);
        match system.allocate(cpu, request) {
            Ok(frame) => return Ok(frame),
            Err(again) => error = again,
        }
    }
    Err(error)
}
