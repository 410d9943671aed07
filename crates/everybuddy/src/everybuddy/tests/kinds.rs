//! Frames that stay, and frames that can be moved.

use core::ops::Range;

use super::*;
use crate::request::Flags;

const TREE: u32 = 1024;

/// A request for a frame of a class that fails instead of waiting.
fn frame_of(class: Class) -> Request {
    Request::FRAME.with_class(class).with_flags(Flags::NO_WAIT)
}

/// Calls `body` with a system of eight trees, and its only CPU.
fn with_eight_trees(body: impl FnOnce(&Trees<'_>, &mut Cpu)) {
    with_cpus((8 * TREE, 0), (Some(TREE), 10), |system, [cpu]| {
        body(system, cpu);
        system.check(cpu).unwrap();
    });
}

/// Allocates and frees at random, so that some trees are always whole, and checks that no tree has blocks of both
/// kinds, except for single movable frames in a tree for frames that stay. A nested request takes only trees that the
/// CPU does not own, so it is tried while such a tree is whole.
fn kinds_do_not_mix(seed: u64) {
    with_eight_trees(|system, cpu| {
        let mut random = Random(seed);
        let mut held: Vec<(Index, Order, bool)> = Vec::new();
        for step in 0..3000 {
            let movable = random.below(2) == 0;
            let class = match (movable, random.below(3)) {
                (true, _) => Class::Movable,
                (false, 0) => Class::Unmovable,
                (false, 1) => Class::Reclaimable,
                (false, _) => Class::NeverFreed,
            };
            let order = [0, 0, 0, 0, 1, 3, 5, 6, 7][random.below(9) as usize];
            let order = Order::new(order).unwrap();
            // At most three trees of four are in use.
            let frames = held.iter().map(|(_, order, _)| order.frames());
            if frames.sum::<u32>() < 600 && random.below(5) > 1 {
                let request = Request::order(order).with_class(class);
                let mut headers = system.shared.trees.headers.iter();
                let may_nest = headers.any(|header| {
                    system.shared.is_unowned(header) && system.shared.trees.is_whole(header)
                });
                let start = match random.below(10) {
                    0 if may_nest => system.allocate_nested(CpuId(0), request),
                    _ => system.allocate(cpu, request),
                };
                if let Ok(start) = start {
                    held.push((start, order, movable));
                }
            } else if !held.is_empty() {
                let at = random.below(held.len() as u32) as usize;
                let (start, order, _) = held.swap_remove(at);
                let block = Release::block(crate::Block::new(start, order));
                match random.below(10) {
                    0 => system.free_nested(CpuId(0), block),
                    _ => system.free(cpu, block),
                }
                .unwrap();
            }
            match random.below(200) {
                0 => system.drain(cpu),
                // No tree has it.
                1 => {
                    let refused = system.allocate(cpu, Request::frames(9000).with_class(class));
                    assert!(refused.is_err());
                    let order = Order::TEN;
                    let block = Request::order(order).with_class(class);
                    while let Ok(start) = system.allocate(cpu, block) {
                        held.push((start, order, movable));
                    }
                    held.retain(|(start, own, _)| {
                        let block = Release::block(crate::Block::new(*start, *own));
                        *own != order || system.free(cpu, block).is_err()
                    });
                }
                _ => {}
            }
            let mut kinds = [[false; 2]; 8];
            for (start, order, movable) in &held {
                let tree = start.0 / TREE;
                let header = system.shared.trees.header(tree).unwrap();
                let fills = *movable && *order == Order::ZERO && header.is_for(Kind::Staying);
                kinds[tree as usize][usize::from(*movable)] |= !fills;
            }
            assert!(!kinds.contains(&[true, true]), "step {step}: {kinds:?}");
        }
    });
}

#[test]
fn kinds_mix_only_in_fragments_while_trees_are_whole() {
    (0..150).for_each(kinds_do_not_mix);
}

#[test]
fn a_tree_that_is_whole_again_serves_one_kind() {
    with_eight_trees(|system, cpu| {
        let first = [(); 2].map(|()| system.allocate(cpu, frame_of(Class::Unmovable)).unwrap());
        for frame in first {
            system.free(cpu, Release::frame(frame)).unwrap();
        }
        let movable = system.allocate(cpu, frame_of(Class::Movable)).unwrap();
        // Neither from the CPU's tree nor from its list.
        for _ in 0..3 {
            let staying = system.allocate(cpu, frame_of(Class::Unmovable)).unwrap();
            assert_ne!(staying.0 / TREE, movable.0 / TREE);
        }
    });
}

/// Fills all trees from `first` on with frames that stay.
fn fill_from(system: &Trees<'_>, cpu: &mut Cpu, first: u32) {
    let rest = FrameRange::new(Pfn(u64::from(first * TREE)), u64::from((8 - first) * TREE));
    system.allocate_at(cpu, rest).unwrap();
}

#[test]
fn a_small_request_takes_the_tree_of_large_blocks_before_one_of_the_other_kind() {
    with_eight_trees(|system, cpu| {
        fill_from(system, cpu, 2);
        let six = Request::order(order(6)).with_class(Class::Movable);
        assert_eq!(
            system.allocate(cpu, frame_of(Class::Unmovable)),
            Ok(Index(0))
        );
        let large = system.allocate(cpu, six).unwrap();
        assert_eq!(large.0 / TREE, 1);
        for _ in 0..2 {
            let movable = system.allocate(cpu, frame_of(Class::Movable)).unwrap();
            let staying = system.allocate(cpu, frame_of(Class::Unmovable)).unwrap();
            assert_eq!((movable.0 / TREE, staying.0 / TREE), (1, 0));
        }
    });
}

#[test]
fn a_tree_of_the_other_kind_is_not_used_further_when_others_are_whole() {
    for by_bulk in [false, true] {
        with_eight_trees(|system, cpu| {
            let frames: Vec<Index> = (0..8 * TREE)
                .map(|_| system.allocate(cpu, frame_of(Class::Movable)).unwrap())
                .collect();
            system.free(cpu, Release::frame(Index(5))).unwrap();
            let request = frame_of(Class::Unmovable);
            assert_eq!(system.allocate(cpu, request), Ok(Index(5)));
            for frame in frames.iter().filter(|frame| frame.0 >= WORD) {
                system.free(cpu, Release::frame(*frame)).unwrap();
            }
            // The first word of the tree is split and full, so the next frame comes from a whole tree.
            let mut staying = [Index(0); TREE as usize];
            if by_bulk {
                let given = system.allocate_bulk(cpu, request, &mut staying);
                assert_eq!(given, Ok(staying.len()));
            } else {
                staying.fill_with(|| system.allocate(cpu, request).unwrap());
            }
            assert!(staying.iter().all(|frame| frame.0 / TREE != 0));
        });
    }
}

#[test]
fn a_refused_request_does_not_change_the_kind_of_a_tree() {
    with_eight_trees(|system, cpu| {
        let mut take = |class, trees: Range<u32>| {
            for tree in trees {
                let frame = system.allocate(cpu, frame_of(class)).unwrap();
                assert_eq!(frame.0 / TREE, tree);
                // The rest of the tree is allocated meanwhile, so that the next frame comes from another one.
                let rest = FrameRange::new(Pfn(u64::from(frame.0) + 1), u64::from(TREE) - 1);
                system.allocate_at(cpu, rest).unwrap();
            }
        };
        take(Class::Unmovable, 0..4);
        take(Class::Movable, 4..8);
        for tree in 0..8 {
            let rest = Release::frames(Index(tree * TREE + 1), TREE - 1);
            system.free(cpu, rest).unwrap();
        }
        let kinds = || (0..8).map(|tree| system.shared.trees.header(tree).unwrap().kind());
        let expected = (0..8).map(|tree| Kind::ALL[usize::from(tree >= 4)]);
        for class in Class::ALL {
            let order = Request::order(order(10)).with_class(class);
            for flags in [Flags::NONE, Flags::NO_WAIT] {
                let refused = system.allocate(cpu, order.with_flags(flags));
                assert_eq!(refused, EXHAUSTED);
            }
            let refused = system.allocate_nested(CpuId(0), order);
            assert!(refused.is_err());
            assert!(kinds().eq(expected.clone()), "{class:?}");
        }
    });
}

#[test]
fn nested_requests_and_large_blocks_have_kinds() {
    with_eight_trees(|system, cpu| {
        let kind = |frame: Index| {
            let header = system.shared.trees.header(frame.0 / TREE);
            header.unwrap().kind()
        };
        let staying = system.allocate_nested(CpuId(0), Request::FRAME).unwrap();
        let movable = system.allocate_nested(CpuId(0), frame_of(Class::Movable));
        assert_eq!(kind(staying), Kind::Staying);
        assert_eq!(kind(movable.unwrap()), Kind::Movable);
        assert_ne!(staying.0 / TREE, movable.unwrap().0 / TREE);
        // Frames at a chosen place stay.
        let last = Index(7 * TREE + 3);
        system.free(cpu, Release::frame(movable.unwrap())).unwrap();
        let at = FrameRange::new(Pfn(u64::from(movable.unwrap().0)), 1);
        system.allocate_at(cpu, at).unwrap();
        assert_eq!(kind(movable.unwrap()), Kind::Staying);
        assert_eq!(kind(last), Kind::Staying);
    });
    // A block of two trees.
    with_cpus((8 * WORD, 0), (Some(WORD), 7), |system, [cpu]| {
        let order = order(7);
        let block = Request::order(order).with_class(Class::Movable);
        let start = system.allocate(cpu, block).unwrap();
        for tree in [start.0 / WORD, start.0 / WORD + 1] {
            let header = system.shared.trees.header(tree).unwrap();
            assert_eq!(header.kind(), Kind::Movable);
        }
    });
}

#[test]
fn memory_of_the_other_kind_serves_a_request_before_it_is_refused() {
    for (first, second) in [
        (Class::Movable, Class::Unmovable),
        (Class::Reclaimable, Class::Movable),
    ] {
        with_eight_trees(|system, cpu| {
            for _ in 0..8 * TREE {
                system.allocate(cpu, frame_of(first)).unwrap();
            }
            for free in [0, 3 * TREE + 17, 8 * TREE - 1].map(Index) {
                system.free(cpu, Release::frame(free)).unwrap();
                assert_eq!(system.allocate(cpu, frame_of(second)), Ok(free));
                let refused = system.allocate(cpu, frame_of(second));
                assert_eq!(refused, EXHAUSTED);
            }
        });
    }
}

#[test]
fn a_tree_changes_its_kind_only_if_half_of_it_is_whole() {
    for (words, expected) in [(8, Kind::Movable), (7, Kind::Staying)] {
        with_eight_trees(|system, cpu| {
            for _ in 0..8 * TREE / WORD {
                let word = order(6);
                system.allocate(cpu, Request::order(word)).unwrap();
            }
            for word in 0..words {
                free_into_tree(system, cpu, 3 * TREE + word * WORD, WORD);
            }
            let taken = system.allocate(cpu, frame_of(Class::Movable));
            assert_eq!(taken, Ok(Index(3 * TREE)));
            let kind = system.shared.trees.header(3).unwrap().kind();
            assert_eq!(kind, expected, "{words} of 16 words");
        });
    }
}

#[test]
fn a_freed_frame_serves_requests_of_its_kind() {
    with_eight_trees(|system, cpu| {
        let staying = system.allocate(cpu, frame_of(Class::Unmovable)).unwrap();
        let movable = system.allocate(cpu, frame_of(Class::Movable)).unwrap();
        assert_ne!(staying.0 / TREE, movable.0 / TREE);
        for frame in [movable, staying] {
            system.free(cpu, Release::frame(frame)).unwrap();
        }
        let again = system.allocate(cpu, frame_of(Class::Movable));
        assert_eq!(again, Ok(movable));
        let again = system.allocate(cpu, frame_of(Class::NeverFreed));
        assert_eq!(again, Ok(staying));
    });
}

#[test]
fn two_kinds_do_not_take_each_others_current_tree_away() {
    // A CPU that may own two trees, and many CPUs that do nothing.
    with_cpus::<64>((1 << 13, 0), (Some(128), 7), |system, [cpu, ..]| {
        let local = system.local(CpuId(0)).unwrap();
        for step in 0..2000 {
            let class = match step % 4 {
                0 => Class::Unmovable,
                _ => Class::Movable,
            };
            let frame = system.allocate(cpu, frame_of(class)).unwrap();
            let tree = system.shared.trees.tree_of(frame.0);
            assert!(local.own_trees().any(|own| own == tree));
            assert!(step < 4 || local.own_trees().count() == 2);
            let kinds = local.own_trees().map(|tree| {
                let header = system.shared.trees.header(tree).unwrap();
                header.kind() as u32
            });
            assert_eq!(kinds.sum::<u32>(), u32::from(step > 0), "step {step}");
        }
    });
}

/// A block of a tree of the other kind is the last resort. The CPU does not go on there when other trees are whole
/// again.
#[test]
fn larger_blocks_use_no_tree_of_the_other_kind_further_when_others_are_whole() {
    for (frames, by_bulk) in [(2, false), (64, false), (3, false), (65, false), (64, true)] {
        with_eight_trees(|system, cpu| {
            for _ in 0..8 * TREE {
                system.allocate(cpu, frame_of(Class::Movable)).unwrap();
            }
            // Less than half of the tree is whole: it keeps its kind.
            let order = Order::covering(frames).unwrap();
            let first = Release::frames(Index(0), 4 * WORD);
            system.free(cpu, first).unwrap();
            let request = if frames.is_power_of_two() {
                Request::order(order)
            } else {
                Request::frames(frames)
            };
            let request = request.with_flags(Flags::NO_WAIT);
            assert_eq!(system.allocate(cpu, request), Ok(Index(0)));
            let others = Release::frames(Index(TREE), 7 * TREE);
            system.free(cpu, others).unwrap();
            let mut out = [Index(0)];
            let next = if by_bulk {
                system.allocate_bulk(cpu, request, &mut out).map(|_| out[0])
            } else {
                system.allocate(cpu, request)
            };
            assert_ne!(next.unwrap().0 / TREE, 0, "{frames} frames");
        });
    }
}
