//! The properties of single operations: misuse, ranges of memory, nested requests and bulk requests.

use alloc::vec;
use alloc::vec::Vec;

use everybuddy::{
    AllocateError, CpuToken, Flags, FrameRange, FrameState, FreeError, Index, Pfn, Platform,
    RegionError, Release, Request, Setup, SystemSpec,
};

use super::is_as_new;
use crate::free_frames;
use crate::{Host, Shadow, order};

/// Every wrong release is refused with its typed error, and changes nothing.
pub fn misuse_is_an_error_and_changes_nothing<P: Platform, H: Host<P>>(
    host: &H,
    spec: &SystemSpec,
) {
    use FreeError::{Foreign, Hole, NotAllocated, Reserved, ZeroFrames};
    const RANGES: &[FrameRange] = &[FrameRange::new(Pfn(0), 16), FrameRange::new(Pfn(32), 32)];
    let knows_orders = spec.row().knows_orders();
    host.build(spec, &Setup::new(RANGES, 2), &mut |system| {
        host.run(1, |cpu| {
            let single = system.allocate(cpu, Request::FRAME).unwrap();
            let freed = system.allocate(cpu, Request::FRAME).unwrap();
            let block = system.allocate(cpu, Request::order(order(2))).unwrap();
            let run = system.allocate(cpu, Request::frames(7)).unwrap();
            let physical = |frame| FrameRange::new(system.span().physical(Index(frame)), 1);
            let reserved = (0..64)
                .rev()
                .find(|frame| system.reserve(cpu, physical(*frame)).is_ok());
            let reserved = reserved.expect("a frame is free");
            system.free(cpu, Release::frame(freed)).unwrap();
            let frames = |start: u32, count| Release::frames(Index(start), count);
            system.free(cpu, frames(run.0 + 2, 1)).unwrap();
            let before = (system.check(cpu).unwrap(), system.snapshot(cpu));
            let by_order = |start: u32, size| {
                Release::block(everybuddy::Block::new(Index(start), order(size)))
            };
            let end = system.span().frames();
            let allocated = order(2);
            let wrong = FreeError::WrongOrder { allocated };
            let inside = FreeError::InsideBlock { order: allocated };
            let mut cases = vec![
                ("foreign", by_order(end, 0), Foreign),
                ("far away", by_order(u32::MAX, 0), Foreign),
                ("a tag's number", by_order(0xff00_0000, 0), Foreign),
                ("reaching out", frames(end - 1, 2), Foreign),
                ("overflowing", frames(u32::MAX, u32::MAX), Foreign),
                ("a hole", by_order(20, 0), Hole),
                ("a run in a hole", frames(20, 3), Hole),
                ("reserved", by_order(reserved, 0), Reserved),
                ("nothing", frames(single.0, 0), ZeroFrames),
                ("nothing outside", frames(end, 0), ZeroFrames),
                ("too small", by_order(block.0, 0), wrong),
                ("too large", by_order(block.0, 3), wrong),
                ("inside a block", by_order(block.0 + 1, 0), inside),
                ("a part twice", frames(run.0 + 2, 1), NotAllocated),
                ("over a freed part", frames(run.0, 7), NotAllocated),
                ("twice", by_order(freed.0, 0), NotAllocated),
                ("a run twice", frames(freed.0, 1), NotAllocated),
            ];
            if !knows_orders {
                // Such a free names frames that are allocated, or no block can start there.
                cases.retain(|(.., error)| *error != wrong && *error != inside);
                let allocated = order(0);
                let release = by_order(block.0 + 1, 1);
                cases.push(("unaligned", release, FreeError::WrongOrder { allocated }));
            }
            for (what, release, error) in cases {
                assert_eq!(system.free(cpu, release), Err(error), "{what}");
                if error != Foreign && error != ZeroFrames {
                    let nested = system.free_nested(cpu.id(), release);
                    assert_eq!(nested, Err(error), "{what}, nested");
                }
                let after = (system.check(cpu).unwrap(), system.snapshot(cpu));
                assert_eq!(before.0, after.0, "{what}");
                assert_eq!(before.1.free_frames(), after.1.free_frames(), "{what}");
            }
            assert_eq!(system.frame_state(Index(end)), None);
            assert_eq!(system.frame_state(Index(20)), Some(FrameState::Hole));
            let inside = Index(block.0 + 3);
            let (head, order) = if knows_orders {
                (block, allocated)
            } else {
                (inside, order(0))
            };
            let state = FrameState::Allocated { head, order };
            assert_eq!(system.frame_state(inside), Some(state));
            system.free(cpu, Release::frame(single)).unwrap();
            system.free(cpu, by_order(block.0, 2)).unwrap();
            system.free(cpu, Release::frames(run, 2)).unwrap();
            system.free(cpu, frames(run.0 + 3, 4)).unwrap();
            system.unreserve(cpu, physical(reserved)).unwrap();
            is_as_new(system, cpu, RANGES);
        });
    });
}

/// Memory is added, removed and reserved; each wrong range is refused with its typed error.
pub fn ranges_come_and_go<P: Platform, H: Host<P>>(host: &H, spec: &SystemSpec) {
    const RANGES: &[FrameRange] = &[FrameRange::new(Pfn(4096), 100)];
    let setup = Setup::new(RANGES, 2).with_reach(FrameRange::new(Pfn(4096), 1000));
    host.build(spec, &setup, &mut |system| {
        host.run(1, |cpu| {
            let range = |start, frames| FrameRange::new(Pfn(start), frames);
            for (wrong, error) in [
                (range(4096, 0), RegionError::Empty),
                (range(5000, 200), RegionError::OutsideSpan),
                (range(4000, 10), RegionError::OutsideSpan),
                // An error names a physical frame, although the span starts at another one than 0.
                (range(4195, 10), RegionError::AlreadyManaged(Pfn(4195))),
            ] {
                assert_eq!(system.add(cpu, wrong), Err(error));
            }
            // Added memory joins what is there.
            system.add(cpu, range(4196, 412)).unwrap();
            is_as_new(system, cpu, &[range(4096, 512)]);
            // Removing needs free frames.
            let frame = system.allocate(cpu, Request::FRAME).unwrap();
            let physical = system.span().physical(frame);
            let in_use = RegionError::NotFree(physical);
            let range_of_it = FrameRange::new(physical, 1);
            assert_eq!(system.remove(cpu, range_of_it), Err(in_use));
            assert_eq!(system.reserve(cpu, range_of_it), Err(in_use));
            assert_eq!(system.allocate_at(cpu, range_of_it), Err(in_use));
            assert_eq!(system.try_allocate_at(cpu, range_of_it), Err(in_use));
            assert!(system.remove(cpu, range(4096, 512)).is_err());
            system.free(cpu, Release::frame(frame)).unwrap();
            system.remove(cpu, range(4099, 200)).unwrap();
            is_as_new(system, cpu, &[range(4096, 3), range(4299, 309)]);
            assert!(
                system.remove(cpu, range(4096, 4)).is_err(),
                "a hole is not free"
            );
            // A reserved frame is allocated to no CPU.
            system.reserve(cpu, range(4300, 308)).unwrap();
            let mut held = Vec::new();
            while let Ok(frame) = system.allocate(cpu, Request::FRAME) {
                held.push(frame);
            }
            assert_eq!(held.len(), 4);
            assert_eq!(
                system.unreserve(cpu, range(4299, 2)),
                Err(RegionError::NotReserved(Pfn(4299)))
            );
            system.unreserve(cpu, range(4300, 308)).unwrap();
            free_frames(system, cpu, held);
            system.add(cpu, range(4099, 200)).unwrap();
            is_as_new(system, cpu, &[range(4096, 512)]);
        });
    });
}

/// A system without memory refuses every request, and serves all of them from memory that is added.
pub fn memory_can_arrive_later<P: Platform, H: Host<P>>(host: &H, spec: &SystemSpec) {
    let setup = Setup::new(&[], 2).with_reach(FrameRange::new(Pfn(4100), 5000));
    host.build(spec, &setup, &mut |system| {
        host.run(1, |cpu| {
            is_as_new(system, cpu, &[]);
            for request in [Request::FRAME, Request::order(order(1)), Request::frames(3)] {
                let refused = system.allocate(cpu, request);
                assert_eq!(refused, Err(AllocateError::Exhausted));
            }
            let ranges = [
                FrameRange::new(Pfn(4103), 700),
                FrameRange::new(Pfn(5120), 3072),
            ];
            for range in ranges {
                system.add(cpu, range).unwrap();
            }
            is_as_new(system, cpu, &ranges);
            // The span begins at a multiple of the largest block, and ends where the reach does.
            let span = system.span();
            let first = span.base().0;
            let end = first + u64::from(span.frames());
            assert_eq!((first, end), (4096, 9100));
            for outside in [first - 1, end] {
                let refused = system.add(cpu, FrameRange::new(Pfn(outside), 1));
                assert_eq!(refused, Err(RegionError::OutsideSpan));
            }
            for inside in [first, end - 1] {
                system.add(cpu, FrameRange::new(Pfn(inside), 1)).unwrap();
                system.remove(cpu, FrameRange::new(Pfn(inside), 1)).unwrap();
            }
            is_as_new(system, cpu, &ranges);
            let shadow = Shadow::new(system.span().frames());
            let mut held = Vec::new();
            while let Ok(frame) = system.allocate(cpu, Request::FRAME) {
                shadow.take(frame, 1, 0);
                held.push(frame);
            }
            assert_eq!(held.len(), 3772);
            free_frames(system, cpu, held);
            is_as_new(system, cpu, &ranges);
        });
    });
}

/// Frames that are taken at the start are allocated. They are freed as any others, and nothing is left of them.
pub fn taken_frames_are_allocated<P: Platform, H: Host<P>>(host: &H, spec: &SystemSpec) {
    let range = |start, frames| FrameRange::new(Pfn(start), frames);
    let ranges = [range(4103, 700), range(4803, 200), range(5120, 3072)];
    // The second one crosses a border, and the last one contains whole blocks.
    let taken = [
        range(4103, 3),
        range(4790, 100),
        range(5000, 0),
        range(5120, 1),
        range(5121, 1500),
    ];
    let setup = Setup::new(&ranges, 2).with_taken(&taken);
    host.build(spec, &setup, &mut |system| {
        host.run(1, |cpu| {
            assert_eq!(system.free_frames(), 3972 - 1604);
            let shadow = Shadow::new(system.span().frames());
            let runs = taken.map(|range| (system.span().index(range.start).unwrap(), range.frames));
            for (start, frames) in runs {
                shadow.take(start, frames as u32, 1);
            }
            let mut held = Vec::new();
            while let Ok(frame) = system.allocate(cpu, Request::FRAME) {
                shadow.take(frame, 1, 0);
                held.push(frame);
            }
            assert_eq!(held.len(), 3972 - 1604);
            for frame in held {
                system.free(cpu, Release::frame(frame)).unwrap();
            }
            for (start, frames) in runs {
                let (half, frames) = (frames as u32 / 2, frames as u32);
                let parts = [(start.0 + half, frames - half), (start.0, half)];
                for (at, frames) in parts.into_iter().filter(|(_, frames)| *frames > 0) {
                    system
                        .free(cpu, Release::frames(Index(at), frames))
                        .unwrap();
                }
            }
            is_as_new(system, cpu, &ranges);
        });
    });
}

/// Nested requests and releases, and those in bulk, do what single ones do.
pub fn nested_and_bulk<P: Platform, H: Host<P>>(host: &H, spec: &SystemSpec) {
    const RANGES: &[FrameRange] = &[FrameRange::new(Pfn(0), 512)];
    host.build(spec, &Setup::new(RANGES, 2), &mut |system| {
        host.run(1, |cpu| {
            let nested = system.allocate_nested(cpu.id(), Request::FRAME).unwrap();
            let run = system
                .allocate_nested(cpu.id(), Request::frames(5))
                .unwrap();
            assert_ne!(nested, run);
            system
                .free_nested(cpu.id(), Release::frames(run, 5))
                .unwrap();
            system
                .free_nested(cpu.id(), Release::frame(nested))
                .unwrap();
            let zero = system.allocate_nested(cpu.id(), Request::frames(0));
            assert_eq!(zero, Err(AllocateError::ZeroFrames));

            let shadow = Shadow::new(512);
            let mut out = [Index(0); 600];
            let given = system.allocate_bulk(cpu, Request::FRAME, &mut out).unwrap();
            assert_eq!(given, 512, "bulk gives all there is");
            out[..given]
                .iter()
                .for_each(|frame| shadow.take(*frame, 1, 0));
            let none = system.allocate_bulk(cpu, Request::FRAME, &mut out[512..]);
            assert_eq!(none, Err(AllocateError::Exhausted));
            let flags = Flags::NO_WAIT;
            let none = system.allocate(cpu, Request::FRAME.with_flags(flags));
            assert_eq!(none, Err(AllocateError::Exhausted));
            let releases: Vec<_> = out[..given]
                .iter()
                .map(|frame| Release::frame(*frame))
                .collect();
            let twice = [releases[0], releases[1], releases[0], releases[2]];
            let error = system.free_bulk(cpu, &twice).unwrap_err();
            assert_eq!((error.index, error.error), (2, FreeError::NotAllocated));
            system.free_bulk(cpu, &releases[2..]).unwrap();
            // Nothing is asked for, so nothing is wrong with the size.
            let too_large = Request::frames(system.max_order().frames() + 1);
            let too_high = Request::order(everybuddy::Order::LIMIT);
            for request in [Request::FRAME, Request::frames(0), too_large, too_high] {
                assert_eq!(system.allocate_bulk(cpu, request, &mut []), Ok(0));
            }
            assert_eq!(system.free_bulk(cpu, &[]), Ok(()));
            let refused = system.allocate_bulk(cpu, too_large, &mut out);
            let largest = system.max_order();
            assert_eq!(refused, Err(AllocateError::TooLarge { largest }));

            let given = system
                .allocate_bulk(cpu, Request::frames(3), &mut out)
                .unwrap();
            assert_eq!(given, 128, "runs of three lie in blocks of four");
            let mut releases: Vec<_> = out[..given]
                .iter()
                .map(|start| Release::frames(*start, 3))
                .collect();
            releases.push(releases[0]);
            let error = system.free_bulk(cpu, &releases).unwrap_err();
            assert_eq!((error.index, error.error), (128, FreeError::NotAllocated));
            is_as_new(system, cpu, RANGES);
        });
    });
}
