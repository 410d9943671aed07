//! The handle and the tokens: claiming them, and the checks that each call makes. [`build`](crate::build) makes them.
//!
//! # Design decisions
//! Handle and tokens lie at the start of the caller's memory, before the metadata: a library without a heap has no
//! other place. Each begins with a word that says what it is and in which state, so a call with a wrong, released or
//! destroyed one is refused. A token also marks the call that it is in. That is a load and two stores of a line that
//! only its holder writes, and it detects a handler that uses the token of the code that it interrupted. A handler that
//! runs between the load and the first store is not detected; it does no harm, since the call has not begun.
//!
//! # Invariants
//! 1. A handle is written once, by `eb_build`, except its first word. A token's fields are atomics or never change.
//! 2. A token's state changes from unclaimed to claimed by an exchange, so only one thread claims it.
//! 3. If two threads use a token at a time, against the rules, frames may be allocated twice. Whether a call notices it
//!    is left to chance. Memory safety does not depend on it: see [`Bare`](everybuddy::platform::Bare).

use core::ffi::c_void;
use core::sync::atomic::{AtomicU32, AtomicU64, Ordering, compiler_fence};
use core::{ptr, slice};

use everybuddy::{CpuId, LINE};

use crate::EB_ABI_VERSION;
use crate::errors::{Failure, eb_error};
use crate::platform::{System, Token};
use crate::status::{eb_status, eb_status::*};

/// A system. It lies in the memory that `eb_build` was given; only the library accesses it.
pub struct eb_system {
    _opaque: [u8; 0],
}

/// The token of a CPU: the right to act as that CPU in one system. Only one thread at a time may use it.
pub struct eb_cpu {
    _opaque: [u8; 0],
}

/// The first word of a handle: "EVERYBDY" in memory on a little-endian machine.
const BUILT: u64 = u64::from_le_bytes(*b"EVERYBDY");
/// The first word of a handle whose system was destroyed.
const DESTROYED: u64 = u64::from_le_bytes(*b"DEADBDDY");

/// The state of a token: what it is, the version of the interface, and the state proper.
const TOKEN: u32 = 0xeb70_0000 | (EB_ABI_VERSION & 0xff) << 8;
const TOKEN_MASK: u32 = 0xffff_0000;
const UNCLAIMED: u32 = TOKEN | 1;
const CLAIMED: u32 = TOKEN | 2;
const IN_CALL: u32 = TOKEN | 3;
const GONE: u32 = TOKEN | 4;

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
    cpus: u32,
    pub(crate) system: System,
    tokens: *const Slot,
}

/// What lies behind an `eb_cpu`.
#[repr(C, align(64))]
pub(crate) struct Slot {
    state: AtomicU32,
    id: CpuId,
    system: System,
    /// The last failure, as [`Failure::to_bits`].
    last: AtomicU64,
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
            let slot = Slot {
                state: AtomicU32::new(UNCLAIMED),
                id: CpuId(cpu),
                system,
                last: AtomicU64::new(0),
            };
            // SAFETY: the place lies in the caller's memory, is aligned, and nothing refers to it.
            unsafe { place.write(slot) };
        }
        let built = Handle {
            mark: Mark {
                state: AtomicU64::new(0),
                version: EB_ABI_VERSION,
            },
            cpus: u32::from(cpus),
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
    fn slots(&self) -> &[Slot] {
        // SAFETY: `eb_build` wrote this number of tokens there, and they live as long as the handle.
        unsafe { slice::from_raw_parts(self.tokens, self.cpus as usize) }
    }
}

impl Slot {
    /// Returns the state of the token behind a pointer.
    ///
    /// # Safety
    /// The pointer is NULL or leads to 64 bytes that may be read.
    #[inline(always)]
    unsafe fn state(cpu: *const eb_cpu) -> Result<u32, eb_status> {
        check(cpu.cast())?;
        // SAFETY: it is aligned, and may be read by the caller's promise. Any bytes are such a word.
        let state = unsafe { &*cpu.cast::<AtomicU32>() };
        Ok(state.load(Ordering::Relaxed))
    }

    /// Returns why a token in this state cannot be used.
    #[cold]
    fn refusal(state: u32) -> eb_status {
        match state {
            UNCLAIMED => EB_ERROR_NOT_CLAIMED,
            IN_CALL => EB_ERROR_IN_CALL,
            CLAIMED => EB_ERROR_CLAIMED,
            GONE => EB_ERROR_DESTROYED,
            _ if state & TOKEN_MASK == TOKEN & TOKEN_MASK => EB_ERROR_VERSION,
            _ => EB_ERROR_NOT_A_HANDLE,
        }
    }

    /// Stores the failure, for `eb_last_error`.
    #[cold]
    #[inline(never)]
    fn fail(&self, failure: Failure) -> eb_status {
        self.last.store(failure.to_bits(), Ordering::Relaxed);
        failure.status
    }
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
    unsafe { run_until(cpu, CLAIMED, Ordering::Relaxed, call) }
}

/// Runs a call of a CPU, and stores the state of its token afterwards. A failure is stored after that, which takes
/// fewer instructions; a call that ends with another state than claimed must not fail.
///
/// # Safety
/// As [`run`].
#[inline(always)]
unsafe fn run_until(
    cpu: *mut eb_cpu,
    end: u32,
    ordering: Ordering,
    call: impl FnOnce(System, &mut Token) -> Result<(), Failure>,
) -> eb_status {
    // SAFETY: as promised by the caller.
    match unsafe { Slot::state(cpu) } {
        Ok(CLAIMED) => {}
        Ok(state) => return Slot::refusal(state),
        Err(status) => return status,
    }
    // SAFETY: a token lies there.
    let slot: &Slot = unsafe { &*cpu.cast() };
    slot.state.store(IN_CALL, Ordering::Relaxed);
    // The fences keep the call between both stores, as a handler on this thread sees them.
    compiler_fence(Ordering::SeqCst);
    let result = call(slot.system, &mut Token::new(slot.id));
    compiler_fence(Ordering::SeqCst);
    slot.state.store(end, ordering);
    match result {
        Ok(()) => EB_OK,
        Err(failure) => slot.fail(failure),
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
    // Acquire: pairs with the release in `eb_cpu_release`: what the last holders did comes before the end.
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
/// Only one thread at a time uses the token: the one that claimed it, or one that took it over by means that order
/// memory, such as a mutex. A kernel claims all tokens once, and uses each on its CPU with preemption disabled.
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
    // Acquire: pairs with the release in `eb_cpu_release`: what the last holder did on this CPU is seen.
    let exchange =
        slot.state
            .compare_exchange(UNCLAIMED, CLAIMED, Ordering::Acquire, Ordering::Relaxed);
    match exchange {
        Ok(_) => {
            slot.last.store(0, Ordering::Relaxed);
            // SAFETY: it is not NULL, so it may be written.
            unsafe { token.write(ptr::from_ref(slot).cast_mut().cast()) };
            EB_OK
        }
        Err(IN_CALL) => EB_ERROR_CLAIMED,
        Err(state) => Slot::refusal(state),
    }
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
    // Release: pairs with the acquire in `eb_cpu_claim`. In one store, so that no handler finds the token claimed after
    // the call.
    // SAFETY: as promised by the caller.
    unsafe { run_until(cpu, UNCLAIMED, Ordering::Release, park) }
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
    match unsafe { Slot::state(cpu) } {
        Ok(CLAIMED | IN_CALL) => {}
        Ok(state) => return Slot::refusal(state),
        Err(status) => return status,
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
