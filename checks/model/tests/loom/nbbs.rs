//! NBBS's tree of status words, under loom.
//!
//! Blocks of all sizes are taken and given back by single exchanges of different words. No frame may be handed out
//! twice or lost, the holder of a frame must see what its last holder did, at the end every mark must agree with the
//! word that it stands for, and a request for a frame may be refused only if none was free.
//!
//! # Invariants
//! In every schedule the ledger accepts all results, and [`Machine::settle`] finds all frames free, all words empty and
//! no mark left. The numbers in `bound` are preemptions; `LOOM_MAX_PREEMPTIONS=N` replaces them.
//!
//! # Not modelled
//! More than three CPUs; more than three levels; versions that wrap around; retry bounds that run out.

use std::sync::atomic::{AtomicBool, AtomicU32, Ordering};

use everybuddy::{Block, FrameRange, Index, Order, Pfn, Release, Request};
use everybuddy_model::{Plain, Scope, bound};

use crate::lockless::{self, Cpu};

/// Two lowest words.
const FRAMES: u64 = 64;
/// The order of a lowest word.
const WORD: u8 = 5;
/// The order of all frames.
const ALL: u8 = 6;

fn scope(bounds: &[usize]) -> Scope {
    Scope::new(Plain, "nbbs+order=6", bound(bounds))
}

/// The same with one more level, whose word becomes empty only if the span fills the words below.
fn tall(bounds: &[usize]) -> Scope {
    Scope::new(Plain, "nbbs", bound(bounds))
}

#[test]
fn two_cpus_share_the_last_two_frames() {
    scope(&[2, 3]).exhaust(2, 2, |machine| {
        lockless::two_cpus_share_the_last_two_frames(machine, |_| ());
    });
}

#[test]
fn a_frame_that_comes_back_during_a_search_is_found() {
    scope(&[1, 2]).exhaust(
        2,
        3,
        lockless::a_frame_that_comes_back_during_a_search_is_found,
    );
}

/// A CPU searches two words. A frame comes back in the one that it has passed, then one is taken in the one that it has
/// not reached.
#[test]
fn a_search_is_not_passed_by_a_frame() {
    scope(&[3, 4]).exhaust(33, 2, |machine| {
        // CPU 1 holds all frames except the last one.
        let held = machine.on(1, |w| {
            let held: Vec<_> = (0..33).map(|_| w.allocate(0)).collect();
            let last = held.iter().find(|block| block.start == Index(32));
            w.free(*last.expect("all are held"));
            held
        });
        let is = |frame: u32| move |block: &&everybuddy::Block| block.start == Index(frame);
        let low = *held.iter().find(is(0)).expect("all are held");
        machine.at_once(&[&|w| w.try_churn(0), &|w| {
            w.free(low);
            w.try_churn(0);
        }]);
        machine.on(1, |w| {
            let rest = held
                .iter()
                .filter(|block| ![0, 32].contains(&block.start.0));
            rest.for_each(|block| w.free(*block));
        });
    });
}

#[test]
fn a_part_and_all_of_memory_are_wanted() {
    tall(&[3, 4]).exhaust(512, 2, |machine| {
        machine.at_once(&[&|w| w.try_churn(0), &|w| w.try_churn(ALL)]);
    });
}

/// The word of the first CPU becomes empty while the second one takes its first frame, and all of memory is wanted.
#[test]
fn a_word_becomes_empty_while_it_is_wanted() {
    scope(&[2, 3]).exhaust(FRAMES, 3, |machine| {
        let frame = machine.on(0, |w| w.allocate(0));
        machine.at_once(&[
            &|w| w.free(frame),
            &|w| {
                // The same word, which is not where this CPU's search begins.
                let (system, cpu) = w.raw();
                let range = FrameRange::new(Pfn(system.span().base().0 + 1), 1);
                if let Ok(start) = system.allocate_at(cpu, range) {
                    // The free of the other frame passes this on, though the word has the value that it read before.
                    w.access(start, 1);
                    w.free_untracked(Release::frame(start));
                }
            },
            &|w| w.try_churn(ALL),
        ]);
    });
}

/// The mark of a word is set, cleared, and set again while CPUs that want to clear it stand still: the schedule in
/// which a coalescing bit without a version is not enough.
#[test]
fn a_late_free_does_not_clear_the_mark_of_a_later_block() {
    scope(&[2, 3]).exhaust(FRAMES, 3, |machine| {
        let frame = machine.on(0, |w| w.allocate(0));
        machine.on(0, |w| w.hand(frame, 2));
        // CPUs 0 and 1 begin in the same word.
        machine.at_once(&[
            &|w| w.churn(0),
            &|w| {
                let frame = w.allocate(0);
                assert!(w.try_allocate(ALL).is_none(), "a part of it is held");
                w.free(frame);
            },
            &|w| w.free(frame),
        ]);
    });
}

/// The same on two levels: the marks are compared with the words while a frame is held.
#[test]
fn a_late_free_does_not_clear_the_marks_of_higher_levels() {
    tall(&[3, 4]).exhaust(512, 2, |machine| {
        let frame = machine.on(0, |w| w.allocate(0));
        let held = AtomicU32::new(0);
        machine.at_once(&[&|w| w.free(frame), &|w| {
            let frame = w.allocate_untracked(Request::FRAME);
            held.store(frame.0, Ordering::Relaxed);
        }]);
        machine.on(1, |w| {
            w.check();
            w.free_untracked(Release::frame(Index(held.into_inner())));
        });
    });
}

#[test]
fn all_of_memory_is_wanted_while_words_are_emptied() {
    scope(&[2, 3]).exhaust(FRAMES, 2, |machine| {
        machine.at_once(&[&|w| w.try_churn(0), &|w| {
            w.try_churn(0);
            w.try_churn(ALL);
        }]);
    });
}

#[test]
fn two_buddies_are_freed() {
    tall(&[3, 4]).exhaust(512, 2, |machine| {
        let (a, b) = machine.on(0, |w| (w.allocate(WORD), w.allocate(WORD)));
        machine.on(0, |w| w.hand(b, 1));
        machine.at_once(&[&|w| w.free(a), &|w| {
            w.free(b);
            w.try_churn(ALL);
        }]);
    });
}

#[test]
fn a_block_is_freed_for_its_parts() {
    tall(&[3, 4]).exhaust(512, 2, |machine| {
        let all = machine.on(0, |w| w.allocate(ALL));
        machine.at_once(&[&|w| w.free(all), &|w| {
            w.try_churn(0);
            w.try_churn(ALL);
        }]);
    });
}

#[test]
fn two_cpus_free_parts_of_a_block() {
    scope(&[3, 4]).exhaust(FRAMES, 2, |machine| {
        let parts = ((3, 1), (20, 40));
        lockless::two_cpus_free_parts_of_a_block(machine, ALL, parts);
    });
}

#[test]
fn two_cpus_free_the_halves_of_a_block() {
    scope(&[3, 4]).exhaust(FRAMES, 2, |machine| {
        lockless::two_cpus_free_parts_of_a_block(machine, ALL, ((0, 32), (32, 32)));
    });
}

#[test]
fn a_half_is_freed_by_its_order_while_the_block_is_divided() {
    scope(&[3, 4]).exhaust(FRAMES, 2, |machine| {
        lockless::a_half_is_freed_by_its_order_while_the_other_is_freed(machine, ALL);
    });
}

#[test]
fn a_part_of_a_block_is_taken_while_another_is_freed() {
    scope(&[1, 2]).exhaust(FRAMES, 2, |machine| {
        lockless::a_part_of_a_block_is_taken_while_another_is_freed(machine, ALL, 2);
    });
}

#[test]
fn a_block_that_is_freed_whole_and_in_part_is_freed_once() {
    scope(&[3, 4]).exhaust(FRAMES, 2, |machine| {
        lockless::a_block_that_is_freed_whole_and_in_part_is_freed_once(machine, ALL);
    });
}

#[test]
fn one_of_two_frees_of_a_frame_is_refused() {
    scope(&[4, 5]).exhaust(32, 2, |machine| {
        lockless::one_of_two_frees_of_a_frame_is_refused(machine, None, |_| ());
    });
}

#[test]
fn a_range_is_reserved_while_its_frames_are_wanted() {
    scope(&[2, 3]).exhaust(33, 2, |machine| {
        let want = |w: &mut Cpu<'_>| w.try_churn(0);
        lockless::a_range_is_reserved_while_its_frames_are_wanted(machine, 33, want, |_| ());
    });
}

#[test]
fn a_nested_request_comes_between() {
    scope(&[2, 3]).exhaust(4, 2, |machine| {
        lockless::a_nested_request_comes_between(machine, None, false, |_| ());
    });
}

/// Code that interrupted CPU 0 frees the only frame, and another CPU wants it.
#[test]
fn a_nested_free_is_found_by_a_search() {
    scope(&[2, 3]).exhaust(1, 2, |machine| {
        let frame = machine.on(0, |w| w.allocate_untracked(Request::FRAME));
        let is_back = AtomicBool::new(false);
        machine.at_once(&[&|w| lockless::frees_nested(w, frame, &is_back), &|w| {
            lockless::wants(w, &is_back, Request::FRAME)
        }]);
    });
}

/// The holder of two words frees them as one block. What it did is seen by the second of two CPUs that take a frame of
/// the same word, which does not look at the block.
#[test]
fn a_block_is_freed_for_two_frames_of_a_word() {
    scope(&[1, 2]).exhaust(FRAMES, 3, |machine| {
        let order = Order::new(ALL).expect("an order");
        machine.on(0, |w| w.allocate_untracked(Request::order(order)));
        let takes = |frame: u32| {
            move |w: &mut Cpu<'_>| {
                let (system, cpu) = w.raw();
                let range = FrameRange::new(Pfn(system.span().base().0 + u64::from(frame)), 1);
                if let Ok(start) = system.allocate_at(cpu, range) {
                    w.access(start, 1);
                    w.free_untracked(Release::frame(start));
                }
            }
        };
        machine.at_once(&[
            &|w| {
                w.access(Index(1), 1);
                w.free_untracked(Release::block(Block::new(Index(0), order)));
            },
            &takes(0),
            &takes(1),
        ]);
    });
}
