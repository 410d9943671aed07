//! The memory map of the crate bootloader_api.
//!
//! # Purpose
//!
//! `BootInfo::memory_regions` becomes the ranges of a system.
//!
//! # Invariants
//!
//! Only regions of the kind `Usable` are used.

use bootloader_api::info::{MemoryRegion, MemoryRegionKind};
use everybuddy::FrameRange;

use crate::map::{self, MapError, Region};

/// Writes the usable frames of a memory map to `out`, as ranges for [`Setup::new`](everybuddy::Setup::new), and returns
/// them. The memory of the boot loader, with its page tables, is not among them.
///
/// # Errors
/// Those of [`map::usable`].
pub fn usable<'o>(
    regions: &[MemoryRegion],
    out: &'o mut [FrameRange],
) -> Result<&'o [FrameRange], MapError> {
    let regions = regions.iter().map(|region| Region {
        start: region.start,
        end: region.end,
        is_usable: region.kind == MemoryRegionKind::Usable,
    });
    map::usable(regions, out)
}
