//! What only some systems store: lists, parts of memory and who has them, classes, queues.
//!
//! A picture of a system shows more than which frames are free. [`inspect`](crate::FrameAllocator::inspect) passes the
//! rest to a drawing program, in the same form for all systems.
//!
//! # Invariants
//! Reading changes nothing and takes no lock, so no other CPU may work meanwhile.

use crate::frame::{Index, Order};
use crate::platform::CpuId;
use crate::probe::Queue;

/// Something that a system stores.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Detail {
    /// A range of memory with a free area of its own: a buddy space, or a tree.
    Part {
        /// Its number.
        part: u32,
        /// The first frame.
        start: Index,
        /// The number of frames.
        frames: u32,
    },
    /// A CPU allocates from this part: its buddy space, its domain, or a tree that it owns.
    Assigned {
        /// The CPU.
        cpu: CpuId,
        /// The number of the part.
        part: u32,
    },
    /// A free block in the list of an order; with iBuddy, a free frame. The elements of a list follow each other in its
    /// order if the system keeps lists, otherwise by address.
    Listed {
        /// The part of memory, or the domain; 0 if there is only one.
        part: u32,
        /// The order.
        order: Order,
        /// The first frame.
        head: Index,
        /// Whether it is locally free: its coalescing is delayed.
        is_local: bool,
    },
    /// A class of blocks whose coalescing is delayed.
    Class {
        /// The part of memory.
        part: u32,
        /// The order.
        order: Order,
        /// How many blocks exist, allocated ones included.
        total: u32,
        /// How many are locally free.
        local: u32,
        /// How many are globally free.
        global: u32,
        /// The slack by which DELAY-2 decides.
        slack: u32,
    },
    /// Frames that wait for a service.
    Waiting {
        /// The queue.
        queue: Queue,
        /// The first frame.
        start: Index,
        /// The number of frames.
        frames: u32,
    },
}
