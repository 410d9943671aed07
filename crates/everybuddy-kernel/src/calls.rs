//! The functions of the header `include/everybuddy_kernel.h`, which describes them for callers in C. Those that are
//! called often are in `frames`.
//!
//! # Invariants
//! No function panics on any argument that the header permits. A test compares each declaration of the header with what
//! is here.

use core::ffi::{CStr, c_char};
use core::fmt::Write;
use core::mem::MaybeUninit;
use core::slice;
use core::sync::atomic::Ordering;

use everybuddy::systems::{ROWS, SpecError};
use everybuddy::{BuildError, CpuId, FrameRange, Order, Pfn, Report, Setup, SystemSpec};

use crate::codes::{self, Text};
use crate::frames::Frames;
use crate::reporting::Reports;

/// Ranges of memory that a system can be built for.
pub const MAX_RANGES: usize = 32;

/// A range of physical frames.
#[derive(Clone, Copy, Debug)]
#[repr(C)]
pub struct Range {
    /// The first frame.
    pub start: u64,
    /// The number of frames.
    pub frames: u64,
}

/// The state of a system at a moment.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[repr(C)]
pub struct State {
    /// Free frames of the zone layer.
    pub free: u64,
    /// Frames in per-CPU lists, and in queues of services.
    pub buffered: u64,
    /// Bytes of metadata.
    pub metadata_bytes: u64,
    /// Refills of per-CPU lists.
    pub refills: u64,
    /// Drains of per-CPU lists.
    pub drains: u64,
    /// Locks that another CPU held.
    pub contended: u64,
    /// Requests that asked all CPUs to drain their lists.
    pub reclaims: u64,
    /// Operations that interrupted another one.
    pub nested: u64,
    /// Frees that were refused.
    pub misuses: u64,
    /// Services that the kernel should run.
    pub services: u32,
    /// The order of the largest block.
    pub max_order: u32,
    /// 1 if the system reads hints.
    pub hints: u32,
    /// 1 if CPUs own free frames that are not buffered.
    pub owns: u32,
    /// Free blocks by order.
    pub free_blocks: [u64; Order::LIMIT.index() + 1],
}

/// The reason why no system was built.
enum Refused {
    Spec,
    Ranges,
    Build(BuildError),
}

impl Refused {
    fn write(&self, spec: &str, out: &mut Text<'_>) -> core::fmt::Result {
        match self {
            Self::Ranges => write!(out, "more than {MAX_RANGES} ranges of memory"),
            Self::Build(error) => write!(out, "{error}"),
            Self::Spec => match spec.parse::<SystemSpec>() {
                Ok(_) => Ok(()),
                Err(error) => {
                    write!(out, "`{}`: {error}", error.part(spec))?;
                    if !matches!(error, SpecError::UnknownSystem { .. }) {
                        return Ok(());
                    }
                    write!(out, "; the names are")?;
                    let mut names = ROWS.iter().map(|row| row.name);
                    names.try_for_each(|name| write!(out, " {name}"))
                }
            },
        }
    }
}

/// Calls `run` with a system's name and a machine, and writes the reason if either is refused.
///
/// # Safety
/// That of [`everybuddy_build`], without the memory.
unsafe fn prepared<R>(
    spec: *const c_char,
    ranges: *const Range,
    count: usize,
    cpus: u16,
    why: (*mut u8, usize),
    run: impl FnOnce(&SystemSpec, &Setup<'_>) -> Result<R, BuildError>,
) -> Option<R> {
    // SAFETY: the caller passes a text that ends with a zero.
    let spec = unsafe { CStr::from_ptr(spec) };
    let spec = spec.to_str().unwrap_or_default();
    // SAFETY: the caller passes this number of ranges.
    let given = unsafe { slice::from_raw_parts(ranges, count) };
    let prepared = || {
        let parsed = spec.parse::<SystemSpec>().map_err(|_| Refused::Spec)?;
        let mut ranges = [FrameRange::new(Pfn(0), 0); MAX_RANGES];
        let ranges = ranges.get_mut(..count).ok_or(Refused::Ranges)?;
        for (range, given) in ranges.iter_mut().zip(given) {
            *range = FrameRange::new(Pfn(given.start), given.frames);
        }
        run(&parsed, &Setup::new(ranges, cpus)).map_err(Refused::Build)
    };
    // SAFETY: the caller passes memory for the reason.
    let why = unsafe { slice::from_raw_parts_mut(why.0, why.1) };
    let mut why = Text::new(why);
    match prepared() {
        Ok(result) => Some(result),
        Err(refused) => {
            // A text never fails, it is cut.
            let _ = refused.write(spec, &mut why);
            None
        }
    }
}

/// Returns the bytes that `everybuddy_build` needs, or 0 and the reason in `why`.
///
/// # Safety
/// That of [`everybuddy_build`], without the memory.
// SAFETY: no other function of a kernel has a name that starts with `everybuddy_`.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn everybuddy_bytes(
    spec: *const c_char,
    ranges: *const Range,
    count: usize,
    cpus: u16,
    why: *mut u8,
    why_bytes: usize,
) -> usize {
    // SAFETY: the caller keeps the contract, which is the same.
    let bytes = unsafe { prepared(spec, ranges, count, cpus, (why, why_bytes), Frames::bytes) };
    bytes.unwrap_or(0)
}

/// Builds a system, or returns null and the reason in `why`.
///
/// # Safety
/// `spec` ends with a zero; `ranges` are `count` ranges; `memory` has `bytes` bytes, which nothing else uses as long as
/// the system is used; `why` has `why_bytes` bytes.
// SAFETY: no other function of a kernel has a name that starts with `everybuddy_`.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn everybuddy_build(
    spec: *const c_char,
    ranges: *const Range,
    count: usize,
    cpus: u16,
    memory: *mut u8,
    bytes: usize,
    why: *mut u8,
    why_bytes: usize,
) -> Option<&'static Frames> {
    // SAFETY: the caller passes memory of that size, for as long as the system is used.
    let memory = unsafe { slice::from_raw_parts_mut(memory.cast::<MaybeUninit<u8>>(), bytes) };
    // SAFETY: the caller keeps the contract, which is the same.
    unsafe {
        prepared(
            spec,
            ranges,
            count,
            cpus,
            (why, why_bytes),
            move |spec, setup| Frames::build(spec, setup, memory),
        )
    }
}

/// Returns the number of frames in the list of a CPU: a hint while it works.
// SAFETY: no other function of a kernel has a name that starts with `everybuddy_`.
#[unsafe(no_mangle)]
pub extern "C" fn everybuddy_buffered(frames: &Frames, cpu: u16) -> u64 {
    frames.buffered(CpuId(cpu))
}

/// Announces that this CPU will not call for a while.
// SAFETY: no other function of a kernel has a name that starts with `everybuddy_`.
#[unsafe(no_mangle)]
pub extern "C" fn everybuddy_park(frames: &Frames, cpu: u16) -> bool {
    frames.park(CpuId(cpu))
}

/// Returns the frames of this CPU's list to the zone layer.
// SAFETY: no other function of a kernel has a name that starts with `everybuddy_`.
#[unsafe(no_mangle)]
pub extern "C" fn everybuddy_drain(frames: &Frames, cpu: u16) -> bool {
    frames.drain(CpuId(cpu))
}

/// Returns the frames of all lists to the zone layer, and finishes deferred work. Returns 0, or an error.
// SAFETY: no other function of a kernel has a name that starts with `everybuddy_`.
#[unsafe(no_mangle)]
pub extern "C" fn everybuddy_quiesce(frames: &Frames, cpu: u16) -> i32 {
    let done = frames.quiesce(CpuId(cpu));
    done.map_or_else(|error| -codes::of_allocate(error), |()| 0)
}

/// Runs a step of every service. Returns `true` if there is more work.
// SAFETY: no other function of a kernel has a name that starts with `everybuddy_`.
#[unsafe(no_mangle)]
pub extern "C" fn everybuddy_serve(frames: &Frames, cpu: u16, budget: u32) -> bool {
    frames.serve(CpuId(cpu), budget)
}

/// Checks every invariant of all metadata. Returns `true` if they hold; otherwise the first violation is in `why`.
///
/// # Safety
/// `why` has `why_bytes` bytes.
// SAFETY: no other function of a kernel has a name that starts with `everybuddy_`.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn everybuddy_check(
    frames: &Frames,
    cpu: u16,
    why: *mut u8,
    why_bytes: usize,
) -> bool {
    // SAFETY: the caller passes memory of that size.
    let why = unsafe { slice::from_raw_parts_mut(why, why_bytes) };
    let mut why = Text::new(why);
    // A text never fails, it is cut.
    let _ = match frames.check(CpuId(cpu)) {
        Some(Ok(_)) => return true,
        Some(Err(violation)) => write!(why, "{violation}"),
        None => write!(why, "an operation runs on this CPU"),
    };
    false
}

/// Returns the state of the system; counters are sums over all CPUs. All zero if an operation runs on this CPU.
// SAFETY: no other function of a kernel has a name that starts with `everybuddy_`.
#[unsafe(no_mangle)]
pub extern "C" fn everybuddy_state(frames: &Frames, cpu: u16) -> State {
    let Some(snapshot) = frames.snapshot(CpuId(cpu)) else {
        return State::default();
    };
    let system = frames.system();
    let mut state = State {
        free: snapshot.free_frames(),
        buffered: snapshot.buffered_frames,
        metadata_bytes: system.metadata_bytes() as u64,
        services: u32::try_from(system.services().len()).unwrap_or(0),
        max_order: u32::from(system.max_order().get()),
        hints: system.uses_hints().into(),
        owns: system.owns_frames().into(),
        free_blocks: snapshot.free_blocks.map(u64::from),
        ..State::default()
    };
    for gate in frames.gates() {
        for (sum, counter) in [
            (&mut state.refills, &gate.refills),
            (&mut state.drains, &gate.drains),
            (&mut state.contended, &gate.contended),
            (&mut state.reclaims, &gate.reclaims),
            (&mut state.nested, &gate.nested),
            (&mut state.misuses, &gate.misuses),
        ] {
            *sum += counter.load(Ordering::Relaxed);
        }
    }
    state
}

/// Returns the bytes that `everybuddy_reporting_build` needs, or 0 if the system has no block of that order.
// SAFETY: no other function of a kernel has a name that starts with `everybuddy_`.
#[unsafe(no_mangle)]
pub extern "C" fn everybuddy_reporting_bytes(frames: &Frames, order: u8) -> usize {
    Reports::bytes(frames, order).unwrap_or(0)
}

/// Begins to report free blocks of at least an order. Returns null if the system has no such block, or if the memory is
/// too small.
///
/// # Safety
/// `memory` has `bytes` bytes, which nothing else uses as long as the system is used.
// SAFETY: no other function of a kernel has a name that starts with `everybuddy_`.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn everybuddy_reporting_build(
    frames: &'static Frames,
    order: u8,
    memory: *mut u8,
    bytes: usize,
) -> Option<&'static Reports> {
    // SAFETY: the caller passes memory of that size, for as long as the system is used.
    let memory = unsafe { slice::from_raw_parts_mut(memory.cast::<MaybeUninit<u8>>(), bytes) };
    Reports::build(frames, order, memory)
}

/// Takes the next free block that was not reported. Returns its first frame, or an error as a negative number.
// SAFETY: no other function of a kernel has a name that starts with `everybuddy_`.
#[unsafe(no_mangle)]
pub extern "C" fn everybuddy_reporting_take(
    reports: &Reports,
    cpu: u16,
    budget: &mut u32,
    order: &mut u8,
) -> i64 {
    match reports.take(CpuId(cpu), budget) {
        Ok((frame, taken)) => {
            *order = taken.get();
            frame
        }
        Err(code) => -i64::from(code),
    }
}

/// Puts back a block that was taken, as reported or not. Returns 0, or an error as a negative number.
// SAFETY: no other function of a kernel has a name that starts with `everybuddy_`.
#[unsafe(no_mangle)]
pub extern "C" fn everybuddy_reporting_put(
    reports: &Reports,
    cpu: u16,
    frame: u64,
    order: u8,
    reported: bool,
) -> i32 {
    let report = if reported {
        Report::Given
    } else {
        Report::Refused
    };
    reports.put(CpuId(cpu), frame, order, report)
}

/// Records that 2^order frames were allocated. Returns how many of the blocks that they touch had been reported.
// SAFETY: no other function of a kernel has a name that starts with `everybuddy_`.
#[unsafe(no_mangle)]
pub extern "C" fn everybuddy_reporting_allocated(reports: &Reports, frame: u64, order: u8) -> u32 {
    reports.allocated(frame, order)
}

/// Returns the number of blocks that are taken and were not put back.
// SAFETY: no other function of a kernel has a name that starts with `everybuddy_`.
#[unsafe(no_mangle)]
pub extern "C" fn everybuddy_reporting_held(reports: &Reports) -> u32 {
    reports.held()
}

/// Writes the text of an error, and returns its length.
///
/// # Safety
/// `out` has `bytes` bytes.
// SAFETY: no other function of a kernel has a name that starts with `everybuddy_`.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn everybuddy_explain(error: i32, out: *mut u8, bytes: usize) -> usize {
    // SAFETY: the caller passes memory of that size.
    let out = unsafe { slice::from_raw_parts_mut(out, bytes) };
    let mut out = Text::new(out);
    // A text never fails, it is cut.
    let _ = codes::write(error.saturating_neg(), &mut out);
    out.length()
}

/// Panics, so that a test sees what the kernel makes of it.
// SAFETY: no other function of a kernel has a name that starts with `everybuddy_`.
#[unsafe(no_mangle)]
pub extern "C" fn everybuddy_stop() -> ! {
    panic!("stopped by everybuddy_stop");
}
