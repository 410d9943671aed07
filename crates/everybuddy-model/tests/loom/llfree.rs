//! LLFree's two levels, under loom.
//!
//! # Purpose
//!
//! Every operation is a sequence of single exchanges, and any other operation may come between two of them. No frame
//! may be handed out twice or lost, the holder of a frame must see what its last holder did, the counters of both
//! levels must agree with the bits at the end, and a request for a frame may be refused only if none was free.
//!
//! # Invariants
//!
//! In every schedule the ledger accepts all results, and [`Machine::settle`] finds all frames free and all counters
//! right. The numbers in `bound` are preemptions; `LOOM_MAX_PREEMPTIONS=N` replaces them.
//!
//! # Not modelled
//!
//! More than three CPUs; more than a pair of children; retry bounds that run out.

use std::sync::atomic::{AtomicU32, Ordering};

use everybuddy::{
    Block, CpuToken, FrameRange, FreeError, Order, Pfn, RegionError, Release, Request,
};
use everybuddy_model::weak::exhaust;
use everybuddy_model::{Loom, Machine, Plain, Worker, bound};

type Cpu<'w> = Worker<'w, Loom>;

fn run(
    frames: u64,
    cpus: u16,
    preemptions: usize,
    model: impl Fn(&Machine<'_, Loom>) + Send + Sync + 'static,
) {
    exhaust::<Plain>("llfree+tree=4MiB", frames, cpus, Some(preemptions), model);
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

/// A CPU searches two pairs of children. A frame comes back in the one that it has passed, then one is taken in the one
/// that it has not reached.
#[test]
fn a_search_is_not_passed_by_a_frame() {
    run(1026, 2, bound(&[3, 4]), |machine| {
        // CPU 1 holds frame 1 and all that lies between; frames 0 and 1024 are free in turn.
        let held = machine.on(1, |w| {
            let system = w.raw().0;
            let span = system.span();
            let (system, cpu) = w.raw();
            let between = FrameRange::new(span.base() + 2, 1022);
            system.reserve(cpu, between).expect("all is free");
            let held: Vec<_> = (0..4).map(|_| w.allocate(0)).collect();
            held
        });
        let at = |frame: u32| held.iter().find(|block| block.start == Pfn(frame));
        let [low, high] = [at(0), at(1024)].map(|block| *block.expect("all are held"));
        machine.on(1, |w| w.free(high));
        machine.at_once(&[&|w: &mut Cpu<'_>| try_churn(w, 0), &|w: &mut Cpu<'_>| {
            w.free(low);
            try_churn(w, 0);
        }]);
        machine.on(1, |w| {
            for block in held
                .iter()
                .filter(|block| **block != low && **block != high)
            {
                w.free(*block);
            }
            let (system, cpu) = w.raw();
            let between = FrameRange::new(system.span().base() + 2, 1022);
            system.unreserve(cpu, between).expect("it is reserved");
        });
    });
}

#[test]
fn a_run_of_two_words_is_undone_if_a_frame_is_taken() {
    run(192, 2, bound(&[3, 4]), |machine| {
        // CPU 1 starts in the middle, which is the second word.
        machine.at_once(&[&|w: &mut Cpu<'_>| try_churn(w, 7), &|w: &mut Cpu<'_>| {
            try_churn(w, 0)
        }]);
    });
}

#[test]
fn two_cpus_free_parts_of_a_huge_frame() {
    run(512, 2, bound(&[4, 5]), |machine| {
        let huge = machine.on(0, |w| get(w, 9)).expect("all is free").0;
        machine.at_once(&[
            &|w: &mut Cpu<'_>| free(w, huge + 3, 1).expect("it is allocated"),
            &|w: &mut Cpu<'_>| free(w, huge + 60, 140).expect("it is allocated"),
        ]);
        machine.on(0, |w| {
            free(w, huge, 3).expect("it is allocated");
            free(w, huge + 4, 56).expect("it is allocated");
            free(w, huge + 200, 312).expect("it is allocated");
        });
    });
}

#[test]
fn a_part_of_a_huge_frame_is_taken_while_another_is_freed() {
    run(512, 2, bound(&[4, 5]), |machine| {
        let huge = machine.on(0, |w| get(w, 9)).expect("all is free").0;
        machine.at_once(&[
            &|w: &mut Cpu<'_>| free(w, huge, 512 - 64).expect("it is allocated"),
            &|w: &mut Cpu<'_>| {
                let frame = get(w, 0);
                free(w, huge + 512 - 64, 64).expect("it is allocated");
                if let Some(frame) = frame {
                    free(w, frame.0, 1).expect("it is allocated");
                }
            },
        ]);
    });
}

#[test]
fn a_huge_frame_that_is_freed_whole_and_in_part_is_freed_once() {
    run(512, 2, bound(&[4, 5]), |machine| {
        let huge = machine.on(0, |w| get(w, 9)).expect("all is free").0;
        let whole = AtomicU32::new(2);
        let part = AtomicU32::new(2);
        machine.at_once(&[
            &|w: &mut Cpu<'_>| {
                let freed = free(w, huge, 512).is_ok();
                whole.store(freed.into(), Ordering::Relaxed);
            },
            &|w: &mut Cpu<'_>| {
                let freed = free(w, huge + 511, 1).is_ok();
                part.store(freed.into(), Ordering::Relaxed);
            },
        ]);
        let freed = (whole.into_inner(), part.into_inner());
        assert!(freed == (1, 0) || freed == (0, 1), "{freed:?}");
        if freed.1 == 1 {
            machine.on(0, |w| free(w, huge, 511).expect("it is allocated"));
        }
    });
}

#[test]
fn two_huge_frames_are_taken_while_a_frame_is() {
    run(1024, 2, bound(&[3, 4]), |machine| {
        let pair = |w: &mut Cpu<'_>| {
            if let Some(start) = get(w, 10) {
                free(w, start.0, 1024).expect("it is allocated");
            }
        };
        machine.at_once(&[&pair, &|w: &mut Cpu<'_>| {
            if let Some(frame) = get(w, 0) {
                free(w, frame.0, 1).expect("it is allocated");
            }
            pair(w);
        }]);
    });
}

/// A frame is handed over by way of a huge frame: what its holder did is seen by the next one.
#[test]
fn a_huge_frame_is_freed_for_single_frames() {
    run(512, 2, bound(&[4, 5]), |machine| {
        let huge = machine.on(0, |w| w.allocate(9));
        machine.at_once(&[&|w: &mut Cpu<'_>| w.free(huge), &|w: &mut Cpu<'_>| {
            try_churn(w, 0);
            try_churn(w, 9);
        }]);
    });
}

#[test]
fn a_reservation_is_stolen_while_its_cpu_allocates() {
    run(4, 2, bound(&[4, 5]), |machine| {
        machine.on(0, |w| w.churn(0));
        machine.at_once(&[
            &|w: &mut Cpu<'_>| {
                w.churn(0);
                try_churn(w, 1);
            },
            &|w: &mut Cpu<'_>| w.drain_parked(0),
        ]);
    });
}

#[test]
fn a_tree_is_reserved_by_frees_while_another_cpu_wants_it() {
    run(6, 2, bound(&[2, 3]), |machine| {
        let held: Vec<Block> = machine.on(0, |w| {
            let held = (0..4).map(|_| w.allocate(0)).collect();
            w.park();
            held
        });
        machine.on(0, |w| held.iter().for_each(|block| w.hand(*block, 1)));
        machine.at_once(&[
            &|w: &mut Cpu<'_>| {
                w.churn(0);
                w.park();
            },
            &|w: &mut Cpu<'_>| {
                held.iter().for_each(|block| w.free(*block));
            },
        ]);
    });
}

#[test]
fn one_of_two_frees_of_a_frame_is_refused() {
    run(64, 2, bound(&[4, 5]), |machine| {
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
    run(3, 2, bound(&[3, 4]), |machine| {
        machine.at_once(&[
            &|w: &mut Cpu<'_>| {
                let (system, cpu) = w.raw();
                let range = FrameRange::new(system.span().base(), 2);
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
