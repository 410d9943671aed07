//! Memory maps: against a plain model, recorded and constructed ones, and through the types of boot loaders.

use bootloader_api::info::{MemoryRegion, MemoryRegionKind};
use everybuddy::platform::NativeCpus;
use everybuddy::{FrameRange, Order, Pfn, Setup, Span};
use everybuddy_adapters::e820::{E820Error, Form, Map};
use everybuddy_adapters::map::{MapError, Region, irregular, usable};
use everybuddy_adapters::uefi::{self, UefiError};
use everybuddy_adapters::{bootloader_api as loader, limine as protocol};
use everybuddy_suite::{claim, on};
use limine::memory_map::{Entry, EntryType};
use proptest::collection::vec;
use proptest::prelude::*;

/// A line of a map: first byte, byte after the last one, type.
pub(crate) type Line = (u64, u64, String);

pub(crate) fn read(name: &str) -> Vec<Line> {
    let path = format!("{}/tests/maps/{name}.txt", env!("CARGO_MANIFEST_DIR"));
    let text = std::fs::read_to_string(path).unwrap();
    let lines = text.lines().filter(|line| !line.starts_with('#'));
    let number = |text: &str| u64::from_str_radix(text.strip_prefix("0x").unwrap(), 16).unwrap();
    let parts = lines.map(|line| line.split(' ').collect::<Vec<_>>());
    parts
        .map(|parts| (number(parts[0]), number(parts[1]) + 1, parts[2].to_owned()))
        .collect()
}

pub(crate) fn regions(lines: &[Line]) -> Vec<Region> {
    let region = |(start, end, kind): &Line| Region {
        start: *start,
        end: *end,
        is_usable: kind == "usable",
    };
    lines.iter().map(region).collect()
}

pub(crate) fn ranges_of(regions: &[Region]) -> Vec<FrameRange> {
    let mut room = [FrameRange::new(Pfn(0), 0); 64];
    usable(regions.iter().copied(), &mut room).unwrap().to_vec()
}

/// Returns how many regions are out of order, how many overlap, and how many of these are reserved.
pub(crate) fn irregular_of(regions: impl Iterator<Item = Region> + Clone) -> (usize, usize, usize) {
    let found = irregular(regions);
    (found.unsorted, found.overlaps, found.conflicts)
}

/// Builds systems on the ranges, and checks that exactly they are free.
pub(crate) fn boots(ranges: &[FrameRange]) {
    let setup = Setup::new(ranges, 1);
    for name in ["bs", "everybuddy"] {
        on(name, &setup, |system| {
            let cpus = NativeCpus::new(1);
            crate::all_is_free(system, &mut claim(&cpus, 0), ranges);
        });
    }
}

#[test]
fn a_recorded_map_has_the_memory_of_the_machine() {
    let ranges = ranges_of(&regions(&read("firecracker-e820")));
    let expected = [
        FrameRange::new(Pfn(0), 0x9f),
        FrameRange::new(Pfn(0x100), 0xb_ff00),
        FrameRange::new(Pfn(0x10_0000), 0x54_0000),
    ];
    assert_eq!(ranges, expected);
    // 24 GiB, without the last page of the first 640 KiB and the 384 KiB after them.
    let frames: u64 = ranges.iter().map(|range| range.frames).sum();
    assert_eq!(frames, (24 << 30) / 4096 - 0x61);
    boots(&ranges);
}

#[test]
fn holes_overlaps_and_parts_of_pages_are_not_used() {
    let ranges = ranges_of(&regions(&read("pc-e820")));
    let expected = [
        FrameRange::new(Pfn(0), 0x9f),
        FrameRange::new(Pfn(0x100), 0xe00),
        FrameRange::new(Pfn(0x1000), 0xb_ef7a),
        FrameRange::new(Pfn(0xb_ff7e), 0x62),
        FrameRange::new(Pfn(0x10_0000), 0x14_0000),
    ];
    assert_eq!(ranges, expected);
    boots(&ranges);
}

#[test]
fn adjacent_regions_are_one_range() {
    let ranges = ranges_of(&regions(&read("uefi")));
    let expected = [
        FrameRange::new(Pfn(0), 0xa0),
        FrameRange::new(Pfn(0x100), 0x708),
        FrameRange::new(Pfn(0x80b), 1),
        FrameRange::new(Pfn(0x811), 0xef),
        FrameRange::new(Pfn(0x1480), 0x2b80),
        FrameRange::new(Pfn(0x4020), 0x3_a9cd),
        FrameRange::new(Pfn(0x3_ebed), 0xf71),
        FrameRange::new(Pfn(0x10_0000), 0x4_0000),
    ];
    assert_eq!(ranges, expected);
    boots(&ranges);
}

/// The same maps in the types of two boot loaders.
#[test]
fn boot_loaders_describe_the_same_memory() {
    for name in ["firecracker-e820", "pc-e820", "uefi"] {
        let lines = read(name);
        let expected = ranges_of(&regions(&lines));
        let mut room = [FrameRange::new(Pfn(0), 0); 32];

        let kind = |kind: &str| match kind {
            "usable" => MemoryRegionKind::Usable,
            "loader" => MemoryRegionKind::Bootloader,
            "reserved" => MemoryRegionKind::UnknownBios(2),
            _ => MemoryRegionKind::UnknownUefi(10),
        };
        let memory: Vec<MemoryRegion> = lines
            .iter()
            .map(|(start, end, name)| MemoryRegion {
                start: *start,
                end: *end,
                kind: kind(name),
            })
            .collect();
        assert_eq!(
            usable(loader::regions(&memory), &mut room).unwrap(),
            expected
        );

        let entry_type = |kind: &str| match kind {
            "usable" => EntryType::USABLE,
            "loader" => EntryType::BOOTLOADER_RECLAIMABLE,
            "acpi" => EntryType::ACPI_RECLAIMABLE,
            "nvs" => EntryType::ACPI_NVS,
            _ => EntryType::RESERVED,
        };
        let entries: Vec<Entry> = lines
            .iter()
            .map(|(start, end, name)| Entry {
                base: *start,
                length: end - start,
                entry_type: entry_type(name),
            })
            .collect();
        let entries: Vec<&Entry> = entries.iter().collect();
        assert_eq!(
            usable(protocol::regions(&entries), &mut room).unwrap(),
            expected
        );
        let later = usable(protocol::reclaimable(&entries), &mut room);
        match name {
            "uefi" => {
                let loader = [
                    FrameRange::new(Pfn(0x900), 0xb80),
                    FrameRange::new(Pfn(0x4000), 0x20),
                ];
                assert_eq!(later.unwrap(), loader);
                added_later(&expected, &loader);
            }
            _ => assert_eq!(later, Err(MapError::NoMemory)),
        }
    }
}

/// The memory of the boot loader becomes free when the kernel does not need it any more.
fn added_later(ranges: &[FrameRange], later: &[FrameRange]) {
    let reach = FrameRange::new(Pfn(0), 0x14_0000);
    let setup = Setup::new(ranges, 1).with_reach(reach);
    on("everybuddy", &setup, |system| {
        let cpus = NativeCpus::new(1);
        let mut cpu = claim(&cpus, 0);
        for range in later {
            system.add(&mut cpu, *range).unwrap();
        }
        crate::all_is_free(system, &mut cpu, &[ranges, later].concat());
    });
}

#[test]
fn a_map_without_memory_and_a_slice_that_is_too_short_are_errors() {
    let region = |start, end, is_usable| Region {
        start,
        end,
        is_usable,
    };
    let mut room = [FrameRange::new(Pfn(0), 0); 1];
    let mut result = |regions: &[Region]| {
        let ranges = usable(regions.iter().copied(), &mut room);
        ranges.map(<[FrameRange]>::to_vec)
    };
    assert_eq!(result(&[]), Err(MapError::NoMemory));
    // Less than a page, nothing, and a region that ends before it starts.
    let none = [
        region(1, 8191, true),
        region(8192, 8192, true),
        region(9000, 5, true),
    ];
    assert_eq!(result(&none), Err(MapError::NoMemory));
    let two = [region(0, 4096, true), region(8192, 16384, true)];
    let error = result(&two).unwrap_err();
    assert_eq!(error, MapError::TooManyRanges { needed: 2, room: 1 });
    assert!(error.to_string().contains("2 usable ranges"), "{error}");
    let highest = [
        region(u64::MAX - 4095, u64::MAX, true),
        region(0, 4096, true),
    ];
    assert_eq!(result(&highest), Ok(vec![FrameRange::new(Pfn(0), 1)]));
}

/// The bytes that a BIOS or a boot loader passes.
fn e820(lines: &[Line], form: Form) -> Vec<u8> {
    let mut bytes = Vec::new();
    for (start, end, kind) in lines {
        let kind: u32 = match kind.as_str() {
            "usable" => 1,
            "acpi" => 3,
            "nvs" => 4,
            _ => 2,
        };
        bytes.extend(start.to_le_bytes());
        bytes.extend((end - start).to_le_bytes());
        bytes.extend(kind.to_le_bytes());
        match form {
            Form::Plain => {}
            Form::Attributes => bytes.extend(1_u32.to_le_bytes()),
            Form::Pvh => bytes.extend(0_u32.to_le_bytes()),
        }
    }
    bytes
}

#[test]
fn all_forms_of_e820_say_the_same() {
    for name in ["firecracker-e820", "pc-e820", "assistant-e820", "ovmf-e820"] {
        let lines = read(name);
        let expected = ranges_of(&regions(&lines));
        let mut room = [FrameRange::new(Pfn(0), 0); 32];
        for form in [Form::Plain, Form::Attributes, Form::Pvh] {
            let bytes = e820(&lines, form);
            let map = Map::new(&bytes, form).unwrap();
            assert_eq!(
                usable(map.regions(), &mut room).unwrap(),
                expected,
                "{name}, {form:?}"
            );
        }
        boots(&expected);
    }
    // Entries that do not count, and bytes that are not entries.
    let lines = read("assistant-e820");
    let mut bytes = e820(&lines, Form::Attributes);
    bytes.chunks_exact_mut(24).for_each(|entry| entry[20] = 0);
    assert_eq!(
        Map::new(&bytes, Form::Attributes)
            .unwrap()
            .regions()
            .count(),
        0
    );
    let error = Map::new(&bytes[..48], Form::Plain).unwrap_err();
    assert_eq!(
        error,
        E820Error {
            given: 48,
            entry: 20
        }
    );
    let error = Map::new(&bytes[1..], Form::Pvh).unwrap_err();
    assert!(
        error.to_string().contains("not a multiple of the 24"),
        "{error}"
    );
    // The tables of ACPI, which the kernel adds later.
    let bytes = e820(&lines, Form::Plain);
    let map = Map::new(&bytes, Form::Plain).unwrap();
    let mut room = [FrameRange::new(Pfn(0), 0); 32];
    let tables = usable(map.reclaimable(), &mut room).unwrap();
    assert_eq!(tables, [FrameRange::new(Pfn(0xdf69), 0x1c)]);
}

#[test]
fn irregular_maps_are_reported() {
    let lines = regions(&read("pc-e820"));
    let found = irregular(lines.iter().copied());
    assert_eq!(irregular_of(lines.iter().copied()), (2, 0, 2));
    assert_eq!((found.regions, found.partial, found.empty), (11, 1, 0));
    let text = found.to_string();
    let expected = "11 regions: 2 out of order, 0 overlaps, 2 overlaps with reserved memory, 1 not of whole frames, \
                    0 beyond 52 bits, 0 empty";
    assert_eq!(text, expected);
}

/// An entry of a hostile map: start, bytes, and whether it is usable.
type Claim = (u64, u64, bool);

/// Numbers at which arithmetic fails, and those next to them.
fn hostile_number() -> impl Strategy<Value = u64> {
    let edges = [0, 1 << 12, 1 << 30, 1 << 44, 1 << 52, 1 << 63, u64::MAX];
    let near = (prop::sample::select(edges.to_vec()), 0u64..3, 0u64..4).prop_map(
        |(edge, bytes, frames): (u64, u64, u64)| {
            edge.wrapping_add(bytes)
                .wrapping_sub(1)
                .wrapping_add(frames << 12)
        },
    );
    prop_oneof![near, any::<u64>(), 0u64..1 << 16]
}

/// Every frame at a border of a range is memory by the numbers of the map, which do not wrap.
fn is_memory(claims: &[Claim], regions: impl Iterator<Item = Region> + Clone) {
    let _ = irregular(regions.clone()).to_string();
    let mut room = [FrameRange::new(Pfn(0), 0); 64];
    let Ok(ranges) = usable(regions, &mut room) else {
        return;
    };
    let has = |byte: u64, is_usable| {
        let mut kind = claims.iter().filter(|claim| claim.2 == is_usable);
        kind.any(|(start, bytes, _)| {
            // What wraps has no end, and is not memory.
            let end = u128::from(*start) + u128::from(*bytes);
            let is_real = !is_usable || end < 1 << 64;
            is_real && (u128::from(*start)..end).contains(&u128::from(byte))
        })
    };
    let mut last = None;
    for range in ranges {
        assert!(last < Some(range.start), "{ranges:?}");
        last = range.end();
        assert!(range.frames > 0 && last.unwrap().0 <= 1 << 40, "{ranges:?}");
        for frame in [range.start.0, range.start.0 + range.frames - 1] {
            for byte in [frame << 12, (frame << 12) + 2048, (frame << 12) + 4095] {
                assert!(has(byte, true), "{byte:#x} of {ranges:?}");
                assert!(!has(byte, false), "{byte:#x} of {ranges:?}");
            }
        }
    }
    // However far apart they are, they have a span, or an error.
    if let Ok(span) = Span::covering(ranges, Order::TEN) {
        for range in ranges {
            let (start, frames) = span.relative(*range).unwrap();
            assert_eq!(span.physical(start), range.start);
            assert_eq!(u64::from(frames), range.frames);
        }
    }
}

proptest! {
    /// Entries of any numbers: no adapter panics, and none invents memory.
    #[test]
    fn hostile_maps_have_only_memory(
        claims in vec((hostile_number(), hostile_number(), any::<bool>()), 0..12),
    ) {
        let bytes: Vec<u8> = claims
            .iter()
            .flat_map(|(start, bytes, is_usable)| {
                let kind = if *is_usable { 1u32 } else { 2 };
                [&start.to_le_bytes()[..], &bytes.to_le_bytes(), &kind.to_le_bytes()].concat()
            })
            .collect();
        is_memory(&claims, Map::new(&bytes, Form::Plain).unwrap().regions());

        let entry_type = |is_usable| {
            if is_usable {
                EntryType::USABLE
            } else {
                EntryType::RESERVED
            }
        };
        let entries: Vec<Entry> = claims
            .iter()
            .map(|(base, length, is_usable)| Entry {
                base: *base,
                length: *length,
                entry_type: entry_type(*is_usable),
            })
            .collect();
        is_memory(&claims, protocol::regions(&entries.iter().collect::<Vec<_>>()));

        // Descriptors count pages, whose bytes may not fit into 64 bits.
        let pages: Vec<u8> = claims
            .iter()
            .flat_map(|(start, pages, is_usable)| {
                let kind = if *is_usable { 7 } else { 6 };
                [kind, *start, 0, *pages, 0xf].map(u64::to_le_bytes).concat()
            })
            .collect();
        let in_bytes: Vec<Claim> = claims
            .iter()
            .map(|(start, pages, is_usable)| (*start, pages.saturating_mul(4096), *is_usable))
            .collect();
        is_memory(&in_bytes, uefi::regions(uefi::descriptors(&pages, 40).unwrap()));
    }
}

/// The descriptors of a map, as the firmware wrote them: each has 48 bytes, of which 40 have a meaning.
fn descriptors() -> Vec<u8> {
    let path = format!("{}/tests/maps/ovmf-uefi.txt", env!("CARGO_MANIFEST_DIR"));
    let text = std::fs::read_to_string(path).unwrap();
    let lines = text.lines().filter(|line| !line.starts_with('#'));
    let number = |text: &str| u64::from_str_radix(text.strip_prefix("0x").unwrap(), 16).unwrap();
    let descriptor = |line: &str| {
        let words: Vec<u64> = line.split(' ').map(number).collect();
        let [first, last, kind, attributes] = words[..] else {
            panic!("{line}")
        };
        let pages = (last + 1 - first) / 4096;
        [kind, first, 0, pages, attributes, u64::MAX]
            .map(u64::to_le_bytes)
            .concat()
    };
    lines.flat_map(descriptor).collect()
}

/// Linux made its E820 map of the descriptors; here, the same memory is usable, immediately or later.
#[test]
fn the_descriptors_of_uefi_have_the_memory_that_linux_found() {
    let bytes = descriptors();
    let map = uefi::descriptors(&bytes, 48).unwrap();
    let mut room = [FrameRange::new(Pfn(0), 0); 64];
    let usable_now = usable(uefi::regions(map.clone()), &mut room)
        .unwrap()
        .to_vec();
    let later = usable(uefi::reclaimable(map), &mut room).unwrap().to_vec();
    // The loader, with the kernel in it, lies in the memory above 4 GiB.
    assert_eq!(
        usable_now.last(),
        Some(&FrameRange::new(Pfn(0x11_6200), 0xa_9e00))
    );
    let both = usable_now.iter().chain(&later).map(|range| Region {
        start: range.start.0 * 4096,
        end: range.end().unwrap().0 * 4096,
        is_usable: true,
    });
    // Linux keeps the tables of ACPI apart.
    let linux = read("ovmf-e820");
    let linux = linux.iter().map(|(start, end, kind)| Region {
        start: *start,
        end: *end,
        is_usable: kind == "usable" || kind == "acpi",
    });
    assert_eq!(
        ranges_of(&both.collect::<Vec<_>>()),
        ranges_of(&linux.collect::<Vec<_>>())
    );
    boots(&usable_now);
}

#[test]
fn special_memory_of_uefi_is_not_used() {
    let mut bytes = descriptors();
    let mut frames = |kind: u64, attributes: u64| {
        let descriptor = [kind, 0x1000, 0, 2, attributes, 0]
            .map(u64::to_le_bytes)
            .concat();
        bytes.splice(.., descriptor);
        let map: Vec<_> = uefi::descriptors(&bytes, 48).unwrap().collect();
        let mut room = [FrameRange::new(Pfn(0), 0); 8];
        usable(uefi::regions(map.iter()), &mut room).map(|ranges| ranges[0].frames)
    };
    let none = Err(MapError::NoMemory);
    // Cached by write-back; without it; kept for a special purpose; that of a runtime service.
    assert_eq!(frames(7, 0xf), Ok(2));
    assert_eq!(frames(7, 0x1), none);
    assert_eq!(frames(7, 0x4_000f), none);
    assert_eq!(frames(6, 0x8000_0000_0000_000f), none);
    let short = uefi::descriptors(&[0; 96], 32).err();
    assert_eq!(short, Some(UefiError::ShortDescriptors { bytes: 32 }));
    let remainder = uefi::descriptors(&[0; 100], 48).err();
    assert_eq!(
        remainder,
        Some(UefiError::Remainder {
            given: 100,
            descriptor: 48
        })
    );
    assert!(short.unwrap().to_string().contains("40 are needed"));
}

proptest! {
    /// Any regions of 64 pages, whose bytes are counted one by one (in units of 512).
    #[test]
    fn a_frame_is_used_if_all_of_it_is_usable(
        lines in vec((0u64..512, 0u64..90, any::<bool>()), 0..14),
    ) {
        let regions: Vec<Region> = lines
            .iter()
            .map(|(start, units, is_usable)| Region {
                start: start * 512,
                end: (start + units) * 512,
                is_usable: *is_usable,
            })
            .collect();
        let is_in = |unit: u64, is_usable| {
            let mut kind = regions.iter().filter(|region| region.is_usable == is_usable);
            kind.any(|region| (region.start..region.end).contains(&(unit * 512)))
        };
        let is_used = |unit| is_in(unit, true) && !is_in(unit, false);
        let frames: Vec<u64> =
            (0..80).filter(|frame| (frame * 8..frame * 8 + 8).all(is_used)).collect();
        let mut room = [FrameRange::new(Pfn(0), 0); 80];
        let ranges = match usable(regions.iter().copied(), &mut room) {
            Ok(ranges) => ranges,
            Err(error) => {
                prop_assert_eq!(error, MapError::NoMemory);
                &[]
            }
        };
        let found: Vec<u64> = ranges
            .iter()
            .flat_map(|range| range.start.0..range.end().unwrap().0)
            .collect();
        prop_assert_eq!(found, frames);
        let is_apart = |pair: &[FrameRange]| pair[0].end().unwrap() < pair[1].start;
        prop_assert!(ranges.windows(2).all(is_apart), "{:?}", ranges);
    }
}
