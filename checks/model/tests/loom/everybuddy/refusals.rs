//! Frees into blocks that were refused, and refusals that claim no tree, under loom.
//!
//! A free ends what is remembered only if no other allocation has a frame of the block. So two CPUs that free the last
//! two must not both see the other one, and frames in a list must count as free. A block of whole words is refused by a
//! look at the headers, so it must not be overlooked while it comes back or while a CPU collects it.
//!
//! # Invariants
//! As in the other models of `everybuddy`. Memory has two trees, so that two frees do not end what is remembered by
//! their number.
//!
//! # Not modelled
//! As in the other models of `everybuddy`.

use std::sync::atomic::{AtomicBool, Ordering::Relaxed};

use everybuddy::{AllocateError, Flags, FrameRange, Index, Order, Pfn, Release, Request};
use everybuddy_model::{Loom, Machine, Plain, Scope, Shared, bound};

use super::scope;
use crate::lockless::{Cpu, wants};

/// The frames from this one to the end of the first tree are reserved.
fn reserved(w: &mut Cpu<'_>, from: u64) -> FrameRange {
    FrameRange::new(Pfn(w.raw().0.span().base().0 + from), 64 - from)
}

fn block(order: u8) -> Request {
    Request::order(Order::new(order).expect("an order"))
}

fn pair() -> Request {
    block(1)
}

fn free_block(w: &mut Cpu<'_>, start: Index, order: u8) {
    w.free_untracked(Release {
        size: block(order).size,
        ..Release::frame(start)
    });
}

/// CPU 0 allocates the first frames of the first tree, and the frame of the second one. Returns them, lowest first.
fn take_all(machine: &Machine<'_, Loom>, frames: usize) -> Vec<Index> {
    machine.on(0, |w| {
        let range = reserved(w, frames as u64);
        let (system, cpu) = w.raw();
        system.reserve(cpu, range).expect("all is free");
        let all = 0..=frames;
        let mut taken: Vec<_> = all.map(|_| w.allocate_untracked(Request::FRAME)).collect();
        taken.sort_unstable();
        w.park();
        taken
    })
}

/// A pair is refused to CPU 1.
fn refuse(machine: &Machine<'_, Loom>) {
    machine.on(1, |w| {
        let refused = w.try_allocate_untracked(pair());
        assert_eq!(refused, Err(AllocateError::Exhausted));
        w.park();
    });
}

/// A pair is free now. CPU 0 frees the frame of the second tree, too.
fn end(machine: &Machine<'_, Loom>, frames: usize, last: Index) {
    machine.on(0, |w| {
        let start = w.allocate_untracked(pair());
        free_block(w, start, 1);
        w.free_untracked(Release::frame(last));
        let range = reserved(w, frames as u64);
        let (system, cpu) = w.raw();
        system.unreserve(cpu, range).expect("it is reserved");
        w.park();
    });
}

fn two_cpus_free_the_halves(machine: &Machine<'_, Loom>) {
    let taken = take_all(machine, 2);
    refuse(machine);
    let free = |w: &mut Cpu<'_>, at: usize| w.free_untracked(Release::frame(taken[at]));
    machine.park_after(&[&|w| free(w, 0), &|w| free(w, 1)]);
    end(machine, 2, taken[2]);
}

#[test]
fn two_cpus_free_the_halves_of_a_refused_pair() {
    scope(&[2, 3]).exhaust(65, 2, two_cpus_free_the_halves);
}

/// The same, where the cells are what they are natively: each CPU could see the other half as it was before.
#[test]
fn two_cpus_free_the_halves_of_a_refused_pair_relaxed() {
    let scope = Scope::new(Shared, "everybuddy+tree=256KiB", bound(&[2, 3]));
    scope.exhaust(65, 2, two_cpus_free_the_halves);
}

/// Of each pair, one frame is free. Then the list of CPU 0 has one of these, and CPU 1 frees the other frame of its
/// pair.
#[test]
fn half_of_a_refused_pair_is_in_a_list() {
    scope(&[1, 2]).exhaust(65, 2, |machine| {
        let taken = take_all(machine, 6);
        machine.on(0, |w| {
            for at in [0, 2, 4] {
                w.free_untracked(Release::frame(taken[at]));
            }
            w.park();
        });
        refuse(machine);
        // The second request refills the list.
        let again = machine.on(0, |w| {
            let again = [(); 2].map(|()| w.allocate_untracked(Request::FRAME));
            assert_eq!(again, [taken[0], taken[2]]);
            again
        });
        let is_back = AtomicBool::new(true);
        machine.park_after(&[&|w| w.free_untracked(Release::frame(again[1])), &|w| {
            w.free_untracked(Release::frame(taken[5]));
            wants(w, &is_back, pair());
        }]);
        machine.on(1, |w| {
            for frame in [taken[1], taken[3], again[0]] {
                w.free_untracked(Release::frame(frame));
            }
            w.park();
        });
        end(machine, 6, taken[6]);
    });
}

/// CPU 2 frees a frame before a pair is refused to CPU 0, and CPU 1 the other frame afterwards. CPU 1 was parked when
/// the request asked, so only what was remembered tells it about the first free.
#[test]
fn a_pair_is_refused_between_the_frees_of_its_halves_relaxed() {
    let scope = Scope::new(Shared, "everybuddy+tree=256KiB", bound(&[2, 3]));
    scope.exhaust(65, 3, |machine| {
        let taken = take_all(machine, 2);
        let free = |w: &mut Cpu<'_>, at: usize| w.free_untracked(Release::frame(taken[at]));
        let is_back = AtomicBool::new(false);
        machine.park_after(&[&|w| wants(w, &is_back, pair()), &|w| free(w, 1), &|w| {
            free(w, 0);
        }]);
        end(machine, 2, taken[2]);
    });
}

/// The halves of a word come back, while CPU 0 wants the word with these flags.
fn a_word_comes_back(machine: &Machine<'_, Loom>, flags: Flags) {
    let halves = machine.on(1, |w| {
        let halves = [(); 2].map(|()| w.allocate_untracked(block(5)));
        w.park();
        halves
    });
    let is_back = AtomicBool::new(false);
    let may_be_busy = flags.contains(Flags::NO_WAIT);
    let want = |w: &mut Cpu<'_>| {
        let must_succeed = is_back.load(Relaxed);
        match w.try_allocate_untracked(block(6).with_flags(flags)) {
            Ok(start) => free_block(w, start, 6),
            Err(AllocateError::Exhausted) => assert!(!must_succeed, "the word is free"),
            Err(error) => assert!(may_be_busy, "{error}"),
        }
    };
    machine.park_after(&[
        &|w| {
            want(w);
            want(w);
        },
        &|w| {
            for start in halves {
                free_block(w, start, 5);
            }
            is_back.store(true, Relaxed);
        },
    ]);
    machine.on(0, |w| {
        want(w);
        w.park();
    });
}

#[test]
fn a_word_comes_back_during_its_refusal() {
    for memory in [Plain, Shared] {
        for flags in [Flags::NONE, Flags::NO_WAIT] {
            let scope = Scope::new(memory, "everybuddy+tree=256KiB", bound(&[2, 3]));
            scope.exhaust(64, 2, move |machine| a_word_comes_back(machine, flags));
        }
    }
}

/// The first word of the tree is free, but its last frames are returned. CPU 1 collects them for a frame of the other
/// word, while CPU 0 wants the first one.
#[test]
fn a_word_is_collected_while_it_is_wanted() {
    for memory in [Plain, Shared] {
        let scope = Scope::new(memory, "everybuddy+tree=512KiB", bound(&[2, 3]));
        scope.exhaust(128, 2, |machine| {
            let halves = machine.on(0, |w| {
                let halves = [(); 3].map(|()| w.allocate_untracked(block(5)));
                free_block(w, halves[0], 5);
                halves
            });
            machine.on(1, |w| {
                // CPU 0 owns the tree.
                free_block(w, halves[1], 5);
                w.park();
            });
            machine.on(0, |w| w.park());
            let is_back = AtomicBool::new(true);
            machine.park_after(&[&|w| wants(w, &is_back, block(6)), &|w| {
                let frame = w.allocate_untracked(Request::FRAME);
                w.free_untracked(Release::frame(frame));
            }]);
            machine.on(0, |w| {
                free_block(w, halves[2], 5);
                w.park();
            });
        });
    }
}
