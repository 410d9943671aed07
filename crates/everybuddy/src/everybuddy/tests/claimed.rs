//! Which trees a CPU claims, and after which frees it keeps them.

use super::owned::{TREE, owns, with_six_trees};
use super::*;
use crate::platform::{AtomicWord, Ordering, SharedCell};

#[test]
fn a_wholly_free_tree_is_used_before_one_with_few_free_frames() {
    with_cpus((4 * TREE, 0), (Some(TREE), 10), |system, [cpu]| {
        allocate_frames(system, cpu, 4 * TREE);
        for (start, frames) in [(5, 1), (2 * TREE, TREE)] {
            let run = Release::frames(Index(start), frames);
            system.free(cpu, run).unwrap();
        }
        system.drain(cpu);
        assert!(!system.locals[0].fitting.is_on());
        let next = system.allocate(cpu, Request::FRAME);
        assert_eq!(next, Ok(Index(2 * TREE)));
        system.check(cpu).unwrap();
    });
}

#[test]
fn a_lower_tree_is_claimed_only_if_it_is_partly_free() {
    // Of 16 words.
    for (words, expected) in [(3, 6 * TREE + 1), (4, 0)] {
        with_six_trees(|system, cpu| {
            system.drain(cpu);
            assert_eq!(system.allocate(cpu, Request::FRAME), Ok(Index(6 * TREE)));
            for word in 0..words {
                free_into_tree(system, cpu, word * WORD, 1);
                system.locals[0].freed.set(7);
            }
            assert!(system.locals[0].own_trees().eq([6]));
            system.locals[0].start_over(singles(system, 0, Kind::Staying), Kind::Staying);
            let next = system.allocate(cpu, Request::FRAME);
            assert_eq!(next, Ok(Index(expected)), "{words} words");
        });
    }
}

/// However often: by one word, and by several.
#[test]
fn frees_of_what_is_not_allocated_take_no_tree_over() {
    for frames in [1, 2 * WORD] {
        with_six_trees(|system, cpu| {
            system.drain(cpu);
            for _ in 0..10 {
                let run = Release::frames(Index(7 * TREE), frames);
                assert_eq!(system.free(cpu, run), Err(FreeError::NotAllocated));
            }
            assert_eq!(system.locals[0].own_trees().count(), 0);
        });
    }
}

#[test]
fn a_tree_is_kept_after_four_frees_in_a_row_unless_a_request_is_pending() {
    for frames in [1, 2 * WORD] {
        with_six_trees(|system, cpu| {
            let mut free = |start| free_into_tree(system, cpu, start, frames);
            let local = &system.locals[0];
            let pending = |is_pending| {
                let count = u32::from(is_pending);
                system.requests.drains.count.store(count, Ordering::Relaxed);
                local.close();
            };
            local.release_all(&system.shared);
            // Each time anew.
            for tree in 0..2 {
                for run in 0..4 {
                    assert!(!owns(system, tree));
                    free(tree * TREE + run * frames);
                }
                assert!(owns(system, tree));
            }
            local.release_all(&system.shared);
            for run in 0..3 {
                free(TREE + (4 + run) * frames);
            }
            assert!(!owns(system, 1));
            pending(true);
            for run in 0..6 {
                free(2 * TREE + run * frames);
            }
            assert_eq!(local.own_trees().count(), 0);
            pending(false);
        });
    }
}

#[test]
fn only_parts_of_words_move_the_first_fit_point() {
    with_six_trees(|system, cpu| {
        system.drain(cpu);
        let point = system.allocate(cpu, Request::FRAME).unwrap();
        let place = system.locals[0].place(Kind::Staying);
        let list = singles(system, 0, Kind::Staying);
        // The frame at the point is not below it.
        free_into_tree(system, cpu, point.0, 1);
        assert_eq!((list.point.get(), place.passed.get()), (point.0, 0));
        for (frames, passed) in [(WORD, 0), (WORD / 2, WORD / 2)] {
            let run = Release::frames(Index(frames * 2), frames);
            system.free(cpu, run).unwrap();
            assert_eq!(place.passed.get(), passed);
        }
    });
}
