//! Frames that stay, and frames that can be moved.

use super::*;
use crate::request::Flags;

const TREE: u32 = 1024;

/// A request for a frame of a class that fails instead of waiting.
fn frame_of(class: Class) -> Request {
    Request::FRAME.with_class(class).with_flags(Flags::NO_WAIT)
}

/// Calls `body` with a system of eight trees, and its only CPU.
fn with_eight_trees(
    body: impl FnOnce(&OwnedTrees<'_, Native>, &mut crate::platform::NativeCpu<NoProbe>),
) {
    with_system((8 * TREE, 0), 1, (Some(TREE), 10), |system| {
        let set = NativeCpus::new(1);
        let mut cpu = set.claim(CpuId(0)).unwrap();
        body(system, &mut cpu);
        system.check(&mut cpu).unwrap();
    });
}

#[test]
fn a_tree_has_frames_of_one_kind_while_others_are_whole() {
    with_eight_trees(|system, cpu| {
        let mut random = Random(7);
        let mut held: Vec<(Pfn, bool)> = Vec::new();
        let orders = [0, 0, 0, 1, 3, 5, 6, 8];
        for step in 0..20_000 {
            // So few that no kind needs the last whole tree.
            let frames = |movable: bool| held.iter().filter(|(_, own)| *own == movable).count();
            let movable = random.below(2) == 0;
            if frames(movable) < 600 && random.below(5) > 1 {
                let class = match (movable, random.below(3)) {
                    (true, _) => Class::Movable,
                    (false, 0) => Class::Unmovable,
                    (false, 1) => Class::Reclaimable,
                    (false, _) => Class::NeverFreed,
                };
                let frame = system.allocate(cpu, frame_of(class)).unwrap();
                held.push((frame, movable));
            } else if !held.is_empty() {
                let at = random.below(held.len() as u32) as usize;
                let (frame, _) = held.swap_remove(at);
                system.free(cpu, Release::frame(frame)).unwrap();
            }
            if step % 100 == 0 {
                let order = Order::new(orders[random.below(8) as usize]).unwrap();
                let class = [Class::Movable, Class::Unmovable][usize::from(!movable)];
                let block = system
                    .allocate(cpu, Request::order(order).with_class(class))
                    .unwrap();
                let tree = block.0 / TREE;
                let others = held.iter().filter(|(frame, _)| frame.0 / TREE == tree);
                assert!(
                    others.clone().all(|(_, own)| *own == movable),
                    "step {step}"
                );
                system
                    .free(cpu, Release::block(crate::Block::new(block, order)))
                    .unwrap();
            }
            let mut kinds = [[false; 2]; 8];
            for (frame, movable) in &held {
                kinds[(frame.0 / TREE) as usize][usize::from(*movable)] = true;
            }
            assert!(!kinds.contains(&[true, true]), "step {step}: {kinds:?}");
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
            for free in [0, 3 * TREE + 17, 8 * TREE - 1].map(Pfn) {
                system.free(cpu, Release::frame(free)).unwrap();
                assert_eq!(system.allocate(cpu, frame_of(second)), Ok(free));
                let refused = system.allocate(cpu, frame_of(second));
                assert_eq!(refused, Err(AllocateError::Exhausted));
            }
        });
    }
}

#[test]
fn a_tree_changes_its_kind_only_if_half_of_it_is_whole() {
    for (words, expected) in [(8, Kind::Movable), (7, Kind::Staying)] {
        with_eight_trees(|system, cpu| {
            for _ in 0..8 * TREE / WORD {
                let word = Order::new(6).unwrap();
                system.allocate(cpu, Request::order(word)).unwrap();
            }
            for word in 0..words {
                let free = Release::frames(Pfn(3 * TREE + word * WORD), WORD);
                system.free(cpu, free).unwrap();
            }
            let taken = system.allocate(cpu, frame_of(Class::Movable));
            assert_eq!(taken, Ok(Pfn(3 * TREE)));
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
    with_system((1 << 16, 0), 64, (None, 10), |system| {
        let set = NativeCpus::new(64);
        let mut cpu = set.claim::<NoProbe>(CpuId(0)).unwrap();
        let local = system.local(CpuId(0)).unwrap();
        for step in 0..2000 {
            let class = match step % 4 {
                0 => Class::Unmovable,
                _ => Class::Movable,
            };
            let frame = system.allocate(&mut cpu, frame_of(class)).unwrap();
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
