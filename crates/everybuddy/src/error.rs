//! Errors.
//!
//! Misuse of an allocator is a bug of the caller that must not become a bug of the allocator. Every error leaves the
//! state as it was.
//!
//! # Invariants
//! Errors are `Copy` and contain no text. A result of a frame number or an error fits a register.

use core::fmt;

use crate::frame::{Index, Order, Pfn};

/// The reason why an allocation failed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum AllocateError {
    /// No block of that size is free, neither in the zone nor in any CPU's list. Also if one is free, but not in the
    /// [`Place`](crate::Place) of the request, or belongs to a zone's reserve, or if no more runs can be recorded.
    Exhausted,
    /// The request is larger than the largest block of this system.
    TooLarge {
        /// The largest order.
        largest: Order,
    },
    /// The request is for zero frames.
    ZeroFrames,
    /// The system was not set up for a CPU with this number: see [`Setup::new`](crate::Setup::new).
    NoSuchCpu,
    /// A nested request found a lock held, or a CPU that may have free frames in its list did not drain it in time, or
    /// Serewa's manager took the request and did not answer in time. A request with
    /// [`NO_WAIT`](crate::Flags::NO_WAIT) does not wait for lists, and neither does a nested one. A later attempt can
    /// succeed.
    ///
    /// "In time" is [`Platform::MAX_WAIT`](crate::Platform::MAX_WAIT), or without a clock
    /// [`Platform::MAX_POLLS`](crate::Platform::MAX_POLLS) polls.
    /// [`shortage`](crate::FrameAllocator::shortage) names the CPU that keeps most of what is missing.
    Busy,
}

impl fmt::Display for AllocateError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Exhausted => write!(f, "nothing that is free fits the request"),
            Self::TooLarge { largest } => {
                write!(
                    f,
                    "larger than a block of order {largest}, the largest of this system"
                )
            }
            Self::ZeroFrames => write!(f, "a request for zero frames"),
            Self::NoSuchCpu => write!(f, "the system was not set up for a CPU with this number"),
            Self::Busy => write!(
                f,
                "busy: a lock or another CPU's list was not available in time"
            ),
        }
    }
}

impl core::error::Error for AllocateError {}

/// The reason why a free failed. The allocator's state is as before.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum FreeError {
    /// The frame lies outside the managed memory.
    Foreign,
    /// The frame lies in a hole: no memory was added there.
    Hole,
    /// The frame is reserved.
    Reserved,
    /// The frame is free: freed twice, or never allocated.
    NotAllocated,
    /// The frame is inside an allocated block. By order only whole blocks can be freed;
    /// [`Release::frames`](crate::Release::frames) frees a part.
    InsideBlock {
        /// The order of the block.
        order: Order,
    },
    /// A block of another order starts here. A system that records no orders says so of each allocated frame where no
    /// block of the named order can start.
    WrongOrder {
        /// The order of the block that starts here; 0 if it is not recorded.
        allocated: Order,
    },
    /// The release is of zero frames.
    ZeroFrames,
    /// The system was not set up for a CPU with this number: see [`Setup::new`](crate::Setup::new).
    NoSuchCpu,
    /// A nested release found a lock held, or in `everybuddy` a CPU stopped while it freed a part of an allocation. A
    /// later attempt can succeed.
    Busy,
}

impl fmt::Display for FreeError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Foreign => write!(f, "the frame lies outside the managed memory"),
            Self::Hole => write!(f, "the frame lies in a hole of the managed memory"),
            Self::Reserved => write!(f, "the frame is reserved"),
            Self::NotAllocated => write!(f, "the frame is free already"),
            Self::InsideBlock { order } => {
                write!(
                    f,
                    "the frame lies inside an allocated block of order {order}"
                )
            }
            Self::WrongOrder { allocated } => {
                write!(f, "the block that starts here has order {allocated}")
            }
            Self::ZeroFrames => write!(f, "a release of zero frames"),
            Self::NoSuchCpu => write!(f, "the system was not set up for a CPU with this number"),
            Self::Busy => write!(f, "busy: the lock was held"),
        }
    }
}

impl core::error::Error for FreeError {}

/// A release of a bulk free that failed. Those before it succeeded, those after it were not attempted.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct BulkFreeError {
    /// The position of the release that failed.
    pub index: usize,
    /// The reason.
    pub error: FreeError,
}

impl fmt::Display for BulkFreeError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "release {} of the bulk: {}", self.index, self.error)
    }
}

impl core::error::Error for BulkFreeError {}

/// The reason why memory could not be added, removed or reserved. The state is as before.
///
/// Every call of a system names physical frames, as its ranges do. `F` is another type only between the layers.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum RegionError<F = Pfn> {
    /// The range has no frames.
    Empty,
    /// The range reaches outside the span that the system was built for.
    OutsideSpan,
    /// This frame is part of the managed memory already.
    AlreadyManaged(F),
    /// This frame is not in the state that the operation needs: allocated, buffered, reserved or a hole.
    NotFree(F),
    /// This frame is not reserved.
    NotReserved(F),
    /// The system was not set up for a CPU with this number: see [`Setup::new`](crate::Setup::new).
    NoSuchCpu,
    /// Another CPU did not drain its list in time, or a service did not process a freed block in time, or other CPUs
    /// changed the same memory again and again; try again.
    /// [`kept_by_others`](crate::FrameAllocator::kept_by_others) names the CPU that keeps most.
    Busy,
}

/// The error of a layer, which knows no physical numbers.
pub(crate) type RangeError = RegionError<Index>;

impl RangeError {
    /// Names the frame by its physical number.
    pub(crate) fn physical(self, of: impl FnOnce(Index) -> Pfn) -> RegionError {
        match self {
            Self::Empty => RegionError::Empty,
            Self::OutsideSpan => RegionError::OutsideSpan,
            Self::AlreadyManaged(index) => RegionError::AlreadyManaged(of(index)),
            Self::NotFree(index) => RegionError::NotFree(of(index)),
            Self::NotReserved(index) => RegionError::NotReserved(of(index)),
            Self::NoSuchCpu => RegionError::NoSuchCpu,
            Self::Busy => RegionError::Busy,
        }
    }
}

impl<F: fmt::Display> fmt::Display for RegionError<F> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Empty => write!(f, "the range is empty"),
            Self::OutsideSpan => write!(f, "the range reaches outside the system's span"),
            Self::AlreadyManaged(frame) => write!(f, "{frame} is managed already"),
            Self::NotFree(frame) => write!(f, "{frame} is not free"),
            Self::NotReserved(frame) => write!(f, "{frame} is not reserved"),
            Self::NoSuchCpu => write!(f, "the system was not set up for a CPU with this number"),
            Self::Busy => write!(f, "busy: another CPU did not drain its list in time"),
        }
    }
}

impl core::error::Error for RegionError {}

/// Frames of 4 KiB.
const TEBIBYTE: u32 = 1 << 28;

/// A number whose digits are grouped by threes.
struct Grouped(u32);

impl fmt::Display for Grouped {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match (self.0 / 1000, self.0 % 1000) {
            (0, rest) => write!(f, "{rest}"),
            (thousands, rest) => write!(f, "{},{rest:03}", Grouped(thousands)),
        }
    }
}

/// The reason why a system could not be built.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum BuildError {
    /// The memory map has no frames, and the setup has no reach for memory that is added later.
    NoMemory,
    /// Two ranges of the memory map overlap, or they are not in ascending order.
    UnorderedRanges {
        /// The position of the second of the two.
        index: usize,
    },
    /// A range that is [taken](crate::Setup::with_taken) at the start does not lie in the memory map, or it overlaps or
    /// precedes the one before it.
    TakenRange {
        /// Its position.
        index: usize,
    },
    /// The memory map and the reach have more frames than a system can manage:
    /// [`Span::LARGEST`](crate::region::Span::LARGEST), which is 16 TiB with frames of 4 KiB, or fewer in some
    /// structures. Holes below [`Span::HOLE`](crate::region::Span::HOLE) frames count, and larger ones if there are
    /// more than [`Span::PARTS`](crate::region::Span::PARTS) parts. Build a system for each part.
    SpanTooLarge {
        /// The first physical frame.
        first: Pfn,
        /// The last physical frame; the largest number if the map ends beyond it.
        last: Pfn,
        /// The largest number of frames of a span.
        most: u32,
    },
    /// The number of CPUs is 0, or above what this system supports.
    BadCpuCount {
        /// The largest number of CPUs of this system.
        most: u16,
    },
    /// The system needs more memory for metadata than this target can address: lists that are long, times many CPUs,
    /// or records of too many frames.
    MetadataTooLarge,
    /// The memory for metadata is too small.
    MetadataTooSmall {
        /// Bytes needed.
        needed: usize,
        /// Bytes given, after alignment.
        given: usize,
    },
    /// The system, or the type that stands for it, does not take this option, or not with this value.
    BadOption(&'static str),
    /// The option contradicts another one, or the machine.
    Contradiction {
        /// The key of the option.
        key: &'static str,
        /// The values that it takes here, and why.
        needs: &'static str,
    },
    /// The library was compiled without this system: the variable `EVERYBUDDY_ONLY` named others.
    NotCompiled,
}

impl fmt::Display for BuildError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::NoMemory => write!(f, "the memory map is empty"),
            Self::UnorderedRanges { index } => {
                write!(
                    f,
                    "range {index} of the memory map overlaps or precedes the one before it"
                )
            }
            Self::TakenRange { index } => write!(
                f,
                "taken range {index} is not in the memory map, or it overlaps or precedes the one before it"
            ),
            Self::SpanTooLarge { first, last, most } => write!(
                f,
                "from {first} to {last} there is too much memory: a system manages at most {} frames, or {} TiB of \
                 4 KiB frames, in at most 16 parts; holes within a part count; build one for each part",
                Grouped(*most),
                most.div_ceil(TEBIBYTE),
            ),
            Self::BadCpuCount { most } => {
                let most = Grouped(u32::from(*most));
                write!(f, "the number of CPUs of this system must be 1 to {most}")
            }
            Self::MetadataTooLarge => write!(
                f,
                "the metadata is larger than this target can address: set up fewer CPUs, shorter lists or less memory"
            ),
            Self::MetadataTooSmall { needed, given } => {
                write!(
                    f,
                    "the metadata needs {needed} bytes from a multiple of 64 on, but only {given} follow the first one"
                )
            }
            Self::BadOption(key) => write!(
                f,
                "the system or its type does not support the option `{key}`, or not with this value"
            ),
            Self::Contradiction { key, needs } => write!(f, "`{key}` takes {needs}"),
            Self::NotCompiled => write!(
                f,
                "the library was compiled without this system: add its composition to the variable EVERYBUDDY_ONLY"
            ),
        }
    }
}

impl core::error::Error for BuildError {}
