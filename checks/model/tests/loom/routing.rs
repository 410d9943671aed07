//! Frees into the list of another CPU, under loom: the lists of `pcp-buddy`.
//!
//! A frame is freed into the list of the CPU that owns its page block, whichever CPU frees it. In every schedule, a
//! free that meets the owner's request, a drain, or a change of the owner loses no frame and gives none twice; all
//! memory is coalesced at the end. Every access to plain memory is checked for races.
//!
//! The numbers at each model bound the preemptions, see [`bound`].

use everybuddy::{Block, CpuId, Order, Release, Request};
use everybuddy_model::{ALL, Loom, Machine, Plain, Scope, Worker, bound};

/// Lets CPU 0 allocate frames from page blocks that it then owns, and hands the first to CPU 1.
fn owned_and_handed(machine: &Machine<'_, Loom>, frames: usize) -> Vec<Block> {
    machine.on(0, |w| {
        let held: Vec<_> = (0..frames).map(|_| w.allocate(0)).collect();
        w.hand(held[0], 1);
        held
    })
}

#[test]
fn a_remote_free_meets_the_owners_requests() {
    let spec = "pcp-buddy+order=1";
    Scope::new(Plain, spec, bound(&[2, 3])).exhaust(4, 2, |machine| {
        let held = owned_and_handed(machine, 1);
        machine.park_after(&[
            &|w| {
                w.churn(0);
                w.churn(0);
            },
            &|w| w.free(held[0]),
        ]);
    });
}

#[test]
fn remote_frees_meet_the_owners_free_that_drains() {
    let spec = "pcp-buddy+order=1+batch=1+high=2";
    Scope::new(Plain, spec, bound(&[2, 3])).exhaust(4, 2, |machine| {
        let held = owned_and_handed(machine, 2);
        machine.park_after(&[&|w| w.free(held[1]), &|w| {
            w.free(held[0]);
            w.churn(0);
        }]);
    });
}

#[test]
fn a_remote_free_meets_a_drain_of_all_cpus() {
    let spec = "pcp-buddy+order=1";
    Scope::new(Plain, spec, bound(&[2, 3])).exhaust(2, 2, |machine| {
        let held = owned_and_handed(machine, 1);
        machine.park_after(&[
            &|w| {
                // It needs both frames, so it drains all lists, and may fail.
                w.try_churn(1);
            },
            &|w| w.free(held[0]),
        ]);
    });
}

#[test]
fn a_remote_free_meets_a_drain_of_its_owners_list() {
    let spec = "pcp-buddy+order=1";
    Scope::new(Plain, spec, bound(&[2, 3])).exhaust(2, 2, |machine| {
        let held = owned_and_handed(machine, 1);
        machine.park_after(&[
            &|w| {
                w.drain();
                w.churn(0);
            },
            &|w| {
                w.free(held[0]);
                w.drain_parked(0);
            },
        ]);
    });
}

/// A CPU waits for its own list if another CPU is freeing into it: at most what is freed later stays in the list.
#[test]
fn a_drain_waits_for_a_remote_free() {
    let spec = "pcp-buddy+order=0+batch=3";
    Scope::new(Plain, spec, bound(&[2, 3])).exhaust(3, 2, |machine| {
        let held = owned_and_handed(machine, 3);
        machine.on(0, |w| held[1..].iter().for_each(|block| w.free(*block)));
        machine.at_once(&[&|w| w.drain(), &|w| w.free(held[0])]);
        machine.on(0, |w| assert!(w.raw().0.buffered_frames(CpuId(0)) <= 1));
    });
}

/// The page block returns whole to the zone, and the other CPU becomes its owner.
#[test]
fn an_owner_changes_while_frames_are_freed() {
    let spec = "pcp-buddy+order=1";
    Scope::new(Plain, spec, bound(&[2, 3])).exhaust(2, 2, |machine| {
        let held = owned_and_handed(machine, 2);
        machine.park_after(&[
            &|w| {
                w.free(held[1]);
                w.drain();
                w.try_churn(0);
            },
            &|w| {
                w.free(held[0]);
                w.try_churn(1);
            },
        ]);
    });
}

/// The parts that a drain put into the zone are recovered while another part is freed.
#[test]
fn parts_are_recovered_while_another_is_freed() {
    let spec = "pcp-buddy+order=2+batch=1";
    Scope::new(Plain, spec, bound(&[2, 3])).exhaust(4, 2, |machine| {
        let held = owned_and_handed(machine, 3);
        machine.on(0, |w| {
            w.free(held[1]);
            w.drain();
        });
        machine.park_after(&[
            &|w| {
                w.churn(0);
                w.free(held[2]);
            },
            &|w| {
                w.free(held[0]);
                w.drain();
            },
        ]);
    });
}

/// Two CPUs free the same frame: one of them is refused, even if the owner's lock sends the other to the zone.
#[test]
fn one_of_two_raced_frees_is_refused() {
    Scope::new(Plain, "pcp-buddy+order=1", ALL).exhaust(2, 2, |machine| {
        let frame = machine.on(0, |w| w.allocate_untracked(Request::FRAME));
        let accepted = std::sync::Mutex::new(0);
        let race = |w: &mut Worker<'_, Loom>| {
            let ok = w.try_free_untracked(Release::frame(frame));
            *accepted.lock().unwrap() += u32::from(ok);
        };
        machine.park_after(&[&race, &race]);
        assert_eq!(*accepted.lock().unwrap(), 1);
    });
}

/// Two CPUs free the halves of a block. The half that is freed first goes to the zone, which divides the block. The
/// other one may enter a list before the zone has freed the first, and that list merges buddies.
#[test]
fn halves_of_a_block_are_freed_simultaneously() {
    let spec = "pcp-buddy+order=2+batch=1+high=3";
    Scope::new(Plain, spec, bound(&[2, 3])).exhaust(4, 2, |machine| {
        let half = machine.on(0, |w| {
            let half = Block::new(w.allocate(1).start, Order::ZERO);
            w.hand(half.buddy(), 1);
            half
        });
        machine.park_after(&[
            &|w| {
                w.free_frames(half.start, 1);
                w.drain();
            },
            &|w| w.free_frames(half.buddy().start, 1),
        ]);
    });
}
