//! Frames of one word that come back one after the other, under loom.
//!
//! A CPU that returns frames of a word gathers all but the first, and tells the owner of their tree once. The owner
//! must find all of them.
//!
//! # Invariants
//! As in the other models of `everybuddy`.
//!
//! # Not modelled
//! As in the other models of `everybuddy`.

use everybuddy::{FrameRange, Pfn};

use super::{free_and_park, hand_out, scope};
use crate::lockless::Cpu;

/// A frame comes back into a word that the owner collects, since another frame of it came back before. If the owner was
/// not told of the second frame, it would not find it.
#[test]
fn a_frame_comes_back_into_a_word_that_is_collected() {
    scope(&[2, 3]).exhaust(3, 3, |machine| {
        let held = hand_out(machine, 3);
        machine.on(1, |w| free_and_park(w, held[1]));
        machine.at_once(&[
            &|w| {
                w.churn(0);
                free_and_park(w, held[0]);
            },
            &|_| (),
            &|w| free_and_park(w, held[2]),
        ]);
    });
}

/// A CPU returns two frames of a word one after the other, and keeps the second one until it is asked or parks.
/// Meanwhile the owner of the tree wants a frame, and collects what a third CPU returned there. It gets the lowest
/// frame, which was returned last.
#[test]
fn frames_of_a_word_come_back_one_after_the_other() {
    for third in [false, true] {
        scope(&[1, 2]).exhaust(4, 3, move |machine| {
            let held = machine.on(0, |w| {
                let held = [(); 4].map(|()| w.allocate(0));
                for (block, to) in held.iter().zip([0, 1, 1, 2]) {
                    if to != 0 {
                        w.hand(*block, to);
                    }
                }
                held
            });
            if !third {
                machine.on(2, |w| free_and_park(w, held[3]));
            }
            machine.at_once(&[
                &|w| {
                    w.try_churn(0);
                    free_and_park(w, held[0]);
                },
                &|w| {
                    w.free(held[2]);
                    free_and_park(w, held[1]);
                },
                &|w| {
                    if third {
                        free_and_park(w, held[3]);
                    }
                },
            ]);
        });
    }
}

/// A CPU has told the owner of a frame, and returns two more of that word, between which the owner collects. A reserved
/// frame keeps the plane from being zero then. If the exchange of the last frame did not acquire, the CPU could believe
/// that it had told the owner of this one, too.
#[test]
fn a_frame_comes_back_after_a_collection_of_its_word() {
    scope(&[2, 3]).exhaust(64, 2, |machine| {
        let range = |w: &mut Cpu<'_>| FrameRange::new(Pfn(w.raw().0.span().base().0 + 4), 60);
        machine.on(0, |w| {
            let range = range(w);
            let (system, cpu) = w.raw();
            system.reserve(cpu, range).expect("all is free");
        });
        let held = machine.on(0, |w| {
            let held = [(); 4].map(|()| w.allocate(0));
            held[1..].iter().for_each(|block| w.hand(*block, 1));
            held
        });
        machine.on(1, |w| free_and_park(w, held[3]));
        machine.park_after(&[
            &|w| {
                w.try_churn_untracked(0);
                w.free(held[0]);
            },
            &|w| {
                w.free(held[2]);
                w.free(held[1]);
            },
        ]);
        machine.on(0, |w| {
            let range = range(w);
            let (system, cpu) = w.raw();
            system.unreserve(cpu, range).expect("it is reserved");
            w.park();
        });
    });
}
