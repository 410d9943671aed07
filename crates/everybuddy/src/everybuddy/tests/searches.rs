//! Where searches begin, and which trees they take.

use super::foreign::Windows;
use super::*;
use crate::platform::SharedCell;
use crate::request::Flags;

/// The frames of a group of trees, if a tree is a word.
const GROUP_FRAMES: u32 = foreign::GROUP * WORD;

/// Calls `body` with a system of some groups whose trees are words, and with the tokens of its CPUs.
fn with_groups((frames, cpus): (u32, u16), body: impl FnOnce(&Trees<'_>, &mut [Cpu])) {
    with_system((frames, 0), cpus, (Some(WORD), 10), |system| {
        let set = NativeCpus::new(cpus);
        let mut tokens: Vec<_> = (0..cpus)
            .map(|cpu| set.claim(CpuId(cpu)).unwrap())
            .collect();
        body(system, &mut tokens);
        system.check(&mut tokens[0]).unwrap();
    });
}

/// A request that fails instead of waiting.
fn now() -> Request {
    Request::FRAME.with_flags(Flags::NO_WAIT)
}

#[test]
fn each_eight_cpus_begin_in_a_window_of_their_own() {
    with_groups((8 * GROUP_FRAMES, 32), |system, cpus| {
        for (cpu, group) in [(0, 0), (8, 2), (17, 4), (31, 6)] {
            let frame = system.allocate(&mut cpus[cpu], Request::FRAME);
            assert_eq!(frame, Ok(Index(group * GROUP_FRAMES)), "CPU {cpu}");
        }
        // Within a window, the lowest tree that no CPU owns.
        let frame = system.allocate(&mut cpus[16], Request::FRAME);
        assert_eq!(frame, Ok(Index(4 * GROUP_FRAMES + WORD)));
    });
}

#[test]
fn eight_cpus_search_from_the_lowest_tree() {
    with_groups((8 * GROUP_FRAMES, 8), |system, cpus| {
        for (cpu, tree) in (0..8).zip(0..) {
            let frame = system.allocate(&mut cpus[cpu], Request::FRAME);
            assert_eq!(frame, Ok(Index(tree * WORD)), "CPU {cpu}");
        }
    });
}

#[test]
fn every_cpu_finds_a_frame_in_every_window() {
    // Nine groups and four windows, of which the last one has three groups.
    with_groups((9 * GROUP_FRAMES, 32), |system, cpus| {
        for _ in 0..9 * GROUP_FRAMES {
            system.allocate(&mut cpus[12], now()).unwrap();
        }
        assert_eq!(system.allocate(&mut cpus[12], now()), EXHAUSTED);
        for group in 0..9 {
            for cpu in [0, 8, 16, 24] {
                let free = Index(group * GROUP_FRAMES + 100);
                let mut owner = (cpu + 5) % 32;
                system.free(&mut cpus[owner], Release::frame(free)).unwrap();
                system.park(&mut cpus[owner]);
                assert_eq!(
                    system.allocate(&mut cpus[cpu], now()),
                    Ok(free),
                    "CPU {cpu}"
                );
                owner = cpu;
                system.park(&mut cpus[owner]);
            }
        }
    });
}

#[test]
fn windows_cover_all_groups_once() {
    for trees in [1, 63, 64, 65, 640, 4160, 1 << 20] {
        for cpus in [1, 8, 9, 64, 100, u16::MAX] {
            let windows = Windows::new(trees, cpus);
            for home in (0..u32::from(cpus)).step_by(7).map(|cpu| windows.home(cpu)) {
                let all = windows.from(home).flat_map(|window| windows.groups(window));
                let mut all: Vec<u32> = all.collect();
                all.sort_unstable();
                assert!(
                    all.into_iter().eq(0..trees.div_ceil(64)),
                    "{trees} trees, {cpus} CPUs"
                );
                if trees > 1 << 16 || cpus > 1000 {
                    break;
                }
            }
        }
    }
    // As many windows as eights of CPUs, if there are as many groups.
    let windows = Windows::new(4160, 128);
    let homes: Vec<u32> = (0..128).map(|cpu| windows.home(cpu)).collect();
    assert!(homes.iter().zip(0..).all(|(home, cpu)| *home == cpu / 8));
    // Also if each window is a group.
    let windows = Windows::new(4 * foreign::GROUP, 32);
    assert_eq!([0, 8, 16, 31].map(|cpu| windows.home(cpu)), [0, 1, 2, 3]);
}

#[test]
fn the_next_higher_tree_is_released_first() {
    // 64 trees for seven CPUs, each of which owns at most eight.
    with_cpus::<7>((1 << 18, 0), (None, 10), |system, [cpu, ..]| {
        let local = system.local(CpuId(0)).unwrap();
        for tree in 0..20u32 {
            allocate_frames(system, cpu, 4096);
            assert!(local.own_trees().eq(tree.saturating_sub(7)..tree + 1));
        }
    });
}

#[test]
fn a_tree_with_free_frames_says_that_it_is_not_marked() {
    with_cpus((256, 0), (Some(64), 6), |system, [cpu]| {
        allocate_frames(system, cpu, 256);
        system.drain(cpu);
        let marks = || {
            let headers = system.shared.trees.headers.iter();
            let says = headers.map(|header| header.marked.get() == 1);
            says.zip((0..4).map(|tree| system.shared.is_marked(tree)))
        };
        assert!(marks().eq([(true, true); 4]));
        free_into_tree(system, cpu, 70, 1);
        assert!(marks().eq([(true, true), (false, false), (true, true), (true, true)]));
    });
}

#[test]
fn large_blocks_have_a_tree_of_their_own() {
    with_cpus((1 << 18, 0), (None, 10), |system, [cpu]| {
        let mut tree_of = |request| {
            let start = system.allocate(cpu, request).unwrap();
            system.shared.trees.tree_of(start.0)
        };
        let six = Request::order(order(6));
        assert_eq!(tree_of(Request::FRAME), 0);
        assert_eq!(tree_of(six), 1);
        assert_eq!(tree_of(Request::frames(33)), 1);
        assert_eq!(tree_of(Request::frames(32)), 0);
        assert_eq!(tree_of(Request::FRAME), 0);
    });
}

#[test]
fn large_blocks_take_at_most_one_tree_away_from_smaller_ones() {
    // 64 trees for seven CPUs, each of which owns at most eight.
    with_cpus::<7>((1 << 18, 0), (None, 10), |system, [cpu, ..]| {
        let tree = Order::TEN.frames() * 4;
        let frames: Vec<Index> = (0..8 * tree)
            .map(|_| system.allocate(cpu, Request::FRAME).unwrap())
            .collect();
        let local = system.local(CpuId(0)).unwrap();
        let small = || local.own_trees().filter(|own| *own < 8).count();
        assert_eq!(small(), 8);
        for _ in 0..98 {
            system.allocate(cpu, Request::order(Order::TEN)).unwrap();
        }
        assert_eq!(small(), 7);
        // Not the one from which the CPU allocates single frames, although it is the highest.
        assert!(local.own_trees().any(|own| own == 7));
        // A small request does not use the tree of the large ones while another one serves it.
        for frame in &frames[..2] {
            system.free(cpu, Release::frame(*frame)).unwrap();
        }
        for _ in 0..2 {
            let frame = system.allocate(cpu, Request::FRAME).unwrap();
            assert!(frame.0 < tree, "{frame:?}");
        }
        system.check(cpu).unwrap();
    });
}

#[test]
fn few_lower_trees_of_the_window_are_looked_at_in_turn() {
    // Nine groups and four windows: CPU 8 begins with groups 2 and 3.
    with_groups((9 * GROUP_FRAMES, 32), |system, _| {
        let local = system.local(CpuId(8)).unwrap();
        let [first, end] = [2, 4].map(|group| group * foreign::GROUP);
        let look = |own| -> Vec<u32> { local.look_below(&system.shared, own).collect() };
        // An own tree of another window is above all of them.
        for own in [0, end + 5] {
            let all: Vec<u32> = (0..8).flat_map(|_| look(own)).collect();
            assert_eq!(all.len(), 128);
            let all: std::collections::BTreeSet<u32> = all.into_iter().collect();
            assert!(all.into_iter().eq(first..end), "{own}");
        }
        assert!(look(first + 3).into_iter().eq(first..first + 3));
        assert!(look(first).is_empty());
    });
}

#[test]
fn a_block_of_several_trees_consists_of_returned_frames_or_is_busy() {
    with_cpus((8 * WORD, 0), (Some(WORD), 7), |system, [zero, one]| {
        let block = Request::order(order(7)).with_flags(Flags::NO_WAIT);
        for start in [0, 128, 256, 384] {
            assert_eq!(system.allocate(zero, block), Ok(Index(start)));
        }
        let freed = Release::frames(Index(128), 128);
        system.free_nested(CpuId(1), freed).unwrap();
        assert_eq!(system.allocate(zero, block), Ok(Index(128)));
        system.free(zero, freed).unwrap();
        let frame = system.allocate(one, Request::FRAME).unwrap();
        system.free(one, Release::frame(frame)).unwrap();
        assert_eq!(system.allocate(zero, block), BUSY);
        let nested = system.allocate_nested(CpuId(0), block);
        assert_eq!(nested, BUSY);
        system.park(one);
        assert_eq!(system.allocate(zero, block), Ok(Index(128)));
        system.check(zero).unwrap();
    });
}

#[test]
fn a_smaller_block_is_found_below_trees_that_larger_ones_have_used() {
    const TREE: u32 = 4 * WORD;
    with_system((8 * TREE, 0), 1, (Some(TREE), 8), |system| {
        let cpu = &mut NativeCpus::new(1).claim(CpuId(0)).unwrap();
        system
            .allocate_at(cpu, FrameRange::new(Pfn(0), 64))
            .unwrap();
        let block = |order| Request::order(Order::new(order).unwrap());
        let large = [(); 3].map(|()| system.allocate(cpu, block(8)).unwrap());
        assert_eq!(large, [TREE, 2 * TREE, 3 * TREE].map(Index));
        assert_eq!(system.allocate(cpu, block(6)), Ok(Index(64)));
        assert_eq!(system.allocate(cpu, block(8)), Ok(Index(4 * TREE)));
    });
}

#[test]
fn a_search_that_continues_passes_over_no_tree_of_the_next_groups() {
    with_groups((3 * GROUP_FRAMES, 1), |system, cpus| {
        let cpu = &mut cpus[0];
        // The trees from 70 on, to the end of the second group.
        let taken = FrameRange::new(Pfn(70 * u64::from(WORD)), 58 * u64::from(WORD));
        system.allocate_at(cpu, taken).unwrap();
        let word = Request::order(order(6));
        for tree in (0..70).chain(128..192) {
            assert_eq!(system.allocate(cpu, word), Ok(Index(tree * WORD)));
        }
    });
}

/// Another CPU frees a large block in an own tree, after a request did not find one there: since no own tree may have
/// one, or since the only one that may has too few free frames.
#[test]
fn what_other_cpus_free_is_found_when_the_trees_above_are_used_up() {
    const TREE: u32 = 4 * WORD;
    for is_partly_free in [false, true] {
        with_cpus((32 * TREE, 0), (Some(TREE), 8), |system, [zero, one]| {
            let block = Request::order(order(8));
            let mut next = || system.allocate(zero, block).unwrap().0 / TREE;
            assert_eq!([(); 4].map(|()| next()), [0, 1, 2, 3]);
            let mut freed = (TREE, TREE);
            if is_partly_free {
                system.free(one, Release::frames(Index(TREE), 2)).unwrap();
                freed = (TREE + 2, TREE - 2);
                // As after a free of this CPU: the own trees are searched again.
                system.locals[0].place(Kind::Staying).has_more();
                assert_eq!(next(), 4);
            }
            let freed = Release::frames(Index(freed.0), freed.1);
            system.free(one, freed).unwrap();
            let above = if is_partly_free { 5 } else { 4 };
            for tree in above..32 {
                assert_eq!(next(), tree);
            }
            assert_eq!(next(), 1);
            system.check(zero).unwrap();
        });
    }
}

#[test]
fn a_request_that_does_not_wait_is_busy_because_of_any_window() {
    // Two groups and two windows, one for each eight CPUs.
    for (owner, asker, tree) in [(0, 8, 100), (8, 0, 5), (0, 8, 5), (8, 0, 100)] {
        with_groups((2 * GROUP_FRAMES, 16), |system, cpus| {
            for _ in 0..2 * GROUP_FRAMES {
                system.allocate(&mut cpus[3], now()).unwrap();
            }
            system.park(&mut cpus[3]);
            for frame in 0..4 {
                free_into_tree(system, &mut cpus[owner], tree * WORD + frame, 1);
            }
            assert!(system.locals[owner].own_trees().eq([tree]));
            let busy = Err(AllocateError::Busy);
            assert_eq!(system.allocate(&mut cpus[asker], now()), busy);
            let nested = system.allocate_nested(CpuId(asker as u16), now());
            assert_eq!(nested, busy);
        });
    }
}

/// A small request may have used the tree of the large blocks.
#[test]
fn a_tree_for_large_blocks_replaces_none_from_which_frames_are_allocated() {
    // 64 trees for seven CPUs, each of which owns at most eight.
    with_cpus::<7>((1 << 18, 0), (None, 10), |system, [cpu, ..]| {
        allocate_frames(system, cpu, 8 * 4096);
        let local = system.local(CpuId(0)).unwrap();
        let mut large = || system.allocate(cpu, Request::order(Order::TEN));
        assert_eq!(large(), Ok(Index(8 * 4096)));
        let place = local.place(Kind::Staying);
        assert_eq!(place.large.get(), 8);
        place.current.set(8);
        for block in 1..5 {
            assert_eq!(large(), Ok(Index(8 * 4096 + block * 1024)));
        }
        assert!(
            [8, 9]
                .iter()
                .all(|tree| local.own_trees().any(|own| own == *tree))
        );
        assert_eq!(local.own_trees().count(), 8);
    });
}
