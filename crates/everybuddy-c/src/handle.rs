//! The handle and the tokens: claiming them, and the checks that each call makes. [`build`](crate::build) makes them.
//!
//! # Design decisions
//! Handle and tokens lie at the start of the caller's memory, before the metadata: a library without a heap has no
//! other place. Each begins with a word that says what it is and in which state, so a call with a wrong, released or
//! destroyed one is refused. [`platform`](crate::platform) has the states of a token.
//!
//! # Invariants
//! 1. A handle is written once, by `eb_build`, except its first word.
//! 2. A token's state changes from unclaimed to claimed, and from there to a call, by an exchange. So only one thread
//!    claims it, and of two calls with it at a time one is refused.

use core::ffi::c_void;
use core::ptr;
use core::sync::atomic::{AtomicU32, AtomicU64, Ordering};

use everybuddy::{CpuId, LINE};

use crate::EB_ABI_VERSION;
use crate::errors::{Failure, eb_error};
use crate::platform::{GONE, Slot, System, Token, UNCLAIMED};
use crate::status::{eb_status, eb_status::*};

/// A system. It lies in the memory that `eb_build` was given; only the library accesses it.
pub struct eb_system {
    _opaque: [u8; 0],
}

/// The token of a CPU: the right to act as that CPU in one system, in one call at a time.
pub struct eb_cpu {
    _opaque: [u8; 0],
}

/// The first word of a handle: "EVERYBDY" in memory on a little-endian machine.
const BUILT: u64 = u64::from_le_bytes(*b"EVERYBDY");
/// The first word of a handle whose system was destroyed.
const DESTROYED: u64 = u64::from_le_bytes(*b"DEADBDDY");

/// The start of a handle, which is the same in all versions.
#[repr(C)]
struct Mark {
    state: AtomicU64,
    version: u32,
}

/// What lies behind an `eb_system`.
#[repr(C, align(64))]
pub(crate) struct Handle {
    mark: Mark,
    pub(crate) system: System,
    tokens: *const Slot,
}

const _: () = assert!(size_of::<Handle>() == LINE && size_of::<Slot>() == LINE);
const _: () = assert!(align_of::<Handle>() == LINE);

/// Returns the bytes before the metadata.
pub(crate) fn head(cpus: u16) -> usize {
    size_of::<Handle>() + usize::from(cpus) * size_of::<Slot>()
}

/// Checks that a pointer can lead to a handle or a token.
#[inline(always)]
fn check(pointer: *const c_void) -> Result<(), eb_status> {
    if pointer.is_null() {
        return Err(EB_ERROR_NULL);
    }
    if pointer.addr().is_multiple_of(LINE) {
        Ok(())
    } else {
        Err(EB_ERROR_MISALIGNED)
    }
}

impl Handle {
    /// Writes a handle and its tokens to the start of the memory of a system that was built behind them.
    ///
    /// # Safety
    /// `memory` is a multiple of `EB_ALIGNMENT`, and leads to [`head`] bytes that nothing refers to.
    pub(crate) unsafe fn write(memory: *mut u8, cpus: u16, system: System) -> *mut eb_system {
        let handle = memory.cast::<Handle>();
        // SAFETY: a handle lies before the tokens, within those bytes.
        let tokens = unsafe { handle.add(1) }.cast::<Slot>();
        for cpu in 0..cpus {
            // SAFETY: those bytes hold a token for each CPU.
            let place = unsafe { tokens.add(usize::from(cpu)) };
            let slot = Slot::new(CpuId(cpu), system, tokens, cpus);
            // SAFETY: the place lies in the caller's memory, is aligned, and nothing refers to it.
            unsafe { place.write(slot) };
        }
        let built = Handle {
            mark: Mark {
                state: AtomicU64::new(0),
                version: EB_ABI_VERSION,
            },
            system,
            tokens,
        };
        // SAFETY: as for the tokens.
        unsafe { handle.write(built) };
        // SAFETY: it was written just now.
        let built = unsafe { &*handle };
        // Release: pairs with the acquire in `Handle::of`.
        built.mark.state.store(BUILT, Ordering::Release);
        handle.cast()
    }

    /// Returns the handle behind a pointer.
    ///
    /// # Safety
    /// The pointer is NULL or leads to 64 bytes that may be read.
    pub(crate) unsafe fn of<'a>(system: *const eb_system) -> Result<&'a Handle, eb_status> {
        check(system.cast())?;
        // SAFETY: it is aligned, and may be read by the caller's promise. Any bytes are a mark.
        let mark = unsafe { &*system.cast::<Mark>() };
        // Acquire: pairs with the release in `eb_build`, for a thread that learned of the pointer without one.
        match mark.state.load(Ordering::Acquire) {
            // SAFETY: a handle of this version lies there.
            BUILT if mark.version == EB_ABI_VERSION => Ok(unsafe { &*system.cast::<Handle>() }),
            BUILT => Err(EB_ERROR_VERSION),
            DESTROYED => Err(EB_ERROR_DESTROYED),
            _ => Err(EB_ERROR_NOT_A_HANDLE),
        }
    }

    /// Returns the tokens.
    fn slots(&self) -> &'static [Slot] {
        // SAFETY: `eb_build` wrote the tokens there, at least one, and they live as long as the handle.
        let first: &'static Slot = unsafe { &*self.tokens };
        first.all()
    }
}

/// Returns the state of the token behind a pointer, or of what may be none.
///
/// # Safety
/// The pointer is NULL or leads to 64 bytes that may be read and written, for as long as the state is used.
#[inline(always)]
unsafe fn state_of<'a>(cpu: *const eb_cpu) -> Result<&'a AtomicU32, eb_status> {
    check(cpu.cast())?;
    // SAFETY: it is aligned, and may be accessed by the caller's promise. Any bytes are such a word.
    Ok(unsafe { &*cpu.cast::<AtomicU32>() })
}

/// Stores the failure of a call, for `eb_last_error`.
#[cold]
#[inline(never)]
fn fail(slot: &Slot, failure: Failure) -> eb_status {
    slot.last.store(failure.to_bits(), Ordering::Relaxed);
    failure.status
}

/// Runs a call of a CPU.
///
/// # Safety
/// `cpu` is NULL or leads to 64 bytes that may be read and written.
#[inline(always)]
pub(crate) unsafe fn run(
    cpu: *mut eb_cpu,
    call: impl FnOnce(System, &mut Token) -> Result<(), Failure>,
) -> eb_status {
    // SAFETY: as promised by the caller.
    unsafe { run_until(cpu, false, call) }
}

/// Runs a call of a CPU, after which no thread has the token if it `is_last`. A failure is stored after the call, which
/// takes fewer instructions; a call that is the last must not fail.
///
/// # Safety
/// As [`run`].
#[inline(always)]
unsafe fn run_until(
    cpu: *mut eb_cpu,
    is_last: bool,
    call: impl FnOnce(System, &mut Token) -> Result<(), Failure>,
) -> eb_status {
    // SAFETY: as promised by the caller.
    if let Err(status) = unsafe { state_of(cpu) }.and_then(Slot::enter) {
        return status;
    }
    // SAFETY: a token lies there, and lives as long as its system, which is not destroyed while a call runs.
    let slot: &'static Slot = unsafe { &*cpu.cast() };
    let result = call(slot.system, &mut slot.token());
    slot.leave(is_last);
    match result {
        Ok(()) => EB_OK,
        Err(failure) => fail(slot, failure),
    }
}

/// Runs a call of a CPU that has a result.
///
/// # Safety
/// As [`run`]; `out` is NULL or may be written.
#[inline(always)]
pub(crate) unsafe fn run_with<T>(
    cpu: *mut eb_cpu,
    out: *mut T,
    call: impl FnOnce(System, &mut Token) -> Result<T, Failure>,
) -> eb_status {
    let write = |system: System, token: &mut Token| {
        if out.is_null() {
            return Err(EB_ERROR_NULL.into());
        }
        let value = call(system, token)?;
        // SAFETY: `out` is not NULL, so it may be written.
        unsafe { out.write(value) };
        Ok(())
    };
    // SAFETY: as promised by the caller.
    unsafe { run(cpu, write) }
}

/// Reads a structure that C passes.
///
/// # Safety
/// The pointer is NULL or leads to an initialised value.
pub(crate) unsafe fn read<'a, T>(pointer: *const T) -> Result<&'a T, eb_status> {
    // SAFETY: as promised by the caller.
    unsafe { pointer.as_ref() }.ok_or(EB_ERROR_NULL)
}

/// Ends a system. Its memory belongs to the caller again; calls with the handle or with its tokens are refused as long
/// as nothing else is written there. All tokens must have been released. O(CPUs).
///
/// Errors: `EB_ERROR_TOKENS_CLAIMED`.
///
/// # Safety
/// `system` came from `eb_build`, and no other thread uses it during the call or afterwards.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn eb_destroy(system: *mut eb_system) -> eb_status {
    // SAFETY: as promised by the caller.
    let handle = match unsafe { Handle::of(system) } {
        Ok(handle) => handle,
        Err(status) => return status,
    };
    // Acquire: pairs with the release in `Slot::leave`: what the last holders did comes before the end.
    let is_claimed = |slot: &Slot| slot.state.load(Ordering::Acquire) != UNCLAIMED;
    if handle.slots().iter().any(is_claimed) {
        return EB_ERROR_TOKENS_CLAIMED;
    }
    for slot in handle.slots() {
        slot.state.store(GONE, Ordering::Relaxed);
    }
    handle.mark.state.store(DESTROYED, Ordering::Relaxed);
    EB_OK
}

/// Claims the token of CPU `cpu`, counted from 0, and writes it to `token`. O(1).
///
/// A token serves one call at a time. A kernel claims all tokens once, and uses each on its CPU with preemption
/// disabled. Between two calls, a call of another CPU that is short of memory takes what this one keeps. Code that
/// interrupts a call uses no token at all: see `eb_allocate_nested`.
///
/// Errors: `EB_ERROR_CLAIMED`, `EB_ERROR_NO_SUCH_CPU`.
///
/// # Safety
/// `system` came from `eb_build`. `token` may be written.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn eb_cpu_claim(
    system: *mut eb_system,
    cpu: u32,
    token: *mut *mut eb_cpu,
) -> eb_status {
    // SAFETY: as promised by the caller.
    let handle = match unsafe { Handle::of(system) } {
        Ok(handle) => handle,
        Err(status) => return status,
    };
    if token.is_null() {
        return EB_ERROR_NULL;
    }
    let Some(slot) = handle.slots().get(cpu as usize) else {
        return EB_ERROR_NO_SUCH_CPU;
    };
    if let Err(status) = slot.claim() {
        return status;
    }
    slot.last.store(0, Ordering::Relaxed);
    // SAFETY: it is not NULL, so it may be written.
    unsafe { token.write(ptr::from_ref(slot).cast_mut().cast()) };
    EB_OK
}

/// Parks a CPU, as a call.
pub(crate) fn park(system: System, token: &mut Token) -> Result<(), Failure> {
    system.park(token);
    Ok(())
}

/// Releases a token, so that another thread can claim its CPU. Parks the CPU first, as `eb_park` does.
///
/// # Safety
/// `cpu` came from `eb_cpu_claim`, and no other thread uses it.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn eb_cpu_release(cpu: *mut eb_cpu) -> eb_status {
    // In one store, so that no handler finds the token claimed after the call.
    // SAFETY: as promised by the caller.
    unsafe { run_until(cpu, true, park) }
}

/// Writes the last error of a call with this token to `error`, with its value and a text for people. The status is
/// `EB_OK` if no call has failed since the token was claimed. A call that was refused because of the token itself does
/// not count.
///
/// # Safety
/// `cpu` came from `eb_cpu_claim`. `error` may be written.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn eb_last_error(cpu: *const eb_cpu, error: *mut eb_error) -> eb_status {
    // SAFETY: as promised by the caller.
    let state = unsafe { state_of(cpu) };
    let claimed = state.and_then(|state| Slot::is_claimed(state.load(Ordering::Relaxed)));
    if let Err(status) = claimed {
        return status;
    }
    if error.is_null() {
        return EB_ERROR_NULL;
    }
    // SAFETY: a token lies there.
    let slot: &Slot = unsafe { &*cpu.cast() };
    let last = Failure::from_bits(slot.last.load(Ordering::Relaxed));
    // SAFETY: it is not NULL, so it may be written.
    unsafe { error.write(last.into()) };
    EB_OK
}
