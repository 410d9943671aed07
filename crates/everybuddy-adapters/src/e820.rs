//! Memory maps of a PC's BIOS, named after the number of its call.
//!
//! Three forms of the same entry exist: that of the BIOS call itself, the one with attributes, and that of the boot
//! protocol PVH. A kernel finds them in what its boot loader passes, or calls the BIOS.
//!
//! # Invariants
//! Addresses have 64 bits in all forms. Only memory of type 1 is usable. Source: ACPI 6.5, section 15.

use core::fmt;

use crate::map::Region;

/// Memory for any use.
const MEMORY: u32 = 1;
/// The tables of ACPI: memory for any use after the kernel has read them.
const ACPI_TABLES: u32 = 3;

/// The form of an entry.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Form {
    /// 20 bytes: start, bytes, type. The BIOS call, and the field `e820_table` of Linux's `boot_params`.
    Plain,
    /// 24 bytes: also attributes. An entry whose bit 0 of them is clear does not count. The BIOS call since ACPI 3.0.
    Attributes,
    /// 24 bytes, the last 4 of which mean nothing. The start information of PVH.
    Pvh,
}

impl Form {
    /// The bytes of an entry.
    pub const fn bytes(self) -> usize {
        match self {
            Self::Plain => 20,
            Self::Attributes | Self::Pvh => 24,
        }
    }
}

/// The map is not a list of entries of its form.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct E820Error {
    /// The bytes that were passed.
    pub given: usize,
    /// The bytes of an entry.
    pub entry: usize,
}

impl fmt::Display for E820Error {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { given, entry } = self;
        write!(
            f,
            "the memory map has {given} bytes, which is not a multiple of the {entry} of an entry"
        )
    }
}

impl core::error::Error for E820Error {}

/// A map in memory.
///
/// ```
/// use everybuddy::{FrameRange, Pfn};
/// use everybuddy_adapters::{e820::{Form, Map}, map::usable};
///
/// let mut bytes = Vec::new();
/// for (start, size, kind) in [(0, 0x9_fc00_u64, 1_u32), (0x10_0000_u64, 0x7f0_0000, 1), (0x400_0000, 0x1000, 2)] {
///     bytes.extend([start.to_le_bytes(), size.to_le_bytes()].concat());
///     bytes.extend(kind.to_le_bytes());
/// }
/// let map = Map::new(&bytes, Form::Plain)?;
/// let mut room = [FrameRange::new(Pfn(0), 0); 8];
/// let ranges = usable(map.regions(), &mut room)?;
/// let expected =
///     [FrameRange::new(Pfn(0), 0x9f), FrameRange::new(Pfn(0x100), 0x3f00), FrameRange::new(Pfn(0x4001), 0x3fff)];
/// assert_eq!(ranges, expected);
/// # Ok::<(), Box<dyn core::error::Error>>(())
/// ```
#[derive(Clone, Copy, Debug)]
pub struct Map<'a> {
    bytes: &'a [u8],
    form: Form,
}

impl<'a> Map<'a> {
    /// Takes the bytes of all entries.
    ///
    /// # Errors
    /// [`E820Error`] if a part of an entry is left.
    pub fn new(bytes: &'a [u8], form: Form) -> Result<Self, E820Error> {
        let (given, entry) = (bytes.len(), form.bytes());
        if given.is_multiple_of(entry) {
            Ok(Self { bytes, form })
        } else {
            Err(E820Error { given, entry })
        }
    }

    /// Returns the regions of the map, for [`map::usable`](crate::map::usable).
    pub fn regions(&self) -> impl Iterator<Item = Region> + Clone + use<'a> {
        self.of_types(&[MEMORY])
    }

    /// Returns the regions with the tables of ACPI as the usable ones. The kernel may
    /// [`add`](everybuddy::FrameAllocator::add) them after it has read the tables.
    pub fn reclaimable(&self) -> impl Iterator<Item = Region> + Clone + use<'a> {
        self.of_types(&[ACPI_TABLES])
    }

    fn of_types(&self, usable: &'static [u32]) -> impl Iterator<Item = Region> + Clone + use<'a> {
        let form = self.form;
        self.bytes
            .chunks_exact(form.bytes())
            .filter_map(move |entry| {
                let number = |at: usize, bytes: usize| {
                    let bytes = entry[at..at + bytes].iter().rev();
                    bytes.fold(0, |number, byte| number << 8 | u64::from(*byte))
                };
                let (start, bytes, kind) = (number(0, 8), number(8, 8), number(16, 4) as u32);
                let counts = form != Form::Attributes || number(20, 4) & 1 == 1;
                counts.then_some(Region::of_bytes(start, bytes, usable.contains(&kind)))
            })
    }
}
