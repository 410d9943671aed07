//! The memory map of UEFI.
//!
//! The descriptors that a kernel got when it left the boot services become regions, with the types of the crate
//! uefi-raw. The crate uefi returns the same descriptors: `map.entries()`.
//!
//! # Invariants
//! Memory counts only if it can be cached by write-back, and is not kept for a special purpose, as in Linux. Source:
//! UEFI 2.10, section 7.2.3.

use core::borrow::Borrow;
use core::fmt;
use core::mem::size_of;

use uefi_raw::table::boot::{MemoryAttribute, MemoryDescriptor, MemoryType};

use crate::FRAME_BYTES;
use crate::map::Region;

/// The reason why bytes are not a memory map of UEFI.
#[non_exhaustive]
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum UefiError {
    /// The firmware's descriptors are shorter than those of the specification.
    ShortDescriptors {
        /// The bytes of a descriptor, as the firmware stated them.
        bytes: usize,
    },
    /// The map is not a multiple of its descriptors.
    Remainder {
        /// The bytes of the map.
        given: usize,
        /// The bytes of a descriptor.
        descriptor: usize,
    },
}

impl fmt::Display for UefiError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::ShortDescriptors { bytes } => write!(
                f,
                "the memory map's descriptors have {bytes} bytes, but {} are needed: pass the size that \
                 GetMemoryMap returned",
                size_of::<MemoryDescriptor>()
            ),
            Self::Remainder { given, descriptor } => write!(
                f,
                "the memory map has {given} bytes, which is not a multiple of the {descriptor} of a descriptor"
            ),
        }
    }
}

impl core::error::Error for UefiError {}

/// Returns the descriptors of a map that a loader passed as bytes, with the size that the firmware states for one.
///
/// # Errors
/// Both of [`UefiError`].
pub fn descriptors(
    map: &[u8],
    descriptor_bytes: usize,
) -> Result<impl Iterator<Item = MemoryDescriptor> + Clone, UefiError> {
    if descriptor_bytes < size_of::<MemoryDescriptor>() {
        return Err(UefiError::ShortDescriptors {
            bytes: descriptor_bytes,
        });
    }
    if !map.len().is_multiple_of(descriptor_bytes) {
        return Err(UefiError::Remainder {
            given: map.len(),
            descriptor: descriptor_bytes,
        });
    }
    Ok(map.chunks_exact(descriptor_bytes).map(|bytes| {
        let number = |at: usize| {
            let bytes = bytes[at..at + 8].iter().rev();
            bytes.fold(0, |number, byte| number << 8 | u64::from(*byte))
        };
        MemoryDescriptor {
            // The word after it is padding.
            ty: MemoryType(number(0) as u32),
            padding: 0,
            phys_start: number(8),
            virt_start: number(16),
            page_count: number(24),
            att: MemoryAttribute::from_bits_retain(number(32)),
        }
    }))
}

/// Returns the regions of a map, for [`map::usable`](crate::map::usable). The usable ones are those of conventional
/// memory.
pub fn regions(
    descriptors: impl Iterator<Item = impl Borrow<MemoryDescriptor>> + Clone,
) -> impl Iterator<Item = Region> + Clone {
    of_types(descriptors, |kind| kind == MemoryType::CONVENTIONAL)
}

/// Returns the regions with those as usable ones that the firmware and the loader used, and with the tables of ACPI.
///
/// The kernel may [`add`](everybuddy::FrameAllocator::add) them when it has page tables and a stack of its own and has
/// read the tables. It lies in such memory itself: it adds a region for itself that is not usable.
pub fn reclaimable(
    descriptors: impl Iterator<Item = impl Borrow<MemoryDescriptor>> + Clone,
) -> impl Iterator<Item = Region> + Clone {
    of_types(descriptors, |kind| {
        matches!(
            kind,
            MemoryType::BOOT_SERVICES_CODE
                | MemoryType::BOOT_SERVICES_DATA
                | MemoryType::LOADER_CODE
                | MemoryType::LOADER_DATA
                | MemoryType::ACPI_RECLAIM
        )
    })
}

fn of_types(
    descriptors: impl Iterator<Item = impl Borrow<MemoryDescriptor>> + Clone,
    is_usable: fn(MemoryType) -> bool,
) -> impl Iterator<Item = Region> + Clone {
    descriptors.map(move |descriptor| {
        let descriptor = descriptor.borrow();
        let attributes = descriptor.att;
        let is_plain = attributes.contains(MemoryAttribute::WRITE_BACK)
            && !attributes.contains(MemoryAttribute::SPECIAL_PURPOSE);
        let bytes = descriptor.page_count.saturating_mul(FRAME_BYTES);
        let is_usable = is_plain && is_usable(descriptor.ty);
        Region::of_bytes(descriptor.phys_start, bytes, is_usable)
    })
}
