//! Tests of the adapters: one program, so that the systems are compiled once.

#[path = "../../examples/counted.rs"]
mod counted;
mod fdt;
#[path = "../../examples/machine.rs"]
mod machine;
mod maps;
mod multiboot2;
#[path = "../../examples/recipes.rs"]
mod recipes;
mod runs;
mod x86_64;

use everybuddy::{FrameRange, Pfn};
use everybuddy_suite::System;

/// The systems that go through the adapters.
const SYSTEMS: [&str; 4] = ["bs", "lbs-31", "linux-6", "everybuddy"];

/// The memory of a PC: the BIOS has the last page of the first 640 KiB and all up to 1 MiB, the kernel's image lies
/// from 2 MiB to 6 MiB.
const MAP: [FrameRange; 3] = [
    FrameRange::new(Pfn(1), 0x9e),
    FrameRange::new(Pfn(0x100), 0x100),
    FrameRange::new(Pfn(0x600), 0xa00),
];
/// A page of the BIOS, the first page of the image, and one outside of the span.
const BIOS: u64 = 0x9f;
const IMAGE: u64 = 0x200;
const BEYOND: u64 = 0x4_0000;

/// Checks that these are all frames of [`MAP`], each once.
fn are_frames_of_the_map(frames: &mut [Pfn]) {
    frames.sort_unstable();
    let map = MAP.iter();
    let map = map.flat_map(|range| (range.start.0..range.start.0 + range.frames).map(Pfn));
    assert!(frames.iter().copied().eq(map), "{frames:x?}");
}

/// Checks that nothing is allocated, and that all frames of these ranges are free.
fn all_is_free(system: &System<'_>, cpu: &mut everybuddy_suite::Cpu, ranges: &[FrameRange]) {
    system.quiesce(cpu).unwrap();
    let census = system.check(cpu).unwrap();
    let frames = ranges.iter().map(|range| range.frames).sum();
    assert_eq!((census.allocated, census.free), (0, frames));
}

#[test]
fn the_recipes_of_kernels_allocate_and_free() {
    recipes::main();
}

#[test]
fn a_kernel_has_nodes_devices_hotplug_and_counters() {
    machine::main();
}

#[test]
fn the_example_of_counted_frames_frees_each_once() {
    counted::main();
}
