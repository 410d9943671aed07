//! What the boot loader says: the memory map and the command line.
//!
//! # Purpose
//!
//! QEMU starts a 64-bit kernel by the PVH protocol of Xen: a note in the file has the address of the entry, and a
//! register has that of a structure with this information. Source: xen/include/public/arch-x86/hvm/start_info.h.
//!
//! # Invariants
//!
//! Everything is copied out of the boot loader's memory before the first frame is allocated.

use core::ffi::CStr;

use everybuddy::SystemSpec;
use everybuddy_adapters::map::Region;

use crate::conformance::Extent;

const MAGIC: u32 = 0x336e_c578;
const USABLE: u32 = 1;
const MAX_REGIONS: usize = 64;
const MAX_COMMAND_LINE: usize = 512;

/// The start information, up to the fields that the kernel reads.
#[repr(C)]
struct StartInfo {
    magic: u32,
    version: u32,
    flags: u32,
    modules: u32,
    module_list: u64,
    command_line: u64,
    rsdp: u64,
    memory_map: u64,
    memory_map_entries: u32,
    reserved: u32,
}

/// An entry of the memory map.
#[derive(Clone, Copy)]
#[repr(C)]
struct MapEntry {
    start: u64,
    bytes: u64,
    kind: u32,
    reserved: u32,
}

/// A copy of what the boot loader says.
pub(crate) struct BootInfo {
    regions: [Region; MAX_REGIONS],
    count: usize,
    text: [u8; MAX_COMMAND_LINE],
    text_bytes: usize,
}

/// The command line.
pub(crate) struct Words {
    /// `system=`, by default `everybuddy`.
    pub(crate) spec: SystemSpec,
    /// `cpus=`, by default 5.
    pub(crate) cpus: u16,
    /// `operations=` of each CPU in the random test.
    pub(crate) operations: u32,
    /// `suite=`: the properties run for the system, also for its `variants`, or not at all (`off`).
    pub(crate) suite: Option<Extent>,
}

impl BootInfo {
    /// Copies the information.
    ///
    /// # Safety
    /// The address is the one that the boot loader passed, and its memory was not used since.
    pub(crate) unsafe fn read(address: u64) -> Self {
        // SAFETY: the boot loader's structure is there, as the caller says, and memory is mapped to itself.
        let info = unsafe { &*(address as *const StartInfo) };
        assert!(
            info.magic == MAGIC && info.version >= 1,
            "the kernel needs a boot loader that speaks PVH and passes a memory map"
        );
        let count = info.memory_map_entries as usize;
        assert!(count <= MAX_REGIONS, "the memory map has {count} regions");
        let empty = Region {
            start: 0,
            end: 0,
            is_usable: false,
        };
        let mut regions = [empty; MAX_REGIONS];
        for (index, region) in regions.iter_mut().enumerate().take(count) {
            let entry = (info.memory_map as *const MapEntry).wrapping_add(index);
            // SAFETY: the map has that many entries, as the structure says.
            let entry = unsafe { entry.read() };
            *region = Region {
                start: entry.start,
                end: entry.start.saturating_add(entry.bytes),
                is_usable: entry.kind == USABLE,
            };
        }
        let mut text = [0; MAX_COMMAND_LINE];
        let mut text_bytes = 0;
        if info.command_line != 0 {
            // SAFETY: the structure says that a text that ends with zero is there.
            let line = unsafe { CStr::from_ptr(info.command_line as *const _) }.to_bytes();
            text_bytes = line.len();
            assert!(
                text_bytes <= MAX_COMMAND_LINE,
                "the command line is too long"
            );
            text[..text_bytes].copy_from_slice(line);
        }
        Self {
            regions,
            count,
            text,
            text_bytes,
        }
    }

    /// Returns the regions of the memory map.
    pub(crate) fn regions(&self) -> &[Region] {
        &self.regions[..self.count]
    }

    /// Returns the words of the command line.
    pub(crate) fn command_line(&self) -> Words {
        let text = core::str::from_utf8(&self.text[..self.text_bytes]);
        let text = text.expect("the command line is text");
        let mut words = Words {
            spec: "everybuddy".parse().expect("a system has this name"),
            cpus: 5,
            operations: 50_000,
            suite: Some(Extent::System),
        };
        for word in text.split_ascii_whitespace() {
            let number = |value: &str| {
                value
                    .parse()
                    .unwrap_or_else(|_| panic!("{word}: not a number"))
            };
            match word.split_once('=') {
                Some(("system", spec)) => {
                    words.spec = spec
                        .parse()
                        .unwrap_or_else(|error| panic!("{word}: {error}"));
                }
                Some(("cpus", value)) => {
                    words.cpus = u16::try_from(number(value)).unwrap_or(u16::MAX)
                }
                Some(("operations", value)) => words.operations = number(value),
                Some(("suite", "system")) => words.suite = Some(Extent::System),
                Some(("suite", "variants")) => words.suite = Some(Extent::Variants),
                Some(("suite", "off")) => words.suite = None,
                // QEMU puts the name of the file first.
                None if !word.contains('=') => {}
                _ => panic!(
                    "{word}: pass system=SPEC, cpus=N, operations=N, suite=system|variants|off"
                ),
            }
        }
        words
    }
}
