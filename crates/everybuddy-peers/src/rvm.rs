//! rvm-memory: its `BuddyAllocator`, behind a spin lock.
//!
//! Why it exists: a plain bitmap an order, searched word by word from its start: what the buddy system costs
//! without free lists and without a summary.
//!
//! Its number of frames is a power of two known to the compiler, so there are two sizes; frames past the last
//! one are taken out first, in the fewest blocks. Double frees within a free block are noticed, double frees of
//! a block of which a part is free are not.
//!
//! Invariant: no frame past the last one is free in the peer.

use everybuddy::{Block, Order, Pfn};
use rvm_memory::{BuddyAllocator, PAGE_SIZE};
use rvm_types::PhysAddr;
use spin::Mutex;

use crate::stack::on_large_stack;
use crate::{Bare, Peer};

/// Frames of the small size: 1 GiB.
pub(crate) const SMALL: u32 = 1 << 18;
/// Frames of the large size: 4 GiB.
pub(crate) const LARGE: u32 = 1 << 20;

/// Words of all bitmaps: nearly two bits a frame.
const fn words(frames: u32) -> usize {
    frames as usize / 32
}

pub(crate) type RvmSmall = Rvm<{ SMALL as usize }, { words(SMALL) }>;
pub(crate) type RvmLarge = Rvm<{ LARGE as usize }, { words(LARGE) }>;

/// The peer.
pub(crate) struct Rvm<const FRAMES: usize, const WORDS: usize>(
    Mutex<Box<BuddyAllocator<FRAMES, WORDS>>>,
);

impl<const FRAMES: usize, const WORDS: usize> Peer for Rvm<FRAMES, WORDS> {
    type Local<'p> = Bare;

    fn new(frames: u32, _threads: u16) -> Self {
        let mut buddy =
            on_large_stack(
                size_of::<BuddyAllocator<FRAMES, WORDS>>(),
                || match BuddyAllocator::new(PhysAddr::new(0)) {
                    Ok(buddy) => Box::new(buddy),
                    Err(error) => panic!("rvm-memory refused {FRAMES} frames: {error:?}"),
                },
            );
        keep_first(&mut buddy, frames);
        Self(Mutex::new(buddy))
    }

    fn local(&self, _thread: u16) -> Bare {
        Bare::new()
    }

    #[inline]
    fn allocate(&self, _local: &mut Bare, order: Order) -> Option<Pfn> {
        // The peer itself refuses orders above 10.
        let address = self.0.lock().alloc_pages(order.index()).ok()?;
        Some(frame(address))
    }

    #[inline]
    fn free(&self, _local: &mut Bare, block: Block) {
        // Only a wrong free fails, and that isn't the benchmark's subject.
        let _ = self
            .0
            .lock()
            .free_pages(address(block.start), block.order.index());
    }

    /// The size of the value, which doesn't depend on the number of frames in use.
    fn metadata_bytes(&self) -> Option<usize> {
        Some(size_of::<BuddyAllocator<FRAMES, WORDS>>())
    }
}

#[inline]
fn frame(address: PhysAddr) -> Pfn {
    Pfn((address.as_u64() / PAGE_SIZE as u64) as u32)
}

#[inline]
fn address(frame: Pfn) -> PhysAddr {
    PhysAddr::new(u64::from(frame.0) * PAGE_SIZE as u64)
}

/// Takes out all frames from `frames` on: all of them, then back those before.
fn keep_first<const FRAMES: usize, const WORDS: usize>(
    buddy: &mut BuddyAllocator<FRAMES, WORDS>,
    frames: u32,
) {
    if frames as usize >= FRAMES {
        return;
    }
    while buddy.alloc_pages(Order::TEN.index()).is_ok() {}
    for block in Block::cover(Pfn(0), frames, Order::TEN) {
        let freed = buddy.free_pages(address(block.start), block.order.index());
        assert!(
            freed.is_ok(),
            "rvm-memory refused {block:?} back: {freed:?}"
        );
    }
}
