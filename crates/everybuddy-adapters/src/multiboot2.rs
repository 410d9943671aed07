//! The memory map of Multiboot2, which GRUB passes.
//!
//! # Purpose
//!
//! The tag of the memory map becomes regions, through the crate multiboot2.
//!
//! # Invariants
//!
//! The map does not know what the loader put into memory. So the regions contain the boot information and the modules
//! as regions that are not usable; the kernel adds itself. Source: Multiboot2 2.0, section 3.6.8.
//!
//! The crate multiboot2 panics if an entry of the map has other than 24 bytes.

use core::fmt;

use multiboot2::{BootInformation, MemoryAreaType};

use crate::map::Region;

/// The boot loader passed no memory map. With UEFI, a loader leaves it out if it did not exit the boot services: the
/// kernel asks the firmware then.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct NoMap;

impl fmt::Display for NoMap {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(
            f,
            "the Multiboot2 information has no memory map: ask for it in the kernel's header, or ask UEFI"
        )
    }
}

impl core::error::Error for NoMap {}

/// Returns the regions of the map, for [`map::usable`](crate::map::usable).
///
/// # Errors
/// [`NoMap`].
pub fn regions<'i>(
    info: &'i BootInformation<'_>,
) -> Result<impl Iterator<Item = Region> + Clone + 'i, NoMap> {
    of_type(info, MemoryAreaType::Available)
}

/// Returns the regions with the tables of ACPI as the usable ones. The kernel may
/// [`add`](everybuddy::FrameAllocator::add) them after it has read the tables.
///
/// # Errors
/// [`NoMap`].
pub fn reclaimable<'i>(
    info: &'i BootInformation<'_>,
) -> Result<impl Iterator<Item = Region> + Clone + 'i, NoMap> {
    of_type(info, MemoryAreaType::AcpiAvailable)
}

fn of_type<'i>(
    info: &'i BootInformation<'_>,
    usable: MemoryAreaType,
) -> Result<impl Iterator<Item = Region> + Clone + 'i, NoMap> {
    let areas = info.memory_map_tag().ok_or(NoMap)?.memory_areas();
    let memory = areas.iter().map(move |area| Region {
        start: area.start_address(),
        end: area.start_address().saturating_add(area.size()),
        is_usable: area.typ() == usable,
    });
    let taken = |start, end| Region {
        start,
        end,
        is_usable: false,
    };
    let information = taken(info.start_address() as u64, info.end_address() as u64);
    let modules = info.module_tags();
    let modules = modules.map(move |module| {
        taken(
            u64::from(module.start_address()),
            u64::from(module.end_address()),
        )
    });
    Ok(memory.chain([information]).chain(modules))
}
