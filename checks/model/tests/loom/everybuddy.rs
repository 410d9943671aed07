//! Everybuddy's trees, under loom.
//!
//! The cells of a tree are plain memory, which loom reports if two CPUs access them and no claim, release or
//! acknowledgement orders the accesses. Frees into trees of other CPUs come between any two steps of an owner. No frame
//! may be handed out twice or lost, the holder of a frame must see what its last holder did, and a request for a frame
//! may be refused only if none was free.
//!
//! # Invariants
//! In every schedule the ledger accepts all results, and [`Machine::settle`] finds all frames free and all masks right.
//! The numbers in `bound` are preemptions; `LOOM_MAX_PREEMPTIONS=N` replaces them.
//!
//! # Not modelled
//! More than three CPUs; more than two trees. Frames that two CPUs free simultaneously are in
//! [`misuse`](crate::misuse).

mod owners;
mod refusals;
mod returns;

use std::sync::atomic::AtomicBool;

use everybuddy::platform::Ordering;
use everybuddy::{
    AllocateError, Block, Class, Flags, FrameRange, Index, Order, Pfn, RegionError, Release,
    Request,
};
use everybuddy_model::weak::thoroughly;
use everybuddy_model::{Loom, Machine, Plain, Scope, Shared, Worker, bound};

use crate::lockless::{self, Cpu, wants};

/// What a model explores.
fn scope(bounds: &[usize]) -> Scope {
    Scope::new(Plain, "everybuddy+tree=256KiB", bound(bounds))
}

/// Frees a block as the last operation of a CPU.
fn free_and_park(w: &mut Cpu<'_>, block: Block) {
    w.free(block);
    w.park();
}

/// CPU 0 allocates frames and keeps their tree; all but the first become those of the other CPUs.
fn hand_out(machine: &Machine<'_, Loom>, frames: u16) -> Vec<Block> {
    machine.on(0, |w| {
        let held: Vec<Block> = (0..frames).map(|_| w.allocate(0)).collect();
        for (block, to) in held.iter().zip(0..).skip(1) {
            w.hand(*block, to);
        }
        held
    })
}

#[test]
fn two_cpus_share_the_last_two_frames() {
    scope(&[2, 3]).exhaust(2, 2, |machine| {
        lockless::two_cpus_share_the_last_two_frames(machine, |w| w.park());
    });
}

#[test]
fn a_frame_comes_back_to_an_owner_that_collects() {
    scope(&[1, 2]).exhaust(2, 2, |machine| {
        let held = hand_out(machine, 2);
        machine.park_after(&[
            &|w| {
                w.try_churn(0);
                w.free(held[0]);
                w.try_churn(1);
            },
            &|w| w.free(held[1]),
        ]);
    });
}

#[test]
fn two_cpus_free_neighbours_into_the_tree_of_a_third() {
    scope(&[1, 2]).exhaust(3, 3, |machine| {
        let held = hand_out(machine, 3);
        machine.park_after(&[
            &|w| {
                w.free(held[0]);
                w.try_churn(1);
            },
            &|w| w.free(held[1]),
            &|w| w.free(held[2]),
        ]);
    });
}

/// Both divide the block, and each may find it divided by the other one.
#[test]
fn two_cpus_free_parts_of_one_block() {
    scope(&[2, 3]).exhaust(4, 2, |machine| {
        let [one, two, three] = machine.on(0, |w| {
            let block = w.allocate(2);
            let frame = |at: u32| Block::new(Index(block.start.0 + at), Order::ZERO);
            w.hand(frame(2), 1);
            w.hand(frame(3), 1);
            [1, 2, 3].map(frame)
        });
        let zero = Index(one.start.0 - 1);
        machine.park_after(&[
            &|w| w.free_frames(zero, 2),
            // By count, and then what is left by its order.
            &|w| {
                w.free_frames(two.start, 1);
                w.free(three);
            },
        ]);
    });
}

#[test]
fn two_cpus_claim_two_trees() {
    scope(&[2, 3]).exhaust(65, 2, |machine| {
        let both = |w: &mut Cpu<'_>| w.churn(0);
        machine.park_after(&[&both, &both]);
    });
}

/// An owner hits while another CPU takes its identity away.
#[test]
fn a_cpu_asks_for_the_tree_of_one_that_hits() {
    scope(&[2, 3]).exhaust(2, 2, |machine| {
        machine.on(0, |w| w.churn(0));
        machine.park_after(&[
            &|w| {
                w.churn(0);
                w.churn(0);
            },
            &|w| w.churn(0),
        ]);
    });
}

/// The same, where the cells are what they are natively.
#[test]
fn a_cpu_asks_for_the_tree_of_one_that_hits_relaxed() {
    let model = |machine: &Machine<'_, Loom>| {
        machine.on(0, |w| w.churn(0));
        let both = |w: &mut Worker<'_, Loom>| w.churn(0);
        machine.park_after(&[&both, &both]);
    };
    Scope::new(Shared, "everybuddy", bound(&[2, 3])).exhaust(2, 2, model);
}

/// The list of CPU 0 has a block when CPU 1 needs one. Of the two blocks, neither CPU wants more than one.
#[test]
fn a_cpu_asks_for_a_block_of_a_list() {
    scope(&[2, 3]).exhaust(4, 2, |machine| {
        let held = machine.on(0, |w| {
            let [first, second] = [(); 2].map(|()| w.allocate(1));
            w.free(first);
            second
        });
        machine.park_after(&[
            &|w| {
                w.free(held);
                w.churn(1);
            },
            &|w| w.churn(1),
        ]);
    });
}

/// A block of CPU 0's tree enters the list of CPU 1, while CPU 0 wants all memory.
#[test]
fn a_block_of_another_cpus_tree_leaves_a_list() {
    scope(&[2, 3]).exhaust(4, 2, |machine| {
        let [first, second] = machine.on(0, |w| [(); 2].map(|()| w.allocate(1)));
        machine.on(0, |w| w.hand(first, 1));
        machine.park_after(&[
            &|w| {
                w.free(second);
                w.try_churn(2);
            },
            &|w| {
                w.free(first);
                w.churn(1);
            },
        ]);
    });
}

#[test]
fn a_free_meets_a_tree_whose_owner_changes() {
    scope(&[1, 2]).exhaust(2, 3, |machine| {
        let held = hand_out(machine, 2);
        machine.park_after(&[&|w| w.free(held[0]), &|w| w.free(held[1]), &|w| {
            w.try_churn(0)
        }]);
    });
}

/// The owner finds nothing, marks its tree as spent and releases it, while a frame of it comes back.
#[test]
fn a_spent_tree_gets_a_frame_back() {
    scope(&[3, 4]).exhaust(1, 2, |machine| {
        let held = machine.on(0, |w| w.allocate(0));
        machine.on(0, |w| w.hand(held, 1));
        machine.park_after(&[&|w| w.drain(), &|w| {
            w.free(held);
            w.churn(0);
        }]);
    });
}

#[test]
fn a_frame_that_moves_during_a_search_is_found() {
    scope(&[2, 3]).exhaust(66, 2, |machine| {
        // All but a frame of each tree is reserved.
        machine.on(0, |w| {
            let (system, cpu) = w.raw();
            let base = system.span().base().0;
            for (start, frames) in [(1, 63), (65, 1)] {
                let range = FrameRange::new(Pfn(base + start), frames);
                system.reserve(cpu, range).expect("all is free");
            }
        });
        let held = machine.on(1, |w| {
            let held = w.allocate(0);
            let other = w.allocate(0);
            w.free(other);
            held
        });
        machine.park_after(&[
            &|w| {
                // One of the two frames is free at any moment.
                let frame = w.allocate_untracked(Request::FRAME);
                w.free_untracked(Release::frame(frame));
            },
            &|w| {
                w.free(held);
                w.try_churn_untracked(0);
            },
        ]);
        machine.on(0, |w| {
            let (system, cpu) = w.raw();
            let base = system.span().base().0;
            for (start, frames) in [(1, 63), (65, 1)] {
                let range = FrameRange::new(Pfn(base + start), frames);
                system.unreserve(cpu, range).expect("it is reserved");
            }
            w.park();
        });
    });
}

/// One tree is for frames that can be moved, the other for frames that stay and has a single frame. So the second frame
/// that stays comes from the tree of the other kind, which another CPU uses.
#[test]
fn a_request_takes_a_tree_of_the_other_kind() {
    scope(&[1, 2]).exhaust(65, 2, |machine| {
        let frame = |class| Request::FRAME.with_class(class);
        let held = machine.on(1, |w| {
            let held = w.allocate_untracked(frame(Class::Movable));
            w.park();
            held
        });
        machine.park_after(&[
            &|w| {
                let frames = [(); 2].map(|()| w.allocate_untracked(frame(Class::Unmovable)));
                for frame in frames {
                    w.free_untracked(Release::frame(frame));
                }
            },
            &|w| {
                let other = w.allocate_untracked(frame(Class::Movable));
                for frame in [held, other] {
                    w.free_untracked(Release::frame(frame));
                }
            },
        ]);
    });
}

/// Frames 0 to 2 and the frame of the second tree are all the memory there is. CPU 0 holds frame 0 and owns the first
/// tree, CPU 1 keeps frame 1, and the last CPU holds frame 2.
fn with_kept_frame(machine: &Machine<'_, Loom>, last: u16) -> [Block; 2] {
    machine.on(0, |w| {
        let (system, cpu) = w.raw();
        let range = FrameRange::new(Pfn(system.span().base().0 + 3), 61);
        system.reserve(cpu, range).expect("all is free");
    });
    let [first, kept, third] = machine.on(0, |w| [(); 3].map(|()| w.allocate(0)));
    let other = machine.on(1, |w| w.allocate(0));
    machine.on(0, |w| {
        w.hand(kept, 1);
        w.hand(third, last);
    });
    machine.on(1, |w| {
        w.free(kept);
        w.hand(other, 0);
    });
    machine.on(0, |w| w.free(other));
    [first, third]
}

/// The end of the models with [`with_kept_frame`].
fn unreserve(machine: &Machine<'_, Loom>) {
    machine.on(0, |w| {
        let (system, cpu) = w.raw();
        let range = FrameRange::new(Pfn(system.span().base().0 + 3), 61);
        system.unreserve(cpu, range).expect("it is reserved");
        w.park();
    });
}

/// Requests two frames, as far as there are any. The ledger does not know that some are reserved.
fn two_frames(w: &mut Cpu<'_>) {
    let frames = [(); 2].map(|()| w.try_allocate_untracked(Request::FRAME));
    for frame in frames.into_iter().flatten() {
        w.free_untracked(Release::frame(frame));
    }
}

/// A CPU allocates and parks, and keeps a frame, while the owner of that frame's tree wants two frames.
#[test]
fn a_kept_frame_is_wanted_while_its_cpu_allocates() {
    scope(&[2, 3]).exhaust(65, 2, |machine| {
        let [first, third] = with_kept_frame(machine, 0);
        machine.park_after(&[
            &|w| {
                two_frames(w);
                w.free(first);
                w.free(third);
            },
            &|w| w.try_churn_untracked(0),
        ]);
        unreserve(machine);
    });
}

/// A frame comes back and its tree is released, before a request that must not wait. The request may see an old owner,
/// and fails as busy then. If it sees that the tree has none, it sees the frame: the cells are what they are natively.
#[test]
fn a_frame_comes_back_before_a_hasty_request() {
    Scope::new(Shared, "everybuddy", bound(&[2, 3])).exhaust(1, 2, |machine| {
        let frame = machine.on(1, |w| w.allocate_untracked(Request::FRAME));
        let is_back = AtomicBool::new(false);
        machine.park_after(&[
            &|w| {
                let must_not_be_exhausted = is_back.load(Ordering::Relaxed);
                let request = Request::FRAME.with_flags(Flags::NO_WAIT);
                match w.try_allocate_untracked(request) {
                    Ok(frame) => w.free_untracked(Release::frame(frame)),
                    Err(AllocateError::Exhausted) => assert!(!must_not_be_exhausted),
                    Err(error) => assert_eq!(error, AllocateError::Busy),
                }
            },
            &|w| {
                w.free_untracked(Release::frame(frame));
                // The models run on one host thread, so this orders nothing.
                is_back.store(true, Ordering::Relaxed);
            },
        ]);
    });
}

/// All frames came back before. CPU 1 lists two and gathers others. CPU 2 took the one between these, and has released
/// the tree as spent. CPU 1 frees what it gathered during a request that must not wait. The request either sees that
/// frames are kept, or finds one.
#[test]
fn gathered_frames_are_freed_during_a_hasty_request() {
    Scope::new(Shared, "everybuddy", bound(&[2, 3])).exhaust(6, 3, |machine| {
        let frames = machine.on(2, |w| {
            [(); 6].map(|()| w.allocate_untracked(Request::FRAME))
        });
        machine.on(1, |w| {
            for frame in frames {
                w.free_untracked(Release::frame(frame));
            }
        });
        let taken = machine.on(2, |w| {
            let taken = w.allocate_untracked(Request::FRAME);
            w.drain();
            w.park();
            taken
        });
        machine.park_after(&[
            &|w| {
                let request = Request::FRAME.with_flags(Flags::NO_WAIT);
                match w.try_allocate_untracked(request) {
                    Ok(frame) => w.free_untracked(Release::frame(frame)),
                    Err(error) => assert_eq!(error, AllocateError::Busy),
                }
                w.free_untracked(Release::frame(taken));
            },
            &|_| (),
        ]);
    });
}

/// The owner collects a word where one frame is kept and another one comes back.
#[test]
fn a_kept_frame_is_collected_with_its_neighbour() {
    scope(&[1, 2]).exhaust(65, 3, |machine| {
        let [first, third] = with_kept_frame(machine, 2);
        machine.park_after(&[
            &|w| {
                two_frames(w);
                w.free(first);
            },
            &|w| w.try_churn_untracked(0),
            &|w| w.free(third),
        ]);
        unreserve(machine);
    });
}

/// A kept frame is reserved while its CPU allocates, and announces it.
#[test]
fn a_kept_frame_is_reserved_while_its_cpu_allocates() {
    scope(&[2, 3]).exhaust(65, 2, |machine| {
        let [first, third] = with_kept_frame(machine, 0);
        machine.park_after(&[
            &|w| {
                let (system, cpu) = w.raw();
                let range = FrameRange::new(Pfn(system.span().base().0 + 1), 1);
                match system.reserve(cpu, range) {
                    Ok(()) => system.unreserve(cpu, range).expect("it is reserved"),
                    Err(RegionError::NotFree(_) | RegionError::Busy) => {}
                    Err(error) => panic!("{error}"),
                }
                w.free(first);
                w.free(third);
            },
            &|w| {
                if let Ok(frame) = w.try_allocate_untracked(Request::FRAME) {
                    w.free_untracked(Release::frame(frame));
                }
            },
        ]);
        unreserve(machine);
    });
}

/// Calls that the ledger does not follow, since it would access the content of all frames.
#[test]
fn a_block_of_two_trees_is_wanted_while_its_last_frame_comes_back() {
    scope(&[1, 2]).exhaust(128, 2, |machine| {
        let frame = machine.on(1, |w| {
            let frame = w.allocate_untracked(Request::FRAME);
            w.park();
            frame
        });
        machine.park_after(&[
            &|w| {
                let order = Order::new(7).expect("an order");
                let request = Request::order(order).with_flags(Flags::NO_WAIT);
                match w.try_allocate_untracked(request) {
                    Ok(start) => w.free_untracked(Release::block(Block::new(start, order))),
                    Err(AllocateError::Exhausted | AllocateError::Busy) => {}
                    Err(error) => panic!("{error}"),
                }
            },
            &|w| w.free_untracked(Release::frame(frame)),
        ]);
    });
}

#[test]
fn a_range_is_reserved_while_its_frames_are_wanted() {
    scope(&[2, 3]).exhaust(3, 2, |machine| {
        let want = |w: &mut Cpu<'_>| w.churn(0);
        lockless::a_range_is_reserved_while_its_frames_are_wanted(machine, 2, want, |w| w.park());
    });
}

#[test]
fn a_nested_request_comes_between() {
    scope(&[2, 3]).exhaust(65, 2, |machine| {
        let held = machine.on(0, |w| w.allocate_untracked(Request::FRAME));
        // CPU 0 owns both trees while it exchanges one for the other, so a nested request may find nothing.
        lockless::a_nested_request_comes_between(machine, Some(held), true, |w| w.park());
    });
}

/// A request for the only frame was refused, and this is remembered. CPU 0 then frees the frame.
#[test]
fn a_frame_comes_back_after_a_refusal() {
    scope(&[2, 3]).exhaust(1, 2, |machine| {
        let held = machine.on(0, |w| {
            let held = w.allocate(0);
            w.park();
            held
        });
        machine.on(1, |w| {
            assert!(w.try_allocate(0).is_none(), "CPU 0 holds it")
        });
        machine.park_after(&[&|w| w.free(held), &|w| {
            w.try_churn(0);
            w.try_churn(0);
        }]);
    });
}

/// The frame comes back while the request is refused: the CPU that frees it has acknowledged the request, or not.
#[test]
fn a_frame_comes_back_during_a_refusal() {
    scope(&[2, 3]).exhaust(1, 2, |machine| {
        let held = machine.on(0, |w| w.allocate(0));
        machine.park_after(&[&|w| w.free(held), &|w| {
            w.try_churn(0);
            w.try_churn(0);
        }]);
    });
}

/// A pair was refused. Since then CPU 0 owns the tree of its frames again. Its requests hit, but its frees must not.
#[test]
fn a_pair_comes_back_to_an_own_tree_after_a_refusal() {
    scope(&[2, 3]).exhaust(3, 2, |machine| {
        let pair = Request::order(Order::new(1).expect("an order"));
        let frames = machine.on(0, |w| {
            let frames = [(); 2].map(|()| w.allocate_untracked(Request::FRAME));
            w.park();
            frames
        });
        machine.on(1, |w| {
            let refused = w.try_allocate_untracked(pair);
            assert_eq!(refused, Err(AllocateError::Exhausted));
            w.park();
        });
        let other = machine.on(0, |w| w.allocate_untracked(Request::FRAME));
        let are_back = AtomicBool::new(false);
        machine.park_after(&[
            &|w| {
                for frame in frames {
                    w.free_untracked(Release::frame(frame));
                }
                are_back.store(true, Ordering::Relaxed);
                w.free_untracked(Release::frame(other));
            },
            &|w| {
                wants(w, &are_back, pair);
                wants(w, &are_back, pair);
            },
        ]);
    });
}

/// A nested free belongs to no operation that a request waits for.
#[test]
fn a_nested_free_comes_during_a_refusal() {
    thoroughly(|| {
        scope(&[2, 3]).exhaust(1, 2, |machine| {
            let frame = machine.on(0, |w| {
                let frame = w.allocate_untracked(Request::FRAME);
                w.park();
                frame
            });
            let is_back = AtomicBool::new(false);
            machine.at_once(&[&|w| lockless::frees_nested(w, frame, &is_back), &|w| {
                wants(w, &is_back, Request::FRAME);
                wants(w, &is_back, Request::FRAME);
                w.park();
            }]);
        });
    });
}
