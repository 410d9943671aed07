//! The properties of `everybuddy-suite` on the CPUs of this kernel.
//!
//! The same functions are the tests of native threads and of simulated CPUs. Here they run on CPUs of their own, with
//! timer interrupts.
//!
//! # Invariants
//! The suite needs a heap, whose frames come from the kernel's frame allocator. Afterwards they are free again.

use alloc::vec;
use alloc::vec::Vec;
use core::mem::MaybeUninit;

use everybuddy::systems::Options;
use everybuddy::{
    FrameAllocator, Index, Memory, Release, Setup, SystemSpec, build_any, metadata_layout,
};
use everybuddy_adapters::FRAME_BYTES;
use everybuddy_suite::{Host, conformance, specs};
use linked_list_allocator::{Heap, LockedHeap};
use spin::Mutex;

use crate::console::println;
use crate::cpus::{Machine, Token, run as run_on, with_token};
use crate::frames::{address, allocate_adjacent, free};

/// Frames of the heap: 8 MiB.
const HEAP_FRAMES: u32 = 2048;

#[global_allocator]
static HEAP: LockedHeap = LockedHeap::empty();

/// The property that runs, for the report of a failure.
pub(crate) static CURRENT: Mutex<Option<(&'static str, SystemSpec)>> = Mutex::new(None);

/// The systems that the properties run over.
#[derive(Clone, Copy)]
pub(crate) enum Extent {
    /// The system of the command line.
    System,
    /// That system, and its variants in the suite.
    Variants,
}

/// The CPUs of the kernel.
struct Cpus;

impl Host<Machine> for Cpus {
    fn build(
        &self,
        spec: &SystemSpec,
        setup: &Setup<'_>,
        visitor: &mut dyn FnMut(&dyn FrameAllocator<Machine>),
    ) {
        let layout = metadata_layout::<Machine>(spec, setup);
        let layout = layout.unwrap_or_else(|error| panic!("{error}"));
        let mut memory = vec![MaybeUninit::uninit(); Memory::room(layout)];
        let system = build_any::<Machine>(spec, setup, Memory::new(&mut memory));
        visitor(system.unwrap_or_else(|error| panic!("{error}")));
    }

    fn run<F: Fn(&mut Token) + Sync>(&self, cpus: u16, body: F) {
        run_on(cpus, &|_| with_token(&body));
    }
}

/// Runs all properties, and prints their number.
pub(crate) fn run(system: &SystemSpec, extent: Extent) {
    let heap = take_heap();
    let properties = conformance!(table Machine, Cpus);
    let mut selected: Vec<SystemSpec> = match extent {
        Extent::System if system.options() != Options::NONE => vec![*system],
        _ => specs()
            .into_iter()
            .filter(|spec| spec.name() == system.name())
            .collect(),
    };
    if matches!(extent, Extent::System) {
        selected.truncate(1);
    }
    for spec in &selected {
        for (name, property) in &properties {
            *CURRENT.lock() = Some((name, *spec));
            property(&Cpus, spec);
        }
    }
    *CURRENT.lock() = None;
    let systems = selected.len();
    drop(selected);
    return_heap(heap);
    println!(
        "  {:<12} {} properties, {systems} variants",
        "conformance",
        properties.len()
    );
}

/// Allocates the frames of the heap.
fn take_heap() -> Index {
    let start = allocate_adjacent(HEAP_FRAMES);
    let bytes = HEAP_FRAMES as usize * FRAME_BYTES as usize;
    // SAFETY: the frames were allocated just now, and all memory is mapped to itself.
    unsafe { HEAP.lock().init(address(start) as *mut u8, bytes) };
    start
}

/// Frees the frames of the heap.
fn return_heap(start: Index) {
    let mut heap = HEAP.lock();
    assert_eq!(heap.used(), 0, "bytes of the heap are in use");
    *heap = Heap::empty();
    drop(heap);
    free(Release::frames(start, HEAP_FRAMES));
}
