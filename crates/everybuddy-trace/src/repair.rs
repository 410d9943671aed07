//! How strict reading is, and what lenient reading did.
//!
//! Exists so that a repaired trace never passes for a recorded one: every row that was dropped,
//! moved, changed or added is counted under its reason, and the counts go with the trace.
//!
//! Invariant: a report without counts means that the trace is exactly what the file holds.

use std::fmt;

/// What to do about a trace that does not replay by itself.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Leniency {
    /// Refuse it, naming the first fault.
    #[default]
    Strict,
    /// Repair it, counting each repair. Files that are not Parquet, lack needed columns or have
    /// nothing left after repair are refused all the same.
    Lenient,
}

/// A kind of repair.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[repr(u8)]
pub enum Repair {
    /// A row without a value in some column was dropped.
    NoValue,
    /// A row with a value that its column does not allow was dropped.
    OutOfRange,
    /// A row with an unknown `op` was dropped.
    UnknownOp,
    /// A row with an unknown order was dropped.
    UnknownOrder,
    /// A row whose frame is not aligned to its order was dropped.
    Misaligned,
    /// A row whose frame lies too far from the others was dropped.
    Span,
    /// A row was moved to its place in time; rows of the same time keep their order.
    Sorted,
    /// A free was added before an allocation of a frame that was live.
    FreeAdded,
    /// A free of a frame that was never allocated was dropped.
    FreeWithoutAllocation,
    /// A free of a dead frame was dropped.
    DoubleFree,
    /// A free that was larger than its block was cut to it.
    FreeCut,
    /// A fault of no allocation, or a second one of the same, was dropped.
    FaultDropped,
    /// A fault in an address region that is not described lost its region.
    UnknownRegion,
    /// An address region without a number of its own was dropped.
    RegionDropped,
}

impl Repair {
    /// Every kind, in the order of the report.
    pub const ALL: [Repair; 14] = [
        Repair::NoValue,
        Repair::OutOfRange,
        Repair::UnknownOp,
        Repair::UnknownOrder,
        Repair::Misaligned,
        Repair::Span,
        Repair::Sorted,
        Repair::FreeAdded,
        Repair::FreeWithoutAllocation,
        Repair::DoubleFree,
        Repair::FreeCut,
        Repair::FaultDropped,
        Repair::UnknownRegion,
        Repair::RegionDropped,
    ];

    /// Returns what was done, for people.
    pub const fn name(self) -> &'static str {
        match self {
            Repair::NoValue => "rows with missing values dropped",
            Repair::OutOfRange => "rows with impossible values dropped",
            Repair::UnknownOp => "rows with unknown op dropped",
            Repair::UnknownOrder => "rows with unknown order dropped",
            Repair::Misaligned => "rows with misaligned frames dropped",
            Repair::Span => "rows with frames far from the others dropped",
            Repair::Sorted => "rows moved to their place in time",
            Repair::FreeAdded => "frees added before allocations of live frames",
            Repair::FreeWithoutAllocation => "frees without allocation dropped",
            Repair::DoubleFree => "frees of dead frames dropped",
            Repair::FreeCut => "frees cut to their block",
            Repair::FaultDropped => "faults that fit no allocation dropped",
            Repair::UnknownRegion => "faults in unknown address regions",
            Repair::RegionDropped => "address regions dropped",
        }
    }
}

/// What lenient reading did: a count for each kind of repair.
///
/// Prints as `3 frees without allocation dropped, 1 frees cut to their block`, or `nothing`.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Repairs {
    counts: [u64; Repair::ALL.len()],
}

impl Repairs {
    /// Returns how often a repair was made.
    pub fn count(&self, repair: Repair) -> u64 {
        self.counts[repair as usize]
    }

    /// Returns the number of all repairs.
    pub fn total(&self) -> u64 {
        self.counts.iter().sum()
    }

    /// Returns whether nothing was repaired.
    pub fn is_empty(&self) -> bool {
        self.total() == 0
    }

    /// Gives each repair that was made, with its count.
    pub fn iter(&self) -> impl Iterator<Item = (Repair, u64)> + '_ {
        Repair::ALL
            .into_iter()
            .map(|repair| (repair, self.count(repair)))
            .filter(|made| made.1 > 0)
    }

    pub(crate) fn add(&mut self, repair: Repair, times: u64) {
        self.counts[repair as usize] += times;
    }
}

impl fmt::Display for Repairs {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        if self.is_empty() {
            return write!(out, "nothing");
        }
        for (position, (repair, count)) in self.iter().enumerate() {
            let comma = if position == 0 { "" } else { ", " };
            write!(out, "{comma}{count} {}", repair.name())?;
        }
        Ok(())
    }
}
