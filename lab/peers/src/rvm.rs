//! rvm-memory: its `BuddyAllocator`, behind a spin lock.
//!
//! Plain bitmaps, one per order, each searched word by word from its start. This peer shows what a buddy system costs
//! without free lists and without a summary.
//!
//! The number of frames must be a power of two that is known at compile time, so there are two sizes. Frames past the
//! requested number are allocated at the start, in as few blocks as possible. The peer detects a double free within a
//! free block, but not a double free of a block that is partly free.
//!
//! # Invariants
//! No frame past the last one is free in the peer.

use everybuddy::{Block, Index, Order};
use rvm_memory::{BuddyAllocator, PAGE_SIZE};
use rvm_types::PhysAddr;
use spin::Mutex;

use crate::stack::on_large_stack;
use crate::{Bare, Peer};

/// Frames of the small size: 1 GiB.
pub(crate) const SMALL: u32 = 1 << 18;
/// Frames of the large size: 4 GiB.
pub(crate) const LARGE: u32 = 1 << 20;

/// Words of all bitmaps: nearly two bits per frame.
const fn words(frames: u32) -> usize {
    frames as usize / 32
}

pub(crate) type RvmSmall = Rvm<{ SMALL as usize }, { words(SMALL) }>;
pub(crate) type RvmLarge = Rvm<{ LARGE as usize }, { words(LARGE) }>;

/// The adapter for rvm-memory.
pub(crate) struct Rvm<const FRAMES: usize, const WORDS: usize>(
    Mutex<Box<BuddyAllocator<FRAMES, WORDS>>>,
);

impl<const FRAMES: usize, const WORDS: usize> Rvm<FRAMES, WORDS> {
    /// Creates an allocator of `frames` free frames.
    pub(crate) fn new(frames: u32, _threads: u16) -> Self {
        let mut buddy =
            on_large_stack(
                size_of::<BuddyAllocator<FRAMES, WORDS>>(),
                || match BuddyAllocator::new(PhysAddr::new(0)) {
                    Ok(buddy) => Box::new(buddy),
                    Err(error) => panic!("rvm-memory failed to create {FRAMES} frames: {error:?}"),
                },
            );
        keep_first(&mut buddy, frames);
        Self(Mutex::new(buddy))
    }
}

impl<const FRAMES: usize, const WORDS: usize> Peer for Rvm<FRAMES, WORDS> {
    type Local<'p> = Bare;

    fn local(&self, _thread: u16) -> Bare {
        Bare::new()
    }

    #[inline]
    fn allocate(&self, _local: &mut Bare, order: Order) -> Option<Index> {
        // The peer itself rejects orders above 10.
        let address = self.0.lock().alloc_pages(order.index()).ok()?;
        Some(frame(address))
    }

    #[inline]
    fn free(&self, _local: &mut Bare, block: Block) {
        // Only a wrong free fails, and the benchmark does not study misuse.
        let _ = self
            .0
            .lock()
            .free_pages(address(block.start), block.order.index());
    }

    /// Returns the size of the value, which does not depend on the number of frames in use.
    fn metadata_bytes(&self) -> Option<usize> {
        Some(size_of::<BuddyAllocator<FRAMES, WORDS>>())
    }
}

#[inline]
fn frame(address: PhysAddr) -> Index {
    Index((address.as_u64() / PAGE_SIZE as u64) as u32)
}

#[inline]
fn address(frame: Index) -> PhysAddr {
    PhysAddr::new(u64::from(frame.0) * PAGE_SIZE as u64)
}

/// Allocates all frames from `frames` on: first every frame, then those before `frames` are freed again.
fn keep_first<const FRAMES: usize, const WORDS: usize>(
    buddy: &mut BuddyAllocator<FRAMES, WORDS>,
    frames: u32,
) {
    if frames as usize >= FRAMES {
        return;
    }
    while buddy.alloc_pages(Order::TEN.index()).is_ok() {}
    for block in Block::cover(Index(0), frames, Order::TEN) {
        let freed = buddy.free_pages(address(block.start), block.order.index());
        assert!(
            freed.is_ok(),
            "rvm-memory rejected the free of {block:?}: {freed:?}"
        );
    }
}
