//! The page allocator of buddy-slab-allocator, behind a spin lock.
//!
//! This is the published buddy system whose design is closest to Linux's and ours: free lists that are linked through
//! an array with one record per frame.
//!
//! The peer takes a region of memory, keeps its records at the front of it, and returns addresses in the rest, which
//! it never touches. Its page size is a parameter. Here a page is one byte, so that the dummy region is as small as
//! possible. The peer supports orders up to 20; requests here stop at order 10, as for all peers.
//!
//! # Invariants
//! From `init` on, only the peer touches the region, and the region neither moves nor is freed before the peer is
//! dropped.

#![allow(unsafe_code)]

use buddy_slab_allocator::BuddyAllocator;
use everybuddy::{Block, Index, Order};
use spin::Mutex;

use crate::{Bare, Peer};

/// Bytes per page. With one byte per page, addresses are frame numbers plus the start of the region.
const PAGE: usize = 1;
/// Bytes needed per frame: its record and its page.
const FRAME: usize = BuddyAllocator::<PAGE>::required_meta_size(PAGE) + PAGE;
/// A region size that is certainly large enough for the peer's header and a few frames.
const TRIAL: usize = 1024;

/// The adapter. Fields drop in order: the allocator before its region.
pub(crate) struct BuddySlab {
    allocator: Mutex<BuddyAllocator<PAGE>>,
    /// The address of frame 0.
    base: usize,
    bytes: usize,
    _region: Vec<u8>,
}

impl BuddySlab {
    /// Creates an allocator of `frames` free frames.
    pub(crate) fn new(frames: u32, _threads: u16) -> Self {
        let frames = frames as usize;
        let mut region = vec![0; TRIAL + frames * FRAME];
        let mut allocator = BuddyAllocator::new();
        // The peer does not report the size of its header. Starting it once on a small region reveals the size,
        // because every frame takes the same number of bytes.
        start(&mut allocator, &mut region[..TRIAL]);
        let fixed = TRIAL - allocator.total_pages() * FRAME;
        start(&mut allocator, &mut region[..fixed + frames * FRAME]);
        let base = allocator.section(0).map(|section| section.start);
        let (Some(base), true) = (base, allocator.total_pages() == frames) else {
            panic!(
                "buddy-slab-allocator manages {} frames, not {frames}",
                allocator.total_pages()
            );
        };
        Self {
            allocator: Mutex::new(allocator),
            base,
            bytes: fixed + frames * (FRAME - PAGE),
            _region: region,
        }
    }
}

impl Peer for BuddySlab {
    type Local<'p> = Bare;

    fn local(&self, _thread: u16) -> Bare {
        Bare::new()
    }

    #[inline]
    fn allocate(&self, _local: &mut Bare, order: Order) -> Option<Index> {
        if order > Order::TEN {
            return None;
        }
        // One page of alignment suffices: blocks are aligned to their size relative to frame 0 anyway.
        let address = self
            .allocator
            .lock()
            .alloc_pages(order.frames() as usize, PAGE)
            .ok()?;
        Some(Index((address - self.base) as u32))
    }

    #[inline]
    fn free(&self, _local: &mut Bare, block: Block) {
        self.allocator.lock().dealloc_pages(
            self.base + block.start.as_usize(),
            block.order.frames() as usize,
        );
    }

    /// Returns the bytes of the records (12 per frame) and of the region's header.
    fn metadata_bytes(&self) -> Option<usize> {
        Some(self.bytes)
    }
}

/// Restarts the allocator over the whole region.
fn start(allocator: &mut BuddyAllocator<PAGE>, region: &mut [u8]) {
    // SAFETY: the region is writable. It is part of a vector that is not read, written or resized afterwards. The
    // vector and the allocator are fields of one value, which drops the allocator first. Moving a vector does not
    // move its elements.
    let started = unsafe { allocator.init(region) };
    assert!(
        started.is_ok(),
        "buddy-slab-allocator rejected its region: {started:?}"
    );
}
