//! Serewa's queues and services, under loom.
//!
//! A free is one word in a slot, a remnant is another, and any CPU that comes by works on them. No frame may have two
//! owners or none, no request may fail while a frame that would serve it waits in a queue or is being processed, and
//! whatever the services did, everything is linked at the end.
//!
//! # Invariants
//! In every schedule no frame is handed out twice or lost, no request for a single frame fails while one is free, and
//! at the end everything is coalesced. The models count that the queue was actually used.
//!
//! The numbers in `all_models!` bound the preemptions, see [`bound`]; `LOOM_MAX_PREEMPTIONS=N` replaces them.
//!
//! # Not modelled
//! The wrap-around of a slot's lap counter after 2048 laps; more than three CPUs; ranges that are added or removed. A
//! caller leaves a manager on a thread after its second poll, not after thousands. The allocator's own tests stop
//! threads permanently at every operation of a queue.

use std::sync::Arc;
use std::sync::atomic::{AtomicU32, AtomicUsize};

use everybuddy::platform::{AtomicWord, Ordering};
use everybuddy::{Index, Platform, Release, Request};
use everybuddy_model::weak::{polling, thoroughly};
use everybuddy_model::{Loom, Plain, Scope, Shared, Worker, bound};

type Cpu<'w> = Worker<'w, Loom>;

const DIVIDING: usize = 0;
const LINKING: usize = 1;
const MANAGER: usize = 2;

/// Two CPUs allocate single frames of one block: one leaves the other's frame in a queue.
fn two_cpus_share_a_block(scope: Scope) {
    scope.exhaust(2, 2, |machine| {
        machine.at_once(&[&|w| w.churn(0), &|w| {
            w.churn(0);
        }]);
    });
}

/// A CPU requests a frame that another CPU freed while no service runs.
fn what_was_given_back_is_found(scope: Scope) {
    thoroughly(|| {
        scope.exhaust(2, 2, |machine| {
            let both = machine.on(0, |w| [w.allocate(0), w.allocate(0)]);
            machine.on(0, |w| w.hand(both[1], 1));
            machine.at_once(&[
                &|w| {
                    w.free(both[0]);
                    w.try_churn(1);
                },
                &|w| {
                    w.free(both[1]);
                    w.try_churn(0);
                },
            ]);
        });
    });
}

/// Two services link the same two buddies.
fn buddies_are_linked_at_once(scope: Scope) {
    scope.exhaust(2, 2, |machine| {
        machine.on(0, |w| {
            let both = [w.allocate(0), w.allocate(0)];
            both.into_iter().for_each(|block| w.free(block));
        });
        let link = |w: &mut Cpu<'_>| {
            w.serve(LINKING, 1);
        };
        machine.at_once(&[&link, &link]);
        machine.on(0, |w| {
            // No CPU drains the queues here, but nothing may be left in them.
            let census = w.check();
            assert_eq!((census.free, census.queued), (2, 0), "{census:?}");
        });
    });
}

/// A service has linked a frame and moves the head of the queue, while another CPU frees a frame and links it: with one
/// slot, the head moves by a lap. A head that passed a slot in use would lose the area that comes next.
fn a_queue_is_used_again_while_its_head_moves(scope: Scope) {
    scope.exhaust(2, 2, |machine| {
        let both = machine.on(0, |w| [w.allocate(0), w.allocate(0)]);
        machine.on(0, |w| {
            w.hand(both[1], 1);
            w.free(both[0]);
        });
        machine.at_once(&[
            &|w| {
                w.serve(LINKING, 1);
            },
            &|w| {
                w.free(both[1]);
                w.serve(LINKING, 1);
            },
        ]);
        machine.on(0, |w| w.churn(0));
    });
}

/// A caller leaves a remnant, frees its frame and requests the whole block, while services work.
fn services_work_while_one_wants_the_whole(scope: Scope) {
    scope.exhaust(2, 2, |machine| {
        machine.at_once(&[
            &|w| {
                w.churn(0);
                w.churn(1);
            },
            &|w| {
                w.serve(DIVIDING, 1);
                w.serve(LINKING, 1);
            },
        ]);
    });
}

/// Two callers and a CPU that runs both services: with one slot, there are more areas than slots.
fn two_callers_and_services(scope: Scope) {
    scope.exhaust(2, 3, |machine| {
        machine.at_once(&[&|w| w.churn(0), &|w| w.churn(0), &|w| {
            w.serve(LINKING, 1);
            w.serve(DIVIDING, 1);
        }]);
    });
}

/// Two CPUs free the same frame: exactly one succeeds.
fn one_of_two_gives_a_frame_back(scope: Scope) {
    scope.exhaust(2, 2, |machine| {
        let frame = machine.on(0, |w| w.allocate_untracked(Request::FRAME));
        let freed = AtomicU32::new(0);
        let free = |w: &mut Cpu<'_>| {
            let accepted = w.try_free_untracked(Release::frame(frame));
            freed.fetch_add(accepted.into(), Ordering::Relaxed);
        };
        machine.at_once(&[&free, &|w| {
            free(w);
            w.serve(LINKING, 1);
        }]);
        assert_eq!(freed.into_inner(), 1);
    });
}

/// A part of an allocation is freed while another CPU requests it.
fn a_part_comes_back(scope: Scope) {
    scope.exhaust(4, 2, |machine| {
        let run = machine.on(0, |w| w.try_allocate_frames(4).expect("all is free"));
        machine.at_once(&[
            &|w| {
                w.free_frames(Index(run.0 + 1), 2);
                w.free_frames(run, 1);
                w.free_frames(Index(run.0 + 3), 1);
            },
            &|w| {
                w.try_churn(0);
                w.try_churn(1);
            },
        ]);
    });
}

/// A caller takes its request back, leaves while the manager works, or receives the answer at that moment. It polls
/// without yielding, because a thread that has yielded does not preempt the manager. To see it leave takes two
/// preemptions: one after the request, one after the manager has taken it.
fn a_caller_leaves(scope: Scope) {
    let left = Arc::new(AtomicUsize::new(0));
    let leaves = Arc::clone(&left);
    polling(2, || {
        scope.exhaust(2, 2, move |machine| {
            // A manager that was never seen receives no requests.
            machine.on(1, |w| w.serve(MANAGER, 1));
            machine.at_once(&[
                &|w| {
                    w.allow_busy();
                    match w.try_allocate(0) {
                        Some(block) => w.free(block),
                        // Both frames are free, so it has left.
                        None => _ = leaves.fetch_add(1, Ordering::Relaxed),
                    }
                },
                &|w| {
                    w.serve(MANAGER, 1);
                },
            ]);
        });
    });
    let left = left.load(Ordering::Relaxed);
    assert!(left > 0, "no caller leaves in any schedule");
}

/// The same with a third thread, which requests both frames: it fails only if the first has one.
fn a_caller_leaves_while_another_asks(scope: Scope) {
    scope.exhaust(2, 3, |machine| {
        machine.on(2, |w| w.serve(MANAGER, 1));
        machine.at_once(&[
            &|w| {
                w.allow_busy();
                w.try_churn(0);
            },
            &|w| {
                w.allow_busy();
                let both = [w.try_allocate(0), w.try_allocate(0)];
                both.into_iter().flatten().for_each(|block| w.free(block));
            },
            &|w| {
                w.serve(MANAGER, 1);
            },
        ]);
    });
}

/// A manager on a thread of its own answers each request. Requests and answers are plain memory.
fn a_manager_answers(scope: Scope) {
    scope.exhaust(2, 2, |machine| {
        // Callers send requests only while a manager works.
        machine.on(1, |w| w.serve(MANAGER, 1));
        let done = <Loom as Platform>::AtomicU32::new(0);
        machine.at_once(&[
            &|w| {
                w.allow_busy();
                w.try_churn(0);
                w.try_churn(1);
                // Relaxed: no ordering that the allocator could depend on.
                done.store(1, Ordering::Relaxed);
            },
            &|w| {
                while done.load(Ordering::Relaxed) == 0 {
                    w.serve(MANAGER, 1);
                    loom::thread::yield_now();
                }
            },
        ]);
    });
}

macro_rules! models {
    ($kind:ident, $memory:ident, $bounds:tt, $spec:literal; $($model:ident),* $(,)?) => {
        mod $kind {
            use super::*;
            $(
                #[test]
                fn $model() {
                    super::$model(Scope::new($memory, $spec, bound(&$bounds)));
                }
            )*
        }
    };
}

macro_rules! all_models {
    ($kind:ident, $memory:ident, $bounds:tt, $spec:literal) => {
        models!(
            $kind, $memory, $bounds, $spec;
            two_cpus_share_a_block,
            what_was_given_back_is_found,
            buddies_are_linked_at_once,
            services_work_while_one_wants_the_whole,
            a_queue_is_used_again_while_its_head_moves,
            one_of_two_gives_a_frame_back,
        );
    };
}

all_models!(ring, Plain, [2], "serewa+order=1+queue=4");
all_models!(shared, Shared, [2], "serewa+order=1+queue=4");
all_models!(tight, Plain, [2], "serewa+order=1+queue=1");
all_models!(locked, Plain, [2], "serewa+order=1+queue=4+sync=lock");
models!(three, Plain, [1], "serewa+order=1+queue=4"; two_callers_and_services);
models!(three_tight, Plain, [1], "serewa+order=1+queue=1"; two_callers_and_services);
models!(parts, Plain, [1, 2], "serewa+order=2+queue=4"; a_part_comes_back);
models!(parts_tight, Plain, [2], "serewa+order=2+queue=1"; a_part_comes_back);
models!(manager, Plain, [2], "serewa+order=1+queue=4+manager=thread"; a_manager_answers);
models!(left, Plain, [2, 3], "serewa+order=1+queue=4+manager=thread"; a_caller_leaves);
models!(left_shared, Shared, [2, 3], "serewa+order=1+queue=1+manager=thread"; a_caller_leaves);
models!(
    left_with_two, Plain, [1, 2], "serewa+order=1+queue=4+manager=thread";
    a_caller_leaves_while_another_asks
);
