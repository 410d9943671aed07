//! The zone layer without lists, under loom.
//!
//! Why it exists: splitting and coalescing move the same blocks under one lock; whatever two CPUs do at
//! once, no frame is given twice and everything coalesces at the end.
//!
//! Not modelled: more than three preemptions where a model says so; adding and withdrawing memory.

use everybuddy::{Pfn, Release, Request};
use everybuddy_model::weak::exhaust;
use everybuddy_model::{Loom, Machine, Memory, Plain, Shared, Worker};

fn two_cpus_split_and_coalesce<M: Memory>() {
    exhaust::<M>("bs+order=2", 4, 2, None, |machine| {
        machine.at_once(&[
            &|w| {
                let (single, pair) = (w.allocate(0), w.try_allocate(1));
                w.free(single);
                pair.into_iter().for_each(|block| w.free(block));
            },
            &|w| w.churn(0),
        ]);
    });
}

#[test]
fn two_cpus_split_and_coalesce_one_block() {
    two_cpus_split_and_coalesce::<Plain>();
    two_cpus_split_and_coalesce::<Shared>();
}

#[test]
fn a_run_is_freed_in_parts_by_two_cpus() {
    exhaust::<Plain>("bs+order=2", 4, 2, None, |machine: &Machine<'_, Loom>| {
        // The ledger follows holders, and a run that two CPUs give back has one: so it is asked directly.
        let run = machine.on(0, |w| {
            let (system, cpu) = w.raw();
            system.allocate(cpu, Request::frames(3)).unwrap()
        });
        let free = |start: u32, frames| {
            let release = Release::frames(Pfn(run.0 + start), frames);
            move |w: &mut Worker<'_, Loom>| {
                let (system, cpu) = w.raw();
                assert_eq!(system.free(cpu, release), Ok(()));
            }
        };
        machine.at_once(&[&free(1, 2), &free(0, 1)]);
    });
}

#[test]
fn two_cpus_ask_for_the_whole_memory() {
    exhaust::<Plain>("bs+order=2", 4, 2, Some(3), |machine| {
        let ask = |w: &mut Worker<'_, Loom>| {
            if let Some(block) = w.try_allocate(2) {
                w.free(block);
            }
            let rest = w.try_allocate_frames(3);
            rest.into_iter().for_each(|start| w.free_frames(start, 3));
        };
        machine.at_once(&[&ask, &ask]);
    });
}
