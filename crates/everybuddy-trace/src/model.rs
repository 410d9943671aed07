//! What a trace is in memory: events, address regions, faults.
//!
//! Exists so that everything else (checking, replaying, counting) speaks of one plain structure
//! and never of files. Events stay in the order of the file and keep the recorded frame numbers;
//! nothing here is derived but [`Event::region`] of frees.
//!
//! Invariant: a [`RegionId`] held by an event or a fault of a trace names an entry of
//! [`Trace::regions`] of the same trace.

use std::num::NonZeroU32;

/// Largest order of a block that a trace may hold: blocks of 2^18 frames, 1 GiB of 4 KiB frames.
///
/// Linux ends at 10, huge pages of 1 GiB at 18; larger numbers are damage.
pub const LARGEST_ORDER: u8 = 18;

/// Binary logarithm of the size of a frame in bytes: frames are 4 KiB.
pub const PAGE_SHIFT: u32 = 12;

/// A recorded sequence of calls of a page allocator, with the address regions they served.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Trace {
    /// Name of the trace: the file's name without `.parquet`.
    pub name: String,
    /// Calls of the allocator, in order of time.
    pub events: Vec<Event>,
    /// Address regions; a [`RegionId`] is a position in this list.
    pub regions: Vec<AddressRegion>,
    /// Faults that led to allocations, by rising [`Fault::row`]; at most one for each event.
    pub faults: Vec<Fault>,
    /// Key and value pairs of the file (`stats`, `processes` and others), kept as they are.
    pub metadata: Vec<(String, String)>,
}

impl Trace {
    /// Returns the address region that `id` names.
    ///
    /// `None` for an id of another trace. Constant time.
    pub fn region(&self, id: RegionId) -> Option<&AddressRegion> {
        self.regions.get(id.index())
    }
}

/// One call of the allocator: an allocation or a free of a block of frames.
///
/// 40 bytes; columns that a file lacks have the value given with each field.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Event {
    /// Nanoseconds since the recording began.
    pub time_ns: u64,
    /// Number of the block's first frame, as the recorded machine had it.
    pub pfn: u64,
    /// Thread that called.
    pub pid: u32,
    /// Raw allocation flags of the recorded kernel; 0 on frees or when unknown.
    pub gfp: u32,
    /// Address region that the block serves, where known; frees have that of their allocation.
    pub region: Option<RegionId>,
    /// CPU on which the call ran.
    pub cpu: u16,
    /// System call within which the call came, x86-64 numbers; [`Event::NO_SYSTEM_CALL`] if none
    /// or unknown.
    pub sysno: u16,
    /// Whether the call allocates or frees.
    pub op: Op,
    /// Binary logarithm of the number of frames; at most [`LARGEST_ORDER`].
    pub order: u8,
    /// Mobility: 0 unmovable, 1 movable, 2 reclaimable; -1 on frees or when unknown.
    pub migratetype: i8,
    /// What the thread was doing: the value of a [`Context`]; 0 when unknown.
    pub context: u8,
    /// Marks of the recorder; none when unknown.
    pub flags: EventFlags,
}

impl Event {
    /// Value of [`Event::sysno`] outside any known system call.
    pub const NO_SYSTEM_CALL: u16 = u16::MAX;

    /// Gives an event with every optional column unknown.
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
    /// Meaningful for orders up to 63; larger ones give 0, and are refused by every check.
    pub const fn frames(&self) -> u64 {
        match 1u64.checked_shl(self.order as u32) {
            Some(frames) => frames,
            None => 0,
        }
    }
}

/// Direction of a call.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[repr(u8)]
pub enum Op {
    /// The caller got a block (0 in files).
    Allocate = 0,
    /// The caller gave a block, or a part of one, back (1 in files).
    Free = 1,
}

/// Marks of an event, as bits of the column `flags`.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub struct EventFlags(
    /// The bits, as the file has them; unknown bits are kept.
    pub u8,
);

impl EventFlags {
    /// The call came in interrupt context.
    pub const INTERRUPT: EventFlags = EventFlags(1);
    /// The free gives back a part of its block.
    pub const PARTIAL: EventFlags = EventFlags(2);
    /// After this free nothing of the block is live.
    pub const DEAD: EventFlags = EventFlags(4);
    /// The free was not seen but inferred: its frame was allocated again.
    pub const SYNTHETIC: EventFlags = EventFlags(8);
    /// The free was called by a task that was exiting.
    pub const AT_EXIT: EventFlags = EventFlags(16);

    /// Returns whether all of `marks` are set.
    pub const fn contains(self, marks: EventFlags) -> bool {
        self.0 & marks.0 == marks.0
    }

    /// Returns the marks of both.
    #[must_use]
    pub const fn with(self, marks: EventFlags) -> EventFlags {
        EventFlags(self.0 | marks.0)
    }
}

/// What a thread was doing when it called the allocator: the values of the column `ctx`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[repr(u8)]
pub enum Context {
    /// Not known, or in the kernel after a memory system call.
    Unknown = 0,
    /// It faulted in user mode.
    UserFault = 1,
    /// It was in a system call.
    SystemCall = 2,
    /// It faulted in the kernel, which touched user memory.
    KernelFault = 3,
    /// It was exiting.
    Exiting = 4,
    /// An interrupt had stopped it.
    Interrupt = 5,
}

impl Context {
    /// Every context, in order of its value.
    pub const ALL: [Context; 6] = [
        Context::Unknown,
        Context::UserFault,
        Context::SystemCall,
        Context::KernelFault,
        Context::Exiting,
        Context::Interrupt,
    ];

    /// Returns the context that a value of [`Event::context`] stands for; values of no context
    /// are [`Context::Unknown`].
    pub fn from_value(value: u8) -> Context {
        Context::ALL
            .get(usize::from(value))
            .copied()
            .unwrap_or(Context::Unknown)
    }

    /// Returns the context's name, for people.
    pub const fn name(self) -> &'static str {
        match self {
            Context::Unknown => "unknown",
            Context::UserFault => "user fault",
            Context::SystemCall => "system call",
            Context::KernelFault => "kernel fault",
            Context::Exiting => "exiting",
            Context::Interrupt => "interrupt",
        }
    }
}

/// Position of an address region in [`Trace::regions`], four bytes even inside an `Option`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct RegionId(NonZeroU32);

impl RegionId {
    /// Gives the id of the region at `index`; `None` from `u32::MAX` on.
    pub fn from_index(index: usize) -> Option<RegionId> {
        let number = u32::try_from(index).ok()?.checked_add(1)?;
        NonZeroU32::new(number).map(RegionId)
    }

    /// Returns the position in [`Trace::regions`].
    pub const fn index(self) -> usize {
        (self.0.get() - 1) as usize
    }

    /// Returns the index plus one: never 0, so that 0 is free to mean "none".
    pub const fn get(self) -> u32 {
        self.0.get()
    }
}

/// A range of virtual addresses of one process, mapped as a whole.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct AddressRegion {
    /// The file's number for this region (column `vma`); never 0.
    pub number: u64,
    /// Process that owns the region; 0 when unknown.
    pub tgid: u32,
    /// First address, in bytes; 0 when unknown.
    pub start: u64,
    /// Length in bytes; 0 when unknown.
    pub len: u64,
    /// What is mapped there.
    pub kind: RegionKind,
    /// When it was mapped, in nanoseconds since the recording began; 0 when unknown.
    pub created_ns: u64,
    /// Protection bits of the mapping call; 0 when unknown.
    pub prot: u32,
    /// Flags of the mapping call; 0 when unknown.
    pub flags: u32,
    /// File descriptor of the mapping call; -1 for none.
    pub fd: i32,
}

impl AddressRegion {
    /// Gives a region of which nothing is known but its number.
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

    /// Returns how many pages lie from page `vpn` to the region's end, that page included.
    ///
    /// 0 when the page lies outside of the recorded extent (a heap or stack that has grown since)
    /// or when the extent is unknown. Saturates at `u32::MAX`.
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

/// What an address region maps: the values of the column `kind`.
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
    /// Every kind, in order of its value.
    pub const ALL: [RegionKind; 6] = [
        RegionKind::Anonymous,
        RegionKind::File,
        RegionKind::Heap,
        RegionKind::Stack,
        RegionKind::Image,
        RegionKind::Other,
    ];

    /// Returns the kind of a value of the file; unknown values are [`RegionKind::Other`].
    pub fn from_value(value: u8) -> RegionKind {
        RegionKind::ALL
            .get(usize::from(value))
            .copied()
            .unwrap_or(RegionKind::Other)
    }
}

/// A page fault that led to an allocation.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Fault {
    /// Position of the allocation in [`Trace::events`].
    pub row: u32,
    /// Number of the virtual page that faulted: address divided by the page size.
    pub vpn: u64,
    /// Region of that address, where known.
    pub region: Option<RegionId>,
    /// Number of the fault; allocations of one fault share it. 0 when unknown.
    pub sequence: u32,
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
