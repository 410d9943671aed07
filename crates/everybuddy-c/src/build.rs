//! Building a system: the setup is read and checked, then system, tokens and handle are written to the caller's memory.
//!
//! # Invariants
//! A setup that is refused leaves no handle in the memory, and no result.

use core::ffi::{CStr, c_void};
use core::mem::MaybeUninit;
use core::{slice, str};

use everybuddy::systems::Presplit;
use everybuddy::{FrameRange, Memory, Setup, SystemSpec, build_any, metadata_layout};

use crate::errors::{SetupError, eb_error};
use crate::handle::{Handle, eb_system, head, read};
use crate::platform::Machine;
use crate::status::{eb_status, eb_status::*};
use crate::types::{EB_MEMORY_IS_ZEROED, EB_ORDERS, eb_setup};
use crate::{EB_ABI_VERSION, EB_ALIGNMENT};

/// A setup that was read: what the allocators take.
struct Plan<'s> {
    spec: SystemSpec,
    setup: Setup<'s>,
    is_zeroed: bool,
}

/// Calls `then` with a setup.
///
/// # Safety
/// `setup` is NULL or leads to a setup whose pointers lead to what its documentation says, or are NULL.
unsafe fn with_plan<'t, T>(
    setup: *const eb_setup,
    then: impl FnOnce(&Plan<'_>) -> Result<T, SetupError<'t>>,
) -> Result<T, SetupError<'t>> {
    // SAFETY: as promised by the caller.
    let given = unsafe { read(setup) }?;
    if given.version != EB_ABI_VERSION {
        return Err(EB_ERROR_VERSION.into());
    }
    if given.flags & !EB_MEMORY_IS_ZEROED != 0 {
        return Err(EB_ERROR_ARGUMENT.into());
    }
    let ranges = match given.range_count {
        0 => &[],
        _ if given.ranges.is_null() => return Err(EB_ERROR_NULL.into()),
        // SAFETY: that many ranges lie there by the caller's promise, and the layout of both types is the same.
        count => unsafe { slice::from_raw_parts(given.ranges.cast::<FrameRange>(), count) },
    };
    let name: &'t [u8] = if given.system.is_null() {
        b"everybuddy"
    } else {
        // SAFETY: the caller promises a text that ends with NUL.
        unsafe { CStr::from_ptr(given.system) }.to_bytes()
    };
    // A text that is not UTF-8 names no system, and neither does an empty one.
    let name = str::from_utf8(name).unwrap_or_default();
    let spec = name.parse::<SystemSpec>();
    let spec = spec.map_err(|error| SetupError::Spec(error, error.part(name)))?;
    // A number that does not fit is as wrong as 65,535.
    let cpus = u16::try_from(given.cpus).unwrap_or(u16::MAX);
    let mut setup = Setup::new(ranges, cpus);
    if given.reach.frames > 0 {
        setup = setup.with_reach(given.reach.convert());
    }
    let presplit;
    if !given.presplit.is_null() {
        // SAFETY: the caller promises a number for each order.
        presplit = Presplit::new(unsafe { *given.presplit.cast::<[u32; EB_ORDERS]>() });
        setup = setup.with_presplit(&presplit);
    }
    then(&Plan {
        spec,
        setup,
        is_zeroed: given.flags & EB_MEMORY_IS_ZEROED != 0,
    })
}

/// Returns the bytes that a system takes.
fn bytes_of<'t>(plan: &Plan<'_>) -> Result<usize, SetupError<'t>> {
    let metadata = metadata_layout::<Machine>(&plan.spec, &plan.setup)?.size();
    let bytes = metadata.checked_add(head(plan.setup.cpus()));
    let bytes = bytes.filter(|bytes| *bytes <= isize::MAX as usize);
    bytes.ok_or(everybuddy::BuildError::MetadataTooLarge.into())
}

/// Returns the status, and writes an error in full if the caller asked for it.
///
/// # Safety
/// `error` is NULL or may be written.
unsafe fn report(result: Result<(), SetupError<'_>>, error: *mut eb_error) -> eb_status {
    let Err(failure) = result else {
        return EB_OK;
    };
    let full = eb_error::from(&failure);
    if !error.is_null() {
        // SAFETY: it is not NULL, so it may be written.
        unsafe { error.write(full) };
    }
    full.status
}

/// Writes the bytes that `eb_build` needs for this setup to `bytes`. O(ranges).
///
/// Errors: the codes 50 to 65.
///
/// # Safety
/// `setup` leads to a setup. `bytes` may be written. `error` is NULL or may be written.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn eb_metadata_size(
    setup: *const eb_setup,
    bytes: *mut usize,
    error: *mut eb_error,
) -> eb_status {
    let measure = |plan: &Plan<'_>| {
        if bytes.is_null() {
            return Err(EB_ERROR_NULL.into());
        }
        let needed = bytes_of(plan)?;
        // SAFETY: it is not NULL, so it may be written.
        unsafe { bytes.write(needed) };
        Ok(())
    };
    // SAFETY: as promised by the caller.
    let result = unsafe { with_plan(setup, measure) };
    // SAFETY: as promised by the caller.
    unsafe { report(result, error) }
}

/// Builds a system in `bytes` bytes at `memory`, a multiple of `EB_ALIGNMENT`, and writes its handle to `system`.
/// O(frames).
///
/// The system lies in that memory, and accesses no other. The managed frames are never accessed.
///
/// Errors: the codes 50 to 65.
///
/// # Safety
/// As for `eb_metadata_size`. Nothing else accesses the memory until `eb_destroy`, and no system lies there.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn eb_build(
    setup: *const eb_setup,
    memory: *mut c_void,
    bytes: usize,
    system: *mut *mut eb_system,
    error: *mut eb_error,
) -> eb_status {
    let build = |plan: &Plan<'_>| {
        if memory.is_null() || system.is_null() {
            return Err(EB_ERROR_NULL.into());
        }
        if !memory.addr().is_multiple_of(EB_ALIGNMENT) {
            return Err(EB_ERROR_MISALIGNED.into());
        }
        let needed = bytes_of(plan)?;
        if bytes < needed {
            let given = bytes;
            return Err(everybuddy::BuildError::MetadataTooSmall { needed, given }.into());
        }
        // SAFETY: the caller lends this memory, of which `needed` bytes are there.
        let built = unsafe { build_at(plan, memory.cast(), needed) }?;
        // SAFETY: it is not NULL, so it may be written.
        unsafe { system.write(built) };
        Ok(())
    };
    // SAFETY: as promised by the caller.
    let result = unsafe { with_plan(setup, build) };
    // SAFETY: as promised by the caller.
    unsafe { report(result, error) }
}

/// Builds a system, its tokens and its handle.
///
/// # Safety
/// `memory` is aligned, and leads to `needed` bytes that are lent until `eb_destroy`.
unsafe fn build_at<'t>(
    plan: &Plan<'_>,
    memory: *mut u8,
    needed: usize,
) -> Result<*mut eb_system, SetupError<'t>> {
    let cpus = plan.setup.cpus();
    let start = head(cpus);
    // SAFETY: `start` is at most `needed`.
    let metadata = unsafe { memory.add(start) }.cast::<MaybeUninit<u8>>();
    // SAFETY: the caller lends these bytes, and nothing else refers to them.
    let metadata = unsafe { slice::from_raw_parts_mut(metadata, needed - start) };
    let metadata = if plan.is_zeroed {
        // SAFETY: the caller promises that by the flag.
        unsafe { Memory::zeroed(metadata) }
    } else {
        Memory::new(metadata)
    };
    let system = build_any::<Machine>(&plan.spec, &plan.setup, metadata)?;
    // SAFETY: the bytes before the metadata are aligned, and nothing refers to them.
    Ok(unsafe { Handle::write(memory, cpus, system) })
}
