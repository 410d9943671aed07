//! Requests and releases, and what a caller may know about them.
//!
//! Why it exists: the papers predict runs of requests from what a kernel knows at a fault or an unmap.
//! Hints travel with every request *and* every release from the first version on, so that a system that
//! uses them needs no other interface. [`Hint::NONE`] costs nothing: a system that ignores hints never
//! reads them.
//!
//! Invariant: hints and flags change speed and waiting, never what a request means.

use crate::frame::{Block, Frames, Order, Pfn};

/// How much is asked for or given back.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Size {
    /// A block of 2^order frames.
    Order(Order),
    /// Exactly so many frames, in one run.
    Frames(Frames),
}

/// What the caller knows about a request or a release.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Hint {
    /// The task, or [`Hint::UNKNOWN`].
    pub task: u32,
    /// The address region (a mapping) that the frame is for or comes from, or [`Hint::UNKNOWN`].
    pub region: u32,
    /// Frames that are left in that region in this direction, or [`Hint::UNKNOWN`].
    pub left: u32,
}

impl Hint {
    /// Stands for a value that the caller doesn't know.
    pub const UNKNOWN: u32 = u32::MAX;
    /// Nothing is known.
    pub const NONE: Hint = Hint {
        task: Self::UNKNOWN,
        region: Self::UNKNOWN,
        left: Self::UNKNOWN,
    };

    /// Returns task and region, which tell runs of requests apart, in one word.
    #[inline(always)]
    pub(crate) const fn origin(self) -> u64 {
        self.task as u64 | (self.region as u64) << 32
    }

    /// Returns the frames that are left of the region after this one; 0 if that isn't known.
    #[inline]
    pub(crate) const fn after(self) -> u32 {
        match self.left {
            Self::UNKNOWN => 0,
            left => left.saturating_sub(1),
        }
    }

    /// Puts a hint together again that was passed on in pieces.
    #[inline(always)]
    pub(crate) const fn of(origin: u64, left: u32) -> Hint {
        Hint {
            task: origin as u32,
            region: (origin >> 32) as u32,
            left,
        }
    }
}

impl Default for Hint {
    fn default() -> Self {
        Self::NONE
    }
}

/// How far a request may go.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Default)]
pub struct Flags(u8);

impl Flags {
    /// No restriction.
    pub const NONE: Flags = Flags(0);
    /// Doesn't wait for other CPUs to give back what they buffer: fails as
    /// [`Busy`](crate::AllocateError::Busy) instead, if anybody buffers at all.
    pub const NO_WAIT: Flags = Flags(1);

    /// Tells whether all of `flags` are set.
    #[inline]
    pub const fn contains(self, flags: Flags) -> bool {
        self.0 & flags.0 == flags.0
    }
}

/// Asks for frames.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Request {
    /// How much.
    pub size: Size,
    /// What the caller knows.
    pub hint: Hint,
    /// How far to go.
    pub flags: Flags,
}

impl Request {
    /// Asks for a single frame.
    pub const FRAME: Request = Request::order(Order::ZERO);

    /// Asks for a block of 2^order frames, aligned to its size.
    #[inline]
    pub const fn order(order: Order) -> Request {
        Request {
            size: Size::Order(order),
            hint: Hint::NONE,
            flags: Flags::NONE,
        }
    }

    /// Asks for exactly `frames` frames in one run. The run starts at a multiple of the next power of
    /// two; what that block holds beyond the run stays free.
    #[inline]
    pub const fn frames(frames: u32) -> Request {
        Request {
            size: Size::Frames(Frames(frames)),
            hint: Hint::NONE,
            flags: Flags::NONE,
        }
    }

    /// Adds what the caller knows.
    #[inline]
    pub const fn with_hint(self, hint: Hint) -> Request {
        Request { hint, ..self }
    }

    /// Restricts how far to go.
    #[inline]
    pub const fn with_flags(self, flags: Flags) -> Request {
        Request { flags, ..self }
    }
}

/// Gives frames back.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Release {
    /// The first frame.
    pub start: Pfn,
    /// How much. By order: exactly a block that was allocated by that order (or the piece of that order
    /// that a partial free left). By frames: any run of allocated frames.
    pub size: Size,
    /// What the caller knows.
    pub hint: Hint,
}

impl Release {
    /// Gives back a single frame that was allocated as such.
    #[inline]
    pub const fn frame(start: Pfn) -> Release {
        Release {
            start,
            size: Size::Order(Order::ZERO),
            hint: Hint::NONE,
        }
    }

    /// Gives back a whole block, by the order that it was allocated with.
    #[inline]
    pub const fn block(block: Block) -> Release {
        Release {
            start: block.start,
            size: Size::Order(block.order),
            hint: Hint::NONE,
        }
    }

    /// Gives back a run of frames: an exact allocation, or any part of any allocation.
    #[inline]
    pub const fn frames(start: Pfn, frames: u32) -> Release {
        Release {
            start,
            size: Size::Frames(Frames(frames)),
            hint: Hint::NONE,
        }
    }

    /// Adds what the caller knows.
    #[inline]
    pub const fn with_hint(self, hint: Hint) -> Release {
        Release { hint, ..self }
    }
}
