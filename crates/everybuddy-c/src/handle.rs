//! The handle and the tokens: building, claiming, and the checks that each call makes.
//!
//! # Design decisions
//!
//! Handle and tokens lie at the start of the caller's memory, before the metadata: a library without a heap has no
//! other place. Each begins with a word that says what it is and in which state, so a call with a wrong, released or
//! destroyed one is refused. A token also marks the call that it is in. That is a load and two stores of a line that
//! only its holder writes, and it detects a handler that uses the token of the code that it interrupted. A handler that
//! runs between the load and the first store is not detected; it does no harm, since the call has not begun.
//!
//! # Invariants
//!
//! 1. A handle is written once, by `eb_build`, except its first word. A token's fields are atomics or never change.
//! 2. A token's state changes from unclaimed to claimed by an exchange, so only one thread claims it.
//! 3. If two threads use a token at a time, against the rules, frames may be allocated twice. Whether a call notices it
//!    is left to chance. Memory safety does not depend on it: see [`Bare`](everybuddy::platform::Bare).

use core::ffi::{CStr, c_void};
use core::mem::MaybeUninit;
use core::sync::atomic::{AtomicU32, AtomicU64, Ordering, compiler_fence};
use core::{ptr, slice, str};

use everybuddy::systems::Presplit;
use everybuddy::{CpuId, FrameRange, LINE, Memory, Setup, SystemSpec, build_any, metadata_layout};

use crate::errors::{Failure, SetupError, eb_error};
use crate::platform::{Machine, System, Token};
use crate::status::{eb_status, eb_status::*};
use crate::types::{EB_MEMORY_IS_ZEROED, EB_ORDERS, eb_setup};
use crate::{EB_ABI_VERSION, EB_ALIGNMENT};

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
fn head(cpus: u16) -> usize {
    size_of::<Handle>() + usize::from(cpus) * size_of::<Slot>()
}

/// Checks that a pointer can lead to a handle or a token.
#[inline(always)]
fn check(pointer: *const c_void) -> Result<(), eb_status> {
    if pointer.is_null() {
        return Err(EB_ERROR_NULL);
    }
    match pointer.addr().is_multiple_of(LINE) {
        true => Ok(()),
        false => Err(EB_ERROR_MISALIGNED),
    }
}

impl Handle {
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

/// Runs a call of a CPU, and stores the state of its token afterwards.
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
    let status = match call(slot.system, &mut Token::new(slot.id)) {
        Ok(()) => EB_OK,
        Err(failure) => slot.fail(failure),
    };
    compiler_fence(Ordering::SeqCst);
    slot.state.store(end, ordering);
    status
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
    let name: &'t [u8] = match given.system.is_null() {
        true => b"everybuddy",
        // SAFETY: the caller promises a text that ends with NUL.
        false => unsafe { CStr::from_ptr(given.system) }.to_bytes(),
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

/// Writes the bytes that `eb_build` needs for this setup to `bytes`. O(1).
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
    let metadata = match plan.is_zeroed {
        // SAFETY: the caller promises that by the flag.
        true => unsafe { Memory::zeroed(metadata) },
        false => Memory::new(metadata),
    };
    let system = build_any::<Machine>(&plan.spec, &plan.setup, metadata)?;
    let handle = memory.cast::<Handle>();
    // SAFETY: a handle lies before the tokens, within the bytes before the metadata.
    let tokens = unsafe { handle.add(1) }.cast::<Slot>();
    for cpu in 0..cpus {
        // SAFETY: the bytes before the metadata hold a token for each CPU.
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
    Ok(handle.cast())
}

/// Ends a system. Its memory belongs to the caller again; calls with the handle or with its tokens are refused as long
/// as nothing else is written there. All tokens must have been released. O(CPUs).
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

/// Releases a token, so that another thread can claim its CPU. Parks the CPU first, as `eb_park` does.
///
/// # Safety
/// `cpu` came from `eb_cpu_claim`, and no other thread uses it.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn eb_cpu_release(cpu: *mut eb_cpu) -> eb_status {
    let park = |system: System, token: &mut Token| {
        system.park(token);
        Ok(())
    };
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
