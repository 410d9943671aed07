//! The model: a machine, its zones, and the free blocks of each order.
//!
//! Readers of all formats produce a [`State`], and answers are computed from it alone.
//!
//! # Invariants
//! What a text does not contain is `None`, [`Types::Unknown`] or an empty collection; no reader guesses. The only
//! assumption is the frame size of texts that do not reveal it, and [`FrameSize::is_known`] marks it.

use std::collections::BTreeMap;

use everybuddy_text::named;

use crate::frames::{Extent, Facts, ZoneWindows};

/// The largest number of orders that a table may have. Linux has at most 17.
pub const MAX_ORDERS: usize = 24;

/// The largest number of zones that a state may have. Answers compare each zone with the others.
pub const MAX_ZONES: usize = 4096;

/// The largest number of classes that a zone's table may have. Linux has at most 7.
pub const MAX_CLASSES: usize = 32;

/// A place in an input.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Place {
    /// The name of the file, as the user wrote it.
    pub file: String,
    /// The number of the line, from 1.
    pub line: u64,
}

impl std::fmt::Display for Place {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(formatter, "{}:{}", self.file, self.line)
    }
}

named! {
    /// The kernel's zones, the lowest first.
    #[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
    pub enum ZoneKind {
        /// For old devices.
        Dma => "DMA",
        /// For devices with addresses of 32 bits.
        Dma32 => "DMA32",
        /// For ordinary requests.
        #[default]
        Normal => "Normal",
        /// Memory that a kernel of 32 bits does not map.
        HighMem => "HighMem",
        /// For memory that can be moved.
        Movable => "Movable",
        /// Memory of devices.
        Device => "Device",
    }
}

named! {
    /// The kinds of text that describe a state.
    #[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
    pub enum Kind {
        /// `/proc/buddyinfo`.
        Buddyinfo => "buddyinfo",
        /// `/proc/pagetypeinfo`.
        Pagetypeinfo => "pagetypeinfo",
        /// `/proc/zoneinfo`.
        Zoneinfo => "zoneinfo",
        /// `/proc/vmstat`.
        Vmstat => "vmstat",
        /// `/proc/meminfo`.
        Meminfo => "meminfo",
        /// `/proc/kpageflags`.
        Kpageflags => "kpageflags",
        /// `/proc/allocinfo`.
        Allocinfo => "allocinfo",
        /// A line of a history.
        History => "history",
        /// A report in the kernel's log.
        Log => "log",
    }
}

named! {
    /// The cause of a report in a log.
    #[derive(Clone, Copy, Debug, PartialEq, Eq)]
    pub enum Cause {
        /// The kernel had to kill a process.
        OutOfMemory => "out of memory",
        /// A control group reached its limit: the machine's memory did not matter.
        GroupLimit => "limit of a control group",
        /// A request for pages failed.
        AllocationFailure => "page allocation failure",
        /// A request for kernel address space failed.
        VmallocFailure => "vmalloc failure",
        /// A user asked for the report.
        SysRq => "memory shown by sysrq",
    }
}

/// The request that caused a report.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Event {
    /// The cause of the report.
    pub cause: Cause,
    /// The name of the process.
    pub process: Option<String>,
    /// The order of the request. The kernel prints -1 if a user triggered the report.
    pub order: Option<i64>,
    /// The flags of the request, as printed.
    pub flags: Option<String>,
    /// The nodes that the request may use: each list contains them. A list has the first and the last node of ranges.
    pub nodes: Vec<Vec<(u32, u32)>>,
    /// The first line of the report.
    pub place: Place,
}

impl Event {
    /// Returns `true` if the request may use a node. Kernels without nodes print none.
    #[must_use]
    pub fn allows(&self, node: Option<u32>) -> bool {
        let is_in = |list: &Vec<(u32, u32)>| {
            let node = node.unwrap_or(0);
            list.iter()
                .any(|(first, last)| *first <= node && node <= *last)
        };
        self.nodes.iter().all(is_in)
    }
}

/// A number that a text states exactly, or only from below (`>100000`).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Count {
    /// The number.
    pub value: u64,
    /// Whether the true number may be larger.
    pub at_least: bool,
}

impl Count {
    /// An exact number.
    #[must_use]
    pub fn exact(value: u64) -> Count {
        Count {
            value,
            at_least: false,
        }
    }

    /// Returns the sum.
    #[must_use]
    pub fn plus(self, other: Count) -> Count {
        Count {
            value: self.value.saturating_add(other.value),
            at_least: self.at_least || other.at_least,
        }
    }
}

/// The kernel's classes of free blocks.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum MigrateType {
    /// For kernel memory.
    Unmovable,
    /// For memory that can be moved.
    Movable,
    /// For caches that can be dropped.
    Reclaimable,
    /// Only for requests that must not wait.
    HighAtomic,
    /// The reserve of kernels before 4.4.
    Reserve,
    /// Only for movable memory and for device drivers.
    Cma,
    /// Not for any request, at present.
    Isolate,
    /// A class that this program does not know.
    Other(String),
}

impl MigrateType {
    /// Reads the letter of a log.
    #[must_use]
    pub fn of_letter(letter: u8) -> Option<MigrateType> {
        Some(match letter {
            b'U' => MigrateType::Unmovable,
            b'M' => MigrateType::Movable,
            b'E' => MigrateType::Reclaimable,
            b'H' => MigrateType::HighAtomic,
            b'R' => MigrateType::Reserve,
            b'C' => MigrateType::Cma,
            b'I' => MigrateType::Isolate,
            b'A'..=b'Z' => MigrateType::Other(char::from(letter).to_string()),
            _ => return None,
        })
    }

    /// Reads the name of `/proc/pagetypeinfo`.
    #[must_use]
    pub fn of_name(name: &str) -> MigrateType {
        match name {
            "Unmovable" => MigrateType::Unmovable,
            "Movable" => MigrateType::Movable,
            "Reclaimable" => MigrateType::Reclaimable,
            "HighAtomic" => MigrateType::HighAtomic,
            "Reserve" => MigrateType::Reserve,
            "CMA" => MigrateType::Cma,
            "Isolate" => MigrateType::Isolate,
            other => MigrateType::Other(other.to_owned()),
        }
    }

    /// Returns the kernel's name.
    #[must_use]
    pub fn name(&self) -> &str {
        match self {
            MigrateType::Unmovable => "Unmovable",
            MigrateType::Movable => "Movable",
            MigrateType::Reclaimable => "Reclaimable",
            MigrateType::HighAtomic => "HighAtomic",
            MigrateType::Reserve => "Reserve",
            MigrateType::Cma => "CMA",
            MigrateType::Isolate => "Isolate",
            MigrateType::Other(name) => name,
        }
    }

    /// Returns `true` if every request may use such a block.
    #[must_use]
    pub fn is_general(&self) -> bool {
        matches!(
            self,
            MigrateType::Unmovable | MigrateType::Movable | MigrateType::Reclaimable
        )
    }
}

/// The classes of the free blocks of one order.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub enum Types {
    /// The text does not name them.
    #[default]
    Unknown,
    /// At least one block of each of these classes is free, and none of another class.
    Present(Vec<MigrateType>),
    /// The number of blocks of each class.
    Counts(Vec<(MigrateType, Count)>),
}

/// The free blocks of one order.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Blocks {
    /// The number of blocks.
    pub count: Count,
    /// Their classes.
    pub types: Types,
}

/// One CPU's list of free frames.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct CpuList {
    /// The CPU's number.
    pub cpu: u32,
    /// The number of frames in the list.
    pub count: Option<u64>,
    /// The number of frames at which the list is drained.
    pub high: Option<u64>,
    /// The number of frames that a refill or a drain moves.
    pub batch: Option<u64>,
}

/// One zone of a node. All sizes are in frames.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Zone {
    /// Its name, and the place of its frames.
    pub extent: Extent,
    /// The line of the zone's table, or its first line.
    pub place: Place,
    /// The free blocks of each order from 0. `None` if the text contains no table of this zone.
    pub blocks: Option<Vec<Blocks>>,
    /// The free frames, as a counter of the zone states them. It may differ from the table: the kernel reads it at
    /// another moment.
    pub free: Option<u64>,
    /// Below this number of free frames only urgent requests succeed. It includes `boost`.
    pub min: Option<u64>,
    /// Below this number the kernel begins to reclaim.
    pub low: Option<u64>,
    /// At this number the kernel stops reclaiming.
    pub high: Option<u64>,
    /// A temporary addition to the watermarks.
    pub boost: Option<u64>,
    /// Frames withheld from requests that could use a higher zone, by the index of that zone.
    pub lowmem_reserve: Vec<u64>,
    /// Free frames of the class CMA.
    pub free_cma: Option<u64>,
    /// Free frames of the class HighAtomic.
    pub free_high_atomic: Option<u64>,
    /// Frames reserved for the class HighAtomic, free or not.
    pub reserved_high_atomic: Option<u64>,
    /// Free frames on the lists of all CPUs.
    pub on_lists: Option<u64>,
    /// Frames with compressed pages.
    pub zspages: Option<u64>,
    /// The lists of the CPUs.
    pub lists: Vec<CpuList>,
    /// The blocks of each order, frame by frame. `None` if the input does not show frames.
    pub windows: Option<ZoneWindows>,
}

impl Zone {
    /// Creates a zone of which nothing is known.
    #[must_use]
    pub fn new(node: Option<u32>, name: &str, place: Place) -> Zone {
        let extent = Extent {
            node,
            name: name.to_owned(),
            ..Extent::default()
        };
        Zone {
            extent,
            place,
            ..Zone::default()
        }
    }

    /// Returns the kernel's zone of this name.
    #[must_use]
    pub fn kind(&self) -> Option<ZoneKind> {
        let mut kinds = ZoneKind::ALL.into_iter();
        kinds.find(|kind| kind.name() == self.extent.name)
    }

    /// Returns the number of free frames in the table.
    #[must_use]
    pub fn table_frames(&self) -> Option<Count> {
        let blocks = self.blocks.as_ref()?;
        let frames = |(order, blocks): (usize, &Blocks)| Count {
            value: blocks.count.value.saturating_mul(1 << order),
            at_least: blocks.count.at_least,
        };
        let frames = blocks.iter().enumerate().map(frames);
        Some(frames.fold(Count::default(), Count::plus))
    }

    /// Returns the number of free frames: that of the table, and otherwise that of the counter.
    #[must_use]
    pub fn free_frames(&self) -> Option<u64> {
        match self.table_frames() {
            Some(count) if count.at_least => Some(self.free.unwrap_or(0).max(count.value)),
            Some(count) => Some(count.value),
            None => self.free,
        }
    }

    /// Returns the sizes that logs print in KiB.
    pub fn logged_sizes(&mut self) -> [&mut Option<u64>; 12] {
        [
            &mut self.free,
            &mut self.min,
            &mut self.low,
            &mut self.high,
            &mut self.boost,
            &mut self.extent.present,
            &mut self.extent.managed,
            &mut self.free_cma,
            &mut self.free_high_atomic,
            &mut self.reserved_high_atomic,
            &mut self.on_lists,
            &mut self.zspages,
        ]
    }

    /// Returns the free frames on the lists of all CPUs.
    #[must_use]
    pub fn listed_frames(&self) -> Option<u64> {
        if self.lists.is_empty() {
            return self.on_lists;
        }
        let counts = self.lists.iter().filter_map(|list| list.count);
        Some(counts.fold(0, u64::saturating_add))
    }
}

/// A place in the kernel that allocated memory, by its profiling.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Caller {
    /// The function.
    pub function: String,
    /// The file and the line, and the module.
    pub place: String,
    /// The bytes.
    pub bytes: u64,
    /// The number of allocations.
    pub calls: u64,
}

/// The size of a frame.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct FrameSize {
    /// The number of bytes.
    pub bytes: u64,
    /// Whether the text reveals it. Otherwise it is assumed.
    pub is_known: bool,
}

impl FrameSize {
    /// A size that the text reveals.
    #[must_use]
    pub fn known(bytes: u64) -> FrameSize {
        FrameSize {
            bytes,
            is_known: true,
        }
    }
}

impl Default for FrameSize {
    fn default() -> FrameSize {
        FrameSize {
            bytes: 4096,
            is_known: false,
        }
    }
}

/// The state of a machine at one time.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct State {
    /// The texts that this state was read from.
    pub parts: Vec<(Kind, Place)>,
    /// The time of a log's report, as printed.
    pub time: Option<String>,
    /// The kernel's version.
    pub kernel: Option<String>,
    /// The request that caused a log's report.
    pub event: Option<Event>,
    /// The size of a frame.
    pub frame: FrameSize,
    /// The zones, in the order of the text.
    pub zones: Vec<Zone>,
    /// The order of a page block.
    pub page_block_order: Option<u32>,
    /// The counters of `/proc/vmstat`. Those of a log have the same names.
    pub vmstat: BTreeMap<String, u64>,
    /// The sizes of `/proc/meminfo` in KiB, and its counts. Those of a log have the same names.
    pub meminfo: BTreeMap<String, u64>,
    /// The frames of all zones, as the end of a log's report states them.
    pub ram: Option<u64>,
    /// Those of the zones `HighMem` and, on machines of 32 bits, `Movable`.
    pub high: Option<u64>,
    /// The places in the kernel that allocated the most, the largest first.
    pub callers: Vec<Caller>,
    /// What was rejected or is contradictory.
    pub remarks: Vec<String>,
    /// Whether files were refused because the user is not root.
    pub lacks_root: bool,
    /// What the frames tell, besides the windows of the zones.
    pub frames: Option<Facts>,
}

impl State {
    /// Returns the zone, which is added if it is missing.
    pub fn zone(&mut self, node: Option<u32>, name: &str, place: &Place) -> &mut Zone {
        let found = self
            .zones
            .iter()
            .position(|zone| zone.extent.is(node, name));
        let index = found.unwrap_or_else(|| {
            self.zones.push(Zone::new(node, name, place.clone()));
            self.zones.len() - 1
        });
        &mut self.zones[index]
    }

    /// Adds a place that allocated memory. The largest ones are kept.
    pub(crate) fn add_caller(&mut self, caller: Caller) {
        let smaller = |other: &Caller| other.bytes < caller.bytes;
        let at = self.callers.iter().position(smaller);
        self.callers
            .insert(at.unwrap_or(self.callers.len()), caller);
        self.callers.truncate(10);
    }

    /// Returns `true` if a text of this kind is part of the state.
    #[must_use]
    pub fn has(&self, kind: Kind) -> bool {
        self.parts.iter().any(|(part, _)| *part == kind)
    }

    /// Returns the first line of the state.
    #[must_use]
    pub fn place(&self) -> Place {
        self.parts
            .first()
            .map(|(_, place)| place.clone())
            .unwrap_or_default()
    }

    /// Returns `true` if at least one zone has a table.
    #[must_use]
    pub fn has_tables(&self) -> bool {
        self.zones.iter().any(|zone| zone.blocks.is_some())
    }
}
