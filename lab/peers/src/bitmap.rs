//! bitmap-allocator behind a spin lock.
//!
//! Not a buddy system, but the peer with the least metadata, and one that serves a single frame in a few dozen
//! instructions. It searches for larger blocks bit by bit.
//!
//! # Invariants
//! Bits past the last frame stay unavailable.

use bitmap_allocator::{BitAlloc, BitAlloc1M, BitAlloc16M};
use everybuddy::{Block, Index, Order};
use spin::Mutex;

use crate::stack::on_large_stack;
use crate::{Bare, Peer};

/// Up to 2^20 frames: 4 GiB.
pub(crate) type Bitmap1M = Bitmap<BitAlloc1M>;
/// Up to 2^24 frames: 64 GiB.
pub(crate) type Bitmap16M = Bitmap<BitAlloc16M>;

/// The adapter for bitmap-allocator.
pub(crate) struct Bitmap<B>(Mutex<Box<B>>);

impl<B: BitAlloc + Send> Bitmap<B> {
    /// Creates an allocator of `frames` free frames.
    pub(crate) fn new(frames: u32, _threads: u16) -> Self {
        let mut bits = on_large_stack(size_of::<B>(), || Box::new(B::DEFAULT));
        bits.insert(0..frames as usize);
        Self(Mutex::new(bits))
    }
}

impl<B: BitAlloc + Send> Peer for Bitmap<B> {
    type Local<'p>
        = Bare
    where
        B: 'p;

    fn local(&self, _thread: u16) -> Bare {
        Bare::new()
    }

    #[inline]
    fn allocate(&self, _local: &mut Bare, order: Order) -> Option<Index> {
        if order > Order::TEN {
            return None;
        }
        let mut bits = self.0.lock();
        let start = if order == Order::ZERO {
            bits.alloc()
        } else {
            bits.alloc_contiguous(None, order.frames() as usize, order.index())
        };
        start.map(|start| Index(start as u32))
    }

    #[inline]
    fn free(&self, _local: &mut Bare, block: Block) {
        let mut bits = self.0.lock();
        // The peer reports whether the frames were allocated. The benchmark does not study misuse, and checking the
        // result would distort the peer's time.
        if block.order == Order::ZERO {
            bits.dealloc(block.start.as_usize());
        } else {
            bits.dealloc_contiguous(block.start.as_usize(), block.order.frames() as usize);
        }
    }

    /// Returns the size of the tree, which does not depend on the number of frames.
    fn metadata_bytes(&self) -> Option<usize> {
        Some(size_of::<B>())
    }
}
