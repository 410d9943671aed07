//! buddy-slab-allocator: its page allocator, behind a spin lock.
//!
//! Why it exists: the published buddy system that is built most like Linux's and ours: free lists linked
//! through an array with a record a frame.
//!
//! It wants a region of memory, keeps its records at the front of it and hands out addresses in the rest,
//! which it never touches. Its page size is a parameter, so a page is one byte here and the dummy region is no
//! larger than it must be. Its orders go to 20; requests to 10 here, as everywhere.
//!
//! Invariant: the region is touched by nobody but the peer from `init` on, and neither moves nor ends before
//! the peer does.

#![allow(unsafe_code)]

use buddy_slab_allocator::BuddyAllocator;
use everybuddy::{Block, Order, Pfn};
use spin::Mutex;

use crate::{Bare, Peer};

/// Bytes of a page: addresses are frame numbers then, but for the region's start.
const PAGE: usize = 1;
/// Bytes that a frame costs: its record and its page.
const FRAME: usize = BuddyAllocator::<PAGE>::required_meta_size(PAGE) + PAGE;
/// A region that certainly has room for the peer's header and some frames.
const TRIAL: usize = 1024;

/// The peer. Fields drop in order: the allocator before its region.
pub(crate) struct BuddySlab {
    allocator: Mutex<BuddyAllocator<PAGE>>,
    /// The address of frame 0.
    base: usize,
    bytes: usize,
    _region: Vec<u8>,
}

impl Peer for BuddySlab {
    type Local<'p> = Bare;

    fn new(frames: u32, _threads: u16) -> Self {
        let frames = frames as usize;
        let mut region = vec![0; TRIAL + frames * FRAME];
        let mut allocator = BuddyAllocator::new();
        // How large its header is it doesn't say, but a trial does: each frame takes the same bytes.
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

    fn local(&self, _thread: u16) -> Bare {
        Bare::new()
    }

    #[inline]
    fn allocate(&self, _local: &mut Bare, order: Order) -> Option<Pfn> {
        if order > Order::TEN {
            return None;
        }
        // Alignment of one page: blocks are aligned to their size relative to frame 0 anyway.
        let address = self
            .allocator
            .lock()
            .alloc_pages(order.frames() as usize, PAGE)
            .ok()?;
        Some(Pfn((address - self.base) as u32))
    }

    #[inline]
    fn free(&self, _local: &mut Bare, block: Block) {
        self.allocator.lock().dealloc_pages(
            self.base + block.start.index(),
            block.order.frames() as usize,
        );
    }

    /// A record of 12 bytes a frame and the header of the region.
    fn metadata_bytes(&self) -> Option<usize> {
        Some(self.bytes)
    }
}

/// Starts the allocator anew over the whole region.
fn start(allocator: &mut BuddyAllocator<PAGE>, region: &mut [u8]) {
    // SAFETY: the region is writable. It is part of a vector that is neither read, written nor resized after,
    // and that lives beside the allocator in one value, whose fields drop in order: the allocator first.
    // Moving a vector doesn't move its elements.
    let started = unsafe { allocator.init(region) };
    assert!(
        started.is_ok(),
        "buddy-slab-allocator refused its region: {started:?}"
    );
}
