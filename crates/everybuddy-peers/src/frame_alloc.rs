//! frame-alloc: its buddy system and its depot.
//!
//! Why it exists: the published allocator closest in aim to ours: bitmaps without a lock, and a cache a CPU
//! above them.
//!
//! It keeps its bitmaps in the memory it manages and touches nothing else of it. So the machine it is told of
//! ends with a few frames more, which host the bitmaps; they stand for a buffer of ours, and all other frames
//! stay addresses that nobody dereferences. So frame 0 is free, and empty memory is whole blocks of order 10, as
//! for all peers; hosted at the front, as the crate does by itself, the bitmaps would break the first blocks up,
//! and a single frame from empty memory would need fewer splits.
//!
//! The depot asks a static function for the CPU. The number is that of the last access taken up on the thread.
//!
//! Invariant: the host buffer outlives the allocator and is touched by it alone.

#![allow(unsafe_code)]

use core::cell::Cell;
use core::num::NonZeroUsize;
use core::ptr::NonNull;
use std::sync::atomic::AtomicUsize;

use everybuddy::{Block, Order, Pfn};
use frame_alloc::{
    CpuId, DepotAllocator, InitError, PageSize, PhysicalAllocator, Provenance, RegionInit,
    SummaryBuddyAllocator,
};

use crate::{Bare, Peer};

const ORDERS: usize = Order::TEN.index() + 1;
const FRAME: PageSize = PageSize::from_log2(12);
/// Caches of the depot; threads beyond share them. Each is searched before a request is refused, so that more
/// of them than threads would only cost.
const SLOTS: usize = 8;

type BuddyCore = SummaryBuddyAllocator<ORDERS, Host>;
type DepotCore = DepotAllocator<BuddyCore, Cpu, SLOTS>;

/// The buddy system alone.
pub(crate) type Buddy = Hosted<BuddyCore>;
/// The buddy system below a cache a thread and a shared one.
pub(crate) type Depot = Hosted<DepotCore>;

thread_local! {
    /// The buffer for the allocator that is being started on this thread.
    static HOST: Cell<*mut u8> = const { Cell::new(core::ptr::null_mut()) };
    /// The CPU that this thread stands for.
    static CPU: Cell<usize> = const { Cell::new(0) };
}

/// Where the frames of the bitmaps are.
pub(crate) struct Host;

// SAFETY: `create` is called once an allocator, within `try_init`, for the run of frames that hosts the bitmaps.
// `Hosted::new` sets `HOST` just before to a buffer of at least that run's length, so the pointer's provenance
// covers it. `destroy` is never called (the bitmaps stay), and would end nothing: the buffer is of the heap.
unsafe impl Provenance for Host {
    unsafe fn create(_phys: usize) -> NonNull<u8> {
        match NonNull::new(HOST.get()) {
            Some(buffer) => buffer,
            None => panic!("frame-alloc asked for memory outside of its start"),
        }
    }

    unsafe fn destroy<T>(ptr: NonNull<T>) -> usize {
        ptr.addr().get()
    }
}

/// Which CPU a thread stands for.
pub(crate) struct Cpu;

impl CpuId for Cpu {
    #[inline]
    fn current_cpu() -> usize {
        CPU.get()
    }
}

/// What can be made before it is started.
pub(crate) trait Core: PhysicalAllocator + RegionInit + Sync {
    /// Makes one that has no memory yet.
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

/// An allocator with the buffer of its bitmaps. Fields drop in order: the allocator first.
pub(crate) struct Hosted<A> {
    allocator: A,
    /// The first frame past the last.
    end: u32,
    bytes: usize,
    /// Atomic as the bitmaps are, so that the buffer may be shared; never touched from here.
    _host: Vec<AtomicUsize>,
}

impl<A: Core> Peer for Hosted<A> {
    type Local<'p>
        = Bare
    where
        A: 'p;

    fn new(frames: u32, _threads: u16) -> Self {
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
        // SAFETY: the only usable range is the host's, which `Host` maps to a buffer of its length, aligned for
        // the words of the bitmaps, that nobody else touches. The allocator isn't shared before this returns.
        let started = unsafe { allocator.try_init(0, end + host_bytes, &[usable]) };
        HOST.set(core::ptr::null_mut());
        assert!(started.is_ok(), "frame-alloc did not start: {started:?}");
        // SAFETY: started above; the range lies within the span, is reserved so far, and its frames are never
        // dereferenced by anybody, the allocator included: it keeps nothing in free frames.
        unsafe { allocator.add_usable(0, end) };
        Self {
            allocator,
            end: frames,
            bytes: host_bytes + size_of::<A>(),
            _host: host,
        }
    }

    fn local(&self, thread: u16) -> Bare {
        CPU.set(usize::from(thread));
        Bare::new()
    }

    #[inline]
    fn allocate(&self, _local: &mut Bare, order: Order) -> Option<Pfn> {
        let address = self.allocator.allocate_physical(FRAME, count(order)).ok()?;
        Some(Pfn((address / FRAME.bytes()) as u32))
    }

    #[inline]
    fn free(&self, _local: &mut Bare, block: Block) {
        // The one check that soundness needs: the peer takes an address as an index into its bitmaps.
        assert!(
            block.order <= Order::TEN && block.start.0 < self.end,
            "{block:?} was not allocated here"
        );
        let address = block.start.index() * FRAME.bytes();
        // SAFETY: by the contract of `Peer::free`, the block was allocated here with this order, that is with
        // this count, and is not used any more. Should that be wrong, bits within the bitmaps are (checked
        // above), and no frame is ever dereferenced.
        unsafe {
            self.allocator
                .deallocate_physical(FRAME, count(block.order), address);
        }
    }

    /// The bitmaps, in whole frames, and the allocator's own value, with the depot's caches.
    fn metadata_bytes(&self) -> Option<usize> {
        Some(self.bytes)
    }
}

#[inline]
fn count(order: Order) -> NonZeroUsize {
    // Never 0: an order is at most 18.
    NonZeroUsize::MIN.saturating_add(order.frames() as usize - 1)
}

/// Asks how many bytes the bitmaps need for frames up to `end` and for the frames that host them.
fn host_bytes<A: RegionInit>(allocator: &A, end: usize) -> usize {
    let mut bytes = FRAME.bytes();
    loop {
        // SAFETY: without a usable range there is nothing to own, and the start fails.
        let refused = unsafe { allocator.try_init(0, end + bytes, &[]) };
        match refused {
            Err(InitError::MetadataWontFit { required_bytes }) if required_bytes > bytes => {
                bytes = required_bytes;
            }
            Err(InitError::MetadataWontFit { .. }) => return bytes,
            other => panic!("frame-alloc did not say what its bitmaps need: {other:?}"),
        }
    }
}
