//! The traits of the crate x86_64, called as its mappers do.
#![allow(unsafe_code)]

use everybuddy::platform::NativeCpus;
use everybuddy::{FrameRange, FreeError, Pfn, Setup};
use everybuddy_adapters::x86_64::PageFrames;
use everybuddy_suite::{Machine, System, claim, on, on_cpus};
use x86_64::VirtAddr;
use x86_64::structures::paging::mapper::CleanUp;
use x86_64::structures::paging::{
    FrameAllocator, FrameDeallocator, Mapper, OffsetPageTable, Page, PageSize, PageTable,
    PageTableFlags, PhysFrame, Size1GiB, Size2MiB, Size4KiB, Translate,
};

/// Memory from 1 MiB on, with a hole, as machines have it.
const RANGES: [FrameRange; 2] = [
    FrameRange::new(Pfn(0x100), 0x2000),
    FrameRange::new(Pfn(0x4000), 0x1000),
];

type Frames<'a> = PageFrames<'a, Machine, System<'a>>;

/// Allocates frames of a size until there are none, and returns their addresses.
fn take<S: PageSize>(frames: &mut Frames<'_>) -> impl Iterator<Item = u64>
where
    for<'a> Frames<'a>: FrameAllocator<S>,
{
    let taken = std::iter::from_fn(|| FrameAllocator::<S>::allocate_frame(frames));
    taken.map(|frame| frame.start_address().as_u64())
}

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
        let first = Pfn::containing(start, 12);
        let end = first.checked_add(S::SIZE / 4096);
        let is_inside = |range: &FrameRange| first >= range.start && end <= range.end();
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

/// With the frames of the firmware and of the kernel as holes.
#[test]
fn a_free_of_what_was_not_allocated_is_refused_and_adds_nothing() {
    for name in crate::SYSTEMS {
        on_cpus(name, &crate::MAP, |system, [cpu]| {
            // SAFETY: nothing accesses the frames of this test.
            let mut frames: Frames<'_> = unsafe { PageFrames::new(system, cpu) };
            let page = |frame| x86_64::PhysAddr::new(frame << 12);
            let small = |frame| PhysFrame::<Size4KiB>::from_start_address(page(frame)).unwrap();
            let huge = |frame| PhysFrame::<Size2MiB>::from_start_address(page(frame)).unwrap();
            let part: PhysFrame<Size2MiB> = frames.allocate_frame().unwrap();
            let free = system.free_frames();
            for (frame, error) in [
                (small(crate::BIOS), FreeError::Hole),
                (small(crate::IMAGE), FreeError::Hole),
                (small(crate::BEYOND), FreeError::Foreign),
                (small(1), FreeError::NotAllocated),
            ] {
                // SAFETY: no such frame was allocated, which is refused.
                unsafe { frames.deallocate_frame(frame) };
                assert_eq!(frames.take_refused(), Some(error), "{frame:?}");
                assert_eq!(system.free_frames(), free, "{frame:?}");
            }
            // SAFETY: no such frame was allocated, which is refused.
            unsafe { frames.deallocate_frame(huge(crate::IMAGE)) };
            assert_eq!(frames.take_refused(), Some(FreeError::Hole));
            // SAFETY: a page of the frame of 2 MiB: a part of a block is refused.
            unsafe { frames.deallocate_frame(small(part.start_address().as_u64() / 4096)) };
            frames.take_refused().unwrap();
            assert_eq!(system.free_frames(), free);
            // SAFETY: the frame is unused.
            unsafe { frames.deallocate_frame(part) };
            let taken = take::<Size4KiB>(&mut frames);
            let mut taken: Vec<Pfn> = taken.map(|start| Pfn::containing(start, 12)).collect();
            crate::are_frames_of_the_map(&mut taken);
        });
    }
}

#[test]
fn a_frame_of_a_gibibyte_needs_a_largest_block_of_that_size() {
    let ranges = [FrameRange::new(Pfn(0x3_0000), 0x9_0000)];
    for (name, expected) in [
        ("everybuddy", 0),
        ("everybuddy+order=18", 2),
        ("bs+order=18", 2),
    ] {
        on_cpus(name, &ranges, |system, [cpu]| {
            // SAFETY: nothing accesses the frames of this test.
            let mut frames: Frames<'_> = unsafe { PageFrames::new(system, cpu) };
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
            crate::all_is_free(system, cpu, &ranges);
        });
    }
}

/// Addresses of x86-64 have 52 bits: memory beyond them is not handed out, and not lost.
#[test]
fn a_frame_without_an_address_is_freed_again() {
    let ranges = [FrameRange::new(Pfn(1 << 41), 64)];
    on_cpus("everybuddy", &ranges, |system, [cpu]| {
        // SAFETY: nothing accesses the frames of this test.
        let mut frames: Frames<'_> = unsafe { PageFrames::new(system, cpu) };
        let none: Option<PhysFrame<Size4KiB>> = frames.allocate_frame();
        assert_eq!(none, None);
        crate::all_is_free(system, cpu, &ranges);
    });
}

/// Page tables of the crate in frames of a system: what is mapped is found, and all tables are freed at last.
#[test]
fn page_tables_take_frames_and_return_them() {
    let ranges = [FrameRange::new(Pfn(0), 4096)];
    let flags = PageTableFlags::PRESENT | PageTableFlags::WRITABLE;
    for name in crate::SYSTEMS {
        on(name, &Setup::new(&ranges, 1), |system| {
            // Physical memory, from address 0 on; only the frames of tables are accessed.
            let mut memory: Vec<PageTable> = (0..4096).map(|_| PageTable::new()).collect();
            let offset = VirtAddr::from_ptr(memory.as_mut_ptr());
            let cpus = NativeCpus::new(1);
            let mut cpu = claim(&cpus, 0);
            // SAFETY: the memory is used by the tables alone.
            let mut frames: Frames<'_> = unsafe { PageFrames::new(system, &mut cpu) };
            let root: PhysFrame = frames.allocate_frame().unwrap();
            let table = offset + root.start_address().as_u64();
            // SAFETY: the frame of the root is unused, and lies in the memory.
            let table = unsafe { &mut *table.as_mut_ptr::<PageTable>() };
            table.zero();
            // SAFETY: all frames of the system are at this offset. No processor uses the tables.
            let mut mapper = unsafe { OffsetPageTable::new(table, offset) };
            let page = |number: u64| {
                let address = VirtAddr::new(number * 0x1_2345_6000);
                Page::<Size4KiB>::containing_address(address)
            };
            let huge = Page::<Size2MiB>::containing_address(VirtAddr::new(0x7f00_0020_0000));
            let huge_frame: PhysFrame<Size2MiB> = frames.allocate_frame().unwrap();
            // SAFETY: no processor uses the tables.
            let flush = unsafe { mapper.map_to(huge, huge_frame, flags, &mut frames) };
            flush.unwrap().ignore();
            let mut mapped: Vec<(Page, PhysFrame)> = Vec::new();
            for number in 1..200 {
                let frame = frames.allocate_frame().unwrap();
                // SAFETY: as above.
                let flush = unsafe { mapper.map_to(page(number), frame, flags, &mut frames) };
                flush.unwrap().ignore();
                mapped.push((page(number), frame));
            }
            for (page, frame) in mapped {
                let found = mapper.translate_addr(page.start_address() + 5);
                assert_eq!(found, Some(frame.start_address() + 5));
                let (frame, flush) = mapper.unmap(page).unwrap();
                flush.ignore();
                // SAFETY: the frame is not mapped any more.
                unsafe { frames.deallocate_frame(frame) };
            }
            let (frame, flush) = mapper.unmap(huge).unwrap();
            flush.ignore();
            assert_eq!(frame, huge_frame);
            // SAFETY: as above; and the tables that are freed have no entries.
            unsafe { frames.deallocate_frame(frame) };
            // SAFETY: as above.
            unsafe { mapper.clean_up(&mut frames) };
            // SAFETY: as above.
            unsafe { frames.deallocate_frame(root) };
            assert_eq!(frames.take_refused(), None);
            crate::all_is_free(system, &mut cpu, &ranges);
        });
    }
}
