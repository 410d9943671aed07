//! The machine that a system is built for.
//!
//! Memory map, CPUs and statistics are given once, the same way for every system.
//!
//! # Invariants
//! Everything that the system will ever manage lies in its span.

use crate::error::BuildError;
use crate::frame::{Order, Pfn};
use crate::percpu::linux_zone::LinuxZone;
use crate::region::{FrameRange, Span};
use crate::serewa::Presplit;

/// The machine that a system is built for.
#[derive(Clone, Copy, Debug)]
pub struct Setup<'r> {
    pub(super) ranges: &'r [FrameRange],
    pub(super) taken: &'r [FrameRange],
    reach: Option<FrameRange>,
    pub(super) cpus: u16,
    pub(super) presplit: Option<&'r Presplit>,
    zone: Option<LinuxZone>,
}

impl<'r> Setup<'r> {
    /// Describes a machine: its memory, as ascending ranges of physical frames, and its CPUs.
    ///
    /// They may lie anywhere. There are at most [`Span::LARGEST`] frames, 16 TiB of 4 KiB frames. Holes below
    /// [`Span::HOLE`] count, and metadata grow with them.
    ///
    /// `cpus` counts all CPUs that may ever exist: at most 65,534, and 16,383 for `magazines`. One that goes offline is
    /// [parked](crate::FrameAllocator::park); a call by a CPU beyond that count is refused as
    /// [`NoSuchCpu`](crate::AllocateError::NoSuchCpu).
    pub const fn new(ranges: &'r [FrameRange], cpus: u16) -> Self {
        Self {
            ranges,
            taken: &[],
            reach: None,
            cpus,
            presplit: None,
            zone: None,
        }
    }

    /// Makes room for memory that is added later: everything within `reach`. Metadata grow with it. Small holes between
    /// the ranges have room anyway. Each part of the span begins at a multiple of the largest block, so what lies
    /// between that and the reach can be added as well.
    ///
    /// With a reach, the memory map may be empty: all memory is added later, and what a system derives from the size of
    /// memory is derived from that of the reach.
    #[must_use]
    pub const fn with_reach(self, reach: FrameRange) -> Self {
        Self {
            reach: Some(reach),
            ..self
        }
    }

    /// Builds the system with these ranges allocated: the kernel's image, what was allocated early in the boot. They
    /// ascend, as the memory does, and lie in it. They are freed as any others, whole or in parts, by
    /// [`Release::frames`](crate::Release::frames). It costs what [`allocate_at`](crate::FrameAllocator::allocate_at)
    /// costs, O(frames of the ranges, and the product of the numbers of both ranges).
    ///
    /// ```
    /// use everybuddy::prelude::*;
    ///
    /// let (map, image) = ([FrameRange::new(Pfn(0x100), 0x1000)], [FrameRange::new(Pfn(0x200), 0x123)]);
    /// let setup = Setup::new(&map, 1).with_taken(&image);
    /// let mut memory = vec![core::mem::MaybeUninit::uninit(); Everybuddy::room(&setup)?];
    /// let system = Everybuddy::build(&setup, &mut memory[..])?;
    /// assert_eq!(system.free_frames(), 0x1000 - 0x123);
    /// # Ok::<(), Box<dyn core::error::Error>>(())
    /// ```
    #[must_use]
    pub const fn with_taken(self, taken: &'r [FrameRange]) -> Self {
        Self { taken, ..self }
    }

    /// Chooses the blocks into which memory is divided initially, for systems that divide it.
    #[must_use]
    pub const fn with_presplit(self, presplit: &'r Presplit) -> Self {
        Self {
            presplit: Some(presplit),
            ..self
        }
    }

    /// Gives the lists of CPUs the batch and the watermarks of this zone, of which the managed memory is a part. By
    /// default they follow from the managed memory alone.
    #[must_use]
    pub const fn with_zone(self, zone: LinuxZone) -> Self {
        Self {
            zone: Some(zone),
            ..self
        }
    }

    /// Returns the memory, as ascending ranges of physical frames.
    pub const fn ranges(&self) -> &'r [FrameRange] {
        self.ranges
    }

    /// Returns the number of CPUs that may ever exist.
    pub const fn cpus(&self) -> u16 {
        self.cpus
    }

    /// Returns the zone from which the parameters of lists follow.
    pub(super) fn zone(&self) -> LinuxZone {
        let alone = || LinuxZone::alone(self.frames(), self.cpus);
        self.zone.unwrap_or_else(alone)
    }

    /// Returns the frames of all ranges, or those of the reach if the ranges have none.
    pub(super) fn frames(&self) -> u64 {
        let frames = self.ranges.iter().map(|range| range.frames);
        match (frames.fold(0, u64::saturating_add), self.reach) {
            (0, Some(reach)) => reach.frames,
            (frames, _) => frames,
        }
    }

    /// Returns the span of the ranges and the reach. Refuses taken ranges that are not in the memory.
    pub(crate) fn span(&self, max_order: Order) -> Result<Span, BuildError> {
        let span = Span::with_reach(self.ranges, self.reach, max_order)?;
        let mut last = Pfn(0);
        let taken = self.taken.iter().enumerate();
        for (index, range) in taken.filter(|(_, range)| range.frames > 0) {
            let error = BuildError::TakenRange { index };
            let end = range.end().ok_or(error)?;
            // The ranges ascend, and one can follow another without a hole.
            let covered = self.ranges.iter().fold(range.start, |at, memory| {
                let after = memory.end().unwrap_or(memory.start);
                if memory.start <= at {
                    at.max(after)
                } else {
                    at
                }
            });
            if range.start < last || covered < end {
                return Err(error);
            }
            last = end;
        }
        Ok(span)
    }
}
