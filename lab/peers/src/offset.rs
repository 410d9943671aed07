//! offset-allocator behind a spin lock.
//!
//! A published sub-allocator that stores its records outside the memory that it manages. It is not a buddy system,
//! but it takes O(1) time and merges neighbours of any size.
//!
//! The peer does not align blocks, so it serves order 0 only. It frees by handle, not by address. The adapter
//! therefore keeps the handles in a table indexed by frame, under the same lock, as users of the crate would have to.
//!
//! # Invariants
//! The table contains a handle for exactly the frames that are allocated.

use everybuddy::{Block, Index, Order};
use offset_allocator::{Allocation, Allocator};
use spin::Mutex;

use crate::{Bare, Peer};

/// The adapter for offset-allocator.
pub(crate) struct Offset(Mutex<State>);

struct State {
    allocator: Allocator<u32>,
    handles: Vec<Option<Allocation<u32>>>,
}

impl Offset {
    /// Creates an allocator of `frames` free frames.
    pub(crate) fn new(frames: u32, _threads: u16) -> Self {
        Self(Mutex::new(State {
            // At worst one node per frame, one for the rest, and two that the peer leaves unused.
            allocator: Allocator::with_max_allocs(frames, frames.saturating_add(3)),
            handles: vec![None; frames as usize],
        }))
    }
}

impl Peer for Offset {
    type Local<'p> = Bare;

    fn local(&self, _thread: u16) -> Bare {
        Bare::new()
    }

    #[inline]
    fn allocate(&self, _local: &mut Bare, order: Order) -> Option<Index> {
        if order != Order::ZERO {
            return None;
        }
        let state = &mut *self.0.lock();
        let allocation = state.allocator.allocate(1)?;
        let frame = Index(allocation.offset);
        state.handles[frame.as_usize()] = Some(allocation);
        Some(frame)
    }

    #[inline]
    fn free(&self, _local: &mut Bare, block: Block) {
        let state = &mut *self.0.lock();
        if let Some(allocation) = state.handles[block.start.as_usize()].take() {
            state.allocator.free(allocation);
        }
    }

    /// Returns `None`. By the crate's source, a frame takes a node of 28 bytes and a stack entry of 4 bytes, but both
    /// types are private. The table of handles adds 8 bytes.
    fn metadata_bytes(&self) -> Option<usize> {
        None
    }
}
