//! The `LockedFrameAllocator` of buddy_system_allocator.
//!
//! This is the most widely used published frame allocator in Rust, and a plain buddy system. Our systems without
//! per-CPU lists should beat it everywhere.
//!
//! Its free blocks are nodes of one `BTreeSet` per order, on the heap, so its metadata grows and shrinks with
//! fragmentation. It is built with orders 0 to 10, the default of our systems.
//!
//! # Invariants
//! The peer never receives an order that it was not built with (it would index past its lists).

use buddy_system_allocator::LockedFrameAllocator;
use everybuddy::{Block, Index, Order};

use crate::{Bare, Peer};

const ORDERS: usize = Order::TEN.index() + 1;

/// The adapter for buddy_system_allocator.
pub(crate) struct BuddySystem(LockedFrameAllocator<ORDERS>);

impl BuddySystem {
    /// Creates an allocator of `frames` free frames.
    pub(crate) fn new(frames: u32, _threads: u16) -> Self {
        let allocator = LockedFrameAllocator::new();
        allocator.lock().add_frame(0, frames as usize);
        Self(allocator)
    }
}

impl Peer for BuddySystem {
    type Local<'p> = Bare;

    fn local(&self, _thread: u16) -> Bare {
        Bare::new()
    }

    #[inline]
    fn allocate(&self, _local: &mut Bare, order: Order) -> Option<Index> {
        if order > Order::TEN {
            return None;
        }
        let start = self.0.lock().alloc(order.frames() as usize)?;
        Some(Index(start as u32))
    }

    #[inline]
    fn free(&self, _local: &mut Bare, block: Block) {
        self.0
            .lock()
            .dealloc(block.start.as_usize(), block.order.frames() as usize);
    }
}
