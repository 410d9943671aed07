//! The memory map of the crate bootloader_api.
//!
//! `BootInfo::memory_regions` becomes regions.
//!
//! # Invariants
//! Only regions of the kind `Usable` are used.

use bootloader_api::info::{MemoryRegion, MemoryRegionKind};

use crate::map::Region;

/// Returns the regions of a memory map, for [`map::usable`](crate::map::usable). The memory of the boot loader, with
/// its page tables, is not usable.
pub fn regions(regions: &[MemoryRegion]) -> impl Iterator<Item = Region> + Clone {
    regions.iter().map(|region| Region {
        start: region.start,
        end: region.end,
        is_usable: region.kind == MemoryRegionKind::Usable,
    })
}
