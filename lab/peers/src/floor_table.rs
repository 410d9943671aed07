//! The floor behind the table of functions.
//!
//! The difference between this contender and the floor is the cost of the table: an indirect call with C's calling
//! convention, which the compiler cannot inline, and finding the data of a CPU by its number. Every loaded allocator
//! has that cost.
//!
//! # Invariants
//! The arrays of a CPU are accessed only by the thread that passes its number.

#![allow(unsafe_code)]

use core::cell::UnsafeCell;
use core::ffi::c_void;

use everybuddy::{Block, Index, Order};

use crate::floor::{Arrays, Floor};
use crate::rows::{FLOOR, PeerRow};
use crate::table::{Functions, REFUSED};

/// The row of this contender.
pub static FLOOR_TABLE: PeerRow = PeerRow {
    name: "floor+table",
    summary: "floor behind the table of functions through which `--peer` calls: what such a call costs",
    functions: Some(&Functions {
        init,
        allocate,
        free,
        metadata_bytes: Some(metadata_bytes),
        destroy,
    }),
    ..FLOOR
};

/// The floor with the arrays of all CPUs.
struct Handle {
    floor: Floor,
    cpus: Box<[Slot]>,
}

/// The arrays of a CPU, on cache lines of their own.
#[repr(align(128))]
struct Slot(UnsafeCell<Arrays>);

impl Handle {
    /// Returns the floor and the arrays of a CPU.
    ///
    /// # Safety
    /// `handle` came from [`init`] and is not destroyed. No other thread passes the same CPU while the result lives.
    #[inline(always)]
    unsafe fn of<'h>(handle: *mut c_void, cpu: u32) -> Option<(&'h Floor, &'h mut Arrays)> {
        // SAFETY: `init` returned a pointer to a handle, which is only shared from then on.
        let handle = unsafe { &*handle.cast::<Handle>() };
        let slot = handle.cpus.get(cpu as usize)?;
        // SAFETY: only the thread with this CPU's number accesses the slot, by the contract of this function.
        Some((&handle.floor, unsafe { &mut *slot.0.get() }))
    }
}

unsafe extern "C" fn init(frames: u32, cpus: u32) -> *mut c_void {
    let Ok(threads) = u16::try_from(cpus) else {
        return core::ptr::null_mut();
    };
    let floor = Floor::new(frames, threads);
    let arrays = |thread| Slot(UnsafeCell::new(floor.take_arrays(thread)));
    let cpus = (0..threads).map(arrays).collect();
    Box::into_raw(Box::new(Handle { floor, cpus })).cast()
}

unsafe extern "C" fn allocate(handle: *mut c_void, cpu: u32, order: u32) -> u32 {
    // SAFETY: the caller passes a handle of `init`, and the number of a CPU that no other thread passes.
    let found = unsafe { Handle::of(handle, cpu) };
    let (Some((floor, arrays)), Some(order)) = (found, Order::new(order as u8)) else {
        return REFUSED;
    };
    floor.pop(arrays, order).map_or(REFUSED, |frame| frame.0)
}

unsafe extern "C" fn free(handle: *mut c_void, cpu: u32, frame: u32, order: u32) -> i32 {
    // SAFETY: as in `allocate`.
    let found = unsafe { Handle::of(handle, cpu) };
    let (Some((floor, arrays)), Some(order)) = (found, Order::new(order as u8)) else {
        return 1;
    };
    floor.push(
        arrays,
        Block {
            start: Index(frame),
            order,
        },
    );
    0
}

unsafe extern "C" fn metadata_bytes(handle: *mut c_void) -> u64 {
    // SAFETY: the caller passes a handle of `init`.
    let handle = unsafe { &*handle.cast::<Handle>() };
    handle.floor.bytes() as u64
}

unsafe extern "C" fn destroy(handle: *mut c_void) {
    // SAFETY: the caller passes a handle of `init`, uses it no more, and destroys it once.
    drop(unsafe { Box::from_raw(handle.cast::<Handle>()) });
}
