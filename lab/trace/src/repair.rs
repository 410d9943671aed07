//! The strictness of reading, and a report of the repairs.
//!
//! A repaired trace must never pass for a recorded one. Every row that was dropped, moved, changed or added is
//! counted by reason, and the counts accompany the trace.
//!
//! # Invariants
//! A report without counts means that the trace equals the contents of the file.

use std::fmt;

use crate::named;

/// The treatment of a trace that does not replay by itself.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Leniency {
    /// Reject the trace and report the first error.
    #[default]
    Strict,
    /// Repair the trace and count each repair. Files that are not Parquet, lack required columns or are empty after
    /// the repair are rejected anyway.
    Lenient,
}

named! {
    /// A kind of repair.
    #[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
    #[repr(u8)]
    pub enum Repair {
        /// A row with a missing value was dropped.
        NoValue => "rows with missing values dropped",
        /// A row with a value outside the range of its column was dropped.
        OutOfRange => "rows with invalid values dropped",
        /// A row with an unknown `op` was dropped.
        UnknownOp => "rows with unknown op dropped",
        /// A row with an unknown order was dropped.
        UnknownOrder => "rows with unknown order dropped",
        /// A row whose frame is not aligned to its order was dropped.
        Misaligned => "rows with misaligned frames dropped",
        /// A row whose frame is too far from the others was dropped.
        Span => "rows with frames far from the others dropped",
        /// A row was moved to restore the order of time; rows with equal times keep their order.
        Sorted => "rows sorted by time",
        /// A free was added before an allocation of a live frame.
        FreeAdded => "frees added before allocations of live frames",
        /// A free of a frame that was never allocated was dropped.
        FreeWithoutAllocation => "frees without allocation dropped",
        /// A free of a frame that is already free was dropped.
        DoubleFree => "frees of free frames dropped",
        /// A free that was larger than its block was shortened.
        FreeCut => "frees shortened to their block",
        /// A fault without an allocation, or a second fault of the same allocation, was dropped.
        FaultDropped => "faults without allocation dropped",
        /// A fault in an unknown address region lost its region.
        UnknownRegion => "faults in unknown address regions",
        /// An address region without a unique number was dropped.
        RegionDropped => "address regions dropped",
        /// An acquisition out of order, or one that overlaps another one of its CPU, was dropped.
        AcquisitionDropped => "acquisitions of a zone's lock dropped",
        /// A companion file of another trace was ignored.
        OtherTrace => "files of another trace ignored",
    }
}

/// The repairs of lenient reading: a count for each kind.
///
/// Prints as `3 frees without allocation dropped, 1 frees shortened to their block`, or `nothing`.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Repairs {
    counts: [u64; Repair::ALL.len()],
}

impl Repairs {
    /// Returns the number of repairs of one kind.
    pub fn count(&self, repair: Repair) -> u64 {
        self.counts[repair as usize]
    }

    /// Returns the number of all repairs.
    pub fn total(&self) -> u64 {
        self.counts.iter().sum()
    }

    /// Returns `true` if nothing was repaired.
    pub fn is_empty(&self) -> bool {
        self.total() == 0
    }

    /// Iterates over the kinds of repairs that were made, with their counts.
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
