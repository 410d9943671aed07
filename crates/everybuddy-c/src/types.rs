//! The structures of the interface, and their conversion.
//!
//! # Invariants
//! Structures that C fills hold integers and pointers only. The conversions refuse values that mean nothing.

use core::ffi::{c_char, c_void};
use core::mem::offset_of;

use everybuddy::{
    BlockType, Census, Colours, Flags, FrameRange, FrameState, Frames, Hint, Index, Node, Order,
    Pfn, Place, Reason, Release, Request, Run, Shortage, Size, Snapshot,
};

use crate::status::{eb_status, eb_status::*};
use crate::{EB_ORDER_LIMIT, EB_UNKNOWN};

/// The number of orders: 0 to `EB_ORDER_LIMIT`.
pub const EB_ORDERS: usize = 19;

const _: () = assert!(EB_ORDERS == EB_ORDER_LIMIT as usize + 1);

/// The size is an order: a block of 2^order frames.
pub const EB_BY_ORDER: u32 = 0;
/// The size is a number of frames: a run of exactly that length.
pub const EB_BY_FRAMES: u32 = 1;

/// Flag: does not wait for other CPUs to drain their lists. If any list caches frames, or another CPU is not parked and
/// may free into its list, the request fails as `EB_ERROR_BUSY` instead.
pub const EB_NO_WAIT: u32 = 1;
/// Class: stays where it is until it is freed. The class of a request that names none.
pub const EB_UNMOVABLE: u32 = 0;
/// Class: can be moved to another frame, such as memory of processes.
pub const EB_MOVABLE: u32 = 2;
/// Class: stays where it is, but is freed when memory is short.
pub const EB_RECLAIMABLE: u32 = 4;
/// Class: is never freed.
pub const EB_NEVER_FREED: u32 = 6;

/// The memory that is passed to `eb_build` is all zero. What starts as zero is then not written.
pub const EB_MEMORY_IS_ZEROED: u32 = 1;

/// The node of the calling CPU, then the others by distance.
pub const EB_NODE_HOME: u32 = 0;
/// The node that the place names, then the others by distance.
pub const EB_NODE_PREFERRED: u32 = 1;
/// Only the node that the place names.
pub const EB_NODE_ONLY: u32 = 2;

/// A visited block stays allocated, and the visit goes on.
pub const EB_VISIT_KEEP: u32 = 0;
/// A visited block stays allocated, and the visit ends.
pub const EB_VISIT_KEEP_AND_STOP: u32 = 1;
/// A visited block is freed, and the visit goes on.
pub const EB_VISIT_RETURN: u32 = 2;
/// A visited block contains only zeros now. It is freed as by `eb_free_zeroed`, and the visit goes on.
pub const EB_VISIT_RETURN_ZEROED: u32 = 3;

/// The monitor withdrew the memory of a reported block.
pub const EB_REPORT_GIVEN: u32 = 0;
/// The monitor withdrew the memory, and the block contains only zeros. It is freed as by `eb_free_zeroed`.
pub const EB_REPORT_GIVEN_ZEROED: u32 = 1;
/// The monitor did not withdraw the memory. The block stays unreported, and the call ends.
pub const EB_REPORT_REFUSED: u32 = 2;

/// A range of frames, by physical frame numbers.
#[repr(C)]
#[derive(Clone, Copy)]
pub struct eb_range {
    /// The physical number of the first frame: its address divided by the size of a frame.
    pub start: u64,
    /// The number of frames.
    pub frames: u64,
}

// `eb_setup` passes an array of ranges on as it is, and `eb_allocate_runs` one of runs.
const _: () = assert!(
    size_of::<eb_range>() == size_of::<FrameRange>()
        && align_of::<eb_range>() == align_of::<FrameRange>()
        && offset_of!(eb_range, start) == offset_of!(FrameRange, start)
        && offset_of!(eb_range, frames) == offset_of!(FrameRange, frames)
);
const _: () = assert!(
    size_of::<eb_run>() == size_of::<Run>()
        && align_of::<eb_run>() == align_of::<Run>()
        && offset_of!(eb_run, start) == offset_of!(Run, start)
        && offset_of!(eb_run, frames) == offset_of!(Run, frames)
);

/// The machine, and the system to build. Start from `eb_setup_new`.
#[repr(C)]
pub struct eb_setup {
    /// `EB_ABI_VERSION` of the header that the program was compiled with.
    pub version: u32,
    /// All CPUs that may ever exist: 1 to 65,534.
    pub cpus: u32,
    /// The memory, as ascending ranges; those without frames are skipped.
    pub ranges: *const eb_range,
    /// The number of ranges.
    pub range_count: usize,
    /// Room for memory that is added later: everything within this range. Without frames, there is none.
    pub reach: eb_range,
    /// The system and its options, as `NAME+key=value`. NULL chooses `everybuddy`.
    pub system: *const c_char,
    /// The number of blocks of each order, `EB_ORDERS` of them, into which systems that divide memory initially divide
    /// it. NULL leaves it to the system.
    pub presplit: *const u32,
    /// 0 or `EB_MEMORY_IS_ZEROED`.
    pub flags: u32,
}

/// A request for frames. Start from `eb_request_order` or `eb_request_frames`.
#[repr(C)]
#[derive(Clone, Copy)]
pub struct eb_request {
    /// An order or a number of frames.
    pub size: u32,
    /// `EB_BY_ORDER` or `EB_BY_FRAMES`.
    pub unit: u32,
    /// A class, and `EB_NO_WAIT` or not, joined by `|`.
    pub flags: u32,
    /// Hint: the task, or `EB_UNKNOWN`.
    pub task: u32,
    /// Hint: the mapping that the frames are for, or `EB_UNKNOWN`.
    pub region: u32,
    /// Hint: the frames that are left in that mapping in this direction, or `EB_UNKNOWN`.
    pub left: u32,
}

/// Frames to be freed. Start from `eb_release_order` or `eb_release_frames`.
#[repr(C)]
#[derive(Clone, Copy)]
pub struct eb_release {
    /// The first frame.
    pub start: u32,
    /// An order or a number of frames. By order, it is a block that was allocated with that order. By frames, it is
    /// any run of allocated frames.
    pub size: u32,
    /// `EB_BY_ORDER` or `EB_BY_FRAMES`.
    pub unit: u32,
    /// Hint: the task, or `EB_UNKNOWN`.
    pub task: u32,
    /// Hint: the mapping that the frames come from, or `EB_UNKNOWN`.
    pub region: u32,
    /// Hint: the frames that are left in that mapping in this direction, or `EB_UNKNOWN`.
    pub left: u32,
}

/// Where the frames of a request may lie. Start from `eb_place_anywhere`.
#[repr(C)]
#[derive(Clone, Copy)]
pub struct eb_place {
    /// All frames have physical numbers below this one.
    pub limit: u64,
    /// The bits of a physical frame number that make its colour; at most 6.
    pub colour_mask: u64,
    /// Bit c allows colour c.
    pub colours: u64,
    /// The first frame's physical number is a multiple of 2^alignment.
    pub alignment: u32,
    /// `EB_NODE_HOME`, `EB_NODE_PREFERRED` or `EB_NODE_ONLY`.
    pub node_rule: u32,
    /// The node of the last two rules, up to 255.
    pub node: u32,
}

/// Frames that follow each other.
#[repr(C)]
#[derive(Clone, Copy)]
pub struct eb_run {
    /// The first frame.
    pub start: u32,
    /// The number of frames.
    pub frames: u32,
}

/// The frames that a system was built for.
#[repr(C)]
#[derive(Clone, Copy)]
pub struct eb_span {
    /// The physical number of frame 0. Others need not follow it: see `eb_physical`.
    pub base: u64,
    /// The number of frames, small holes included.
    pub frames: u32,
}

/// The page blocks of one type.
#[repr(C)]
#[derive(Clone, Copy)]
pub struct eb_page_blocks {
    /// The number of page blocks.
    pub blocks: u32,
    /// The free frames in them.
    pub free_frames: u64,
}

/// Free memory at a moment.
#[repr(C)]
#[derive(Clone, Copy)]
pub struct eb_snapshot {
    /// Free blocks in the zone layer, by order.
    pub free_blocks: [u32; EB_ORDERS],
    /// The number of parts into which free memory is divided.
    pub domains: u32,
    /// The frames in the free blocks of the zone layer.
    pub free_frames: u64,
    /// The frames that per-CPU lists and queues hold: a hint while other CPUs work.
    pub buffered_frames: u64,
    /// The page blocks by type: movable, unmovable, reclaimable, mixed. None if they have no types.
    pub page_blocks: [eb_page_blocks; 4],
}

/// The reason that explains best why a request failed.
#[repr(C)]
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum eb_reason {
    /// A block of that size is free now.
    EB_REASON_NONE = 0,
    /// The request is for no frames, or for more than a largest block.
    EB_REASON_SIZE = 1,
    /// Fewer frames are free than were requested.
    EB_REASON_MEMORY = 2,
    /// Enough frames are free, but some of them are on other nodes.
    EB_REASON_ELSEWHERE = 3,
    /// Enough frames are free, but CPUs or queues keep some of them.
    EB_REASON_LISTS = 4,
    /// Enough frames are free, but not in one block.
    EB_REASON_FRAGMENTATION = 5,
}

/// What was free after a request failed.
#[repr(C)]
#[derive(Clone, Copy)]
pub struct eb_shortage_report {
    /// The reason that explains the failure best.
    pub reason: eb_reason,
    /// The largest order of which the zone layer has a block, or `EB_UNKNOWN` if it has none.
    pub largest: u32,
    /// Frames in the list of the calling CPU.
    pub own_list: u64,
    /// Free frames on other nodes.
    pub elsewhere: u64,
    /// Free frames that the CPU `keeper` keeps in its list or trees, until it calls or parks.
    pub kept: u64,
    /// The other CPU that keeps what is missing, or `EB_UNKNOWN` if there is none.
    pub keeper: u32,
    /// What is free.
    pub free: eb_snapshot,
}

/// The use of a frame.
#[repr(C)]
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum eb_use {
    /// No memory exists there.
    EB_USE_HOLE = 0,
    /// Memory that is never allocated.
    EB_USE_RESERVED = 1,
    /// Part of an allocated block; `head` and `order` describe it.
    EB_USE_ALLOCATED = 2,
    /// Part of a block that a CPU's list caches; `cpu` and `order` describe it.
    EB_USE_BUFFERED = 3,
    /// Part of a free block; `head` is its first frame.
    EB_USE_FREE = 4,
    /// Free, but in a queue.
    EB_USE_QUEUED = 5,
}

/// The state of a frame. Fields that do not belong to its use are `EB_UNKNOWN`.
#[repr(C)]
#[derive(Clone, Copy)]
pub struct eb_state {
    /// The use.
    pub usage: eb_use,
    /// The first frame of the block.
    pub head: u32,
    /// The order of the block.
    pub order: u32,
    /// The CPU whose list caches the frame.
    pub cpu: u32,
}

/// The number of frames in each state.
#[repr(C)]
#[derive(Clone, Copy)]
pub struct eb_census {
    /// Frames in free blocks of the zone layer.
    pub free: u64,
    /// Frames in per-CPU lists.
    pub buffered: u64,
    /// Frames that wait in queues.
    pub queued: u64,
    /// Allocated frames.
    pub allocated: u64,
    /// Reserved frames.
    pub reserved: u64,
    /// Frame numbers without memory.
    pub holes: u64,
}

/// The bytes of the name of an `eb_service`, with the NUL at its end.
pub const EB_SERVICE_NAME: usize = 32;

/// Work that a system needs done apart from requests.
#[repr(C)]
#[derive(Clone, Copy)]
pub struct eb_service {
    /// Whether it needs a thread of its own. Otherwise an idle CPU can run it.
    pub own_thread: bool,
    /// A name for reports; ends with NUL.
    pub name: [c_char; EB_SERVICE_NAME],
}

/// A function that decides what happens to a free block: it returns one of the values `EB_VISIT_...`.
///
/// It must return, neither by `longjmp` nor by an exception, and must not use the token of the visit.
pub type eb_visitor =
    Option<unsafe extern "C" fn(context: *mut c_void, frame: u32, order: u32) -> u32>;

/// A function that reports a free block to the monitor: it returns one of the values `EB_REPORT_...`.
///
/// It must return, neither by `longjmp` nor by an exception, and must not use the token of the call.
pub type eb_reporter =
    Option<unsafe extern "C" fn(context: *mut c_void, frame: u32, order: u32) -> u32>;

/// Converts an order.
#[inline(always)]
pub(crate) fn order(order: u32) -> Result<Order, eb_status> {
    let order = u8::try_from(order).ok().and_then(Order::new);
    order.ok_or(EB_ERROR_ORDER)
}

/// Converts flags.
#[inline(always)]
pub(crate) fn flags(flags: u32) -> Result<Flags, eb_status> {
    match flags & !(EB_NO_WAIT | EB_NEVER_FREED) {
        0 => Ok(Flags::from_bits(flags as u8)),
        _ => Err(EB_ERROR_ARGUMENT),
    }
}

/// Converts a size.
fn size(size: u32, unit: u32) -> Result<Size, eb_status> {
    match unit {
        EB_BY_ORDER => Ok(Size::Order(order(size)?)),
        EB_BY_FRAMES => Ok(Size::Frames(Frames(size))),
        _ => Err(EB_ERROR_ARGUMENT),
    }
}

impl eb_request {
    /// Converts the request.
    pub(crate) fn convert(&self) -> Result<Request, eb_status> {
        Ok(Request {
            size: size(self.size, self.unit)?,
            hint: Hint {
                task: self.task,
                region: self.region,
                left: self.left,
            },
            flags: flags(self.flags)?,
        })
    }
}

impl eb_release {
    /// Converts the release.
    pub(crate) fn convert(&self) -> Result<Release, eb_status> {
        Ok(Release {
            start: Index(self.start),
            size: size(self.size, self.unit)?,
            hint: Hint {
                task: self.task,
                region: self.region,
                left: self.left,
            },
        })
    }
}

impl eb_range {
    /// Converts the range.
    pub(crate) const fn convert(self) -> FrameRange {
        FrameRange::new(Pfn(self.start), self.frames)
    }
}

impl eb_place {
    /// Converts the place.
    pub(crate) fn convert(&self) -> Result<Place, eb_status> {
        let node = u8::try_from(self.node).or(Err(EB_ERROR_ARGUMENT));
        Ok(Place {
            node: match self.node_rule {
                EB_NODE_HOME => Node::Home,
                EB_NODE_PREFERRED => Node::Preferred(node?),
                EB_NODE_ONLY => Node::Only(node?),
                _ => return Err(EB_ERROR_ARGUMENT),
            },
            limit: Pfn(self.limit),
            alignment: order(self.alignment)?,
            colours: Colours::new(self.colour_mask, self.colours).ok_or(EB_ERROR_ARGUMENT)?,
        })
    }
}

impl From<&Snapshot> for eb_snapshot {
    fn from(snapshot: &Snapshot) -> Self {
        const _: () = assert!(BlockType::ALL.len() == 4);
        Self {
            free_blocks: snapshot.free_blocks,
            domains: snapshot.domains,
            free_frames: snapshot.free_frames(),
            buffered_frames: snapshot.buffered_frames,
            page_blocks: snapshot.page_blocks.map(|blocks| eb_page_blocks {
                blocks: blocks.blocks,
                free_frames: blocks.free_frames,
            }),
        }
    }
}

impl From<Shortage> for eb_shortage_report {
    fn from(shortage: Shortage) -> Self {
        Self {
            reason: match shortage.reason() {
                Reason::None => eb_reason::EB_REASON_NONE,
                Reason::Size => eb_reason::EB_REASON_SIZE,
                Reason::Memory => eb_reason::EB_REASON_MEMORY,
                Reason::Elsewhere => eb_reason::EB_REASON_ELSEWHERE,
                Reason::Lists => eb_reason::EB_REASON_LISTS,
                Reason::Fragmentation => eb_reason::EB_REASON_FRAGMENTATION,
            },
            largest: shortage
                .largest()
                .map_or(EB_UNKNOWN, |order| u32::from(order.get())),
            own_list: shortage.own_list,
            elsewhere: shortage.elsewhere,
            kept: shortage.kept.map_or(0, |kept| kept.frames),
            keeper: shortage
                .kept
                .map_or(EB_UNKNOWN, |kept| u32::from(kept.cpu.0)),
            free: (&shortage.free).into(),
        }
    }
}

impl From<FrameState> for eb_state {
    fn from(state: FrameState) -> Self {
        let of = |usage| Self {
            usage,
            head: EB_UNKNOWN,
            order: EB_UNKNOWN,
            cpu: EB_UNKNOWN,
        };
        match state {
            FrameState::Hole => of(eb_use::EB_USE_HOLE),
            FrameState::Reserved => of(eb_use::EB_USE_RESERVED),
            FrameState::Allocated { head, order } => Self {
                head: head.0,
                order: u32::from(order.get()),
                ..of(eb_use::EB_USE_ALLOCATED)
            },
            FrameState::Buffered { cpu, order } => Self {
                cpu: u32::from(cpu.0),
                order: u32::from(order.get()),
                ..of(eb_use::EB_USE_BUFFERED)
            },
            FrameState::Free { head } => Self {
                head: head.0,
                ..of(eb_use::EB_USE_FREE)
            },
            FrameState::Queued => of(eb_use::EB_USE_QUEUED),
        }
    }
}

impl From<Census> for eb_census {
    fn from(census: Census) -> Self {
        let Census {
            free,
            buffered,
            queued,
            allocated,
            reserved,
            holes,
        } = census;
        Self {
            free,
            buffered,
            queued,
            allocated,
            reserved,
            holes,
        }
    }
}
