//! bitmap-allocator behind a spin lock.
//!
//! Why it exists: no buddy system, but the smallest metadata, and single frames within a few dozen
//! instructions. It looks for larger blocks bit by bit.
//!
//! Invariant: bits past the last frame stay unavailable.

use bitmap_allocator::{BitAlloc, BitAlloc1M, BitAlloc16M};
use everybuddy::{Block, Order, Pfn};
use spin::Mutex;

use crate::stack::on_large_stack;
use crate::{Bare, Peer};

/// Up to 2^20 frames: 4 GiB.
pub(crate) type Bitmap1M = Bitmap<BitAlloc1M>;
/// Up to 2^24 frames: 64 GiB.
pub(crate) type Bitmap16M = Bitmap<BitAlloc16M>;

/// The peer.
pub(crate) struct Bitmap<B>(Mutex<Box<B>>);

impl<B: BitAlloc + Send> Peer for Bitmap<B> {
    type Local<'p>
        = Bare
    where
        B: 'p;

    fn new(frames: u32, _threads: u16) -> Self {
        let mut bits = on_large_stack(size_of::<B>(), || Box::new(B::DEFAULT));
        bits.insert(0..frames as usize);
        Self(Mutex::new(bits))
    }

    fn local(&self, _thread: u16) -> Bare {
        Bare::new()
    }

    #[inline]
    fn allocate(&self, _local: &mut Bare, order: Order) -> Option<Pfn> {
        if order > Order::TEN {
            return None;
        }
        let mut bits = self.0.lock();
        let start = if order == Order::ZERO {
            bits.alloc()
        } else {
            bits.alloc_contiguous(None, order.frames() as usize, order.index())
        };
        start.map(|start| Pfn(start as u32))
    }

    #[inline]
    fn free(&self, _local: &mut Bare, block: Block) {
        let mut bits = self.0.lock();
        // The peer tells whether the frames were allocated. A wrong free isn't the benchmark's subject, and
        // checking the answer would cost it time.
        if block.order == Order::ZERO {
            bits.dealloc(block.start.index());
        } else {
            bits.dealloc_contiguous(block.start.index(), block.order.frames() as usize);
        }
    }

    /// The size of the tree, which doesn't depend on the number of frames.
    fn metadata_bytes(&self) -> Option<usize> {
        Some(size_of::<B>())
    }
}
