//! Runs of pages by bytes: alignments, limits, runs beyond the largest block, parts, holes and misuse.

use everybuddy::platform::NativeCpus;
use everybuddy::platform::{Bare, Call, Calls, CpuToken};
use everybuddy::{
    AllocateError, CpuId, FrameRange, FreeError, Pfn, RegionError, Setup, systems::Everybuddy,
    systems::Options,
};
use everybuddy_adapters::map;
use everybuddy_adapters::runs::{self, PageRuns, RunError};
use everybuddy_suite::{System, claim, on};

const FRAME: u64 = 4096;

/// Boots without memory, adds some, and allocates in every way.
fn boot(system: &System<'_>) {
    let cpus = NativeCpus::new(1);
    let cpu = &mut claim(&cpus, 0);
    let range = |start, frames| FrameRange::new(Pfn(start), frames);
    let ranges = [range(0x100, 16), range(0x200, 0x100), range(0x300, 0x500)];
    let none = Err(RunError::Allocate(AllocateError::Exhausted));
    assert_eq!(runs::allocate(system, cpu, FRAME, 1, None), none);
    for range in ranges {
        system.add(cpu, range).unwrap();
    }
    let mut taken: Vec<(u64, u64)> = Vec::new();
    for (frames, alignment, below) in [
        (3, 16, None),
        (1, 1, None),
        (5, 1, Some(0x300)),
        (16, 64, None),
        (1, 512, None),
        (512, 1, None),
        (7, 8, Some(0x240)),
        (1, 1, Some(0x110)),
        (4, 256, Some(0x400)),
    ] {
        let (bytes, align) = (frames * FRAME, alignment * FRAME);
        let below = below.map(|frame| frame * FRAME);
        let address = runs::allocate(system, cpu, bytes, align, below).unwrap();
        assert_eq!(address % align, 0);
        assert!(
            below.is_none_or(|below| address + bytes <= below),
            "{address:x}"
        );
        let apart =
            |(other, length): &(u64, u64)| address >= other + length || address + bytes <= *other;
        assert!(taken.iter().all(apart), "{taken:x?} and {address:x}");
        taken.push((address, bytes));
    }
    let frames: u64 = taken.iter().map(|(_, bytes)| bytes / FRAME).sum();
    system.quiesce(cpu).unwrap();
    assert_eq!(system.check(cpu).unwrap().allocated, frames);
    // Freed in parts, last page first, as a kernel does with segments that were split.
    for (address, bytes) in taken {
        if bytes > FRAME {
            runs::free(system, cpu, address + bytes - FRAME, FRAME).unwrap();
            runs::free(system, cpu, address, bytes - FRAME).unwrap();
        } else {
            runs::free(system, cpu, address, bytes).unwrap();
        }
    }
    // A run that is larger than the largest block, and no multiple of one.
    let (bytes, more) = (0x580 * FRAME, 0x601 * FRAME);
    let large = runs::allocate(system, cpu, bytes, FRAME, None).unwrap();
    assert_eq!(large, 0x200 * FRAME);
    assert_eq!(runs::allocate(system, cpu, bytes, FRAME, None), none);
    runs::free(system, cpu, large, bytes).unwrap();
    assert_eq!(runs::allocate(system, cpu, more, FRAME, None), none);
    assert_eq!(
        runs::allocate(system, cpu, bytes, FRAME, Some(0x780 * FRAME - 1)),
        none
    );
    // An alignment beyond the largest block.
    let far = runs::allocate(system, cpu, FRAME, 0x400 * FRAME, None).unwrap();
    assert_eq!(far, 0x400 * FRAME);
    runs::free(system, cpu, far, FRAME).unwrap();
    for (start, bytes, error) in [
        (0x200, FRAME, RunError::Free(FreeError::NotAllocated)),
        (0x4_0000, FRAME, RunError::Free(FreeError::Foreign)),
        (0x200, 100, RunError::Unaligned),
        (0x200, 0, RunError::Free(FreeError::ZeroFrames)),
    ] {
        assert_eq!(runs::free(system, cpu, start * FRAME, bytes), Err(error));
    }
    // A frame that is free, and a hole.
    assert!(runs::free(system, cpu, 0x10f * FRAME, 2 * FRAME).is_err());
    let zero = Err(RunError::Allocate(AllocateError::ZeroFrames));
    assert_eq!(runs::allocate(system, cpu, 0, 64 * FRAME, None), zero);
    assert_eq!(runs::allocate(system, cpu, 1 << 50, FRAME, None), none);
    assert_eq!(
        runs::allocate(system, cpu, 1, 3, None),
        Err(RunError::Unaligned)
    );
    crate::all_is_free(system, cpu, &[ranges[0], range(0x200, 0x600)]);
}

#[test]
fn runs_are_aligned_limited_and_freed_in_parts() {
    for name in crate::SYSTEMS {
        let setup = Setup::new(&[], 1).with_reach(FrameRange::new(Pfn(0x100), 0x800));
        on(name, &setup, boot);
    }
}

/// Frees what the kernel never got, and checks that nothing changes and that no such frame is allocated.
fn frees_of_others(system: &System<'_>) {
    let cpus = NativeCpus::new(1);
    let cpu = &mut claim(&cpus, 0);
    let block = runs::allocate(system, cpu, 4 * FRAME, FRAME, None).unwrap();
    let freed = runs::allocate(system, cpu, FRAME, FRAME, None).unwrap();
    runs::free(system, cpu, freed, FRAME).unwrap();
    let free = system.free_frames();
    for (start, frames, error) in [
        (crate::BIOS, 1, FreeError::Hole),
        (crate::IMAGE, 1, FreeError::Hole),
        (crate::IMAGE + 1, 3, FreeError::Hole),
        (crate::IMAGE, 512, FreeError::Hole),
        (crate::BEYOND, 1, FreeError::Foreign),
        (freed / FRAME, 1, FreeError::NotAllocated),
    ] {
        let refused = runs::free(system, cpu, start * FRAME, frames * FRAME);
        assert_eq!(refused, Err(RunError::Free(error)), "{start:x}");
        assert_eq!(system.free_frames(), free, "{start:x}");
    }
    // The last memory before the image, and the image: neither is freed.
    let end = (crate::IMAGE - 1) * FRAME;
    runs::free(system, cpu, end, 2 * FRAME).unwrap_err();
    assert_eq!(system.free_frames(), free);
    // A part of an allocation is freed once, and the rest afterwards.
    runs::free(system, cpu, block + FRAME, FRAME).unwrap();
    let again = runs::free(system, cpu, block + FRAME, FRAME);
    assert_eq!(again, Err(RunError::Free(FreeError::NotAllocated)));
    assert_eq!(system.free_frames(), free + 1);
    runs::free(system, cpu, block, FRAME).unwrap();
    runs::free(system, cpu, block + 2 * FRAME, 2 * FRAME).unwrap();
    let mut taken = Vec::new();
    while let Ok(start) = runs::allocate(system, cpu, FRAME, FRAME, None) {
        taken.push(Pfn(start / FRAME));
    }
    crate::are_frames_of_the_map(&mut taken);
}

/// With the frames of the firmware and of the kernel as holes, as every memory map has them.
#[test]
fn a_free_of_what_was_not_allocated_is_refused_and_adds_nothing() {
    for name in crate::SYSTEMS {
        on(name, &Setup::new(&crate::MAP, 1), frees_of_others);
    }
}

#[test]
fn a_run_of_a_power_of_two_may_be_larger_than_the_largest_block() {
    for name in ["everybuddy+order=4", "lbs-31+order=4"] {
        let ranges = [FrameRange::new(Pfn(0x100), 0x100)];
        on(name, &Setup::new(&ranges, 1), |system| {
            let cpus = NativeCpus::new(1);
            let cpu = &mut claim(&cpus, 0);
            let run = runs::allocate(system, cpu, 64 * FRAME, FRAME, None).unwrap();
            runs::free(system, cpu, run, 64 * FRAME).unwrap();
            crate::all_is_free(system, cpu, &ranges);
        });
    }
}

/// A frame without an address in bytes is not allocated, and not lost.
#[test]
fn frames_beyond_all_addresses_stay_free() {
    for name in crate::SYSTEMS {
        let ranges = [FrameRange::new(Pfn(1 << 52), 64)];
        on(name, &Setup::new(&ranges, 1), |system| {
            let cpus = NativeCpus::new(1);
            let cpu = &mut claim(&cpus, 0);
            for frames in [1, 5] {
                runs::allocate(system, cpu, frames * FRAME, 8 * FRAME, None).unwrap_err();
            }
            crate::all_is_free(system, cpu, &ranges);
        });
    }
}

static CALLS: Calls<2> = Calls::new();

struct Guard(Call);

impl CpuToken for Guard {
    fn id(&self) -> CpuId {
        self.0.cpu()
    }
}

type Machine = Bare<Guard>;
type Frames = <Everybuddy as everybuddy::System>::Built<'static, Machine>;

/// The metadata lie in the memory that they manage, and blocks have up to 1 GiB.
#[test]
fn a_static_without_bytes_is_built_in_carved_memory() {
    static MEMORY: PageRuns<Machine, Frames> = PageRuns::new(|| Guard(CALLS.begin(CpuId(1))));
    assert_eq!(MEMORY.allocate(FRAME, 1, None), Err(RunError::NotBuilt));
    assert_eq!((MEMORY.free_bytes(), MEMORY.system().is_none()), (0, true));
    let options = Options {
        order: everybuddy::Order::new(18),
        ..Options::NONE
    };
    let mut ranges = [
        FrameRange::new(Pfn(1), 0x9e),
        FrameRange::new(Pfn(0x4_0000), 0x5_0000),
    ];
    let before = ranges;
    let layout = |ranges: &[FrameRange]| {
        let setup = Setup::new(ranges, 2);
        everybuddy::systems::layout::<Everybuddy, Machine>(&options, &setup)
    };
    let room = |ranges: &[FrameRange]| layout(ranges).map(everybuddy::Memory::room);
    let metadata = map::carve(&mut ranges, room).unwrap().unwrap();
    assert_eq!((metadata.start, ranges[0]), (Pfn(0x4_0000), before[0]));
    assert_eq!(ranges[1].frames + metadata.frames, before[1].frames);
    // A kernel makes this slice of the direct map.
    let bytes = vec![core::mem::MaybeUninit::uninit(); (metadata.frames * FRAME) as usize].leak();
    let setup = Setup::new(&ranges, 2);
    let built = MEMORY.build(|_| {
        everybuddy::build::<Everybuddy, Machine>(&options, &setup, bytes[..].as_mut().into())
    });
    built.unwrap();
    let free = MEMORY.free_bytes();
    assert_eq!(free, (ranges[0].frames + ranges[1].frames) * FRAME);
    let huge = MEMORY.allocate(1 << 28, 1 << 28, None).unwrap();
    assert_eq!(huge % (1 << 28), 0);
    MEMORY.allocate_at(huge, FRAME).unwrap_err();
    MEMORY.free(huge, 1 << 28).unwrap();
    MEMORY.remove(huge, 1 << 28).unwrap();
    let hole = RegionError::NotFree(Pfn(huge / FRAME));
    assert_eq!(MEMORY.allocate_at(huge, FRAME), Err(RunError::Region(hole)));
    MEMORY.add(huge, 1 << 28).unwrap();
    assert_eq!(MEMORY.free_bytes(), free);
    let none = map::carve(&mut ranges, |_| Ok::<_, ()>(1 << 40)).unwrap();
    assert_eq!((none, ranges[0]), (None, before[0]));
}
