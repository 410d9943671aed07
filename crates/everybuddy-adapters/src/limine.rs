//! The memory map of the crate limine.
//!
//! The entries of a `MemoryMapResponse` become regions.
//!
//! # Invariants
//! Memory of the boot loader is not used before the kernel asks for it.

use limine::memory_map::{Entry, EntryType};

use crate::map::Region;

/// Returns the regions of a memory map, for [`map::usable`](crate::map::usable).
pub fn regions<'e>(entries: &'e [&Entry]) -> impl Iterator<Item = Region> + Clone + 'e {
    of_type(entries, EntryType::USABLE)
}

/// Returns the regions with those as usable ones that the boot loader uses. The kernel may
/// [`add`](everybuddy::FrameAllocator::add) them when it does not read the responses any more. They must lie within
/// [`Setup::with_reach`](everybuddy::Setup::with_reach).
pub fn reclaimable<'e>(entries: &'e [&Entry]) -> impl Iterator<Item = Region> + Clone + 'e {
    of_type(entries, EntryType::BOOTLOADER_RECLAIMABLE)
}

fn of_type<'e>(
    entries: &'e [&Entry],
    wanted: EntryType,
) -> impl Iterator<Item = Region> + Clone + 'e {
    entries
        .iter()
        .map(move |entry| Region::of_bytes(entry.base, entry.length, entry.entry_type == wanted))
}
