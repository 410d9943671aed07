//! Where searches begin, and which trees they take.

use super::*;
use crate::request::Flags;

/// The frames of a group of trees, if a tree is a word.
const GROUP_FRAMES: u32 = foreign::GROUP * WORD;

/// Calls `body` with a system of some groups whose trees are words, and with the tokens of its CPUs.
fn with_groups(
    (frames, cpus): (u32, u16),
    body: impl FnOnce(&OwnedTrees<'_, Native>, &mut [crate::platform::NativeCpu<NoProbe>]),
) {
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
            assert_eq!(frame, Ok(Pfn(group * GROUP_FRAMES)), "CPU {cpu}");
        }
        // Within a window, the lowest tree that no CPU owns.
        let frame = system.allocate(&mut cpus[16], Request::FRAME);
        assert_eq!(frame, Ok(Pfn(4 * GROUP_FRAMES + WORD)));
    });
}

#[test]
fn eight_cpus_search_from_the_lowest_tree() {
    with_groups((8 * GROUP_FRAMES, 8), |system, cpus| {
        for (cpu, tree) in (0..8).zip(0..) {
            let frame = system.allocate(&mut cpus[cpu], Request::FRAME);
            assert_eq!(frame, Ok(Pfn(tree * WORD)), "CPU {cpu}");
        }
    });
}

#[test]
fn every_cpu_finds_a_frame_in_every_window() {
    // Nine groups and four windows of three groups: the CPUs of the last window use the first one.
    with_groups((9 * GROUP_FRAMES, 32), |system, cpus| {
        for _ in 0..9 * GROUP_FRAMES {
            system.allocate(&mut cpus[12], now()).unwrap();
        }
        assert_eq!(
            system.allocate(&mut cpus[12], now()),
            Err(AllocateError::Exhausted)
        );
        for group in 0..9 {
            for cpu in [0, 8, 16, 24] {
                let free = Pfn(group * GROUP_FRAMES + 100);
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
fn large_blocks_take_at_most_one_tree_away_from_smaller_ones() {
    // 64 trees for one CPU, which owns at most eight.
    with_system((1 << 18, 0), 1, (None, 10), |system| {
        let set = NativeCpus::new(1);
        let mut cpu = set.claim::<NoProbe>(CpuId(0)).unwrap();
        let tree = Order::TEN.frames() * 4;
        let frames: Vec<Pfn> = (0..8 * tree)
            .map(|_| system.allocate(&mut cpu, Request::FRAME).unwrap())
            .collect();
        let local = system.local(CpuId(0)).unwrap();
        let small = || local.own_trees().filter(|own| *own < 8).count();
        assert_eq!(small(), 8);
        for _ in 0..98 {
            system
                .allocate(&mut cpu, Request::order(Order::TEN))
                .unwrap();
        }
        assert_eq!(small(), 7);
        // A small request does not use the tree of the large ones while another one serves it.
        for frame in &frames[..2] {
            system.free(&mut cpu, Release::frame(*frame)).unwrap();
        }
        for _ in 0..2 {
            let frame = system.allocate(&mut cpu, Request::FRAME).unwrap();
            assert!(frame.0 < tree, "{frame:?}");
        }
        let large = system.allocate(&mut cpu, Request::order(Order::TEN));
        let frame = system.allocate(&mut cpu, Request::FRAME).unwrap();
        assert_ne!(frame.0 / tree, large.unwrap().0 / tree);
        system.check(&mut cpu).unwrap();
    });
}
