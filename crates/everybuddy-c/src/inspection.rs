//! The calls without a token: nested requests, what is known of a system, and of the library.
//!
//! # Invariants
//! Only nested requests change a system. The numbers of all others never change, or are hints while CPUs work.

use core::ffi::{CStr, c_char};
use core::fmt::Write;

use everybuddy::systems::ROWS;
use everybuddy::{CpuId, Index, Pfn};

use crate::EB_ABI_VERSION;
use crate::errors::{Failure, Text};
use crate::handle::{Handle, eb_system, read};
use crate::platform::System;
use crate::status::{eb_status, eb_status::*};
use crate::types::{EB_SERVICE_NAME, eb_release, eb_request, eb_service, eb_span, eb_state};

/// Converts the number of a CPU. A number that does not fit is as wrong as 65,535.
pub(crate) fn cpu_id(cpu: u32) -> CpuId {
    CpuId(u16::try_from(cpu).unwrap_or(u16::MAX))
}

/// Runs a call that needs no token.
///
/// # Safety
/// `system` is NULL or leads to 64 bytes that may be read.
unsafe fn ask(
    system: *const eb_system,
    call: impl FnOnce(System) -> Result<(), Failure>,
) -> eb_status {
    // SAFETY: as promised by the caller.
    match unsafe { Handle::of(system) } {
        Ok(handle) => call(handle.system).map_or_else(|failure| failure.status, |()| EB_OK),
        Err(status) => status,
    }
}

/// Runs a call that needs no token and has a result.
///
/// # Safety
/// As [`ask`]; `out` is NULL or may be written.
pub(crate) unsafe fn ask_with<T>(
    system: *const eb_system,
    out: *mut T,
    call: impl FnOnce(System) -> Result<T, Failure>,
) -> eb_status {
    let write = |system: System| {
        if out.is_null() {
            return Err(EB_ERROR_NULL.into());
        }
        let value = call(system)?;
        // SAFETY: `out` is not NULL, so it may be written.
        unsafe { out.write(value) };
        Ok(())
    };
    // SAFETY: as promised by the caller.
    unsafe { ask(system, write) }
}

/// Allocates from code that interrupted a call of CPU `cpu`, and therefore must use no token: the call may have
/// borrowed it, and a call with it would then wait for ever. Never waits.
///
/// Errors: those of `eb_allocate_request`, and `EB_ERROR_NO_SUCH_CPU`. `EB_ERROR_BUSY` if a lock is held, or if the
/// zone has no such block and a CPU may keep frames. No error is stored for `eb_last_error`.
///
/// # Safety
/// `system` came from `eb_build`. `request` leads to a request. `frame` may be written.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn eb_allocate_nested(
    system: *mut eb_system,
    cpu: u32,
    request: *const eb_request,
    frame: *mut u32,
) -> eb_status {
    let allocate = |system: System| {
        // SAFETY: as promised by the caller.
        let request = unsafe { read(request) }?.convert()?;
        Ok(system.allocate_nested(cpu_id(cpu), request)?.0)
    };
    // SAFETY: as promised by the caller.
    unsafe { ask_with(system, frame, allocate) }
}

/// Frees from code that interrupted a call of CPU `cpu`. Never waits.
///
/// Errors: those of `eb_free_release`, and `EB_ERROR_NO_SUCH_CPU`. `EB_ERROR_BUSY` if a lock is held. No error is
/// stored for `eb_last_error`.
///
/// # Safety
/// `system` came from `eb_build`. `release` leads to a release.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn eb_free_nested(
    system: *mut eb_system,
    cpu: u32,
    release: *const eb_release,
) -> eb_status {
    let free = |system: System| {
        // SAFETY: as promised by the caller.
        let release = unsafe { read(release) }?.convert()?;
        Ok(system.free_nested(cpu_id(cpu), release)?)
    };
    // SAFETY: as promised by the caller.
    unsafe { ask(system, free) }
}

/// Writes whether these frames, which the caller allocated and did not write to, are known to contain only zeros. That
/// is `false` for every system that `eb_build` builds. O(1).
///
/// # Safety
/// `system` came from `eb_build`. `zeroed` may be written.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn eb_is_zeroed(
    system: *const eb_system,
    start: u32,
    frames: u32,
    zeroed: *mut bool,
) -> eb_status {
    // SAFETY: as promised by the caller.
    unsafe {
        ask_with(system, zeroed, |system| {
            Ok(system.is_zeroed(Index(start), frames))
        })
    }
}

/// Writes the physical number of a frame. O(parts of the memory), at most 16.
///
/// Errors: `EB_ERROR_FOREIGN` for a frame beyond the last one.
///
/// # Safety
/// `system` came from `eb_build`. `physical` may be written.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn eb_physical(
    system: *const eb_system,
    frame: u32,
    physical: *mut u64,
) -> eb_status {
    let get = |system: System| {
        let span = system.span();
        if frame >= span.frames() {
            return Err(EB_ERROR_FOREIGN.into());
        }
        Ok(span.physical(Index(frame)).0)
    };
    // SAFETY: as promised by the caller.
    unsafe { ask_with(system, physical, get) }
}

/// Writes the number by which a system knows a physical frame: the reverse of `eb_physical`. O(parts of the memory).
///
/// Errors: `EB_ERROR_OUTSIDE_SPAN` for a frame that the system was not built for.
///
/// # Safety
/// `system` came from `eb_build`. `frame` may be written.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn eb_index(
    system: *const eb_system,
    physical: u64,
    frame: *mut u32,
) -> eb_status {
    let get = |system: System| {
        let index = system.span().index(Pfn(physical));
        Ok(index.ok_or(EB_ERROR_OUTSIDE_SPAN)?.0)
    };
    // SAFETY: as promised by the caller.
    unsafe { ask_with(system, frame, get) }
}

/// Writes how many frames a system was built for, and the physical number of the first. O(1).
///
/// # Safety
/// `system` came from `eb_build`. `span` may be written.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn eb_get_span(system: *const eb_system, span: *mut eb_span) -> eb_status {
    let get = |system: System| {
        let span = system.span();
        Ok(eb_span {
            base: span.base().0,
            frames: span.frames(),
        })
    };
    // SAFETY: as promised by the caller.
    unsafe { ask_with(system, span, get) }
}

/// Writes the order of the largest block. O(1).
///
/// # Safety
/// `system` came from `eb_build`. `order` may be written.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn eb_max_order(system: *const eb_system, order: *mut u32) -> eb_status {
    let get = |system: System| Ok(u32::from(system.max_order().get()));
    // SAFETY: as promised by the caller.
    unsafe { ask_with(system, order, get) }
}

/// Writes the number of CPUs that the system was set up for. O(1).
///
/// # Safety
/// `system` came from `eb_build`. `cpus` may be written.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn eb_cpus(system: *const eb_system, cpus: *mut u32) -> eb_status {
    // SAFETY: as promised by the caller.
    unsafe { ask_with(system, cpus, |system| Ok(u32::from(system.cpus()))) }
}

/// Writes the bytes of metadata that the system uses; the handle and the tokens are not among them. O(1).
///
/// # Safety
/// `system` came from `eb_build`. `bytes` may be written.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn eb_metadata_bytes(
    system: *const eb_system,
    bytes: *mut usize,
) -> eb_status {
    // SAFETY: as promised by the caller.
    unsafe { ask_with(system, bytes, |system| Ok(system.metadata_bytes())) }
}

/// Writes the number of frames in a CPU's list: a hint while that CPU works. 0 if it has none. O(1), no lock.
///
/// # Safety
/// `system` came from `eb_build`. `frames` may be written.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn eb_buffered_frames(
    system: *const eb_system,
    cpu: u32,
    frames: *mut u64,
) -> eb_status {
    // SAFETY: as promised by the caller.
    unsafe {
        ask_with(system, frames, |system| {
            Ok(system.buffered_frames(cpu_id(cpu)))
        })
    }
}

/// Writes the present use of a frame: a hint while other CPUs work. O(orders), no lock.
///
/// Errors: `EB_ERROR_FOREIGN` outside the span.
///
/// # Safety
/// `system` came from `eb_build`. `state` may be written.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn eb_frame_state(
    system: *const eb_system,
    frame: u32,
    state: *mut eb_state,
) -> eb_status {
    let get = |system: System| {
        let state = system.frame_state(Index(frame));
        Ok(state.ok_or(EB_ERROR_FOREIGN)?.into())
    };
    // SAFETY: as promised by the caller.
    unsafe { ask_with(system, state, get) }
}

/// Writes the number of services that the program should run by `eb_serve`. O(1).
///
/// # Safety
/// `system` came from `eb_build`. `count` may be written.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn eb_service_count(
    system: *const eb_system,
    count: *mut usize,
) -> eb_status {
    // SAFETY: as promised by the caller.
    unsafe { ask_with(system, count, |system| Ok(system.services().len())) }
}

/// Writes what a service is, by its position. O(1).
///
/// Errors: `EB_ERROR_NO_SUCH_SERVICE`.
///
/// # Safety
/// `system` came from `eb_build`. `service` may be written.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn eb_get_service(
    system: *const eb_system,
    index: usize,
    service: *mut eb_service,
) -> eb_status {
    let get = |system: System| {
        let found = system.services().get(index);
        let found = found.ok_or(EB_ERROR_NO_SUCH_SERVICE)?;
        let mut name = Text {
            bytes: [0; EB_SERVICE_NAME],
            used: 0,
        };
        // A text that is too long is cut.
        let _ = name.write_str(found.name);
        Ok(eb_service {
            own_thread: found.own_thread,
            name: name.bytes,
        })
    };
    // SAFETY: as promised by the caller.
    unsafe { ask_with(system, service, get) }
}

/// Returns the version of the library, such as "0.1.0".
#[unsafe(no_mangle)]
pub extern "C" fn eb_version() -> *const c_char {
    const VERSION: &str = concat!(env!("CARGO_PKG_VERSION"), "\0");
    VERSION.as_ptr().cast()
}

/// Returns the version of the interface that the library has. It equals the header's `EB_ABI_VERSION`, unless program
/// and library do not fit together.
#[unsafe(no_mangle)]
pub extern "C" fn eb_abi_version() -> u32 {
    EB_ABI_VERSION
}

/// The longest name of a system, with NUL.
const NAME: usize = 32;

/// The names of all systems, as texts of C.
static NAMES: [[u8; NAME]; ROWS.len()] = {
    let mut names = [[0; NAME]; ROWS.len()];
    let mut row = 0;
    while row < ROWS.len() {
        let name = ROWS[row].name.as_bytes();
        assert!(name.len() < NAME);
        let mut at = 0;
        while at < name.len() {
            names[row][at] = name[at];
            at += 1;
        }
        row += 1;
    }
    names
};

/// Returns the number of systems.
#[unsafe(no_mangle)]
pub extern "C" fn eb_system_count() -> usize {
    ROWS.len()
}

/// Returns the name of a system by its position, or NULL if there is none. SYSTEMS.md describes each.
#[unsafe(no_mangle)]
pub extern "C" fn eb_system_name(index: usize) -> *const c_char {
    let name = NAMES
        .get(index)
        .and_then(|name| CStr::from_bytes_until_nul(name).ok());
    name.map_or(core::ptr::null(), CStr::as_ptr)
}
