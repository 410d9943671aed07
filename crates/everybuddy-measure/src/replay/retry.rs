//! The only place that repeats a request.
//!
//! # Purpose
//!
//! # Invariants
//!
//! Only [`AllocateError::Busy`] is repeated, and only a bounded number of times.

use everybuddy::platform::{NativeCpu, Waiting};
use everybuddy::{AllocateError, FrameAllocator, Pfn, Probe, Request};

use crate::replay::host::{ReplayPlatform, Yielding};

/// How often a request is repeated.
pub const MAX_RETRIES: u32 = 64;

/// How often a request is repeated by the only caller, for whom a refusal means that the system is broken.
pub const MAX_RETRIES_ALONE: u32 = 1 << 10;

/// Repeats a request that failed with `error`, at most `limit` times, with `between` called before each attempt.
///
/// Kept out of the caller's loop: this is the rare case.
///
/// # Errors
/// The last error.
#[cold]
#[inline(never)]
pub fn retry<A, B>(
    system: &A,
    cpu: &mut NativeCpu<B>,
    request: Request,
    mut error: AllocateError,
    limit: u32,
    mut between: impl FnMut(),
) -> Result<Pfn, AllocateError>
where
    A: FrameAllocator<ReplayPlatform<B>> + ?Sized,
    B: Probe,
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
