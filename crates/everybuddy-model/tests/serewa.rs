//! Serewa's queues and services, under loom.
//!
//! Why it exists: a release is a word in a slot, a remnant another, and whoever comes by works on them. No frame may
//! be in two hands, or in none; no request may fail while what would serve it waits in a queue or is being worked on;
//! and whatever the services did or did not, in the end everything is linked.
//!
//! Invariant: in every schedule no frame is given twice or lost, no request for a single frame fails while one is
//! free, and at the end all is coalesced. That a model's queue was used at all is counted.
//!
//! The number before a model's name bounds the preemptions; `LOOM_MAX_PREEMPTIONS=N` replaces it.
//!
//! Not modelled: a slot's lap that comes round after 2048 laps; more than three CPUs; ranges that are added or
//! withdrawn; a manager on a thread under loom, whose callers look too often. Threads that stop for good are tried in
//! the allocator's own tests, at every operation of a queue.

use everybuddy::{FreeError, Pfn, Release, Request};
use everybuddy_model::weak::exhaust;
use everybuddy_model::{Loom, Memory, Plain, Shared, Worker};

type Cpu<'w, M> = Worker<'w, Loom<M>>;

const DIVIDING: usize = 0;
const LINKING: usize = 1;

/// Gets a block if it can, and gives it back.
fn try_churn<M: Memory>(w: &mut Cpu<'_, M>, order: u8) {
    if let Some(block) = w.try_allocate(order) {
        w.free(block);
    }
}

/// Two CPUs take single frames of one block: one leaves the other's frame in a queue.
fn two_cpus_share_a_block<M: Memory>(spec: &'static str, preemptions: usize) {
    exhaust::<M>(spec, 2, 2, Some(preemptions), |machine| {
        machine.at_once(&[&|w: &mut Cpu<'_, M>| w.churn(0), &|w: &mut Cpu<'_, M>| {
            w.churn(0);
        }]);
    });
}

/// The frame that one CPU wants was given back by another, and nobody serves.
fn what_was_given_back_is_found<M: Memory>(spec: &'static str, preemptions: usize) {
    exhaust::<M>(spec, 2, 2, Some(preemptions), |machine| {
        let both = machine.on(0, |w| [w.allocate(0), w.allocate(0)]);
        machine.on(0, |w| w.hand(both[1], 1));
        machine.at_once(&[
            &|w: &mut Cpu<'_, M>| {
                w.free(both[0]);
                try_churn(w, 1);
            },
            &|w: &mut Cpu<'_, M>| {
                w.free(both[1]);
                try_churn(w, 0);
            },
        ]);
    });
}

/// Two buddies are linked by two services at once.
fn buddies_are_linked_at_once<M: Memory>(spec: &'static str, preemptions: usize) {
    exhaust::<M>(spec, 2, 2, Some(preemptions), |machine| {
        machine.on(0, |w| {
            let both = [w.allocate(0), w.allocate(0)];
            both.into_iter().for_each(|block| w.free(block));
        });
        let link = |w: &mut Cpu<'_, M>| {
            w.serve(LINKING, 1);
        };
        machine.at_once(&[&link, &link]);
        machine.on(0, |w| {
            // Also without anybody who brings home what waits: nothing may be left.
            let census = w.check();
            assert_eq!((census.free, census.queued), (2, 0), "{census:?}");
        });
    });
}

/// A caller leaves a remnant, gives its frame back and wants all of it, while services work.
fn services_work_while_one_wants_the_whole<M: Memory>(spec: &'static str, preemptions: usize) {
    exhaust::<M>(spec, 2, 2, Some(preemptions), |machine| {
        machine.at_once(&[
            &|w: &mut Cpu<'_, M>| {
                w.churn(0);
                w.churn(1);
            },
            &|w: &mut Cpu<'_, M>| {
                w.serve(DIVIDING, 1);
                w.serve(LINKING, 1);
            },
        ]);
    });
}

/// Two callers and one who does both services: more areas than slots, if there is one slot.
fn two_callers_and_services<M: Memory>(spec: &'static str, preemptions: usize) {
    exhaust::<M>(spec, 2, 3, Some(preemptions), |machine| {
        machine.at_once(&[
            &|w: &mut Cpu<'_, M>| w.churn(0),
            &|w: &mut Cpu<'_, M>| w.churn(0),
            &|w: &mut Cpu<'_, M>| {
                w.serve(LINKING, 1);
                w.serve(DIVIDING, 1);
            },
        ]);
    });
}

/// Two CPUs give the same frame back: exactly one does.
fn one_of_two_gives_a_frame_back<M: Memory>(spec: &'static str, preemptions: usize) {
    exhaust::<M>(spec, 2, 2, Some(preemptions), |machine| {
        let block = machine.on(0, |w| {
            let (system, cpu) = w.raw();
            system.allocate(cpu, Request::FRAME).expect("all is free")
        });
        let refused = std::sync::atomic::AtomicU32::new(0);
        let free = |w: &mut Cpu<'_, M>| {
            let (system, cpu) = w.raw();
            match system.free(cpu, Release::frame(block)) {
                Ok(()) => {}
                Err(FreeError::NotAllocated) => {
                    refused.fetch_add(1, std::sync::atomic::Ordering::Relaxed);
                }
                // One may have been linked, and be the head of a larger block.
                Err(error) => panic!("{error}"),
            }
        };
        machine.at_once(&[&free, &|w: &mut Cpu<'_, M>| {
            free(w);
            w.serve(LINKING, 1);
        }]);
        assert_eq!(refused.load(std::sync::atomic::Ordering::Relaxed), 1);
    });
}

/// A part of an allocation comes back while another CPU wants it.
fn a_part_comes_back<M: Memory>(spec: &'static str, preemptions: usize) {
    exhaust::<M>(spec, 4, 2, Some(preemptions), |machine| {
        let run = machine.on(0, |w| w.try_allocate_frames(4).expect("all is free"));
        machine.at_once(&[
            &|w: &mut Cpu<'_, M>| {
                w.free_frames(Pfn(run.0 + 1), 2);
                w.free_frames(run, 1);
                w.free_frames(Pfn(run.0 + 3), 1);
            },
            &|w: &mut Cpu<'_, M>| {
                try_churn(w, 0);
                try_churn(w, 1);
            },
        ]);
    });
}

macro_rules! models {
    ($kind:ident, $memory:ty, $preemptions:literal, $spec:literal; $($model:ident),* $(,)?) => {
        mod $kind {
            use super::*;
            $(
                #[test]
                fn $model() {
                    super::$model::<$memory>($spec, $preemptions);
                }
            )*
        }
    };
}

macro_rules! all_models {
    ($kind:ident, $memory:ty, $preemptions:literal, $spec:literal) => {
        models!(
            $kind, $memory, $preemptions, $spec;
            two_cpus_share_a_block,
            what_was_given_back_is_found,
            buddies_are_linked_at_once,
            services_work_while_one_wants_the_whole,
            one_of_two_gives_a_frame_back,
        );
    };
}

all_models!(ring, Plain, 2, "serewa+order=1+queue=4");
all_models!(shared, Shared, 2, "serewa+order=1+queue=4");
all_models!(tight, Plain, 2, "serewa+order=1+queue=1");
all_models!(semaphore, Plain, 2, "serewa+order=1+queue=4+sync=semaphore");
models!(three, Plain, 1, "serewa+order=1+queue=4"; two_callers_and_services);
models!(three_tight, Plain, 1, "serewa+order=1+queue=1"; two_callers_and_services);
models!(parts, Plain, 2, "serewa+order=2+queue=4"; a_part_comes_back);
models!(parts_tight, Plain, 2, "serewa+order=2+queue=1"; a_part_comes_back);
