//! The memory map of Multiboot2, which GRUB passes.
//!
//! The tag of the memory map becomes regions, through the crate multiboot2.
//!
//! # Invariants
//! The map does not know what the loader put into memory. So the regions contain the boot information and the modules
//! as regions that are not usable; the kernel adds itself. Source: Multiboot2 2.0, section 3.6.8.

use core::fmt;
use core::mem::size_of;

use multiboot2::{BootInformation, MemoryArea, MemoryAreaType};

use crate::map::Region;

/// The reason why the information has no map that can be read.
#[non_exhaustive]
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Multiboot2Error {
    /// The boot loader passed no memory map. With UEFI, a loader leaves it out if it did not exit the boot services:
    /// the kernel asks the firmware then.
    NoMap,
    /// The entries of the map are not those of the specification's first version.
    EntrySize {
        /// The bytes of an entry, as the loader stated them; 24 are expected.
        bytes: u32,
    },
}

impl fmt::Display for Multiboot2Error {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::NoMap => write!(
                f,
                "the Multiboot2 information has no memory map: ask for it in the kernel's header, or ask UEFI"
            ),
            Self::EntrySize { bytes } => write!(
                f,
                "the entries of the Multiboot2 memory map have {bytes} bytes, but {} are expected",
                size_of::<MemoryArea>()
            ),
        }
    }
}

impl core::error::Error for Multiboot2Error {}

/// Returns the regions of the map, for [`map::usable`](crate::map::usable).
///
/// # Errors
/// Both of [`Multiboot2Error`].
pub fn regions<'i>(
    info: &'i BootInformation<'_>,
) -> Result<impl Iterator<Item = Region> + Clone + 'i, Multiboot2Error> {
    of_type(info, MemoryAreaType::Available)
}

/// Returns the regions with the tables of ACPI as the usable ones. The kernel may
/// [`add`](everybuddy::FrameAllocator::add) them after it has read the tables.
///
/// # Errors
/// Both of [`Multiboot2Error`].
pub fn reclaimable<'i>(
    info: &'i BootInformation<'_>,
) -> Result<impl Iterator<Item = Region> + Clone + 'i, Multiboot2Error> {
    of_type(info, MemoryAreaType::AcpiAvailable)
}

fn of_type<'i>(
    info: &'i BootInformation<'_>,
    usable: MemoryAreaType,
) -> Result<impl Iterator<Item = Region> + Clone + 'i, Multiboot2Error> {
    let map = info.memory_map_tag().ok_or(Multiboot2Error::NoMap)?;
    let bytes = map.entry_size();
    // The crate would panic.
    if bytes as usize != size_of::<MemoryArea>() {
        return Err(Multiboot2Error::EntrySize { bytes });
    }
    let memory = map
        .memory_areas()
        .iter()
        .map(move |area| Region::of_bytes(area.start_address(), area.size(), area.typ() == usable));
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
