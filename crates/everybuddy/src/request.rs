//! Requests and frees, and what a caller may know about them.
//!
//! The papers predict runs of requests from what a kernel knows at a fault or an unmap. Every request *and* every
//! free carries hints, so that a system that uses them needs no other interface. [`Hint::NONE`] costs nothing: a
//! system that ignores hints never reads them.
//!
//! # Invariants
//! Hints and flags change speed, waiting and the place of a block, never the meaning of a request.

use core::fmt;

use crate::frame::{Block, Frames, Index, Order};

/// The size of a request or a free.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Size {
    /// A block of 2^order frames.
    Order(Order),
    /// Exactly this number of frames, in one run.
    Frames(Frames),
}

/// What the caller knows about a request or a free. Its layout is that of C, in which kernels pass it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[repr(C)]
pub struct Hint {
    /// The task, or [`Hint::UNKNOWN`].
    pub task: u32,
    /// The address region (a mapping) that the frame is for or comes from, or [`Hint::UNKNOWN`].
    pub region: u32,
    /// Frames that are left in that region in this direction, or [`Hint::UNKNOWN`].
    pub left: u32,
}

impl Hint {
    /// A value that the caller does not know.
    pub const UNKNOWN: u32 = u32::MAX;
    /// A hint in which nothing is known.
    pub const NONE: Hint = Hint {
        task: Self::UNKNOWN,
        region: Self::UNKNOWN,
        left: Self::UNKNOWN,
    };

    /// Returns task and region in one word. They distinguish runs of requests.
    #[inline(always)]
    pub(crate) const fn origin(self) -> u64 {
        self.task as u64 | (self.region as u64) << 32
    }

    /// Returns the number of frames that are left of the region after this one, or 0 if it is unknown.
    #[inline]
    pub(crate) const fn after(self) -> u32 {
        match self.left {
            Self::UNKNOWN => 0,
            left => left.saturating_sub(1),
        }
    }

    /// Creates a hint from the pieces in which it was passed on.
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

/// What the caller knows about the mobility and the lifetime of its frames.
///
/// A frame that stays prevents the blocks around it from becoming whole. A system may therefore keep frames of one
/// class together. The first three values are those of the column `migratetype` of traces.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord, Default)]
#[repr(u8)]
pub enum Class {
    /// Stays where it is until it is freed: most memory of a kernel. The class of a request that names none.
    #[default]
    Unmovable = 0,
    /// Can be moved to another frame: memory of processes, and files in memory.
    Movable = 1,
    /// Stays where it is, but is freed when memory is short: caches of a kernel.
    Reclaimable = 2,
    /// Is never freed.
    NeverFreed = 3,
}

impl Class {
    /// All classes, by value.
    pub const ALL: [Class; 4] = [
        Class::Unmovable,
        Class::Movable,
        Class::Reclaimable,
        Class::NeverFreed,
    ];

    /// Returns the class with a value, if there is one.
    pub const fn from_value(value: u8) -> Option<Class> {
        match value {
            0..4 => Some(Class::ALL[value as usize]),
            _ => None,
        }
    }
}

/// The type of a page block: what its free frames are for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u8)]
pub enum BlockType {
    /// Frames that can be moved. All page blocks at first.
    Movable = 0,
    /// Frames that stay.
    Unmovable = 1,
    /// Frames that stay, but are freed when memory is short.
    Reclaimable = 2,
    /// Frames of several classes. The page block had one type before, and no other page block could serve a request.
    Mixed = 3,
}

impl fmt::Display for BlockType {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(match self {
            Self::Movable => "movable",
            Self::Unmovable => "unmovable",
            Self::Reclaimable => "reclaimable",
            Self::Mixed => "mixed",
        })
    }
}

impl BlockType {
    /// All types, by value.
    pub const ALL: [BlockType; 4] = [
        BlockType::Movable,
        BlockType::Unmovable,
        BlockType::Reclaimable,
        BlockType::Mixed,
    ];

    /// Returns the type of page block that a class prefers.
    pub const fn of(class: Class) -> Self {
        match class {
            Class::Movable => Self::Movable,
            Class::Reclaimable => Self::Reclaimable,
            Class::Unmovable | Class::NeverFreed => Self::Unmovable,
        }
    }
}

/// Restrictions of a request, and its class.
///
/// # Examples
/// ```
/// use everybuddy::{Class, Flags, Request};
///
/// let request = Request::FRAME.with_class(Class::Movable).with_flags(Flags::NO_WAIT);
/// assert_eq!(request.flags.class(), Class::Movable);
/// assert!(request.flags.contains(Flags::NO_WAIT));
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Default)]
pub struct Flags(u8);

impl Flags {
    /// No restriction, and the class [`Class::Unmovable`].
    pub const NONE: Flags = Flags(0);
    /// Does not wait for other CPUs to drain their lists. If any list caches frames, or another CPU is not parked and
    /// may free into its list, the request fails as [`Busy`](crate::AllocateError::Busy) instead. `everybuddy`
    /// remembers refusals: until something is freed, such a request is
    /// [`Exhausted`](crate::AllocateError::Exhausted).
    pub const NO_WAIT: Flags = Flags(1);

    /// The two bits of the class.
    const CLASS: u8 = 3 << Self::CLASS_SHIFT;
    const CLASS_SHIFT: u8 = 1;

    /// Returns `true` if all restrictions of `flags` are set. Classes are not compared.
    #[inline]
    pub const fn contains(self, flags: Flags) -> bool {
        let restrictions = flags.0 & !Self::CLASS;
        self.0 & restrictions == restrictions
    }

    /// Returns the bits, in which layers of other languages and arrays of requests store flags.
    #[inline]
    pub const fn bits(self) -> u8 {
        self.0
    }

    /// Returns the flags with these bits. Unknown bits mean nothing.
    #[inline]
    pub const fn from_bits(bits: u8) -> Flags {
        Flags(bits)
    }

    /// Returns the class of the request.
    #[inline]
    pub const fn class(self) -> Class {
        // Not an index of `Class::ALL`, since compilers read that table instead of using the two bits as they are.
        match self.0 >> Self::CLASS_SHIFT & 3 {
            0 => Class::Unmovable,
            1 => Class::Movable,
            2 => Class::Reclaimable,
            _ => Class::NeverFreed,
        }
    }

    /// Returns the same restrictions with another class.
    #[must_use]
    #[inline]
    pub const fn with_class(self, class: Class) -> Flags {
        Flags(self.0 & !Self::CLASS | (class as u8) << Self::CLASS_SHIFT)
    }
}

/// A request for frames.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Request {
    /// The size.
    pub size: Size,
    /// What the caller knows.
    pub hint: Hint,
    /// The restrictions.
    pub flags: Flags,
}

impl Request {
    /// Requests a single frame.
    pub const FRAME: Request = Request::order(Order::ZERO);

    /// Requests a block of 2^order frames, aligned to its size.
    #[inline]
    pub const fn order(order: Order) -> Request {
        Request {
            size: Size::Order(order),
            hint: Hint::NONE,
            flags: Flags::NONE,
        }
    }

    /// Requests exactly `frames` frames in one run. The run starts at a multiple of the next power of two. The rest
    /// of that block stays free.
    #[inline]
    pub const fn frames(frames: u32) -> Request {
        Request {
            size: Size::Frames(Frames(frames)),
            hint: Hint::NONE,
            flags: Flags::NONE,
        }
    }

    /// Adds what the caller knows.
    #[must_use]
    #[inline]
    pub const fn with_hint(self, hint: Hint) -> Request {
        Request { hint, ..self }
    }

    /// Adds restrictions. The class stays as it is.
    #[must_use]
    #[inline]
    pub const fn with_flags(self, flags: Flags) -> Request {
        Request {
            flags: Flags(self.flags.0 | flags.0 & !Flags::CLASS),
            ..self
        }
    }

    /// Sets the class.
    #[must_use]
    #[inline]
    pub const fn with_class(self, class: Class) -> Request {
        Request {
            flags: self.flags.with_class(class),
            ..self
        }
    }
}

/// A free: the frames to be freed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Release {
    /// The first frame.
    pub start: Index,
    /// The size. By order: exactly a block that was allocated with that order (or the piece of that order that a
    /// partial free left). By frames: any run of allocated frames.
    pub size: Size,
    /// What the caller knows.
    pub hint: Hint,
}

impl Release {
    /// Frees a single frame that was allocated as such.
    #[inline]
    pub const fn frame(start: Index) -> Release {
        Release {
            start,
            size: Size::Order(Order::ZERO),
            hint: Hint::NONE,
        }
    }

    /// Frees a whole block, by the order that it was allocated with.
    #[inline]
    pub const fn block(block: Block) -> Release {
        Release {
            start: block.start,
            size: Size::Order(block.order),
            hint: Hint::NONE,
        }
    }

    /// Frees a run of frames: an exact allocation, or any part of any allocation. A single one that was allocated as
    /// such is freed as by [`frame`](Self::frame).
    #[inline]
    pub const fn frames(start: Index, frames: u32) -> Release {
        Release {
            start,
            size: Size::Frames(Frames(frames)),
            hint: Hint::NONE,
        }
    }

    /// Adds what the caller knows.
    #[must_use]
    #[inline]
    pub const fn with_hint(self, hint: Hint) -> Release {
        Release { hint, ..self }
    }
}
