//! The traits of the crate x86_64, called as its mappers do.
#![allow(unsafe_code)]

use everybuddy::platform::NativeCpus;
use everybuddy::{FrameRange, FreeError, Setup};
use everybuddy_adapters::x86_64::PageFrames;
use everybuddy_suite::{Machine, System, claim, on};
use x86_64::structures::paging::{
    FrameAllocator, FrameDeallocator, PageSize, PhysFrame, Size1GiB, Size2MiB, Size4KiB,
};

/// Memory from 1 MiB on, with a hole, as machines have it.
const RANGES: [FrameRange; 2] = [
    FrameRange::new(0x100, 0x2000),
    FrameRange::new(0x4000, 0x1000),
];

type Frames<'a> = PageFrames<'a, Machine, System<'a>>;

/// Allocates all frames of a size, and checks each.
fn take_all<S: PageSize>(frames: &mut Frames<'_>) -> Vec<PhysFrame<S>>
where
    for<'a> Frames<'a>: FrameAllocator<S>,
{
    let taken: Vec<PhysFrame<S>> = std::iter::from_fn(|| frames.allocate_frame()).collect();
    let mut starts: Vec<u64> = taken
        .iter()
        .map(|frame| frame.start_address().as_u64())
        .collect();
    starts.sort_unstable();
    assert!(starts.windows(2).all(|pair| pair[1] - pair[0] >= S::SIZE));
    for start in starts {
        let (first, frames) = (start / 4096, S::SIZE / 4096);
        let is_inside = |range: &FrameRange| {
            first >= range.start && first + frames <= range.start + range.frames
        };
        assert!(RANGES.iter().any(is_inside), "{start:x} is not memory");
    }
    taken
}

fn pages(system: &System<'_>) {
    let cpus = NativeCpus::new(1);
    let mut cpu = claim(&cpus, 0);
    // SAFETY: nothing accesses the frames of this test.
    let mut frames: Frames<'_> = unsafe { PageFrames::new(system, &mut cpu) };
    let huge = take_all::<Size2MiB>(&mut frames);
    // The first MiB of the first range is not a whole block, nor is the last one.
    assert_eq!(huge.len(), (0x2000 - 0x200) / 512 + 0x1000 / 512);
    let small = take_all::<Size4KiB>(&mut frames);
    assert_eq!(small.len(), 0x200);
    let none: Option<PhysFrame<Size1GiB>> = frames.allocate_frame();
    assert_eq!(none, None);

    for frame in huge {
        // SAFETY: the frame is unused.
        unsafe { frames.deallocate_frame(frame) };
    }
    for frame in &small {
        // SAFETY: the frame is unused.
        unsafe { frames.deallocate_frame(*frame) };
    }
    assert_eq!(frames.take_refused(), None);
    // SAFETY: the frame is unused. It is freed twice, which is refused.
    unsafe { frames.deallocate_frame(small[0]) };
    assert_eq!(frames.take_refused(), Some(FreeError::NotAllocated));
    assert_eq!(frames.take_refused(), None);
    let start = x86_64::PhysAddr::new(1 << 40);
    let foreign = PhysFrame::<Size2MiB>::from_start_address(start).unwrap();
    // SAFETY: no such frame exists, which is refused.
    unsafe { frames.deallocate_frame(foreign) };
    assert_eq!(frames.take_refused(), Some(FreeError::Foreign));
    crate::all_is_free(system, &mut cpu, &RANGES);
}

#[test]
fn frames_of_two_sizes_are_those_of_the_memory() {
    for name in crate::SYSTEMS {
        on(name, &Setup::new(&RANGES, 1), pages);
    }
}

#[test]
fn a_frame_of_a_gibibyte_needs_a_largest_block_of_that_size() {
    let ranges = [FrameRange::new(0x3_0000, 0x9_0000)];
    for (name, expected) in [
        ("everybuddy", 0),
        ("everybuddy+order=18", 2),
        ("bs+order=18", 2),
    ] {
        on(name, &Setup::new(&ranges, 1), |system| {
            let cpus = NativeCpus::new(1);
            let mut cpu = claim(&cpus, 0);
            // SAFETY: nothing accesses the frames of this test.
            let mut frames: Frames<'_> = unsafe { PageFrames::new(system, &mut cpu) };
            let take = || FrameAllocator::<Size1GiB>::allocate_frame(&mut frames);
            let taken: Vec<PhysFrame<Size1GiB>> = std::iter::from_fn(take).collect();
            let mut starts: Vec<u64> = taken.iter().map(|f| f.start_address().as_u64()).collect();
            starts.sort_unstable();
            assert_eq!(starts, [1 << 30, 2 << 30][..expected], "{name}");
            for frame in taken {
                // SAFETY: the frame is unused.
                unsafe { frames.deallocate_frame(frame) };
            }
            assert_eq!(frames.take_refused(), None);
            crate::all_is_free(system, &mut cpu, &ranges);
        });
    }
}

/// Addresses of x86-64 have 52 bits: memory beyond them is not handed out, and not lost.
#[test]
fn a_frame_without_an_address_is_freed_again() {
    let ranges = [FrameRange::new(1 << 41, 64)];
    on("everybuddy", &Setup::new(&ranges, 1), |system| {
        let cpus = NativeCpus::new(1);
        let mut cpu = claim(&cpus, 0);
        // SAFETY: nothing accesses the frames of this test.
        let mut frames: Frames<'_> = unsafe { PageFrames::new(system, &mut cpu) };
        let none: Option<PhysFrame<Size4KiB>> = frames.allocate_frame();
        assert_eq!(none, None);
        crate::all_is_free(system, &mut cpu, &ranges);
    });
}
