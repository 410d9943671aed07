//! Reporting: free blocks that are given back to the monitor of a virtual machine.
//!
//! # Invariants
//! What lies behind an `eb_reporting` begins with a word that says what it is, and is written once. It belongs to one
//! system; a token of another one is refused.

use core::ffi::c_void;
use core::sync::atomic::{AtomicU64, Ordering};
use core::{ptr, slice};

use everybuddy::{AllocateError, Index, LINE, Order, Platform, Progress, Report, Reporting};

use crate::errors::Failure;
use crate::handle::{eb_cpu, eb_system, read, run, run_with};
use crate::inspection::ask_with;
use crate::platform::{Machine, System, Token};
use crate::status::{eb_status, eb_status::*};
use crate::types::{
    EB_REPORT_GIVEN, EB_REPORT_GIVEN_ZEROED, EB_REPORT_REFUSED, eb_reporter, eb_request, order,
};

/// Which free blocks of a system were reported. It lies in the memory that `eb_reporting_start` was given.
pub struct eb_reporting {
    _opaque: [u8; 0],
}

/// The first word of what lies behind an `eb_reporting`: "EVRYREPT" in memory on a little-endian machine.
const STARTED: u64 = u64::from_le_bytes(*b"EVRYREPT");

type Word = <Machine as Platform>::AtomicU64;

/// What lies behind an `eb_reporting`; the marks follow.
#[repr(C, align(64))]
struct Reports {
    mark: AtomicU64,
    system: System,
    reporting: Reporting<'static, Machine>,
}

const _: () = assert!(align_of::<Reports>() == LINE && align_of::<Word>() <= LINE);

/// Returns the words of marks, and all bytes.
fn size(system: System, order: Order) -> Result<(usize, usize), Failure> {
    let largest = system.max_order();
    if order > largest {
        return Err(AllocateError::TooLarge { largest }.into());
    }
    let words = Reporting::<Machine>::words(order, system.span().frames());
    Ok((words, size_of::<Reports>() + words * size_of::<Word>()))
}

impl Reports {
    /// Returns what lies behind a pointer.
    ///
    /// # Safety
    /// The pointer is NULL or leads to 64 bytes that may be read.
    unsafe fn of<'a>(reporting: *const eb_reporting) -> Result<&'a Reports, eb_status> {
        if reporting.is_null() {
            return Err(EB_ERROR_NULL);
        }
        if !reporting.addr().is_multiple_of(LINE) {
            return Err(EB_ERROR_MISALIGNED);
        }
        // SAFETY: it is aligned, and may be read by the caller's promise. Any bytes are such a word.
        let mark = unsafe { &*reporting.cast::<AtomicU64>() };
        // Acquire: pairs with the release in `eb_reporting_start`, for a thread that learned of the pointer without
        // one.
        match mark.load(Ordering::Acquire) {
            // SAFETY: `eb_reporting_start` wrote a value there.
            STARTED => Ok(unsafe { &*reporting.cast::<Reports>() }),
            _ => Err(EB_ERROR_NOT_A_HANDLE),
        }
    }

    /// The same, for a call on a system.
    ///
    /// # Safety
    /// As [`of`](Self::of).
    unsafe fn on<'a>(
        reporting: *const eb_reporting,
        system: System,
    ) -> Result<&'a Reports, eb_status> {
        // SAFETY: as promised by the caller.
        let reports = unsafe { Self::of(reporting) }?;
        if ptr::addr_eq(reports.system, system) {
            Ok(reports)
        } else {
            Err(EB_ERROR_ARGUMENT)
        }
    }
}

/// Writes the bytes that `eb_reporting_start` needs to `bytes`. O(1).
///
/// Errors: `EB_ERROR_TOO_LARGE` if the system has no block of that order.
///
/// # Safety
/// `system` came from `eb_build`. `bytes` may be written.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn eb_reporting_size(
    system: *const eb_system,
    order: u32,
    bytes: *mut usize,
) -> eb_status {
    let measure = |system: System| Ok(size(system, self::order(order)?)?.1);
    // SAFETY: as promised by the caller.
    unsafe { ask_with(system, bytes, measure) }
}

/// Begins to report free blocks of at least an order, in `bytes` bytes at `memory`, a multiple of `EB_ALIGNMENT`, and
/// writes the handle to `reporting`. No block is reported yet. To end, use the memory for something else.
///
/// Errors: `EB_ERROR_TOO_LARGE` as for `eb_reporting_size`, `EB_ERROR_METADATA_TOO_SMALL`.
///
/// # Safety
/// `system` came from `eb_build`, and lives as long as the handle is used. Nothing else accesses the memory meanwhile.
/// `reporting` may be written.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn eb_reporting_start(
    system: *const eb_system,
    order: u32,
    memory: *mut c_void,
    bytes: usize,
    reporting: *mut *mut eb_reporting,
) -> eb_status {
    let start = |system: System| {
        let order = self::order(order)?;
        if memory.is_null() {
            return Err(EB_ERROR_NULL.into());
        }
        if !memory.addr().is_multiple_of(LINE) {
            return Err(EB_ERROR_MISALIGNED.into());
        }
        let (count, needed) = size(system, order)?;
        if bytes < needed {
            return Err(EB_ERROR_METADATA_TOO_SMALL.into());
        }
        let reports = memory.cast::<Reports>();
        // SAFETY: the words follow the head within those bytes.
        let words = unsafe { reports.add(1) }.cast::<Word>();
        for word in 0..count {
            // SAFETY: those bytes hold that many words.
            let place = unsafe { words.add(word) };
            // SAFETY: the place is aligned, and nothing refers to it.
            unsafe { place.write(Word::new(0)) };
        }
        // SAFETY: they were written just now, and are lent as long as the handle is used.
        let words = unsafe { slice::from_raw_parts(words, count) };
        let value = Reports {
            mark: AtomicU64::new(0),
            system,
            reporting: Reporting::new(system, order, words)?,
        };
        // SAFETY: as for the words.
        unsafe { reports.write(value) };
        // SAFETY: it was written just now.
        let value = unsafe { &*reports };
        // Release: pairs with the acquire in `Reports::of`.
        value.mark.store(STARTED, Ordering::Release);
        Ok(reports.cast())
    };
    // SAFETY: as promised by the caller.
    unsafe { ask_with(system, reporting, start) }
}

/// Reports free blocks that were not reported, by address, and looks at `budget` blocks at most: the next call goes on
/// from there. Writes whether it came to the end of memory to `at_end`; the next call then begins from the start.
///
/// `reporter` calls the monitor, with one block at a time; the block is free again before the next one is taken. Passed
/// over are blocks that lists cache, that another CPU takes first, or that lie in trees of `everybuddy` that other CPUs
/// own. The call ends early if the reporter refuses, or while `eb_allocate_reported` waits.
///
/// Errors: `EB_ERROR_ARGUMENT` if `reporter` returned a value that means nothing, which ends the call as a refusal, or
/// if `reporting` is of another system.
///
/// # Safety
/// `cpu` came from `eb_cpu_claim`, `reporting` from `eb_reporting_start`. `reporter` accepts `context`, which may be
/// NULL. `at_end` may be written.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn eb_report(
    cpu: *mut eb_cpu,
    reporting: *const eb_reporting,
    budget: u32,
    reporter: eb_reporter,
    context: *mut c_void,
    at_end: *mut bool,
) -> eb_status {
    let report = |system: System, token: &mut Token| {
        // SAFETY: as promised by the caller.
        let reports = unsafe { Reports::on(reporting, system) }?;
        let reporter = reporter.ok_or(EB_ERROR_NULL)?;
        if at_end.is_null() {
            return Err(EB_ERROR_NULL.into());
        }
        let mut result = Ok(());
        let progress = reports.reporting.pass(system, token, budget, &mut |block| {
            // SAFETY: as promised by the caller.
            match unsafe { reporter(context, block.start.0, u32::from(block.order.get())) } {
                EB_REPORT_GIVEN => Report::Given,
                EB_REPORT_GIVEN_ZEROED => Report::GivenZeroed,
                EB_REPORT_REFUSED => Report::Refused,
                _ => {
                    result = Err(EB_ERROR_ARGUMENT.into());
                    Report::Refused
                }
            }
        });
        // SAFETY: it is not NULL, so it may be written.
        unsafe { at_end.write(progress == Progress::Idle) };
        result
    };
    // SAFETY: as promised by the caller.
    unsafe { run(cpu, report) }
}

/// Allocates as `eb_allocate_request` does, and records it as `eb_allocated` does. A request that fails while a
/// reporter has a block is made again after that block was put back: it waits for one block of each CPU that reports.
///
/// Errors: those of `eb_allocate_request`. `EB_ERROR_BUSY` also if a block was not put back in time, or if the request
/// has `EB_NO_WAIT`; `EB_ERROR_ARGUMENT` if `reporting` is of another system.
///
/// # Safety
/// As for `eb_allocate_request`; `reporting` came from `eb_reporting_start`.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn eb_allocate_reported(
    cpu: *mut eb_cpu,
    reporting: *const eb_reporting,
    request: *const eb_request,
    frame: *mut u32,
) -> eb_status {
    let allocate = |system: System, token: &mut Token| {
        // SAFETY: as promised by the caller.
        let reports = unsafe { Reports::on(reporting, system) }?;
        // SAFETY: as promised by the caller.
        let request = unsafe { read(request) }?.convert()?;
        Ok(reports.reporting.allocate(system, token, request)?.0)
    };
    // SAFETY: as promised by the caller.
    unsafe { run_with(cpu, frame, allocate) }
}

/// Records that frames were allocated, before anything is written to them. Writes how many blocks of the reporting
/// order, of those that the frames touch, had been reported until now to `reported`, which may be NULL. Must follow
/// each call that allocates, reserves or removes frames, except `eb_allocate_reported`.
///
/// # Safety
/// `reporting` came from `eb_reporting_start`. `reported` is NULL or may be written.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn eb_allocated(
    reporting: *const eb_reporting,
    start: u32,
    frames: u32,
    reported: *mut u32,
) -> eb_status {
    // SAFETY: as promised by the caller.
    let reports = match unsafe { Reports::of(reporting) } {
        Ok(reports) => reports,
        Err(status) => return status,
    };
    let blocks = reports.reporting.allocated(Index(start), frames);
    if !reported.is_null() {
        // SAFETY: it is not NULL, so it may be written.
        unsafe { reported.write(blocks) };
    }
    EB_OK
}
