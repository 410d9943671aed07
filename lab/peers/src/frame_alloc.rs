//! The buddy system and the depot of frame-alloc.
//!
//! This is the published allocator whose goals are closest to ours: lock-free bitmaps with a per-CPU cache in front
//! of them.
//!
//! The peer keeps its bitmaps in the memory that it manages and touches nothing else there. The adapter therefore
//! reports a few more frames at the end of memory. These frames host the bitmaps and stand for a buffer of ours; all
//! other frames stay addresses that are never dereferenced. As a result, frame 0 is free and empty memory consists of
//! whole blocks of order 10, as for all peers. The crate's default places the bitmaps at the front, which would split
//! the first blocks and reduce the number of splits for a single frame from empty memory.
//!
//! The depot calls a static function to find the current CPU. That function returns the number of the handle that
//! this thread obtained last.
//!
//! # Invariants
//! The host buffer outlives the allocator, and only the allocator touches it.

#![allow(unsafe_code)]

use core::cell::Cell;
use core::num::NonZeroUsize;
use core::ptr::NonNull;
use std::sync::atomic::AtomicUsize;

use everybuddy::{Block, Index, Order};
use frame_alloc::{
    CpuId, DepotAllocator, InitError, PageSize, PhysicalAllocator, Provenance, RegionInit,
    SummaryBuddyAllocator,
};

use crate::{Bare, Peer};

const ORDERS: usize = Order::TEN.index() + 1;
const FRAME: PageSize = PageSize::from_log2(12);
/// The number of caches of the depot; additional threads share them. Every cache is searched before a request fails,
/// so more caches than threads would only add cost.
const SLOTS: usize = 8;

type BuddyCore = SummaryBuddyAllocator<ORDERS, Host>;
type DepotCore = DepotAllocator<BuddyCore, Cpu, SLOTS>;

/// The buddy system alone.
pub(crate) type Buddy = Hosted<BuddyCore>;
/// The buddy system with one cache per thread and one shared cache in front of it.
pub(crate) type Depot = Hosted<DepotCore>;

thread_local! {
    /// The buffer for the allocator that is being started on this thread.
    static HOST: Cell<*mut u8> = const { Cell::new(core::ptr::null_mut()) };
    /// The CPU number of this thread.
    static CPU: Cell<usize> = const { Cell::new(0) };
}

/// Maps the frames of the bitmaps to the host buffer.
pub(crate) struct Host;

// SAFETY: `try_init` calls `create` once per allocator, for the run of frames that hosts the bitmaps. `Hosted::new`
// sets `HOST` just before to a buffer of at least that length, so the pointer's provenance covers it. `destroy` is
// never called (the bitmaps stay), and it would have nothing to release: the heap owns the buffer.
unsafe impl Provenance for Host {
    unsafe fn create(_phys: usize) -> NonNull<u8> {
        match NonNull::new(HOST.get()) {
            Some(buffer) => buffer,
            None => panic!("frame-alloc requested memory outside its start-up call"),
        }
    }

    unsafe fn destroy<T>(ptr: NonNull<T>) -> usize {
        ptr.addr().get()
    }
}

/// Returns the CPU number of a thread.
pub(crate) struct Cpu;

impl CpuId for Cpu {
    #[inline]
    fn current_cpu() -> usize {
        CPU.get()
    }
}

/// An allocator that can be constructed before it is started.
pub(crate) trait Core: PhysicalAllocator + RegionInit + Sync {
    /// Creates an allocator that manages no memory yet.
    fn unstarted() -> Self;
}

impl Core for BuddyCore {
    fn unstarted() -> Self {
        BuddyCore::new(FRAME)
    }
}

impl Core for DepotCore {
    fn unstarted() -> Self {
        DepotCore::new(FRAME, BuddyCore::new(FRAME))
    }
}

/// An allocator and the buffer of its bitmaps. Fields drop in order: the allocator first.
pub(crate) struct Hosted<A> {
    allocator: A,
    /// One past the last frame.
    end: u32,
    bytes: usize,
    /// Never accessed from here. The type is atomic, like the bitmaps, so that the buffer may be shared.
    _host: Vec<AtomicUsize>,
}

impl<A: Core> Hosted<A> {
    /// Creates an allocator of `frames` free frames.
    pub(crate) fn new(frames: u32, _threads: u16) -> Self {
        let allocator = A::unstarted();
        let end = frames as usize * FRAME.bytes();
        let host_bytes = host_bytes(&allocator, end);
        let words = host_bytes / size_of::<AtomicUsize>();
        let mut host: Vec<AtomicUsize> = Vec::new();
        host.resize_with(words, AtomicUsize::default);
        HOST.set(host.as_mut_ptr().cast());
        let usable = frame_alloc::PhysRange {
            base: end,
            len: host_bytes,
        };
        // SAFETY: the only usable range is the host's. `Host` maps it to a buffer of the same length, aligned for the
        // words of the bitmaps, which nothing else touches. The allocator is not shared before this returns.
        let started = unsafe { allocator.try_init(0, end + host_bytes, &[usable]) };
        HOST.set(core::ptr::null_mut());
        assert!(started.is_ok(), "frame-alloc failed to start: {started:?}");
        // SAFETY: the allocator was started above. The range lies within the span and has been reserved so far. Its
        // frames are never dereferenced, not even by the allocator, which stores nothing in free frames.
        unsafe { allocator.add_usable(0, end) };
        Self {
            allocator,
            end: frames,
            bytes: host_bytes + size_of::<A>(),
            _host: host,
        }
    }
}

impl<A: Core> Peer for Hosted<A> {
    type Local<'p>
        = Bare
    where
        A: 'p;

    fn local(&self, thread: u16) -> Bare {
        CPU.set(usize::from(thread));
        Bare::new()
    }

    #[inline]
    fn allocate(&self, _local: &mut Bare, order: Order) -> Option<Index> {
        let address = self.allocator.allocate_physical(FRAME, count(order)).ok()?;
        Some(Index((address / FRAME.bytes()) as u32))
    }

    #[inline]
    fn free(&self, _local: &mut Bare, block: Block) {
        // This check is needed for soundness: the peer uses an address as an index into its bitmaps.
        assert!(
            block.order <= Order::TEN && block.start.0 < self.end,
            "{block:?} was not allocated here"
        );
        let address = block.start.as_usize() * FRAME.bytes();
        // SAFETY: by the contract of `Peer::free`, the block was allocated here with this order, that is with this
        // count, and is no longer in use. If the caller breaks the contract, the wrong bits change, but they are
        // within the bitmaps (checked above), and no frame is ever dereferenced.
        unsafe {
            self.allocator
                .deallocate_physical(FRAME, count(block.order), address);
        }
    }

    /// Returns the bytes of the bitmaps, in whole frames, and of the allocator's value, which contains the depot's
    /// caches.
    fn metadata_bytes(&self) -> Option<usize> {
        Some(self.bytes)
    }
}

#[inline]
fn count(order: Order) -> NonZeroUsize {
    // Never 0: an order is at most 18.
    NonZeroUsize::MIN.saturating_add(order.frames() as usize - 1)
}

/// Returns the bytes that the bitmaps need for frames up to `end` and for the frames that host the bitmaps.
fn host_bytes<A: RegionInit>(allocator: &A, end: usize) -> usize {
    let mut bytes = FRAME.bytes();
    loop {
        // SAFETY: without a usable range the allocator owns nothing, and the start fails.
        let refused = unsafe { allocator.try_init(0, end + bytes, &[]) };
        match refused {
            Err(InitError::MetadataWontFit { required_bytes }) if required_bytes > bytes => {
                bytes = required_bytes;
            }
            Err(InitError::MetadataWontFit { .. }) => return bytes,
            other => panic!("frame-alloc did not report the size of its bitmaps: {other:?}"),
        }
    }
}
