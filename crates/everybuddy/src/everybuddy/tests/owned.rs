//! Which trees a CPU owns.

use std::collections::BTreeSet;

use super::super::slots::Slots;
use super::*;
use crate::platform::{NativeCpu, SharedCell};

/// The frames of a tree here: 16 words.
const TREE: u32 = 1024;

/// Calls `body` with a CPU that may own seven of eight trees, after it allocated the first six.
fn with_six_trees(body: impl FnOnce(&OwnedTrees<'_, Native>, &mut NativeCpu<NoProbe>)) {
    with_system((8 * TREE, 0), 1, (Some(TREE), 10), |system| {
        let set = NativeCpus::new(1);
        let mut cpu = set.claim(CpuId(0)).unwrap();
        for frame in 0..6 * TREE {
            assert_eq!(system.allocate(&mut cpu, Request::FRAME), Ok(Pfn(frame)));
        }
        body(system, &mut cpu);
        system.check(&mut cpu).unwrap();
    });
}

fn owns(system: &OwnedTrees<'_, Native>, tree: u32) -> bool {
    system.locals[0].own_trees().any(|own| own == tree)
}

#[test]
fn slots_are_a_sorted_set() {
    let cells: Vec<_> = (0..8)
        .map(|_| <Native as Platform>::Cell::<u32>::new(0))
        .collect();
    let slots = Slots::<Native>::new(&cells);
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
fn a_free_below_the_first_fit_point_takes_a_tree_over() {
    with_six_trees(|system, cpu| {
        system.drain(cpu);
        assert_eq!(
            system.allocate(cpu, Request::FRAME),
            Ok(Pfn(6 * TREE)),
            "above: the CPU owns this tree"
        );
        assert!(!owns(system, 0));
        system.free(cpu, Release::frame(Pfn(3))).unwrap();
        assert!(owns(system, 0));
        // It is free, and not returned.
        assert!(!system.shared.trees.part(3).unwrap().word.has_foreign(8));
        let again = system.free(cpu, Release::frame(Pfn(3)));
        assert!(matches!(again, Err(FreeError::NotAllocated)), "{again:?}");
        assert_eq!(system.allocate(cpu, Request::FRAME), Ok(Pfn(3)));
        // A free of what is not allocated takes no tree over.
        assert!(system.free(cpu, Release::frame(Pfn(7 * TREE))).is_err());
        system.drain(cpu);
        assert_eq!(system.allocate(cpu, Request::FRAME), Ok(Pfn(6 * TREE + 1)));
        assert!(system.free(cpu, Release::frame(Pfn(6 * TREE + 2))).is_err());
        assert_eq!(system.locals[0].own_trees().count(), 1);
    });
}

#[test]
fn no_tree_is_taken_over_in_a_shortage_or_if_all_slots_are_in_use() {
    with_six_trees(|system, cpu| {
        system.drain(cpu);
        let last = system.allocate(cpu, Request::FRAME).unwrap();
        let local = &system.locals[0];
        local.fitting.begin();
        system.free(cpu, Release::frame(Pfn(3))).unwrap();
        assert!(!owns(system, 0));
        assert!(local.entries().next().is_none());
        system.free(cpu, Release::frame(last)).unwrap();
    });
    // A CPU of seven owns two trees.
    with_system((8 * TREE, 0), 7, (Some(TREE), 10), |system| {
        let set = NativeCpus::new(7);
        let mut cpu = set.claim::<NoProbe>(CpuId(0)).unwrap();
        for _ in 0..6 * TREE {
            system.allocate(&mut cpu, Request::FRAME).unwrap();
        }
        assert!(system.locals[0].own_trees().eq([4, 5]));
        system.free(&mut cpu, Release::frame(Pfn(3))).unwrap();
        assert!(system.locals[0].own_trees().eq([4, 5]));
        system.check(&mut cpu).unwrap();
    });
}

#[test]
fn a_tree_of_which_few_words_are_in_use_is_released() {
    // 2 of 16 words are an eighth.
    let in_use = 2 * WORD;
    for by in [1, 8, WORD] {
        with_six_trees(|system, cpu| {
            for start in (TREE..2 * TREE).step_by(by as usize) {
                assert_eq!(owns(system, 1), start <= 2 * TREE - in_use + WORD - by);
                let block = Order::covering(by).unwrap();
                let block = Release::block(crate::Block::new(Pfn(start), block));
                system.free(cpu, block).unwrap();
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
    for order in [0, 3, 6].map(|order| Order::new(order).unwrap()) {
        with_system((8 * TREE, 0), 1, (Some(TREE), 10), |system| {
            let set = NativeCpus::new(1);
            let mut cpu = set.claim::<NoProbe>(CpuId(0)).unwrap();
            for _ in 0..3 {
                let start = system.allocate(&mut cpu, Request::order(order)).unwrap();
                let block = crate::Block::new(start, order);
                system.free(&mut cpu, Release::block(block)).unwrap();
                assert_eq!(start, Pfn(0));
                assert!(owns(system, 0));
            }
        });
    }
}

#[test]
fn blocks_of_several_frames_do_not_move_the_first_fit_point() {
    with_six_trees(|system, cpu| {
        for frame in (0..TREE).step_by(2) {
            system.free(cpu, Release::frame(Pfn(frame))).unwrap();
        }
        let two = Request::order(Order::new(1).unwrap());
        assert_eq!(system.allocate(cpu, two), Ok(Pfn(6 * TREE)));
        let point = system.locals[0].place(Kind::Movable).point.get();
        assert!(point < 6 * TREE, "{point}");
        assert_eq!(system.allocate(cpu, two), Ok(Pfn(6 * TREE + 2)));
        let single = system.allocate(cpu, Request::FRAME).unwrap();
        assert!(single.0 < TREE, "{single:?}");
    });
}

#[test]
fn a_bulk_of_large_blocks_is_what_single_requests_are() {
    for order in [6, 7, 9].map(|order| Order::new(order).unwrap()) {
        let mut outcomes = [false, true].map(|by_bulk| {
            let mut starts = Vec::new();
            with_six_trees(|system, cpu| {
                for frames in [(5 * TREE, TREE), (2 * TREE, 512), (300, 500)] {
                    let release = Release::frames(Pfn(frames.0), frames.1);
                    system.free(cpu, release).unwrap();
                }
                let request = Request::order(order);
                if by_bulk {
                    let mut out = [Pfn(0); 100];
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
            system.free(cpu, Release::frame(Pfn(frame))).unwrap();
        }
        assert_eq!(system.locals[0].own_trees().count(), 4);
    });
}
