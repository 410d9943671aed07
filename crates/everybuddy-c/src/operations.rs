//! The operations of a CPU on frames that the system chooses, and on all of them: each takes its token.
//!
//! # Invariants
//! One function for each operation of `FrameAllocator`, with the same meaning. Frames are numbers from the start of the
//! system's span.

use core::ffi::c_void;
use core::slice;

use everybuddy::{Block, Hint, Index, Progress, Release, Request, Run, Size, Visit};

use crate::errors::{Failure, eb_error};
use crate::handle::{eb_cpu, park, read, run, run_with};
use crate::platform::{System, Token};
use crate::status::{eb_status, eb_status::*};
use crate::types::{
    EB_VISIT_KEEP, EB_VISIT_KEEP_AND_STOP, EB_VISIT_RETURN, EB_VISIT_RETURN_ZEROED, eb_census,
    eb_release, eb_request, eb_run, eb_shortage_report, eb_snapshot, eb_visitor, flags, order,
};

/// Releases that are converted at a time.
const RELEASES: usize = 32;

/// Allocates a block of 2^order frames, aligned to its size, and writes its first frame to `frame`.
///
/// `flags` joins a class and `EB_NO_WAIT` by `|`, or is 0. Free frames in other CPUs' lists are found before the
/// request fails, unless it has `EB_NO_WAIT`.
///
/// Errors: `EB_ERROR_EXHAUSTED`, `EB_ERROR_TOO_LARGE`, `EB_ERROR_BUSY`.
///
/// # Safety
/// `cpu` came from `eb_cpu_claim`. `frame` may be written.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn eb_allocate(
    cpu: *mut eb_cpu,
    order: u32,
    flags: u32,
    frame: *mut u32,
) -> eb_status {
    let allocate = |system: System, token: &mut Token| {
        let request = Request {
            size: Size::Order(self::order(order)?),
            hint: Hint::NONE,
            flags: self::flags(flags)?,
        };
        Ok(system.allocate(token, request)?.0)
    };
    // SAFETY: as promised by the caller.
    unsafe { run_with(cpu, frame, allocate) }
}

/// Frees a block, by its first frame and the order that it was allocated with.
///
/// Errors: `EB_ERROR_FOREIGN`, `EB_ERROR_HOLE`, `EB_ERROR_RESERVED`, `EB_ERROR_NOT_ALLOCATED`,
/// `EB_ERROR_INSIDE_BLOCK`, `EB_ERROR_WRONG_ORDER`.
///
/// # Safety
/// `cpu` came from `eb_cpu_claim`.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn eb_free(cpu: *mut eb_cpu, frame: u32, order: u32) -> eb_status {
    let free = |system: System, token: &mut Token| {
        let block = Block::new(Index(frame), self::order(order)?);
        Ok(system.free(token, Release::block(block))?)
    };
    // SAFETY: as promised by the caller.
    unsafe { run(cpu, free) }
}

/// Allocates what a request describes: a block, or a run of exactly the given number of frames, with hints.
///
/// Errors: those of `eb_allocate`, and `EB_ERROR_ZERO_FRAMES`.
///
/// # Safety
/// `cpu` came from `eb_cpu_claim`. `request` leads to a request. `frame` may be written.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn eb_allocate_request(
    cpu: *mut eb_cpu,
    request: *const eb_request,
    frame: *mut u32,
) -> eb_status {
    let allocate = |system: System, token: &mut Token| {
        // SAFETY: as promised by the caller.
        let request = unsafe { read(request) }?.convert()?;
        Ok(system.allocate(token, request)?.0)
    };
    // SAFETY: as promised by the caller.
    unsafe { run_with(cpu, frame, allocate) }
}

/// Frees what a release describes: a block, an exact allocation, or any part of allocations.
///
/// Errors: those of `eb_free`, and `EB_ERROR_ZERO_FRAMES`.
///
/// # Safety
/// `cpu` came from `eb_cpu_claim`. `release` leads to a release.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn eb_free_release(
    cpu: *mut eb_cpu,
    release: *const eb_release,
) -> eb_status {
    let free = |system: System, token: &mut Token| {
        // SAFETY: as promised by the caller.
        let release = unsafe { read(release) }?.convert()?;
        Ok(system.free(token, release)?)
    };
    // SAFETY: as promised by the caller.
    unsafe { run(cpu, free) }
}

/// Frees frames as `eb_free_release` does, and promises that they contain only zeros. No system that `eb_build` builds
/// stores the promise.
///
/// Errors: those of `eb_free_release`.
///
/// # Safety
/// As for `eb_free_release`.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn eb_free_zeroed(cpu: *mut eb_cpu, release: *const eb_release) -> eb_status {
    let free = |system: System, token: &mut Token| {
        // SAFETY: as promised by the caller.
        let release = unsafe { read(release) }?.convert()?;
        Ok(system.free_zeroed(token, release)?)
    };
    // SAFETY: as promised by the caller.
    unsafe { run(cpu, free) }
}

/// Allocates up to `length` blocks or runs of the same size, writes their first frames to `frames` and their number to
/// `count`. Systems that can do so acquire a lock once for many of them.
///
/// The number is smaller than `length` only if the next one could not be allocated. The rest of the array is
/// overwritten, and all of it if the call fails.
///
/// Errors: those of `eb_allocate_request`, if not a single one could be allocated.
///
/// # Safety
/// `cpu` came from `eb_cpu_claim`. `request` leads to a request. `frames` leads to `length` numbers that may be
/// written, and `count` may be written.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn eb_allocate_bulk(
    cpu: *mut eb_cpu,
    request: *const eb_request,
    frames: *mut u32,
    length: usize,
    count: *mut usize,
) -> eb_status {
    let allocate = |system: System, token: &mut Token| {
        // SAFETY: as promised by the caller.
        let request = unsafe { read(request) }?.convert()?;
        if frames.is_null() {
            return Err(EB_ERROR_NULL.into());
        }
        // SAFETY: that many numbers may be written by the caller's promise.
        let out = unsafe { zeroed(frames, length) };
        // SAFETY: a `Index` is a `u32`, transparently.
        let out = unsafe { &mut *(out as *mut [u32] as *mut [Index]) };
        Ok(system.allocate_bulk(token, request, out)?)
    };
    // SAFETY: as promised by the caller.
    unsafe { run_with(cpu, count, allocate) }
}

/// Returns an array of C as a slice, all zero: C need not have initialised it.
///
/// # Safety
/// The pointer leads to `length` values that may be written, and zero bytes are such a value.
unsafe fn zeroed<'a, T>(values: *mut T, length: usize) -> &'a mut [T] {
    // SAFETY: as promised by the caller.
    unsafe { values.write_bytes(0, length) };
    // SAFETY: they are initialised now.
    unsafe { slice::from_raw_parts_mut(values, length) }
}

/// Frees `length` releases, and stops at the first that fails. Writes the number of those that were freed to `count`,
/// also if one failed: it is then the position of that one.
///
/// Errors: those of `eb_free_release`.
///
/// # Safety
/// `cpu` came from `eb_cpu_claim`. `releases` leads to `length` releases, and may be NULL if that is 0. `count` may be
/// written.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn eb_free_bulk(
    cpu: *mut eb_cpu,
    releases: *const eb_release,
    length: usize,
    count: *mut usize,
) -> eb_status {
    let free = |system: System, token: &mut Token| {
        if count.is_null() {
            return Err(EB_ERROR_NULL.into());
        }
        let releases = match length {
            0 => &[],
            _ if releases.is_null() => return Err(EB_ERROR_NULL.into()),
            // SAFETY: that many releases lie there by the caller's promise.
            _ => unsafe { slice::from_raw_parts(releases, length) },
        };
        let mut freed = 0;
        let result = free_all(system, token, releases, &mut freed);
        // SAFETY: it is not NULL, so it may be written.
        unsafe { count.write(freed) };
        result
    };
    // SAFETY: as promised by the caller.
    unsafe { run(cpu, free) }
}

/// Frees releases in batches, and counts them.
fn free_all(
    system: System,
    token: &mut Token,
    releases: &[eb_release],
    freed: &mut usize,
) -> Result<(), Failure> {
    for batch in releases.chunks(RELEASES) {
        let mut converted = [Release::frame(Index(0)); RELEASES];
        let mut used = 0;
        let mut refused = Ok(());
        for (place, release) in converted.iter_mut().zip(batch) {
            match release.convert() {
                Ok(release) => *place = release,
                Err(status) => {
                    refused = Err(status);
                    break;
                }
            }
            used += 1;
        }
        let converted = converted.get(..used).unwrap_or_default();
        if let Err(failure) = system.free_bulk(token, converted) {
            *freed += failure.index;
            return Err(failure.error.into());
        }
        *freed += used;
        refused?;
    }
    Ok(())
}

/// Returns all frames of this CPU's list to the zone layer.
///
/// # Safety
/// `cpu` came from `eb_cpu_claim`.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn eb_drain(cpu: *mut eb_cpu) -> eb_status {
    let drain = |system: System, token: &mut Token| {
        system.drain(token);
        Ok(())
    };
    // SAFETY: as promised by the caller.
    unsafe { run(cpu, drain) }
}

/// Returns all frames of another CPU's list to the zone layer, if that CPU is parked.
///
/// Errors: `EB_ERROR_BUSY` if it is not parked, `EB_ERROR_NO_SUCH_CPU`.
///
/// # Safety
/// `cpu` came from `eb_cpu_claim`.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn eb_drain_parked(cpu: *mut eb_cpu, other: u32) -> eb_status {
    let drain = |system: System, token: &mut Token| {
        let other = crate::inspection::cpu_id(other);
        Ok(system.drain_parked(token, other)?)
    };
    // SAFETY: as promised by the caller.
    unsafe { run(cpu, drain) }
}

/// Returns the frames of all lists to the zone layer, and finishes deferred work.
///
/// Errors: `EB_ERROR_BUSY` if a CPU was in a call for too long.
///
/// # Safety
/// `cpu` came from `eb_cpu_claim`.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn eb_quiesce(cpu: *mut eb_cpu) -> eb_status {
    let quiesce = |system: System, token: &mut Token| Ok(system.quiesce(token)?);
    // SAFETY: as promised by the caller.
    unsafe { run(cpu, quiesce) }
}

/// Announces that this CPU will not call for a while. Other CPUs then find free what its list has, and need not borrow
/// its token. The next call with the token ends this state.
///
/// # Safety
/// `cpu` came from `eb_cpu_claim`.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn eb_park(cpu: *mut eb_cpu) -> eb_status {
    // SAFETY: as promised by the caller.
    unsafe { run(cpu, park) }
}

/// Allocates `frames` frames in as few runs as possible, none smaller than 2^`least` frames except the last one. Writes
/// up to `length` runs to `runs` and their number to `count`.
///
/// Larger blocks come first. Smaller ones serve instead of those that are busy.
///
/// Errors: those of `eb_allocate_request`; `EB_ERROR_EXHAUSTED` also if `length` is too small, and `EB_ERROR_BUSY`
/// instead if one of the blocks that were tried was busy. Then nothing is allocated, and the array is overwritten.
///
/// # Safety
/// `cpu` came from `eb_cpu_claim`. `runs` leads to `length` runs that may be written, and `count` may be written.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn eb_allocate_runs(
    cpu: *mut eb_cpu,
    frames: u32,
    least: u32,
    runs: *mut eb_run,
    length: usize,
    count: *mut usize,
) -> eb_status {
    let allocate = |system: System, token: &mut Token| {
        let least = order(least)?;
        if runs.is_null() {
            return Err(EB_ERROR_NULL.into());
        }
        // SAFETY: that many runs may be written by the caller's promise, and the layout of both types is the same.
        let out = unsafe { zeroed(runs.cast::<Run>(), length) };
        Ok(system.allocate_runs(token, frames, least, out)?)
    };
    // SAFETY: as promised by the caller.
    unsafe { run_with(cpu, count, allocate) }
}

/// Allocates free blocks of an order one after another, by address, and passes each to `visitor`, which decides whether
/// it stays allocated. Writes the number of those that do to `kept`. Blocks that lists cache, that another CPU takes
/// first, or that lie in trees of `everybuddy` that other CPUs own, are passed over.
///
/// Errors: `EB_ERROR_ARGUMENT` if `visitor` returned a value that means nothing. The visit ends there: that block is
/// freed, the blocks that were kept before stay allocated, and their number is written to `kept`.
///
/// # Safety
/// `cpu` came from `eb_cpu_claim`. `visitor` accepts `context`, which may be NULL. `kept` may be written.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn eb_visit_free(
    cpu: *mut eb_cpu,
    order: u32,
    visitor: eb_visitor,
    context: *mut c_void,
    kept: *mut u64,
) -> eb_status {
    let visit = |system: System, token: &mut Token| {
        let order = self::order(order)?;
        let visitor = visitor.ok_or(EB_ERROR_NULL)?;
        if kept.is_null() {
            return Err(EB_ERROR_NULL.into());
        }
        let mut refused = None;
        let mut number = system.visit_free(token, order, &mut |block| {
            // SAFETY: as promised by the caller.
            match unsafe { visitor(context, block.start.0, u32::from(block.order.get())) } {
                EB_VISIT_KEEP => Visit::Keep,
                EB_VISIT_KEEP_AND_STOP => Visit::KeepAndStop,
                EB_VISIT_RETURN => Visit::Return,
                EB_VISIT_RETURN_ZEROED => Visit::ReturnZeroed,
                _ => {
                    refused = Some(block);
                    // Nothing else ends a visit. The block is freed below.
                    Visit::KeepAndStop
                }
            }
        });
        let mut result = Ok(());
        if let Some(block) = refused {
            number -= 1;
            result = Err(EB_ERROR_ARGUMENT.into());
            // It was allocated just now, so only misuse can have freed it.
            let _ = system.free(token, Release::block(block));
        }
        // SAFETY: it is not NULL, so it may be written.
        unsafe { kept.write(number) };
        result
    };
    // SAFETY: as promised by the caller.
    unsafe { run(cpu, visit) }
}

/// Writes the present state of free memory to `snapshot`. Acquires locks; O(orders + CPUs) or more.
///
/// # Safety
/// `cpu` came from `eb_cpu_claim`. `snapshot` may be written.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn eb_take_snapshot(
    cpu: *mut eb_cpu,
    snapshot: *mut eb_snapshot,
) -> eb_status {
    let take = |system: System, token: &mut Token| Ok((&system.snapshot(token)).into());
    // SAFETY: as promised by the caller.
    unsafe { run_with(cpu, snapshot, take) }
}

/// Writes why a request fails to `report`. As expensive as `eb_take_snapshot`.
///
/// # Safety
/// `cpu` came from `eb_cpu_claim`. `request` leads to a request. `report` may be written.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn eb_shortage(
    cpu: *mut eb_cpu,
    request: *const eb_request,
    report: *mut eb_shortage_report,
) -> eb_status {
    let explain = |system: System, token: &mut Token| {
        // SAFETY: as promised by the caller.
        let request = unsafe { read(request) }?.convert()?;
        Ok(system.shortage(token, request).into())
    };
    // SAFETY: as promised by the caller.
    unsafe { run_with(cpu, report, explain) }
}

/// Checks every invariant of all metadata, and writes the number of frames in each state to `census`. For tests, while
/// no other CPU works. O(frames).
///
/// Errors: `EB_ERROR_VIOLATION`. If `error` is not NULL, every error is written there; the text of this one describes
/// the violation.
///
/// # Safety
/// `cpu` came from `eb_cpu_claim`. `census` may be written. `error` is NULL or may be written.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn eb_check(
    cpu: *mut eb_cpu,
    census: *mut eb_census,
    error: *mut eb_error,
) -> eb_status {
    let check = |system: System, token: &mut Token| match system.check(token) {
        Ok(census) => Ok(census.into()),
        Err(violation) => {
            let status = EB_ERROR_VIOLATION;
            let value = u64::from(violation.index.0);
            let full = eb_error::new(status, value, &violation);
            if !error.is_null() {
                // SAFETY: it is not NULL, so it may be written.
                unsafe { error.write(full) };
            }
            Err(Failure { status, value })
        }
    };
    // SAFETY: as promised by the caller.
    let status = unsafe { run_with(cpu, census, check) };
    if !matches!(status, EB_OK | EB_ERROR_VIOLATION) && !error.is_null() {
        // SAFETY: it is not NULL, so it may be written.
        unsafe { error.write(Failure::from(status).into()) };
    }
    status
}

/// Runs a step of a service, of at most `budget` units of work. Writes whether there is more work to `more`.
///
/// Errors: `EB_ERROR_NO_SUCH_SERVICE`.
///
/// # Safety
/// `cpu` came from `eb_cpu_claim`. `more` may be written.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn eb_serve(
    cpu: *mut eb_cpu,
    service: usize,
    budget: u32,
    more: *mut bool,
) -> eb_status {
    let serve = |system: System, token: &mut Token| {
        if service >= system.services().len() {
            return Err(EB_ERROR_NO_SUCH_SERVICE.into());
        }
        Ok(system.serve(token, service, budget) == Progress::More)
    };
    // SAFETY: as promised by the caller.
    unsafe { run_with(cpu, more, serve) }
}
