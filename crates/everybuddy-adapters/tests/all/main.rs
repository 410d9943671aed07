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

use everybuddy::FrameRange;
use everybuddy_suite::System;

/// The systems that go through the adapters.
const SYSTEMS: [&str; 4] = ["bs", "lbs-31", "linux-6", "everybuddy"];

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
