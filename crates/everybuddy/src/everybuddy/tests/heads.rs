//! Frees that are checked by a byte per frame.

use super::*;
use crate::Block;
use crate::error::BulkFreeError;

const TREE: u32 = TREE_OF_TWO;

fn block(start: u32, size: u8) -> Release {
    Release::block(Block::new(Index(start), order(size)))
}

/// Calls `body` with four trees and two CPUs, of which the second one is parked.
fn with_two(body: impl FnOnce(&Trees<'_>, &mut Cpu, &mut Cpu)) {
    with_two_cpus(|system, zero, one| {
        system.park(one);
        body(system, zero, one);
        system.check(zero).unwrap();
    });
}

/// Asserts that every way to free this is refused with an error, and changes nothing.
fn refuse(system: &Trees<'_>, cpu: &mut Cpu, release: Release, error: FreeError) {
    let before = system.check(cpu).unwrap();
    assert_eq!(system.free(cpu, release), Err(error));
    assert_eq!(system.free_nested(CpuId(1), release), Err(error));
    let refused = BulkFreeError { index: 0, error };
    assert_eq!(system.free_bulk(cpu, &[release; 2]), Err(refused));
    assert_eq!(system.check(cpu), Ok(before));
}

#[test]
fn a_request_that_misses_takes_a_word_into_the_list() {
    with_two(|system, zero, _| {
        // The first request finds the tree.
        for frame in 0..WORD + 1 {
            assert_eq!(system.allocate(zero, Request::FRAME), Ok(Index(frame)));
        }
        assert_eq!(system.buffered_frames(CpuId(0)), u64::from(WORD - 1));
        let next = system.frame_state(Index(WORD + 1));
        let (cpu, order) = (CpuId(0), Order::ZERO);
        assert_eq!(next, Some(FrameState::Buffered { cpu, order }));
        refuse(system, zero, block(WORD + 1, 0), FreeError::NotAllocated);
    });
}

#[test]
fn a_frame_that_is_free_anywhere_is_not_freed_again() {
    with_two(|system, zero, one| {
        allocate_frames(system, zero, TREE);
        // Into the list.
        system.free(zero, block(3, 0)).unwrap();
        refuse(system, zero, block(3, 0), FreeError::NotAllocated);
        refuse(system, one, block(3, 0), FreeError::NotAllocated);
        let run = Release::frames(Index(3), 1);
        refuse(system, zero, run, FreeError::NotAllocated);
        let run = Release::frames(Index(2), 4);
        refuse(system, one, run, FreeError::NotAllocated);
        // Into a tree of another CPU.
        system.free(one, block(5, 0)).unwrap();
        refuse(system, zero, block(5, 0), FreeError::NotAllocated);
        refuse(system, one, block(5, 0), FreeError::NotAllocated);
        // It is there once.
        system.park(one);
        assert_eq!(system.allocate(zero, Request::FRAME), Ok(Index(3)));
        system.park(zero);
        refuse(system, one, block(5, 0), FreeError::NotAllocated);
        // Never allocated.
        refuse(system, zero, block(3 * TREE, 0), FreeError::NotAllocated);
        refuse(system, zero, block(3 * TREE, 7), FreeError::NotAllocated);
    });
}

#[test]
fn a_block_is_freed_by_its_order_alone() {
    with_two(|system, zero, one| {
        for size in [1, 5, 6, 7, 8] {
            let start = system.allocate(zero, Request::order(order(size)));
            let start = start.unwrap().0;
            let allocated = order(size);
            let state = FrameState::Allocated {
                head: Index(start),
                order: allocated,
            };
            assert_eq!(system.frame_state(Index(start + 1)), Some(state));
            for wrong in (0..=8).filter(|wrong| *wrong != size) {
                let error = FreeError::WrongOrder { allocated };
                refuse(system, zero, block(start, wrong), error);
            }
            let error = FreeError::InsideBlock { order: allocated };
            for inside in [1, allocated.frames() - 1] {
                refuse(system, zero, block(start + inside, 0), error);
            }
            refuse(
                system,
                one,
                block(start + allocated.frames() / 2, size - 1),
                error,
            );
            // By whichever CPU.
            let cpu = if size % 2 == 0 { &mut *zero } else { &mut *one };
            system.free(cpu, block(start, size)).unwrap();
            refuse(system, zero, block(start, size), FreeError::NotAllocated);
            system.park(one);
        }
    });
}

#[test]
fn what_is_left_of_a_block_are_pieces() {
    with_two(|system, zero, _| {
        let start = system.allocate(zero, Request::order(order(4))).unwrap().0;
        system
            .free(zero, Release::frames(Index(start + 5), 2))
            .unwrap();
        let pieces = [(0, 2), (4, 0), (7, 0), (8, 3)];
        for (at, size) in pieces {
            let state = FrameState::Allocated {
                head: Index(start + at),
                order: order(size),
            };
            assert_eq!(system.frame_state(Index(start + at)), Some(state));
        }
        refuse(system, zero, block(start + 5, 0), FreeError::NotAllocated);
        let over = Release::frames(Index(start + 4), 4);
        refuse(system, zero, over, FreeError::NotAllocated);
        let allocated = order(2);
        refuse(
            system,
            zero,
            block(start, 4),
            FreeError::WrongOrder { allocated },
        );
        for (at, size) in pieces {
            system.free(zero, block(start + at, size)).unwrap();
        }
    });
}

#[test]
fn a_run_is_freed_in_any_parts_by_count() {
    with_two(|system, zero, one| {
        let all = system.allocate(zero, Request::frames(100)).unwrap().0;
        for (from, frames) in [(30, 50), (0, 1), (1, 29), (80, 20)] {
            let part = Release::frames(Index(all + from), frames);
            system.free(one, part).unwrap();
            refuse(system, zero, part, FreeError::NotAllocated);
            system.check(zero).unwrap();
        }
        let chosen = FrameRange::new(Pfn(u64::from(TREE) + 3), 2 * u64::from(TREE));
        system.park(one);
        system.allocate_at(zero, chosen).unwrap();
        let first = Release::frames(Index(TREE + 3), TREE);
        system.free(zero, first).unwrap();
        system
            .free(zero, Release::frames(Index(2 * TREE + 3), TREE))
            .unwrap();
    });
}

#[test]
fn holes_and_reserved_frames_and_what_lies_outside_are_not_freed() {
    with_two(|system, zero, _| {
        system.remove(zero, FrameRange::new(Pfn(7), 1)).unwrap();
        system.reserve(zero, FrameRange::new(Pfn(9), 1)).unwrap();
        allocate_frames(system, zero, 30);
        refuse(system, zero, block(7, 0), FreeError::Hole);
        refuse(system, zero, block(9, 0), FreeError::Reserved);
        refuse(system, zero, block(4 * TREE, 0), FreeError::Foreign);
        refuse(system, zero, block(u32::MAX, 0), FreeError::Foreign);
    });
}

#[test]
fn an_unknown_cpu_changes_nothing() {
    with_two(|system, zero, _| {
        let set = NativeCpus::new(3);
        let mut two = set.claim(CpuId(2)).unwrap();
        let frame = system.allocate(zero, Request::FRAME).unwrap();
        let nine = system.allocate(zero, Request::order(order(7))).unwrap();
        for release in [block(frame.0, 0), block(nine.0, 7)] {
            assert_eq!(system.free(&mut two, release), Err(FreeError::NoSuchCpu));
            let nested = system.free_nested(CpuId(2), release);
            assert_eq!(nested, Err(FreeError::NoSuchCpu));
            let refused = system.free_bulk(&mut two, &[release; 2]).unwrap_err();
            assert_eq!((refused.index, refused.error), (0, FreeError::NoSuchCpu));
            system.free(zero, release).unwrap();
        }
    });
}

#[test]
fn the_check_finds_wrong_bytes() {
    with_two(|system, zero, _| {
        let start = system.allocate(zero, Request::order(order(3))).unwrap().0;
        let heads = &system.shared.heads;
        let wrong = |zero: &mut _, at: u32| system.check(zero).unwrap_err().index == Index(at);
        heads.set(start + 2, Order::ZERO, Kind::Staying);
        assert!(wrong(zero, start + 2));
        assert!(heads.take(start + 2, Order::ZERO).is_some());
        heads.set(3 * TREE, Order::ZERO, Kind::Staying);
        assert!(wrong(zero, 3 * TREE));
        assert!(heads.take(3 * TREE, Order::ZERO).is_some());
        assert!(heads.take(start, order(3)).is_some());
        assert!(wrong(zero, 0));
        heads.set(start, order(3), Kind::Staying);
    });
}
