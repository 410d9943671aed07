//! Reporting against allocation and free, under loom.
//!
//! A block is marked while it is held, and the next holder of one of its frames must see the mark, although marks are
//! relaxed: the system itself orders the two. Neighbouring bits are changed simultaneously. A request that fails while
//! a block is held must find it, although no lock joins the two.
//!
//! # Not modelled
//! More than three preemptions.

use std::sync::atomic::{AtomicBool, Ordering};

use everybuddy::platform::AtomicWord;
use everybuddy::{Order, Platform, Release, Report, Reporting, Request};
use everybuddy_model::{Loom, Machine, Plain, Scope, Worker, bound};

type Word = <Loom as Platform>::AtomicU64;

/// Runs a model with reporting of pairs of frames, and the marks that the model knows of: invisible to loom.
fn run(
    spec: &'static str,
    model: impl Fn(&Machine<'_, Loom>, &Reporting<'_, Loom>, &[AtomicBool]) + Send + Sync + 'static,
) {
    Scope::new(Plain, spec, bound(&[2, 3])).exhaust(4, 2, move |machine| {
        let words = [Word::new(0)];
        let pairs = Order::covering(2).expect("it is an order");
        let reporting = machine.on(0, |w| {
            let (system, _) = w.raw();
            Reporting::new(system, pairs, &words).expect("there are such blocks")
        });
        let marked = [false; 2].map(AtomicBool::new);
        model(machine, &reporting, &marked);
        // What is reported at the end is what the model knows to be unmarked.
        machine.on(0, |w| {
            // The last pass may have stopped in the middle.
            report(w, &reporting, &marked);
            report(w, &reporting, &marked);
            let all = marked.iter().all(|marked| marked.load(Ordering::Relaxed));
            assert!(all, "a block was not reported");
        });
    });
}

/// Reports all that is free and unmarked.
fn report(w: &mut Worker<'_, Loom>, reporting: &Reporting<'_, Loom>, marked: &[AtomicBool]) {
    let (system, cpu) = w.raw();
    reporting.pass(system, cpu, 4, &mut |block| {
        let blocks = block.start.0 / 2..(block.start.0 + block.order.frames()) / 2;
        for block in blocks {
            let before = marked[block as usize].swap(true, Ordering::Relaxed);
            assert!(!before, "it was reported twice");
        }
        Report::Given
    });
}

/// Allocates a frame, notes that its block is not reported any more, and frees it, unless all is held.
fn churn(w: &mut Worker<'_, Loom>, reporting: &Reporting<'_, Loom>, marked: &[AtomicBool]) {
    let Ok(start) = w.try_allocate_untracked(Request::FRAME) else {
        return;
    };
    let before = marked[start.as_usize() / 2].swap(false, Ordering::Relaxed);
    let noticed = reporting.allocated(start, 1);
    assert_eq!(noticed, u32::from(before), "the holder sees the mark");
    w.free_untracked(Release::frame(start));
}

const SYSTEMS: [&str; 2] = ["bs+order=2", "llfree+tree=4MiB"];

#[test]
fn the_next_holder_sees_a_mark() {
    for spec in SYSTEMS {
        run(spec, |machine, reporting, marked| {
            machine.at_once(&[&|w| report(w, reporting, marked), &|w| {
                churn(w, reporting, marked)
            }]);
        });
    }
}

/// Each may find a block free and unmarked that the other one reports before it is taken.
#[test]
fn two_cpus_report() {
    for spec in SYSTEMS {
        run(spec, |machine, reporting, marked| {
            machine.at_once(&[&|w| report(w, reporting, marked), &|w| {
                report(w, reporting, marked)
            }]);
        });
    }
}

#[test]
fn marks_of_neighbours_are_not_lost() {
    for spec in SYSTEMS {
        run(spec, |machine, reporting, marked| {
            // A CPU holds a frame of one block; both blocks were reported before.
            machine.on(0, |w| report(w, reporting, marked));
            let both = machine.on(0, |w| [w.allocate(1), w.allocate(1)]);
            machine.on(0, |w| w.hand(both[1], 1));
            let clear = |which: usize| {
                move |w: &mut Worker<'_, Loom>| {
                    assert_eq!(reporting.allocated(both[which].start, 2), 1);
                    marked[which].store(false, Ordering::Relaxed);
                    w.free(both[which]);
                }
            };
            let index = both[0].start.0 as usize / 2;
            assert_eq!(index, 0, "the blocks are in order");
            machine.at_once(&[&clear(0), &clear(1)]);
        });
    }
}

/// The request needs all of memory, of which the other CPU may hold a part.
#[test]
fn a_request_finds_the_block_that_was_held() {
    for spec in SYSTEMS {
        run(spec, |machine, reporting, marked| {
            machine.at_once(&[&|w| report(w, reporting, marked), &|w| {
                let (system, cpu) = w.raw();
                let whole = Request::order(Order::covering(4).expect("it is an order"));
                let found = reporting.allocate(system, cpu, whole);
                let start = found.expect("no other CPU allocates");
                for marked in marked {
                    marked.store(false, Ordering::Relaxed);
                }
                w.free_untracked(Release::frames(start, 4));
            }]);
        });
    }
}
