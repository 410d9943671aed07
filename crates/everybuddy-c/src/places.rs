//! The operations of a CPU on frames that the caller chooses: ranges that change their state, and requests for places.
//!
//! # Invariants
//! Ranges are physical. As in [`operations`](crate::operations), there is one function for each operation.

use crate::handle::{eb_cpu, read, run, run_with};
use crate::platform::{System, Token};
use crate::status::eb_status;
use crate::types::{eb_place, eb_range, eb_request};

/// Adds memory: a range of holes within the span becomes free. O(range).
///
/// Errors: `EB_ERROR_EMPTY_RANGE`, `EB_ERROR_OUTSIDE_SPAN`, `EB_ERROR_ALREADY_MANAGED`, `EB_ERROR_BUSY`.
///
/// # Safety
/// `cpu` came from `eb_cpu_claim`.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn eb_add(cpu: *mut eb_cpu, range: eb_range) -> eb_status {
    let add = |system: System, token: &mut Token| Ok(system.add(token, range.convert())?);
    // SAFETY: as promised by the caller.
    unsafe { run(cpu, add) }
}

/// Removes memory: a range of free frames becomes a hole. Drains all CPUs first. O(range).
///
/// Errors: `EB_ERROR_EMPTY_RANGE`, `EB_ERROR_OUTSIDE_SPAN`, `EB_ERROR_NOT_FREE`, `EB_ERROR_BUSY`.
///
/// # Safety
/// `cpu` came from `eb_cpu_claim`.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn eb_remove(cpu: *mut eb_cpu, range: eb_range) -> eb_status {
    let remove = |system: System, token: &mut Token| Ok(system.remove(token, range.convert())?);
    // SAFETY: as promised by the caller.
    unsafe { run(cpu, remove) }
}

/// Reserves a range of free frames: they are never allocated. Drains all CPUs first. O(range).
///
/// Errors: those of `eb_remove`.
///
/// # Safety
/// `cpu` came from `eb_cpu_claim`.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn eb_reserve(cpu: *mut eb_cpu, range: eb_range) -> eb_status {
    let reserve = |system: System, token: &mut Token| Ok(system.reserve(token, range.convert())?);
    // SAFETY: as promised by the caller.
    unsafe { run(cpu, reserve) }
}

/// Ends the reservation of a range: its frames become free. O(range).
///
/// Errors: `EB_ERROR_EMPTY_RANGE`, `EB_ERROR_OUTSIDE_SPAN`, `EB_ERROR_NOT_RESERVED`, `EB_ERROR_BUSY`.
///
/// # Safety
/// `cpu` came from `eb_cpu_claim`.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn eb_unreserve(cpu: *mut eb_cpu, range: eb_range) -> eb_status {
    let unreserve =
        |system: System, token: &mut Token| Ok(system.unreserve(token, range.convert())?);
    // SAFETY: as promised by the caller.
    unsafe { run(cpu, unreserve) }
}

/// Allocates exactly the frames of a range, and writes the first one to `frame`. If a CPU's list caches any of them,
/// all lists are drained first. O(range). The frames are freed as any others.
///
/// Errors: `EB_ERROR_EMPTY_RANGE`, `EB_ERROR_OUTSIDE_SPAN`, `EB_ERROR_NOT_FREE`, `EB_ERROR_BUSY`.
///
/// # Safety
/// `cpu` came from `eb_cpu_claim`. `frame` may be written.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn eb_allocate_at(
    cpu: *mut eb_cpu,
    range: eb_range,
    frame: *mut u32,
) -> eb_status {
    let allocate =
        |system: System, token: &mut Token| Ok(system.allocate_at(token, range.convert())?.0);
    // SAFETY: as promised by the caller.
    unsafe { run_with(cpu, frame, allocate) }
}

/// Does what `eb_allocate_at` does, but drains no list: a frame that a list caches is not free.
///
/// # Safety
/// As for `eb_allocate_at`.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn eb_try_allocate_at(
    cpu: *mut eb_cpu,
    range: eb_range,
    frame: *mut u32,
) -> eb_status {
    let allocate =
        |system: System, token: &mut Token| Ok(system.try_allocate_at(token, range.convert())?.0);
    // SAFETY: as promised by the caller.
    unsafe { run_with(cpu, frame, allocate) }
}

/// Allocates what a request describes, in a place: below a limit, aligned, of a colour. Slower than an ordinary request
/// if the frames that come first do not lie there.
///
/// Errors: those of `eb_allocate_request`.
///
/// # Safety
/// `cpu` came from `eb_cpu_claim`. `request` leads to a request, `place` to a place. `frame` may be written.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn eb_allocate_in(
    cpu: *mut eb_cpu,
    request: *const eb_request,
    place: *const eb_place,
    frame: *mut u32,
) -> eb_status {
    let allocate = |system: System, token: &mut Token| {
        // SAFETY: as promised by the caller.
        let request = unsafe { read(request) }?.convert()?;
        // SAFETY: as promised by the caller.
        let place = unsafe { read(place) }?.convert()?;
        Ok(system.allocate_in(token, request, &place)?.0)
    };
    // SAFETY: as promised by the caller.
    unsafe { run_with(cpu, frame, allocate) }
}
