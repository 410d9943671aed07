//! Owners that never park, under loom.
//!
//! A CPU that asks for the trees of the others waits until each has acknowledged or is parked. It must not
//! wait for ever.
//!
//! # Invariants
//! As in the other models of `everybuddy`.
//!
//! # Not modelled
//! As in the other models of `everybuddy`.

use everybuddy::platform::{AtomicWord, Ordering};
use everybuddy::{Block, Class, Index, Order, Platform, Release, Request};
use everybuddy_model::Loom;

use super::scope;
use crate::lockless::Cpu;

/// A CPU that never parks acknowledges a request: it goes on with hits until the request is served. If it missed the
/// request, the other CPU would wait for ever. The parked CPU restores its identity just when the request comes. The
/// request finds nothing: a search before it would multiply the schedules.
#[test]
fn an_owner_that_never_parks_answers() {
    scope(&[2, 3]).exhaust(2, 2, |machine| {
        machine.on(1, |w| {
            w.churn(0);
            w.park();
        });
        let is_served = <Loom as Platform>::AtomicU32::new(0);
        machine.park_after(&[
            &|w| {
                w.quiesce();
                // Relaxed: no ordering that the allocator could depend on.
                is_served.store(1, Ordering::Relaxed);
            },
            &|w| {
                while is_served.load(Ordering::Relaxed) == 0 {
                    w.churn(0);
                    loom::thread::yield_now();
                }
            },
        ]);
    });
}

/// CPU 1 owns the tree and calls no more, but does not park. CPU 0 takes its token and parks it.
#[test]
fn a_cpu_that_calls_no_more_is_excluded() {
    scope(&[2, 3]).exhaust(2, 2, |machine| {
        machine.lending(2, || {
            machine.at_once(&[
                &|w| {
                    w.churn(0);
                    w.churn(0);
                    w.park();
                },
                &|w| {
                    w.churn(0);
                    w.leave();
                },
            ]);
            machine.settle();
        });
    });
}

/// Both CPUs want the token of a third, and each other's tree.
#[test]
fn two_cpus_exclude_a_third() {
    scope(&[1, 2]).exhaust(2, 3, |machine| {
        machine.lending(3, || {
            machine.on(2, |w| {
                w.churn(0);
                w.leave();
            });
            let both = |w: &mut Cpu<'_>| {
                w.churn(0);
                w.leave();
            };
            machine.at_once(&[&both, &both]);
            machine.settle();
        });
    });
}

/// A bulk frees the last frames of a tree, and its CPU releases the tree. Another CPU claims it for frames of another
/// kind, while the bulk goes on.
#[test]
fn a_tree_that_a_bulk_emptied_is_claimed() {
    // CPU 0 owns its share, five of ten trees. If it owned fewer, it would keep them.
    scope(&[1, 2]).exhaust(640, 2, |machine| {
        let word = Order::new(6).expect("an order");
        let held = machine.on(0, |w| {
            let held = [(); 5].map(|()| w.allocate_untracked(Request::order(word)));
            // Two single frames are left.
            for (from, frames) in [(0, 61), (62, 1)] {
                w.free_untracked(Release::frames(Index(held[0].0 + from), frames));
            }
            held
        });
        machine.at_once(&[
            &|w| {
                let both = [61, 63].map(|frame| Release::frame(Index(held[0].0 + frame)));
                let (system, cpu) = w.raw();
                assert_eq!(system.free_bulk(cpu, &both), Ok(()));
            },
            &|w| {
                let request = Request::FRAME.with_class(Class::Movable);
                let frame = w.allocate_untracked(request);
                w.free_untracked(Release::frame(frame));
                w.park();
            },
        ]);
        machine.on(0, |w| {
            for start in &held[1..] {
                w.free_untracked(Release::block(Block::new(*start, word)));
            }
            w.park();
        });
    });
}
