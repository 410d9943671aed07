//! The state of an allocator's memory at a moment.
//!
//! Fragmentation and memory maps are computed from these numbers in the same way for every system.
//!
//! # Invariants
//! `free_frames` is the sum of the blocks in the zone layer. It does not include buffered frames.

use core::fmt;

use crate::frame::{Index, Order};
use crate::platform::CpuId;
use crate::request::BlockType;

/// Numbers of blocks, by order.
pub(crate) type BlocksByOrder = [u32; Order::LIMIT.index() + 1];

/// Free memory at a moment.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Snapshot {
    /// Free blocks in the zone layer, by order.
    pub free_blocks: BlocksByOrder,
    /// Frames that per-CPU lists and other buffers hold. A hint while other CPUs work.
    pub buffered_frames: u64,
    /// The number of parts into which free memory is divided. Blocks split and coalesce within one part, never across
    /// two. 1 for one zone, the number of spaces for spaces, the number of domains for elastic domains.
    pub domains: u32,
    /// The page blocks by the value of their [`BlockType`]; none if the system's page blocks have no types.
    pub page_blocks: [PageBlocks; BlockType::ALL.len()],
}

/// The page blocks of one type.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct PageBlocks {
    /// How many there are. Those that consist of holes count too.
    pub blocks: u32,
    /// The free frames in them.
    pub free_frames: u64,
}

impl Snapshot {
    /// No memory.
    pub(crate) const NONE: Snapshot = Snapshot {
        free_blocks: [0; Order::LIMIT.index() + 1],
        buffered_frames: 0,
        domains: 0,
        page_blocks: [PageBlocks {
            blocks: 0,
            free_frames: 0,
        }; BlockType::ALL.len()],
    };

    /// Memory in one part, with this number of free blocks of each order.
    pub(crate) const fn of_blocks(free_blocks: BlocksByOrder) -> Self {
        Self {
            free_blocks,
            domains: 1,
            ..Self::NONE
        }
    }

    /// Adds the snapshot of another part of memory.
    pub(crate) fn add(&mut self, other: &Snapshot) {
        for (blocks, more) in self.free_blocks.iter_mut().zip(other.free_blocks) {
            *blocks += more;
        }
        self.buffered_frames += other.buffered_frames;
        self.domains += other.domains;
        for (here, there) in self.page_blocks.iter_mut().zip(other.page_blocks) {
            here.blocks += there.blocks;
            here.free_frames += there.free_frames;
        }
    }

    /// Returns the free frames of the zone layer.
    pub fn free_frames(&self) -> u64 {
        self.usable_frames(Order::ZERO)
    }

    /// Returns the free frames that lie in blocks of at least `order`.
    pub fn usable_frames(&self, order: Order) -> u64 {
        Order::up_to(Order::LIMIT)
            .zip(self.free_blocks)
            .filter(|(o, _)| *o >= order)
            .map(|(o, blocks)| u64::from(blocks) * u64::from(o.frames()))
            .sum()
    }

    /// Returns how many blocks of `order` could be allocated, including those inside larger blocks.
    pub fn available_blocks(&self, order: Order) -> u64 {
        self.usable_frames(order) / u64::from(order.frames())
    }

    /// Returns the unusable free space index: the share of free frames that could not serve a request of `order`,
    /// from 0 to 1. It is 0 if nothing is free. Buffered frames count as free and unusable.
    ///
    /// Spring Buddy (Cai and others) uses it at the largest order as its fragmentation rate.
    pub fn unusable_index(&self, order: Order) -> f64 {
        let free = self.free_frames() + self.buffered_frames;
        if free == 0 {
            0.0
        } else {
            1.0 - self.usable_frames(order) as f64 / free as f64
        }
    }
}

/// The use of a frame.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum FrameState {
    /// No memory exists at this frame number.
    Hole,
    /// Memory that is never allocated.
    Reserved,
    /// Part of an allocated block.
    Allocated {
        /// The block's first frame.
        head: Index,
        /// The block's order.
        order: Order,
    },
    /// Part of a block that a CPU's list caches.
    Buffered {
        /// The CPU.
        cpu: CpuId,
        /// The block's order.
        order: Order,
    },
    /// Part of a free block.
    Free {
        /// The block's first frame.
        head: Index,
    },
    /// Free, but in a queue of a system whose services divide and link.
    Queued,
}

/// The number of frames in each state.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Census {
    /// Frames in free blocks of the zone layer.
    pub free: u64,
    /// Frames in per-CPU lists.
    pub buffered: u64,
    /// Frames that wait in queues, or that services process.
    pub queued: u64,
    /// Allocated frames.
    pub allocated: u64,
    /// Reserved frames.
    pub reserved: u64,
    /// Frame numbers without memory.
    pub holes: u64,
}

impl Census {
    /// Adds the census of another part of memory.
    pub(crate) fn add(&mut self, other: &Census) {
        let Census {
            free,
            buffered,
            queued,
            allocated,
            reserved,
            holes,
        } = other;
        self.free += free;
        self.buffered += buffered;
        self.queued += queued;
        self.allocated += allocated;
        self.reserved += reserved;
        self.holes += holes;
    }
}

/// An invariant that does not hold.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Violation {
    /// The frame where it was detected.
    pub index: Index,
    /// A description of the violation.
    pub what: &'static str,
}

impl Violation {
    /// A violation that concerns no frame in particular.
    pub(crate) fn overall(what: &'static str) -> Self {
        let index = Index(0);
        Self { index, what }
    }
}

impl fmt::Display for Violation {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}: {}", self.index, self.what)
    }
}

impl core::error::Error for Violation {}
