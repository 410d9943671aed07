//! NBBS's tree of status words, under loom.
//!
//! # Purpose
//!
//! Blocks of all sizes are taken and given back by single exchanges of different words. No frame may be handed out
//! twice or lost, the holder of a frame must see what its last holder did, at the end every mark must agree with the
//! word that it stands for, and a request for a frame may be refused only if none was free.
//!
//! # Invariants
//!
//! In every schedule the ledger accepts all results, and [`Machine::settle`] finds all frames free, all words empty and
//! no mark left. The numbers in `bound` are preemptions; `LOOM_MAX_PREEMPTIONS=N` replaces them.
//!
//! # Not modelled
//!
//! More than three CPUs; more than three levels; versions that wrap around; retry bounds that run out.

use std::sync::atomic::{AtomicU32, Ordering};

use everybuddy::{CpuToken, FrameRange, FreeError, Order, Pfn, RegionError, Release, Request};
use everybuddy_model::weak::exhaust;
use everybuddy_model::{Loom, Machine, Plain, Worker, bound};

type Cpu<'w> = Worker<'w, Loom>;

/// Two lowest words.
const FRAMES: u64 = 64;
/// The order of a lowest word.
const WORD: u8 = 5;
/// The order of all frames.
const ALL: u8 = 6;

fn run(
    frames: u64,
    cpus: u16,
    preemptions: usize,
    model: impl Fn(&Machine<'_, Loom>) + Send + Sync + 'static,
) {
    exhaust::<Plain>("nbbs+order=6", frames, cpus, Some(preemptions), model);
}

/// The same with one more level, whose word becomes empty only if the span fills the words below.
fn run_tall(
    cpus: u16,
    preemptions: usize,
    model: impl Fn(&Machine<'_, Loom>) + Send + Sync + 'static,
) {
    exhaust::<Plain>("nbbs", 512, cpus, Some(preemptions), model);
}

/// Allocates a block if possible, and frees it.
fn try_churn(w: &mut Cpu<'_>, order: u8) {
    if let Some(block) = w.try_allocate(order) {
        w.free(block);
    }
}

/// Frees frames that the ledger does not follow.
fn free(w: &mut Cpu<'_>, start: u32, frames: u32) -> Result<(), FreeError> {
    let (system, cpu) = w.raw();
    system.free(cpu, Release::frames(Pfn(start), frames))
}

/// Allocates a block that the ledger does not follow.
fn get(w: &mut Cpu<'_>, order: u8) -> Option<Pfn> {
    let order = Order::new(order).expect("an order");
    let (system, cpu) = w.raw();
    system.allocate(cpu, Request::order(order)).ok()
}

#[test]
fn two_cpus_share_the_last_two_frames() {
    run(2, 2, bound(&[2, 3]), |machine| {
        let both = |w: &mut Cpu<'_>| {
            w.churn(0);
            w.churn(0);
        };
        machine.at_once(&[&both, &both]);
    });
}

#[test]
fn a_frame_that_comes_back_during_a_search_is_found() {
    run(2, 3, bound(&[1, 2]), |machine| {
        let (a, b) = machine.on(0, |w| (w.allocate(0), w.allocate(0)));
        machine.on(0, |w| w.hand(b, 1));
        machine.at_once(&[
            &|w: &mut Cpu<'_>| {
                w.free(a);
                try_churn(w, 0);
            },
            &|w: &mut Cpu<'_>| w.free(b),
            &|w: &mut Cpu<'_>| try_churn(w, 0),
        ]);
    });
}

/// A CPU searches two words. A frame comes back in the one that it has passed, then one is taken in the one that it has
/// not reached.
#[test]
fn a_search_is_not_passed_by_a_frame() {
    run(33, 2, bound(&[3, 4]), |machine| {
        // CPU 1 holds all frames except the last one.
        let held = machine.on(1, |w| {
            let held: Vec<_> = (0..33).map(|_| w.allocate(0)).collect();
            let last = held.iter().find(|block| block.start == Pfn(32));
            w.free(*last.expect("all are held"));
            held
        });
        let is = |frame: u32| move |block: &&everybuddy::Block| block.start == Pfn(frame);
        let low = *held.iter().find(is(0)).expect("all are held");
        machine.at_once(&[&|w: &mut Cpu<'_>| try_churn(w, 0), &|w: &mut Cpu<'_>| {
            w.free(low);
            try_churn(w, 0);
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
    run_tall(2, bound(&[3, 4]), |machine| {
        machine.at_once(&[&|w: &mut Cpu<'_>| try_churn(w, 0), &|w: &mut Cpu<'_>| {
            try_churn(w, ALL)
        }]);
    });
}

/// The word of the first CPU becomes empty while the second one takes its first frame, and all of memory is wanted.
#[test]
fn a_word_becomes_empty_while_it_is_wanted() {
    run(FRAMES, 3, bound(&[2, 3]), |machine| {
        let frame = machine.on(0, |w| w.allocate(0));
        machine.at_once(&[
            &|w: &mut Cpu<'_>| w.free(frame),
            &|w: &mut Cpu<'_>| {
                // The same word, which is not where this CPU's search begins.
                let (system, cpu) = w.raw();
                let range = FrameRange::new(system.span().base() + 1, 1);
                if let Ok(start) = system.allocate_at(cpu, range) {
                    let freed = system.free(cpu, Release::frame(start));
                    assert_eq!(freed, Ok(()));
                }
            },
            &|w: &mut Cpu<'_>| try_churn(w, ALL),
        ]);
    });
}

/// The mark of a word is set, cleared, and set again while CPUs that want to clear it stand still: the schedule in
/// which a coalescing bit without a version is not enough.
#[test]
fn a_late_free_does_not_clear_the_mark_of_a_later_block() {
    run(FRAMES, 3, bound(&[2, 3]), |machine| {
        let frame = machine.on(0, |w| w.allocate(0));
        machine.on(0, |w| w.hand(frame, 2));
        // CPUs 0 and 1 begin in the same word.
        machine.at_once(&[
            &|w: &mut Cpu<'_>| w.churn(0),
            &|w: &mut Cpu<'_>| {
                let frame = w.allocate(0);
                assert!(w.try_allocate(ALL).is_none(), "a part of it is held");
                w.free(frame);
            },
            &|w: &mut Cpu<'_>| w.free(frame),
        ]);
    });
}

/// The same on two levels: the marks are compared with the words while a frame is held.
#[test]
fn a_late_free_does_not_clear_the_marks_of_higher_levels() {
    run_tall(2, bound(&[3, 4]), |machine| {
        let frame = machine.on(0, |w| w.allocate(0));
        let held = AtomicU32::new(0);
        machine.at_once(&[&|w: &mut Cpu<'_>| w.free(frame), &|w: &mut Cpu<'_>| {
            let frame = get(w, 0).expect("not all frames are held");
            held.store(frame.0, Ordering::Relaxed);
        }]);
        machine.on(1, |w| {
            w.check();
            free(w, held.into_inner(), 1).expect("it is allocated");
        });
    });
}

#[test]
fn all_of_memory_is_wanted_while_words_are_emptied() {
    run(FRAMES, 2, bound(&[2, 3]), |machine| {
        machine.at_once(&[&|w: &mut Cpu<'_>| try_churn(w, 0), &|w: &mut Cpu<'_>| {
            try_churn(w, 0);
            try_churn(w, ALL);
        }]);
    });
}

#[test]
fn two_buddies_are_freed() {
    run_tall(2, bound(&[3, 4]), |machine| {
        let (a, b) = machine.on(0, |w| (w.allocate(WORD), w.allocate(WORD)));
        machine.on(0, |w| w.hand(b, 1));
        machine.at_once(&[&|w: &mut Cpu<'_>| w.free(a), &|w: &mut Cpu<'_>| {
            w.free(b);
            try_churn(w, ALL);
        }]);
    });
}

#[test]
fn a_block_is_freed_for_its_parts() {
    run_tall(2, bound(&[3, 4]), |machine| {
        let all = machine.on(0, |w| w.allocate(ALL));
        machine.at_once(&[&|w: &mut Cpu<'_>| w.free(all), &|w: &mut Cpu<'_>| {
            try_churn(w, 0);
            try_churn(w, ALL);
        }]);
    });
}

#[test]
fn two_cpus_free_parts_of_a_block() {
    run(FRAMES, 2, bound(&[3, 4]), |machine| {
        let all = machine.on(0, |w| get(w, ALL)).expect("all is free").0;
        machine.at_once(&[
            &|w: &mut Cpu<'_>| free(w, all + 3, 1).expect("it is allocated"),
            &|w: &mut Cpu<'_>| free(w, all + 20, 40).expect("it is allocated"),
        ]);
        machine.on(0, |w| {
            free(w, all, 3).expect("it is allocated");
            free(w, all + 4, 16).expect("it is allocated");
            free(w, all + 60, 4).expect("it is allocated");
        });
    });
}

#[test]
fn two_cpus_free_the_halves_of_a_block() {
    run(FRAMES, 2, bound(&[3, 4]), |machine| {
        let all = machine.on(0, |w| get(w, ALL)).expect("all is free").0;
        machine.at_once(&[
            &|w: &mut Cpu<'_>| free(w, all, 32).expect("it is allocated"),
            &|w: &mut Cpu<'_>| free(w, all + 32, 32).expect("it is allocated"),
        ]);
    });
}

#[test]
fn a_part_of_a_block_is_taken_while_another_is_freed() {
    run(FRAMES, 2, bound(&[1, 2]), |machine| {
        let all = machine.on(0, |w| get(w, ALL)).expect("all is free").0;
        machine.at_once(&[
            &|w: &mut Cpu<'_>| free(w, all, 62).expect("it is allocated"),
            &|w: &mut Cpu<'_>| {
                let frame = get(w, 0);
                free(w, all + 62, 2).expect("it is allocated");
                if let Some(frame) = frame {
                    free(w, frame.0, 1).expect("it is allocated");
                }
            },
        ]);
    });
}

#[test]
fn a_block_that_is_freed_whole_and_in_part_is_freed_once() {
    run(FRAMES, 2, bound(&[3, 4]), |machine| {
        let all = machine.on(0, |w| get(w, ALL)).expect("all is free").0;
        let (whole, part) = (AtomicU32::new(2), AtomicU32::new(2));
        machine.at_once(&[
            &|w: &mut Cpu<'_>| {
                let (system, cpu) = w.raw();
                let block = everybuddy::Block::new(Pfn(all), Order::new(ALL).expect("an order"));
                let freed = system.free(cpu, Release::block(block)).is_ok();
                whole.store(freed.into(), Ordering::Relaxed);
            },
            &|w: &mut Cpu<'_>| {
                let freed = free(w, all + 63, 1).is_ok();
                part.store(freed.into(), Ordering::Relaxed);
            },
        ]);
        let freed = (whole.into_inner(), part.into_inner());
        assert!(freed == (1, 0) || freed == (0, 1), "{freed:?}");
        if freed.1 == 1 {
            machine.on(0, |w| free(w, all, 63).expect("it is allocated"));
        }
    });
}

#[test]
fn one_of_two_frees_of_a_frame_is_refused() {
    run(32, 2, bound(&[4, 5]), |machine| {
        let frame = machine.on(0, |w| get(w, 0)).expect("all is free").0;
        let freed = AtomicU32::new(0);
        let race = |w: &mut Cpu<'_>| match free(w, frame, 1) {
            Ok(()) => {
                freed.fetch_add(1, Ordering::Relaxed);
            }
            Err(error) => assert_eq!(error, FreeError::NotAllocated),
        };
        machine.at_once(&[&race, &race]);
        assert_eq!(freed.into_inner(), 1);
    });
}

#[test]
fn a_range_is_reserved_while_its_frames_are_wanted() {
    run(33, 2, bound(&[2, 3]), |machine| {
        machine.at_once(&[
            &|w: &mut Cpu<'_>| {
                let (system, cpu) = w.raw();
                let range = FrameRange::new(system.span().base(), 33);
                match system.reserve(cpu, range) {
                    Ok(()) => system.unreserve(cpu, range).expect("it is reserved"),
                    Err(error) => {
                        assert!(matches!(error, RegionError::NotFree(_) | RegionError::Busy));
                    }
                }
            },
            &|w: &mut Cpu<'_>| {
                if let Some(frame) = get(w, 0) {
                    free(w, frame.0, 1).expect("it is allocated");
                }
            },
        ]);
    });
}

#[test]
fn a_nested_request_comes_between() {
    run(4, 2, bound(&[2, 3]), |machine| {
        machine.at_once(&[&|w: &mut Cpu<'_>| w.churn(0), &|w: &mut Cpu<'_>| {
            let (system, cpu) = w.raw();
            assert_eq!(cpu.id().0, 1);
            // A request that interrupted CPU 0.
            let interrupted = everybuddy::CpuId(0);
            let frame = system.allocate_nested(interrupted, Request::FRAME);
            let frame = frame.expect("at most one frame is held");
            let freed = system.free_nested(interrupted, Release::frame(frame));
            assert_eq!(freed, Ok(()));
        }]);
    });
}
