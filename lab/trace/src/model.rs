//! The in-memory representation of a trace: events, address regions, faults, acquisitions of a zone's lock.
//!
//! All other modules (checks, replay, statistics) work on one plain structure and never on files. Events stay in file
//! order and keep the recorded frame numbers. Nothing here is derived except [`Event::region`] of frees.
//!
//! # Invariants
//! The [`RegionId`] of an event or a fault refers to an entry of [`Trace::regions`] of the same trace.

use std::num::NonZeroU32;

use crate::named;

/// The largest order of a block in a trace: blocks of 2^18 frames, 1 GiB of 4 KiB frames.
///
/// Linux's largest order is 10, and huge pages of 1 GiB have order 18; larger numbers indicate damage.
pub const LARGEST_ORDER: u8 = 18;

/// Binary logarithm of the size of a frame in bytes: frames are 4 KiB.
pub const PAGE_SHIFT: u32 = 12;

/// A recorded sequence of calls of a page allocator, with the address regions that they served.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Trace {
    /// Name of the trace: the file's name without `.parquet`.
    pub name: String,
    /// Calls of the allocator, in order of time.
    pub events: Vec<Event>,
    /// Address regions; a [`RegionId`] is a position in this list.
    pub regions: Vec<AddressRegion>,
    /// Faults that caused allocations, sorted by [`Fault::row`]; at most one per event.
    pub faults: Vec<Fault>,
    /// Acquisitions of a zone's lock, in order of time; none if they were not recorded.
    pub acquisitions: Vec<Acquisition>,
    /// Key and value pairs of the file (`stats`, `processes` and others), unchanged.
    pub metadata: Vec<(String, String)>,
}

impl Trace {
    /// Returns the address region of `id`.
    ///
    /// Returns `None` for an id of another trace. O(1).
    pub fn region(&self, id: RegionId) -> Option<&AddressRegion> {
        self.regions.get(id.index())
    }
}

/// One call of the allocator: an allocation or a free of a block of frames.
///
/// 40 bytes. A column that a file lacks has the value given for its field.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Event {
    /// Nanoseconds since the recording started.
    pub time_ns: u64,
    /// The number of the block's first frame on the recorded machine.
    pub pfn: u64,
    /// The calling thread.
    pub pid: u32,
    /// Raw allocation flags of the recorded kernel; 0 on frees or if unknown.
    pub gfp: u32,
    /// The address region of the block, if known; a free has the region of its allocation.
    pub region: Option<RegionId>,
    /// CPU on which the call ran.
    pub cpu: u16,
    /// The system call that made the call, with x86-64 numbers; [`Event::NO_SYSTEM_CALL`] if none or unknown.
    pub sysno: u16,
    /// Whether the call allocates or frees.
    pub op: Op,
    /// Binary logarithm of the number of frames; at most [`LARGEST_ORDER`].
    pub order: u8,
    /// Mobility: 0 unmovable, 1 movable, 2 reclaimable; -1 on frees or if unknown.
    pub migratetype: i8,
    /// The activity of the thread: the value of a [`Context`]; 0 if unknown.
    pub context: u8,
    /// Flags set by the recorder; none if unknown.
    pub flags: EventFlags,
}

impl Event {
    /// The value of [`Event::sysno`] outside any known system call.
    pub const NO_SYSTEM_CALL: u16 = u16::MAX;

    /// Creates an event whose optional columns are all unknown.
    pub const fn new(time_ns: u64, cpu: u16, pid: u32, op: Op, pfn: u64, order: u8) -> Self {
        Event {
            time_ns,
            pfn,
            pid,
            gfp: 0,
            region: None,
            cpu,
            sysno: Event::NO_SYSTEM_CALL,
            op,
            order,
            migratetype: -1,
            context: 0,
            flags: EventFlags(0),
        }
    }

    /// Returns the number of frames of the block, `2^order`.
    ///
    /// Valid for orders up to 63. Larger orders return 0, and every check rejects them.
    pub const fn frames(&self) -> u64 {
        match 1u64.checked_shl(self.order as u32) {
            Some(frames) => frames,
            None => 0,
        }
    }
}

/// The kind of a call.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[repr(u8)]
pub enum Op {
    /// The call allocates a block (0 in files).
    Allocate = 0,
    /// The call frees a block, or a part of one (1 in files).
    Free = 1,
}

/// Flags of an event: the bits of the column `flags`.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub struct EventFlags(
    /// The bits of the file; unknown bits are preserved.
    pub u8,
);

impl EventFlags {
    /// The call was made in interrupt context.
    pub const INTERRUPT: EventFlags = EventFlags(1);
    /// The call frees a part of its block.
    pub const PARTIAL: EventFlags = EventFlags(2);
    /// No frame of the block is live after this free.
    pub const DEAD: EventFlags = EventFlags(4);
    /// The free was not observed but inferred: its frame was allocated again.
    pub const SYNTHETIC: EventFlags = EventFlags(8);
    /// An exiting task made the free.
    pub const AT_EXIT: EventFlags = EventFlags(16);

    /// Returns `true` if all of `marks` are set.
    pub const fn contains(self, marks: EventFlags) -> bool {
        self.0 & marks.0 == marks.0
    }

    /// Returns the union of both.
    #[must_use]
    pub const fn with(self, marks: EventFlags) -> EventFlags {
        EventFlags(self.0 | marks.0)
    }
}

named! {
    /// The activity of a thread when it called the allocator: the values of the column `ctx`.
    #[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
    #[repr(u8)]
    pub enum Context {
        /// Unknown, or in the kernel after a memory system call.
        #[default]
        Unknown = 0 => "unknown",
        /// A page fault in user mode.
        UserFault = 1 => "user fault",
        /// A system call.
        SystemCall = 2 => "system call",
        /// A page fault in the kernel, which accessed user memory.
        KernelFault = 3 => "kernel fault",
        /// The thread was exiting.
        Exiting = 4 => "exiting",
        /// An interrupt had suspended the thread.
        Interrupt = 5 => "interrupt",
    }
}

impl Context {
    /// Returns the context of a value of [`Event::context`]; unknown values are [`Context::Unknown`].
    pub fn from_value(value: u8) -> Context {
        let known = Context::ALL.get(usize::from(value));
        known.copied().unwrap_or_default()
    }
}

/// Position of an address region in [`Trace::regions`], four bytes even inside an `Option`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct RegionId(NonZeroU32);

impl RegionId {
    /// Returns the id of the region at `index`, or `None` from `u32::MAX` on.
    pub fn from_index(index: usize) -> Option<RegionId> {
        let number = u32::try_from(index).ok()?.checked_add(1)?;
        NonZeroU32::new(number).map(RegionId)
    }

    /// Returns the position in [`Trace::regions`].
    pub const fn index(self) -> usize {
        (self.0.get() - 1) as usize
    }

    /// Returns the index plus one: never 0, so that 0 can mean "none".
    pub const fn get(self) -> u32 {
        self.0.get()
    }
}

/// A range of virtual addresses of one process, mapped as a whole.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct AddressRegion {
    /// The number of this region in the file (column `vma`); never 0.
    pub number: u64,
    /// The process that owns the region; 0 if unknown.
    pub tgid: u32,
    /// First address, in bytes; 0 if unknown.
    pub start: u64,
    /// Length in bytes; 0 if unknown.
    pub len: u64,
    /// The kind of mapping.
    pub kind: RegionKind,
    /// The time of the mapping, in nanoseconds since the recording started; 0 if unknown.
    pub created_ns: u64,
    /// Protection bits of the mapping call; 0 if unknown.
    pub prot: u32,
    /// Flags of the mapping call; 0 if unknown.
    pub flags: u32,
    /// File descriptor of the mapping call; -1 for none.
    pub fd: i32,
}

impl AddressRegion {
    /// Creates a region of which only the number is known.
    pub const fn unknown(number: u64) -> AddressRegion {
        AddressRegion {
            number,
            tgid: 0,
            start: 0,
            len: 0,
            kind: RegionKind::Other,
            created_ns: 0,
            prot: 0,
            flags: 0,
            fd: -1,
        }
    }

    /// Returns the number of pages from page `vpn` to the end of the region, including that page.
    ///
    /// Returns 0 if the page is outside the recorded extent (a heap or stack that has grown since) or if the extent
    /// is unknown. Saturates at `u32::MAX`.
    pub fn pages_left(&self, vpn: u64) -> u32 {
        let end = self
            .start
            .saturating_add(self.len)
            .div_ceil(1 << PAGE_SHIFT);
        if vpn < self.start >> PAGE_SHIFT || vpn >= end {
            return 0;
        }
        u32::try_from(end - vpn).unwrap_or(u32::MAX)
    }
}

/// The kind of mapping of an address region: the values of the column `kind`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[repr(u8)]
pub enum RegionKind {
    /// Anonymous memory.
    Anonymous = 0,
    /// A file.
    File = 1,
    /// The heap of the process.
    Heap = 2,
    /// A stack.
    Stack = 3,
    /// The program's image.
    Image = 4,
    /// The loader, or anything else.
    Other = 5,
}

impl RegionKind {
    /// Every kind, ordered by value.
    pub const ALL: [RegionKind; 6] = [
        RegionKind::Anonymous,
        RegionKind::File,
        RegionKind::Heap,
        RegionKind::Stack,
        RegionKind::Image,
        RegionKind::Other,
    ];

    /// Returns the kind for a value of the file; unknown values are [`RegionKind::Other`].
    pub fn from_value(value: u8) -> RegionKind {
        RegionKind::ALL
            .get(usize::from(value))
            .copied()
            .unwrap_or(RegionKind::Other)
    }
}

/// A page fault that caused an allocation.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Fault {
    /// The position of the allocation in [`Trace::events`].
    pub row: u32,
    /// The number of the virtual page that faulted: the address divided by the page size.
    pub vpn: u64,
    /// The region of that address, if known.
    pub region: Option<RegionId>,
    /// The number of the fault, shared by all its allocations; 0 if unknown.
    pub sequence: u32,
}

/// An acquisition of the lock of one of the kernel's zones.
///
/// Kernels report either every acquisition or only those that had to wait: see [`LockSource`].
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub struct Acquisition {
    /// The time at which the lock was acquired, in nanoseconds since the recording started.
    pub time_ns: u64,
    /// Nanoseconds from when the lock was wanted to when it was acquired; 0 if it was acquired immediately.
    pub wait_ns: u64,
    /// Nanoseconds from when it was acquired to when it was released; 0 if unknown.
    pub hold_ns: u64,
    /// The thread that acquired it.
    pub pid: u32,
    /// Blocks that the caller was about to move under the lock; 0 if unknown.
    pub batch: u32,
    /// The CPU.
    pub cpu: u16,
    /// The events that reported it: the value of a [`LockSource`]; 0 if unknown.
    pub source: u8,
}

impl Acquisition {
    /// Returns `true` if the lock was not acquired immediately.
    pub const fn waited(&self) -> bool {
        self.wait_ns > 0
    }
}

named! {
    /// The events that reported an acquisition: the values of the column `source`.
    #[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
    #[repr(u8)]
    pub enum LockSource {
        /// Unknown.
        #[default]
        Unknown = 0 => "unknown events",
        /// `kmem:mm_zone_locked` and its relatives: every acquisition by calls of the allocator.
        ZoneLocked = 1 => "kmem:mm_zone_locked",
        /// `zone_lock:*`: every acquisition.
        ZoneLock = 2 => "zone_lock:*",
        /// `lock:contention_begin` and `contention_end`: acquisitions that had to queue. That the lock is a zone's is
        /// inferred from the callers.
        Contention = 3 => "lock:contention_*",
    }
}

impl LockSource {
    /// Returns the source for a value of the file; unknown values are [`LockSource::Unknown`].
    pub fn from_value(value: u8) -> LockSource {
        let known = LockSource::ALL.get(usize::from(value));
        known.copied().unwrap_or_default()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_event_is_as_small_as_promised() {
        assert_eq!(size_of::<Event>(), 40);
        assert_eq!(size_of::<Option<RegionId>>(), 4);
    }

    #[test]
    fn pages_left_end_with_the_region() {
        let region = AddressRegion {
            start: 0x1000,
            len: 0x3000,
            ..AddressRegion::unknown(1)
        };
        assert_eq!([0, 1, 3, 4].map(|vpn| region.pages_left(vpn)), [0, 3, 1, 0]);
        assert_eq!(AddressRegion::unknown(1).pages_left(0), 0);
    }
}
