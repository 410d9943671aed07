//! The memory map of Multiboot2, in information that the crate multiboot2 builds.
#![allow(unsafe_code)]

use everybuddy::{FrameRange, Pfn};
use everybuddy_adapters::map::usable;
use everybuddy_adapters::multiboot2::{NoMap, reclaimable, regions};
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
    });
}

#[test]
fn information_without_a_map_is_an_error() {
    with_information(Builder::new(), |information| {
        assert!(matches!(regions(information), Err(NoMap)));
        assert!(NoMap.to_string().contains("has no memory map"));
    });
}
