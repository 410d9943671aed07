//! offset-allocator behind a spin lock.
//!
//! Why it exists: a published sub-allocator that keeps its records outside of what it manages; not
//! a buddy system, but O(1), and it merges neighbours of any size.
//!
//! It aligns nothing, so it serves order 0 only. It frees by a handle, not by an address; the handles are kept
//! here in a table by frame, under the same lock, as its users would have to.
//!
//! Invariant: the table holds a handle for exactly the frames that are allocated.

use everybuddy::{Block, Order, Pfn};
use offset_allocator::{Allocation, Allocator};
use spin::Mutex;

use crate::{Bare, Peer};

/// The peer.
pub(crate) struct Offset(Mutex<State>);

struct State {
    allocator: Allocator<u32>,
    handles: Vec<Option<Allocation<u32>>>,
}

impl Peer for Offset {
    type Local<'p> = Bare;

    fn new(frames: u32, _threads: u16) -> Self {
        Self(Mutex::new(State {
            // A node a frame at worst, one for the rest, and two that the peer leaves unused.
            allocator: Allocator::with_max_allocs(frames, frames.saturating_add(3)),
            handles: vec![None; frames as usize],
        }))
    }

    fn local(&self, _thread: u16) -> Bare {
        Bare::new()
    }

    #[inline]
    fn allocate(&self, _local: &mut Bare, order: Order) -> Option<Pfn> {
        if order != Order::ZERO {
            return None;
        }
        let state = &mut *self.0.lock();
        let allocation = state.allocator.allocate(1)?;
        let frame = Pfn(allocation.offset);
        state.handles[frame.index()] = Some(allocation);
        Some(frame)
    }

    #[inline]
    fn free(&self, _local: &mut Bare, block: Block) {
        let state = &mut *self.0.lock();
        if let Some(allocation) = state.handles[block.start.index()].take() {
            state.allocator.free(allocation);
        }
    }

    /// Not claimed: by its source a node of 28 bytes and a stack entry of 4 a frame, but both are private. The
    /// table of handles adds 8.
    fn metadata_bytes(&self) -> Option<usize> {
        None
    }
}
