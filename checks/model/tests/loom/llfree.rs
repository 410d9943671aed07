//! LLFree's two levels, under loom.
//!
//! Every operation is a sequence of single exchanges, and any other operation may come between two of them. No frame
//! may be handed out twice or lost, the holder of a frame must see what its last holder did, the counters of both
//! levels must agree with the bits at the end, and a request for a frame may be refused only if none was free.
//!
//! # Invariants
//! In every schedule the ledger accepts all results, and [`Machine::settle`] finds all frames free and all counters
//! right. The numbers in `bound` are preemptions; `LOOM_MAX_PREEMPTIONS=N` replaces them.
//!
//! # Not modelled
//! More than three CPUs; more than a pair of children; retry bounds that run out.

use everybuddy::{Block, FrameRange, Index, Pfn};
use everybuddy_model::{Plain, Scope, bound};

use crate::lockless::{self, Cpu};

fn scope(bounds: &[usize]) -> Scope {
    Scope::new(Plain, "llfree+tree=4MiB", bound(bounds))
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

/// A CPU searches two pairs of children. A frame comes back in the one that it has passed, then one is taken in the one
/// that it has not reached.
#[test]
fn a_search_is_not_passed_by_a_frame() {
    scope(&[3, 4]).exhaust(1026, 2, |machine| {
        // CPU 1 holds frame 1 and all that lies between; frames 0 and 1024 are free in turn.
        let held = machine.on(1, |w| {
            let (system, cpu) = w.raw();
            let between = FrameRange::new(Pfn(system.span().base().0 + 2), 1022);
            system.reserve(cpu, between).expect("all is free");
            let held: Vec<_> = (0..4).map(|_| w.allocate(0)).collect();
            held
        });
        let at = |frame: u32| held.iter().find(|block| block.start == Index(frame));
        let [low, high] = [at(0), at(1024)].map(|block| *block.expect("all are held"));
        machine.on(1, |w| w.free(high));
        machine.at_once(&[&|w| w.try_churn(0), &|w| {
            w.free(low);
            w.try_churn(0);
        }]);
        machine.on(1, |w| {
            for block in held
                .iter()
                .filter(|block| **block != low && **block != high)
            {
                w.free(*block);
            }
            let (system, cpu) = w.raw();
            let between = FrameRange::new(Pfn(system.span().base().0 + 2), 1022);
            system.unreserve(cpu, between).expect("it is reserved");
        });
    });
}

#[test]
fn a_run_of_two_words_is_undone_if_a_frame_is_taken() {
    scope(&[3, 4]).exhaust(192, 2, |machine| {
        // CPU 1 starts in the middle, which is the second word.
        machine.at_once(&[&|w| w.try_churn(7), &|w| w.try_churn(0)]);
    });
}

#[test]
fn two_cpus_free_parts_of_a_huge_frame() {
    scope(&[4, 5]).exhaust(512, 2, |machine| {
        let parts = ((3, 1), (60, 140));
        lockless::two_cpus_free_parts_of_a_block(machine, 9, parts);
    });
}

#[test]
fn a_part_of_a_huge_frame_is_taken_while_another_is_freed() {
    scope(&[4, 5]).exhaust(512, 2, |machine| {
        lockless::a_part_of_a_block_is_taken_while_another_is_freed(machine, 9, 64);
    });
}

#[test]
fn a_huge_frame_that_is_freed_whole_and_in_part_is_freed_once() {
    scope(&[4, 5]).exhaust(512, 2, |machine| {
        lockless::a_block_that_is_freed_whole_and_in_part_is_freed_once(machine, 9);
    });
}

#[test]
fn two_huge_frames_are_taken_while_a_frame_is() {
    scope(&[3, 4]).exhaust(1024, 2, |machine| {
        machine.at_once(&[&|w| w.try_churn_untracked(10), &|w| {
            w.try_churn_untracked(0);
            w.try_churn_untracked(10);
        }]);
    });
}

/// A frame is handed over by way of a huge frame: what its holder did is seen by the next one.
#[test]
fn a_huge_frame_is_freed_for_single_frames() {
    scope(&[4, 5]).exhaust(512, 2, |machine| {
        let huge = machine.on(0, |w| w.allocate(9));
        machine.at_once(&[&|w| w.free(huge), &|w| {
            w.try_churn(0);
            w.try_churn(9);
        }]);
    });
}

/// The same by way of two huge frames.
#[test]
fn two_huge_frames_are_freed_for_single_frames() {
    scope(&[3, 4]).exhaust(1024, 2, |machine| {
        let both = machine.on(0, |w| w.allocate(10));
        machine.at_once(&[&|w| w.free(both), &|w| {
            w.try_churn(0);
            w.try_churn(10);
        }]);
    });
}

/// A frame is handed over by way of a huge frame and a reservation: the bits of the huge frame do not change when it is
/// freed, so its counter alone orders the two.
#[test]
fn a_huge_frame_is_freed_for_a_reservation() {
    scope(&[4, 5]).exhaust(512, 2, |machine| {
        let huge = machine.on(0, |w| w.allocate(9));
        machine.at_once(&[&|w| w.free(huge), &|w| {
            if w.reserve(Index(0), 2) {
                w.unreserve(Index(0), 2);
            }
        }]);
    });
}

#[test]
fn a_reservation_is_stolen_while_its_cpu_allocates() {
    scope(&[4, 5]).exhaust(4, 2, |machine| {
        machine.on(0, |w| w.churn(0));
        machine.at_once(&[
            &|w| {
                w.churn(0);
                w.try_churn(1);
            },
            &|w| w.drain_parked(0),
        ]);
    });
}

#[test]
fn a_tree_is_reserved_by_frees_while_another_cpu_wants_it() {
    scope(&[2, 3]).exhaust(6, 2, |machine| {
        let held: Vec<Block> = machine.on(0, |w| {
            let held = (0..4).map(|_| w.allocate(0)).collect();
            w.park();
            held
        });
        machine.on(0, |w| held.iter().for_each(|block| w.hand(*block, 1)));
        machine.at_once(&[
            &|w| {
                w.churn(0);
                w.park();
            },
            &|w| {
                held.iter().for_each(|block| w.free(*block));
            },
        ]);
    });
}

#[test]
fn one_of_two_frees_of_a_frame_is_refused() {
    scope(&[4, 5]).exhaust(64, 2, |machine| {
        lockless::one_of_two_frees_of_a_frame_is_refused(machine, None, |_| ());
    });
}

#[test]
fn a_range_is_reserved_while_its_frames_are_wanted() {
    scope(&[3, 4]).exhaust(3, 2, |machine| {
        let want = |w: &mut Cpu<'_>| w.try_churn(0);
        lockless::a_range_is_reserved_while_its_frames_are_wanted(machine, 2, want, |_| ());
    });
}

#[test]
fn a_nested_request_comes_between() {
    scope(&[2, 3]).exhaust(4, 2, |machine| {
        lockless::a_nested_request_comes_between(machine, None, false, |_| ());
    });
}
