//! Allocators behind a table of functions.
//!
//! An allocator that is not part of this crate is measured like the others if a library offers the table of
//! `include/everybuddy-peer.h`. Each call is an indirect call of a function with C's calling convention. The cost is
//! visible: the floor is also a contender behind such a table.
//!
//! # Invariants
//! [`Functions`] has no null function, so nothing is checked when it is called. A handle is destroyed exactly once.

#![allow(unsafe_code)]

use core::ffi::{c_char, c_void};
use core::ptr::NonNull;

use everybuddy::{Block, Index, Order};

use crate::Peer;

/// The version of the table: `EVERYBUDDY_PEER_VERSION` of the header.
pub(crate) const VERSION: u32 = 1;
/// The answer to a request that is not served: `EVERYBUDDY_PEER_REFUSED` of the header.
pub(crate) const REFUSED: u32 = u32::MAX;

/// Creates an allocator.
pub(crate) type Init = unsafe extern "C" fn(frames: u32, cpus: u32) -> *mut c_void;
/// Allocates a block.
pub(crate) type Allocate = unsafe extern "C" fn(handle: *mut c_void, cpu: u32, order: u32) -> u32;
/// Frees a block.
pub(crate) type Free =
    unsafe extern "C" fn(handle: *mut c_void, cpu: u32, frame: u32, order: u32) -> i32;
/// Returns the size of the records.
pub(crate) type MetadataBytes = unsafe extern "C" fn(handle: *mut c_void) -> u64;
/// Ends an allocator.
pub(crate) type Destroy = unsafe extern "C" fn(handle: *mut c_void);

/// The structure `everybuddy_peer` of the header.
#[repr(C)]
pub(crate) struct Table {
    pub(crate) version: u32,
    pub(crate) max_order: u32,
    pub(crate) name: *const c_char,
    pub(crate) summary: *const c_char,
    pub(crate) init: Option<Init>,
    pub(crate) allocate: Option<Allocate>,
    pub(crate) free: Option<Free>,
    pub(crate) metadata_bytes: Option<MetadataBytes>,
    pub(crate) destroy: Option<Destroy>,
}

/// The functions of a table, which all exist.
///
/// The creator guarantees that the functions keep the contract of the header, as far as memory safety is concerned.
#[derive(Clone, Copy, Debug)]
pub struct Functions {
    pub(crate) init: Init,
    pub(crate) allocate: Allocate,
    pub(crate) free: Free,
    pub(crate) metadata_bytes: Option<MetadataBytes>,
    pub(crate) destroy: Destroy,
}

/// Builds the allocator behind a table. Returns `None` if the allocator refuses these numbers.
pub(crate) fn build(functions: &'static Functions, frames: u32, threads: u16) -> Option<Behind> {
    // SAFETY: this is the contract of `init`: no other function of the table runs, and no other handle exists. The
    // benchmark builds one contender at a time.
    let handle = unsafe { (functions.init)(frames, u32::from(threads)) };
    Some(Behind {
        handle: NonNull::new(handle)?,
        functions,
    })
}

/// An allocator behind a table.
pub(crate) struct Behind {
    handle: NonNull<c_void>,
    functions: &'static Functions,
}

// SAFETY: the contract of the table allows several threads to call the functions with the same handle, each with the
// number of its own CPU.
unsafe impl Sync for Behind {}

impl Drop for Behind {
    fn drop(&mut self) {
        // SAFETY: the handle came from `init` of the same table, and no thread uses it: this value is not borrowed.
        unsafe { (self.functions.destroy)(self.handle.as_ptr()) }
    }
}

/// A thread's handle. It has copies of what a call needs, so that a call loads them from one cache line.
pub(crate) struct BehindLocal {
    handle: *mut c_void,
    cpu: u32,
    allocate: Allocate,
    free: Free,
    failed: u64,
}

impl Peer for Behind {
    type Local<'p> = BehindLocal;

    fn local(&self, thread: u16) -> BehindLocal {
        BehindLocal {
            handle: self.handle.as_ptr(),
            cpu: u32::from(thread),
            allocate: self.functions.allocate,
            free: self.functions.free,
            failed: 0,
        }
    }

    #[inline]
    fn allocate(&self, local: &mut BehindLocal, order: Order) -> Option<Index> {
        // SAFETY: the handle came from `init` and lives as long as `self`. Only this thread uses the CPU's number, by
        // the contract of `Peer::local`.
        let frame = unsafe { (local.allocate)(local.handle, local.cpu, u32::from(order.get())) };
        (frame != REFUSED).then_some(Index(frame))
    }

    #[inline]
    fn free(&self, local: &mut BehindLocal, block: Block) {
        let order = u32::from(block.order.get());
        // SAFETY: as in `allocate`. The block was allocated with this order, by the contract of `Peer::free`.
        let code = unsafe { (local.free)(local.handle, local.cpu, block.start.0, order) };
        local.failed += u64::from(code != 0);
    }

    fn failed(&self, local: &BehindLocal) -> u64 {
        local.failed
    }

    fn metadata_bytes(&self) -> Option<usize> {
        // SAFETY: the handle came from `init` of the same table and lives as long as `self`.
        let bytes = unsafe { (self.functions.metadata_bytes?)(self.handle.as_ptr()) };
        usize::try_from(bytes).ok()
    }
}
