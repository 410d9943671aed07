//! Which trees a CPU owns.

use std::collections::BTreeSet;

use super::super::slots::OwnSlots;
use super::*;
use crate::platform::{AtomicWord, Ordering, SharedCell};
use crate::request::Flags;

/// The frames of a tree here: 16 words.
pub(super) const TREE: u32 = 1024;

/// Calls `body` with a CPU that may own seven of eight trees, after it allocated the first six.
pub(super) fn with_six_trees(body: impl FnOnce(&Trees<'_>, &mut Cpu)) {
    with_cpus((8 * TREE, 0), (Some(TREE), 10), |system, [cpu]| {
        for frame in 0..6 * TREE {
            assert_eq!(system.allocate(cpu, Request::FRAME), Ok(Index(frame)));
        }
        body(system, cpu);
        system.check(cpu).unwrap();
    });
}

pub(super) fn owns(system: &Trees<'_>, tree: u32) -> bool {
    system.locals[0].own_trees().any(|own| own == tree)
}

#[test]
fn slots_are_a_sorted_set() {
    let cells: Vec<_> = (0..8)
        .map(|_| <Native as Platform>::Cell::<u32>::new(0))
        .collect();
    let slots = OwnSlots::<Native>::new(&cells);
    let mut model = BTreeSet::new();
    let mut random = Random(5);
    for step in 0..10_000 {
        let tree = random.below(20);
        match random.below(9) {
            0..4 if model.len() < 8 && !model.contains(&tree) => {
                slots.insert(tree);
                model.insert(tree);
            }
            4..8 => assert_eq!(slots.remove(tree), model.remove(&tree)),
            8 if step % 50 == 0 => {
                slots.clear();
                model.clear();
            }
            _ => {
                let used = random.below(20);
                let found = slots.advance(|own| own == used);
                assert_eq!(found.is_none(), model.iter().all(|own| *own == used));
                assert!(found.is_none_or(|own| own != used && model.contains(&own)));
            }
        }
        assert!(slots.iter().eq(model.iter().copied()), "step {step}");
        assert_eq!(slots.is_full(), model.len() == 8);
    }
    // Few trees: lowest first.
    assert!(slots.search_order(10).eq(model.iter().copied()));
    // It goes round, lowest first.
    slots.clear();
    for tree in [7, 3, 5] {
        slots.insert(tree);
    }
    let round = [(); 4].map(|()| slots.advance(|_| false));
    assert_eq!(round, [Some(3), Some(5), Some(7), Some(3)]);
    assert_eq!(slots.advance(|own| own == 5), Some(7));
}

#[test]
fn a_tree_of_which_few_words_are_in_use_is_released() {
    // 2 of 16 words are an eighth.
    let in_use = 2 * WORD;
    type Free = fn(&Trees<'_>, &mut Cpu, u32, u32);
    let as_run: Free = |system, cpu, start, by| {
        let run = Release::frames(Index(start), by);
        system.free(cpu, run).unwrap();
    };
    let as_bulk: Free = |system, cpu, start, by| {
        let frames = (start..start + by).map(|frame| Release::frame(Index(frame)));
        system.free_bulk(cpu, &frames.collect::<Vec<_>>()).unwrap();
    };
    let ways = [(8, as_run), (WORD, as_run), (8, as_bulk)];
    for (by, free) in ways {
        with_six_trees(|system, cpu| {
            for start in (TREE..2 * TREE).step_by(by as usize) {
                assert_eq!(owns(system, 1), start <= 2 * TREE - in_use + WORD - by);
                free(system, cpu, start, by);
                system.check(cpu).unwrap();
                if start + by == 2 * TREE - WORD {
                    break;
                }
            }
            assert!(!owns(system, 1));
        });
    }
}

#[test]
fn the_tree_from_which_a_cpu_allocates_is_kept_when_it_is_whole() {
    for order in [0, 3, 6].map(order) {
        with_cpus((8 * TREE, 0), (Some(TREE), 10), |system, [cpu]| {
            for _ in 0..3 {
                let start = system.allocate(cpu, Request::order(order)).unwrap();
                let block = crate::Block::new(start, order);
                system.free(cpu, Release::block(block)).unwrap();
                assert_eq!(start, Index(0));
                assert!(owns(system, 0));
            }
        });
    }
}

#[test]
fn blocks_of_several_frames_do_not_move_the_first_fit_point() {
    with_six_trees(|system, cpu| {
        for frame in (0..TREE).step_by(2) {
            system.free(cpu, Release::frame(Index(frame))).unwrap();
        }
        let two = Request::order(order(1));
        assert_eq!(system.allocate(cpu, two), Ok(Index(6 * TREE)));
        let point = singles(system, 0, Kind::Staying).point.get();
        assert!(point < 6 * TREE, "{point}");
        assert_eq!(system.allocate(cpu, two), Ok(Index(6 * TREE + 2)));
        let single = system.allocate(cpu, Request::FRAME).unwrap();
        assert!(single.0 < TREE, "{single:?}");
    });
}

#[test]
fn a_bulk_of_large_blocks_is_what_single_requests_are() {
    for order in [6, 7, 9].map(order) {
        let mut outcomes = [false, true].map(|by_bulk| {
            let mut starts = Vec::new();
            with_six_trees(|system, cpu| {
                for frames in [(5 * TREE, TREE), (2 * TREE, 512), (300, 500)] {
                    let release = Release::frames(Index(frames.0), frames.1);
                    system.free(cpu, release).unwrap();
                }
                let request = Request::order(order);
                if by_bulk {
                    let mut out = [Index(0); 100];
                    let given = system.allocate_bulk(cpu, request, &mut out).unwrap();
                    starts.extend_from_slice(&out[..given]);
                } else {
                    while let Ok(start) = system.allocate(cpu, request) {
                        starts.push(start);
                    }
                }
                system.check(cpu).unwrap();
            });
            starts
        });
        outcomes
            .iter_mut()
            .for_each(|starts| starts.sort_unstable());
        assert!(outcomes[0].len() > 4);
        assert_eq!(outcomes[0], outcomes[1], "{order:?}");
    }
}

#[test]
fn few_trees_are_kept_when_they_are_whole() {
    with_six_trees(|system, cpu| {
        for frame in (0..6 * TREE).rev() {
            system.free(cpu, Release::frame(Index(frame))).unwrap();
        }
        assert_eq!(system.locals[0].own_trees().count(), 4);
    });
}

/// Although a list had the last frame that was freed.
#[test]
fn a_tree_that_the_frames_of_a_list_empty_is_released() {
    with_six_trees(|system, cpu| {
        // Of the second tree, a frame stays in use, and the last word.
        let last = 2 * TREE - 2 * WORD;
        system
            .free(cpu, Release::frames(Index(TREE), last - TREE))
            .unwrap();
        system
            .free(cpu, Release::frames(Index(last + 1), WORD - 1))
            .unwrap();
        singles(system, 0, Kind::Staying).point.set(last);
        system.free(cpu, Release::frame(Index(last))).unwrap();
        assert_eq!(system.buffered_frames(CpuId(0)), 1);
        assert!(owns(system, 1));
        assert!(system.locals[0].announce_all(&system.shared));
        assert!(!owns(system, 1));
    });
}

/// Further frees into a released tree, one after the other, do not make the CPU its owner again.
#[test]
fn a_tree_that_a_cpu_emptied_stays_released() {
    // Frees at or below the first-fit point, and frees in a row above it.
    for is_below in [true, false] {
        with_cpus((32 * TREE, 0), (Some(TREE), 10), |system, [zero, one]| {
            allocate_frames(system, zero, 15 * TREE);
            for frame in (0..15 * TREE).rev().filter(|frame| frame % TREE >= 2) {
                for kind in Kind::ALL {
                    singles(system, 0, kind)
                        .point
                        .set(if is_below { 15 * TREE } else { 0 });
                }
                system.free(zero, Release::frame(Index(frame))).unwrap();
            }
            // Few trees, and those from which the CPU allocates.
            assert!(system.locals[0].own_trees().count() <= 5);
            let hasty = Request::order(Order::covering(WORD).unwrap()).with_flags(Flags::NO_WAIT);
            let blocks = (0..)
                .take_while(|_| system.allocate(one, hasty).is_ok())
                .count();
            assert!(blocks as u32 >= 27 * (TREE / WORD - 1), "{blocks}");
            system.check(zero).unwrap();
        });
    }
}

/// By count, and while a refusal is remembered, so that the free does not hit.
#[test]
fn words_that_were_freed_are_found_before_another_tree_is_claimed() {
    for (is_closed, frames) in [(false, 64), (false, 128), (true, 64), (true, 128)] {
        with_cpus((8 * TREE, 0), (Some(TREE), 10), |system, [cpu]| {
            allocate_frames(system, cpu, 2 * TREE);
            // No own tree had a block when the last of these trees was claimed.
            let word = Request::order(order(6));
            for start in (2 * TREE..4 * TREE).step_by(WORD as usize) {
                assert_eq!(system.allocate(cpu, word), Ok(Index(start)));
            }
            if is_closed {
                let identity = &system.locals[0].free_identity;
                identity.store(wanted::CLOSED_ID, Ordering::Relaxed);
            }
            let freed = Release::frames(Index(2 * WORD), frames);
            system.free(cpu, freed).unwrap();
            assert_eq!(system.allocate(cpu, word), Ok(Index(2 * WORD)));
            system.check(cpu).unwrap();
        });
    }
}

/// The bits of the largest tree's words fill a mask, so a run that is longer than its tree cannot be seen there.
#[test]
fn a_run_of_several_trees_is_freed_or_nothing_is() {
    for tree in [1024, 4096] {
        with_cpus((6 * tree, 0), (Some(tree), 12), |system, [cpu]| {
            allocate_frames(system, cpu, 5 * tree);
            for start in [0, tree, tree + WORD] {
                let run = Release::frames(Index(start), 2 * tree + WORD);
                let last = Index(start + 2 * tree + 7);
                assert!((0..5).all(|tree| owns(system, tree)));
                system.free(cpu, Release::frame(last)).unwrap();
                let before = system.check(cpu).unwrap();
                let refused = system.free(cpu, run);
                assert_eq!(refused, Err(FreeError::NotAllocated));
                assert_eq!(system.check(cpu).unwrap(), before);
                assert_eq!(system.allocate(cpu, Request::FRAME), Ok(last));
                system.free(cpu, run).unwrap();
                let freed = u64::from(2 * tree + WORD) - 1;
                let after = system.check(cpu).unwrap();
                let all = |census: Census| census.free + census.buffered;
                assert_eq!(all(after), all(before) + freed);
                allocate_frames(system, cpu, freed as u32 + 1);
            }
        });
    }
}

#[test]
fn among_many_own_trees_a_search_for_a_frame_begins_at_the_first_fit_point() {
    for (trees, first) in [(64, 5), (65, 40), (150, 40)] {
        with_cpus((160 * WORD, 0), (Some(WORD), 10), |system, [cpu]| {
            allocate_frames(system, cpu, trees * WORD);
            let local = &system.locals[0];
            assert_eq!(local.own_trees().count() as u32, trees);
            // Blocks enter no list.
            let order = order(1);
            for tree in [5, 40] {
                let pair = Release::frames(Index(tree * WORD), 2);
                system.free(cpu, pair).unwrap();
            }
            let list = singles(system, 0, Kind::Staying);
            local.start_over(list, Kind::Staying);
            list.point.set(30 * WORD);
            let next = system.allocate(cpu, Request::FRAME);
            assert_eq!(next, Ok(Index(first * WORD)), "{trees}");
            // A block is searched from the first tree on, and a frame, too, after the point has returned.
            local.start_over(list, Kind::Staying);
            let pair = system.allocate(cpu, Request::order(order));
            let whole = if first == 5 { 40 } else { 5 };
            assert_eq!(pair, Ok(Index(whole * WORD)));
            let next = system.allocate(cpu, Request::FRAME);
            assert_eq!(next, Ok(Index(first * WORD + 1)));
            system.check(cpu).unwrap();
        });
    }
}

#[test]
fn a_request_by_fit_looks_at_few_of_many_own_trees() {
    with_cpus((160 * WORD, 0), (Some(WORD), 10), |system, [cpu]| {
        allocate_frames(system, cpu, 150 * WORD);
        let [two, four] = [1, 2].map(order);
        for (tree, order) in [(5, four), (100, two)] {
            let run = Release::frames(Index(tree * WORD), order.frames());
            system.free(cpu, run).unwrap();
        }
        system.locals[0].fitting.begin();
        // The block that fits exactly lies beyond 64 own trees.
        let start = system.allocate(cpu, Request::order(two));
        assert_eq!(start, Ok(Index(5 * WORD)));
        system.check(cpu).unwrap();
    });
}

#[test]
fn an_eighth_of_the_slots_but_at_most_eight_keep_whole_trees() {
    // Of 60 and 120 slots.
    for (trees, kept) in [(64, 7), (128, 8)] {
        with_cpus((trees * TREE, 0), (Some(TREE), 10), |system, [cpu]| {
            allocate_frames(system, cpu, 20 * TREE);
            for frame in (0..20 * TREE).rev() {
                system.free(cpu, Release::frame(Index(frame))).unwrap();
            }
            assert_eq!(system.locals[0].own_trees().count(), kept);
        });
    }
}

#[test]
fn a_frame_at_the_first_fit_point_enters_the_list() {
    with_six_trees(|system, cpu| {
        let mut last = [Index(0)];
        for by_bulk in [false, true] {
            if by_bulk {
                assert_eq!(system.allocate_bulk(cpu, Request::FRAME, &mut last), Ok(1))
            } else {
                last = [system.allocate(cpu, Request::FRAME).unwrap()]
            }
            for frame in [Index(5 * TREE), last[0]] {
                system.free(cpu, Release::frame(frame)).unwrap();
            }
            assert_eq!(system.allocate(cpu, Request::FRAME), Ok(last[0]));
            assert_eq!(system.allocate(cpu, Request::FRAME), Ok(Index(5 * TREE)));
        }
    });
}

/// However frames are freed below the first-fit point without entering the list: it returns to 0 when they are as many
/// as the list holds.
#[test]
fn frees_that_enter_no_list_move_the_first_fit_point() {
    type Free = fn(&Trees<'_>, &mut Cpu, u32);
    let ways: [Free; 2] = [
        |system, cpu, start| {
            let run = Release::frames(Index(start), 32);
            system.free(cpu, run).unwrap();
        },
        |system, cpu, start| {
            let frames = (start..start + 32).map(|frame| Release::frame(Index(frame)));
            let frames: Vec<_> = frames.collect();
            system.free_bulk(cpu, &frames).unwrap();
        },
    ];
    for free in ways {
        for is_own in [true, false] {
            with_six_trees(|system, cpu| {
                let list = singles(system, 0, Kind::Staying);
                if !is_own {
                    system.drain(cpu);
                }
                let last = system.allocate(cpu, Request::FRAME).unwrap();
                assert_eq!(list.point.get(), last.0);
                let blocks = (list.entries.len() as u32).div_ceil(32);
                for block in 0..blocks {
                    assert_eq!(list.point.get(), last.0);
                    // In another tree each time, so that the CPU does not become its owner.
                    free(system, cpu, block % 5 * TREE + block / 5 * WORD);
                }
                assert_eq!(list.point.get(), 0);
            });
        }
    }
}

/// Three CPUs allocate half of the words of trees 1, 2 and 3, one tree each, and park. All other trees are wholly free.
#[test]
fn a_wholly_free_tree_is_used_after_trees_in_use_that_have_a_wholly_free_word() {
    with_system((8 * TREE, 0), 3, (Some(TREE), 10), |system| {
        let set = NativeCpus::new(3);
        let mut cpus = [0, 1, 2].map(|cpu| set.claim(CpuId(cpu)).unwrap());
        for frame in 0..TREE {
            assert_eq!(
                system.allocate(&mut cpus[0], Request::FRAME),
                Ok(Index(frame))
            );
        }
        for (cpu, tree) in cpus.iter_mut().zip([1, 2, 3]) {
            for frame in tree * TREE..tree * TREE + TREE / 2 {
                assert_eq!(system.allocate(cpu, Request::FRAME), Ok(Index(frame)));
            }
        }
        for frame in 0..TREE {
            system
                .free(&mut cpus[0], Release::frame(Index(frame)))
                .unwrap();
        }
        for cpu in &mut cpus {
            system.park(cpu);
        }
        // A block of a word is taken of the lowest tree that has one.
        let word = order(6);
        let block = system.allocate(&mut cpus[2], Request::order(word));
        assert_eq!(block, Ok(Index(0)));
        let block = Release::block(crate::Block::new(Index(0), word));
        system.free(&mut cpus[2], block).unwrap();
        system.park(&mut cpus[2]);
        let mut next = || system.allocate(&mut cpus[1], Request::FRAME).unwrap().0 / TREE;
        for tree in [1, 2, 3] {
            for _ in 0..TREE / 2 {
                assert_eq!(next(), tree);
            }
        }
        assert_eq!(next(), 0);
        system.check(&mut cpus[1]).unwrap();
    });
}
