//! Buddy spaces and their pool, under loom.
//!
//! A space moves from one CPU to another while a third CPU frees into it, under two locks that are acquired one after
//! the other. A search of all spaces must not miss a space that changes hands. Spaces have one or two frames here, so
//! that every second request exchanges one.
//!
//! # Invariants
//! In every schedule no frame is handed out twice or lost, and no request for a single frame fails while one is free
//! throughout. At the end the lists of spaces, the users and the counts are right, every frame can be allocated, and
//! everything is coalesced.
//!
//! The numbers before a model's name bound the preemptions, see [`bound`]; `LOOM_MAX_PREEMPTIONS=N` replaces them.
//!
//! # Not modelled
//! Nested requests; ranges that are removed or freed across a border; more than three CPUs.

use std::sync::Mutex;

use everybuddy::{Flags, FrameRange, Index, Pfn, RegionError, Release, Request};
use everybuddy_model::{ALL, Loom, Machine, Plain, Scope, Shared, Worker, bound};

type Cpu<'w> = Worker<'w, Loom>;

/// Checks everything, and that each CPU can allocate every frame.
fn all_is_well(machine: &Machine<'_, Loom>, cpus: u16) {
    for cpu in 0..cpus {
        machine.on(cpu, |w| {
            w.check();
            w.has_all();
            w.park();
        });
    }
}

/// One space for two CPUs.
fn two_cpus_share_a_space(scope: Scope) {
    scope.exhaust(2, 2, |machine| {
        machine.park_after(&[
            &|w| {
                // The other CPU has one of two frames at most.
                w.churn(0);
                w.try_churn(1);
            },
            &|w| {
                w.try_churn(0);
                w.park();
                w.try_churn(0);
            },
        ]);
        all_is_well(machine, 2);
    });
}

/// The first CPU exchanges its space, a second CPU may pick it up, and a third frees into it.
fn a_space_changes_hands_while_a_frame_comes_back(scope: Scope) {
    scope.exhaust(4, 3, |machine| {
        let [first, second] = machine.on(0, |w| {
            let blocks = [w.allocate(0), w.allocate(0)];
            w.hand(blocks[0], 2);
            w.park();
            blocks
        });
        machine.park_after(&[&|w| w.churn(0), &|w| w.try_churn(0), &|w| {
            w.free(first);
            w.drain();
        }]);
        machine.on(0, |w| {
            w.free(second);
            w.park();
        });
        all_is_well(machine, 3);
    });
}

/// As above, with two CPUs: the CPU that frees into the space then requests a frame.
fn a_space_is_picked_up_by_who_frees_into_it(scope: Scope) {
    scope.exhaust(4, 2, |machine| {
        let [first, second] = machine.on(0, |w| {
            let blocks = [w.allocate(0), w.allocate(0)];
            w.hand(blocks[0], 1);
            w.park();
            blocks
        });
        machine.park_after(&[
            &|w| {
                let more = [w.allocate(0), w.allocate(0)];
                more.into_iter().for_each(|block| w.free(block));
            },
            &|w| {
                w.free(first);
                w.drain();
                w.churn(0);
            },
        ]);
        machine.on(0, |w| {
            w.free(second);
            w.park();
        });
        all_is_well(machine, 2);
    });
}

/// Two concurrent CPUs whose spaces are full, and `spare` spaces of two frames for both.
fn both_exchange(scope: Scope, spare: u64) {
    scope.exhaust(4 + 2 * spare, 2, move |machine| {
        let held: Vec<_> = (0..2)
            .map(|cpu| {
                machine.on(cpu, |w| {
                    let block = w.allocate(1);
                    w.park();
                    block
                })
            })
            .collect();
        machine.park_after(&[&|w| w.churn(0), &|w| w.churn(0)]);
        for (cpu, block) in (0..).zip(held) {
            machine.on(cpu, |w| {
                w.free(block);
                w.park();
            });
        }
        all_is_well(machine, 2);
    });
}

fn both_exchange_for_the_last_space(scope: Scope) {
    both_exchange(scope, 1);
}

fn both_exchange_and_each_gets_a_space(scope: Scope) {
    both_exchange(scope, 2);
}

/// Two CPUs go through spaces of one frame: each request exchanges.
fn two_cpus_run_through_all_spaces(scope: Scope) {
    scope.exhaust(3, 2, |machine| {
        let two = |w: &mut Cpu<'_>| {
            let blocks = [w.try_allocate(0), w.try_allocate(0)];
            let blocks = blocks.into_iter().flatten();
            blocks.for_each(|block| w.free(block));
        };
        machine.park_after(&[&two, &two]);
        all_is_well(machine, 2);
    });
}

/// Three concurrent CPUs allocate everything. No frame is freed before all requests are served, so each request finds
/// a frame, whichever spaces change hands while it searches. The last space has one frame.
fn three_cpus_take_all_frames(scope: Scope) {
    scope.exhaust(5, 3, |machine| {
        let take = |w: &mut Cpu<'_>, frames: usize| {
            let held: Vec<_> = (0..frames).map(|_| w.allocate(0)).collect();
            w.park();
            held
        };
        let held = Mutex::new(Vec::new());
        let give = |cpu, blocks| held.lock().unwrap().push((cpu, blocks));
        machine.at_once(&[&|w| give(0, take(w, 2)), &|w| give(1, take(w, 2)), &|w| {
            give(2, take(w, 1))
        }]);
        for (cpu, blocks) in held.into_inner().unwrap() {
            machine.on(cpu, |w| {
                blocks.into_iter().for_each(|block| w.free(block));
                w.park();
            });
        }
        all_is_well(machine, 3);
    });
}

/// A CPU leaves a space that has a free frame, because it requests a pair; another CPU, whose space is full, may take
/// that frame. With a shard for each space, the one that leaves and the one that takes have different homes.
fn a_used_space_is_left_and_taken(scope: Scope) {
    scope.exhaust(6, 3, |machine| {
        let single = machine.on(0, |w| w.allocate(0));
        let pair = machine.on(2, |w| w.allocate(1));
        let held = Mutex::new(Vec::from([(0, single), (2, pair)]));
        let keep = |cpu, block: Option<_>| {
            let mut held = held.lock().unwrap();
            held.extend(block.map(|block| (cpu, block)));
        };
        machine.park_after(&[&|w| keep(0, w.try_allocate(1)), &|_| (), &|w| {
            keep(2, w.try_allocate(0))
        }]);
        for (cpu, block) in held.into_inner().unwrap() {
            machine.on(cpu, |w| {
                w.free(block);
                w.park();
            });
        }
        all_is_well(machine, 3);
    });
}

/// A CPU leaves a space that has free frames for another one, and returns to it. Meanwhile a second CPU, whose own
/// space is full, looks at the spaces of all CPUs. Two frames are free throughout, so its request finds one, although
/// the assignment that it reads may be out of date. Any other request would search once more; this one must not wait.
fn a_space_is_left_and_taken_again_during_a_search(scope: Scope) {
    scope.exhaust(12, 2, |machine| {
        let full = machine.on(0, |w| {
            let block = w.allocate(2);
            w.park();
            block
        });
        // The second CPU has left the space of its block for one of which it holds a frame.
        let [block, single] = machine.on(1, |w| [w.allocate(2), w.allocate(0)]);
        let held = Mutex::new(Vec::from([(0, full), (1, single)]));
        let keep = |cpu, block: Option<_>| {
            let mut held = held.lock().unwrap();
            held.extend(block.map(|block| (cpu, block)));
        };
        machine.park_after(&[
            &|w| {
                let request = Request::FRAME.with_flags(Flags::NO_WAIT);
                let frame = w.allocate_untracked(request);
                w.free_untracked(Release::frame(frame));
            },
            &|w| {
                w.free(block);
                // The first CPU may have a frame of the block.
                keep(1, w.try_allocate(2));
                keep(1, Some(w.allocate(0)));
            },
        ]);
        for (cpu, block) in held.into_inner().unwrap() {
            machine.on(cpu, |w| {
                w.free(block);
                w.park();
            });
        }
        all_is_well(machine, 2);
    });
}

/// Two CPUs free the same frame, whose space is unassigned; the accepted frees are counted.
fn a_frame_is_freed_twice_at_once(scope: Scope, frames: u64) {
    scope.exhaust(frames, 2, |machine| {
        // The ledger expects one holder per frame. This frame has one holder and two CPUs that free it, so the ledger
        // is bypassed.
        let [first, second] = machine.on(0, |w| {
            [(); 2].map(|()| w.allocate_untracked(Request::FRAME))
        });
        let accepted = Mutex::new(0);
        let free = |w: &mut Cpu<'_>, frame: Index| {
            let ok = w.try_free_untracked(Release::frame(frame));
            *accepted.lock().unwrap() += u32::from(ok);
        };
        machine.at_once(&[&|w| free(w, first), &|w| free(w, first)]);
        assert_eq!(*accepted.lock().unwrap(), 1);
        machine.on(0, |w| {
            w.check();
            free(w, second);
        });
        all_is_well(machine, 2);
    });
}

#[test]
fn a_frame_that_is_freed_twice_into_a_space_of_nobody_is_believed_once() {
    // Two spaces of one frame: the second request gave up the first space.
    a_frame_is_freed_twice_at_once(Scope::new(Plain, "is+order=0+space=4KiB", ALL), 2);
    a_frame_is_freed_twice_at_once(Scope::new(Shared, "is+order=0+space=4KiB", 2), 2);
    a_frame_is_freed_twice_at_once(
        Scope::new(Plain, "bs+order=0+zone=spaces+space=4KiB", ALL),
        2,
    );
    a_frame_is_freed_twice_at_once(Scope::new(Plain, "is+order=0+space=4KiB+lock=ticket", 3), 2);
    // The space is assigned to the CPU.
    a_frame_is_freed_twice_at_once(Scope::new(Plain, "is+order=0+space=8KiB", ALL), 2);
}

/// Two CPUs add ranges that overlap, after both were removed: one succeeds, and the error of the other changes nothing.
fn overlapping_ranges_are_added(scope: Scope) {
    let (all, half) = (FrameRange::new(Pfn(0), 4), FrameRange::new(Pfn(2), 2));
    scope.exhaust(4, 2, move |machine| {
        machine.on(0, |w| {
            let (system, cpu) = w.raw();
            system.remove(cpu, all).expect("all is free");
            w.park();
        });
        let add = |w: &mut Cpu<'_>, range: FrameRange, added: &Mutex<Option<bool>>| {
            let (system, cpu) = w.raw();
            let result = system.add(cpu, range);
            assert!(
                matches!(result, Ok(()) | Err(RegionError::AlreadyManaged(_))),
                "{result:?}"
            );
            *added.lock().unwrap() = Some(result.is_ok());
            w.park();
        };
        let added = [Mutex::new(None), Mutex::new(None)];
        machine.at_once(&[&|w| add(w, all, &added[0]), &|w| add(w, half, &added[1])]);
        let added = added.map(|added| added.into_inner().unwrap() == Some(true));
        assert!(added[0] != added[1], "{added:?}");
        machine.on(0, |w| {
            let (system, cpu) = w.raw();
            let frames = if added[0] { 4 } else { 2 };
            assert_eq!(system.check(cpu).expect("nothing is violated").free, frames);
            if added[1] {
                system.add(cpu, FrameRange::new(Pfn(0), 2)).expect("a hole");
            }
            w.park();
        });
        all_is_well(machine, 2);
    });
}

models!(
    inverse, Plain, "is+order=1+space=8KiB";
    [3] two_cpus_share_a_space,
    [2, 3] a_space_changes_hands_while_a_frame_comes_back,
    [3, 5] a_space_is_picked_up_by_who_frees_into_it,
    [3, 5] both_exchange_for_the_last_space,
    [3, 5] both_exchange_and_each_gets_a_space,
    [2, 3] a_used_space_is_left_and_taken,
    [2] three_cpus_take_all_frames,
    [1, 2] overlapping_ranges_are_added,
);
models!(
    inverse_single, Plain, "is+order=0+space=4KiB";
    [3] two_cpus_run_through_all_spaces,
    [2] three_cpus_take_all_frames,
);
// Each space has a shard of the pool to itself: an exchange holds two of its locks.
models!(
    sharded, Plain, "is+order=1+space=8KiB+shards=8";
    [2, 3] two_cpus_share_a_space,
    [1, 2] a_space_changes_hands_while_a_frame_comes_back,
    [2, 3] both_exchange_for_the_last_space,
    [2, 3] both_exchange_and_each_gets_a_space,
    [2, 3] a_used_space_is_left_and_taken,
);
models!(
    sharded_single, Plain, "is+order=0+space=4KiB+shards=8";
    [2, 3] two_cpus_run_through_all_spaces,
    [1, 2] three_cpus_take_all_frames,
);
models!(
    inverse_large, Plain, "is+order=2+space=16KiB";
    [2, 3] a_space_is_left_and_taken_again_during_a_search,
);
models!(
    standard_large, Plain, "bs+order=2+zone=spaces+space=16KiB+shards=4";
    [2, 3] a_space_is_left_and_taken_again_during_a_search,
);
models!(
    inverse_shared, Shared, "is+order=1+space=8KiB";
    [2] two_cpus_share_a_space,
    [2] a_space_changes_hands_while_a_frame_comes_back,
    [3] both_exchange_for_the_last_space,
    [1, 2] overlapping_ranges_are_added,
);
models!(
    inverse_ticket, Plain, "is+order=1+space=8KiB+lock=ticket";
    [1, 2] two_cpus_share_a_space,
    [1] a_space_changes_hands_while_a_frame_comes_back,
    [3] both_exchange_for_the_last_space,
);
models!(
    standard, Plain, "bs+order=1+zone=spaces+space=8KiB+select=fresh";
    [3] two_cpus_share_a_space,
    [2] a_space_changes_hands_while_a_frame_comes_back,
    [3] a_space_is_picked_up_by_who_frees_into_it,
    [3] both_exchange_for_the_last_space,
);
models!(
    lazy, Plain, "lis-31+batch=2+high=2+order=1+space=8KiB";
    [2] two_cpus_share_a_space,
    [1] a_space_changes_hands_while_a_frame_comes_back,
    [2] a_space_is_picked_up_by_who_frees_into_it,
    [2] both_exchange_for_the_last_space,
    [3] both_exchange_and_each_gets_a_space,
    [1] three_cpus_take_all_frames,
);
// A batch comes from several spaces.
models!(
    lazy_single, Plain, "lis-31+batch=2+high=3+order=0+space=4KiB";
    [3] two_cpus_run_through_all_spaces,
);
models!(
    lazy_iteration, Plain, "lis-31+batch=2+high=3+order=1+space=8KiB+hold=iteration";
    [2] two_cpus_share_a_space,
    [1] a_space_changes_hands_while_a_frame_comes_back,
    [2] both_exchange_for_the_last_space,
);
models!(
    bypass, Plain, "lis-1+high=2+order=1+space=8KiB";
    [3] both_exchange_for_the_last_space,
    [1, 2] two_cpus_share_a_space,
);
// Instances of one zone: a request goes on to the next instance, and no CPU changes its own.
models!(
    instances, Plain, "bs+order=1+zone=spaces+space=8KiB+exchange=never";
    [3] two_cpus_share_a_space,
    [2, 3] a_space_changes_hands_while_a_frame_comes_back,
    [3, 5] both_exchange_for_the_last_space,
    [2] three_cpus_take_all_frames,
    [1, 2] overlapping_ranges_are_added,
);
models!(
    zones, Plain, "zones-4+order=1+space=8KiB";
    [2, 3] two_cpus_share_a_space,
    [1, 2] a_space_changes_hands_while_a_frame_comes_back,
    [2, 3] both_exchange_for_the_last_space,
    [1, 2] three_cpus_take_all_frames,
);
