//! The memory map of the crate limine.
//!
//! # Purpose
//!
//! The entries of a `MemoryMapResponse` become the ranges of a system.
//!
//! # Invariants
//!
//! Memory of the boot loader is not used before the kernel asks for it.

use everybuddy::FrameRange;
use limine::memory_map::{Entry, EntryType};

use crate::map::{self, MapError, Region};

/// Writes the usable frames of a memory map to `out`, as ranges for [`Setup::new`](everybuddy::Setup::new), and returns
/// them.
///
/// # Errors
/// Those of [`map::usable`].
pub fn usable<'o>(
    entries: &[&Entry],
    out: &'o mut [FrameRange],
) -> Result<&'o [FrameRange], MapError> {
    of_type(entries, EntryType::USABLE, out)
}

/// Writes the frames that the boot loader uses, which the kernel may [`add`](everybuddy::FrameAllocator::add) when it
/// does not read the responses any more. They must lie within [`Setup::with_reach`](everybuddy::Setup::with_reach).
///
/// # Errors
/// Those of [`map::usable`].
pub fn reclaimable<'o>(
    entries: &[&Entry],
    out: &'o mut [FrameRange],
) -> Result<&'o [FrameRange], MapError> {
    of_type(entries, EntryType::BOOTLOADER_RECLAIMABLE, out)
}

fn of_type<'o>(
    entries: &[&Entry],
    wanted: EntryType,
    out: &'o mut [FrameRange],
) -> Result<&'o [FrameRange], MapError> {
    let regions = entries.iter().map(|entry| Region {
        start: entry.base,
        end: entry.base.saturating_add(entry.length),
        is_usable: entry.entry_type == wanted,
    });
    map::usable(regions, out)
}
