//! buddy_system_allocator: its `LockedFrameAllocator`.
//!
//! Why it exists: the most used published allocator of frames in Rust, and a plain buddy system: the one that
//! ours without a list has to beat everywhere.
//!
//! Its free blocks are nodes of a `BTreeSet` an order, on the heap, so its metadata grows and shrinks with
//! fragmentation. Built with orders 0 to 10, as our systems are by default.
//!
//! Invariant: an order that the peer wasn't built with never reaches it (it would index past its lists).

use buddy_system_allocator::LockedFrameAllocator;
use everybuddy::{Block, Order, Pfn};

use crate::{Bare, Peer};

const ORDERS: usize = Order::TEN.index() + 1;

/// The peer.
pub(crate) struct BuddySystem(LockedFrameAllocator<ORDERS>);

impl Peer for BuddySystem {
    type Local<'p> = Bare;

    fn new(frames: u32, _threads: u16) -> Self {
        let allocator = LockedFrameAllocator::new();
        allocator.lock().add_frame(0, frames as usize);
        Self(allocator)
    }

    fn local(&self, _thread: u16) -> Bare {
        Bare::new()
    }

    #[inline]
    fn allocate(&self, _local: &mut Bare, order: Order) -> Option<Pfn> {
        if order > Order::TEN {
            return None;
        }
        let start = self.0.lock().alloc(order.frames() as usize)?;
        Some(Pfn(start as u32))
    }

    #[inline]
    fn free(&self, _local: &mut Bare, block: Block) {
        self.0
            .lock()
            .dealloc(block.start.index(), block.order.frames() as usize);
    }
}
