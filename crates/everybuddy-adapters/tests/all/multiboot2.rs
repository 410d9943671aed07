//! The memory map of Multiboot2, in information that the crate multiboot2 builds.
#![allow(unsafe_code)]

use everybuddy::{FrameRange, Pfn};
use everybuddy_adapters::map::{Region, usable};
use everybuddy_adapters::multiboot2::{Multiboot2Error, reclaimable, regions};
use multiboot2::{
    BootInformation, BootInformationHeader, Builder, MemoryArea, MemoryAreaType, MemoryMapTag,
    ModuleTag,
};

use crate::maps::{Line, read};

/// Builds information, and passes it on.
fn with_information<T>(builder: Builder, then: impl FnOnce(&BootInformation<'_>) -> T) -> T {
    let information = builder.build();
    let address = (&raw const *information).cast::<BootInformationHeader>();
    // SAFETY: the information was built just now, and lives until the end of this function.
    then(&unsafe { BootInformation::load(address) }.unwrap())
}

fn tag(lines: &[Line]) -> Box<MemoryMapTag> {
    let kind = |kind: &str| match kind {
        "usable" => MemoryAreaType::Available,
        "acpi" => MemoryAreaType::AcpiAvailable,
        "nvs" => MemoryAreaType::ReservedHibernate,
        _ => MemoryAreaType::Reserved,
    };
    let areas = lines.iter();
    let areas = areas.map(|(start, end, name)| MemoryArea::new(*start, end - start, kind(name)));
    MemoryMapTag::new(&areas.collect::<Vec<_>>())
}

#[test]
fn modules_of_the_boot_loader_are_not_used() {
    let lines = read("pc-e820");
    let mut room = [FrameRange::new(Pfn(0), 0); 32];
    let builder = Builder::new().mmap(tag(&lines));
    let builder = builder.add_module(ModuleTag::new(0x200_0000, 0x200_1001, "initrd"));
    with_information(builder, |information| {
        let ranges = usable(regions(information).unwrap(), &mut room).unwrap();
        let mut expected = crate::maps::ranges_of(&crate::maps::regions(&lines));
        // The module lies in the range from frame 0x1000 on.
        let end = expected[2].end().unwrap();
        expected[2] = FrameRange::new(Pfn(0x1000), 0x1000);
        expected.insert(3, FrameRange::new(Pfn(0x2002), end.0 - 0x2002));
        assert_eq!(ranges, expected);
        let later = usable(reclaimable(information).unwrap(), &mut room).unwrap();
        assert_eq!(later, [FrameRange::new(Pfn(0xb_ffe0), 4)]);
        // The information itself lies in memory, too: here in that of the test.
        let own = Region {
            start: information.start_address() as u64,
            end: information.end_address() as u64,
            is_usable: false,
        };
        assert!(regions(information).unwrap().any(|region| region == own));
    });
}

#[test]
fn information_without_a_map_is_an_error() {
    with_information(Builder::new(), |information| {
        let error = regions(information).err().unwrap();
        assert_eq!(error, Multiboot2Error::NoMap);
        assert!(error.to_string().contains("has no memory map"));
    });
}

/// The crate multiboot2 panics where it meets such entries.
#[test]
fn entries_of_another_size_are_an_error() {
    let built = Builder::new().mmap(tag(&read("pc-e820"))).build();
    let (start, bytes) = ((&raw const *built).cast::<u64>(), size_of_val(&*built));
    // SAFETY: information starts at a multiple of 8, and has a multiple of 8 bytes.
    let mut words = unsafe { std::slice::from_raw_parts(start, bytes / 8) }.to_vec();
    // After the header, the map's tag: its type and size, and the size of an entry, with its version.
    assert_eq!((words[1] as u32, words[2]), (6, 24));
    for bytes in [0, 20, 23, 40, u32::MAX] {
        words[2] = bytes.into();
        // SAFETY: as in `with_information`; the words live until the end of the loop.
        let information = unsafe { BootInformation::load(words.as_ptr().cast()) }.unwrap();
        let error = regions(&information).err().unwrap();
        assert_eq!(error, Multiboot2Error::EntrySize { bytes });
        assert!(error.to_string().contains("but 24 are expected"), "{error}");
        assert_eq!(reclaimable(&information).err(), Some(error));
    }
}
