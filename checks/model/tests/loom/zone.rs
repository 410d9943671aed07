//! The zone layer without lists, under loom.
//!
//! Splitting and coalescing move the same blocks under one lock. Whatever two CPUs do concurrently, no frame is
//! handed out twice and everything coalesces at the end. This includes batches that release the lock in the middle,
//! while another CPU allocates or frees blocks between those of the batch.
//!
//! # Not modelled
//! More than three preemptions where a model has a bound; adding and removing memory.

use everybuddy::{Index, Release, Request};
use everybuddy_model::{ALL, Loom, Machine, Memory, Plain, Scope, Shared, Worker, bound};

fn two_cpus_split_and_coalesce(memory: Memory) {
    let preemptions = bound(&[3, ALL]);
    Scope::new(memory, "bs+order=2", preemptions).exhaust(4, 2, |machine| {
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
    two_cpus_split_and_coalesce(Plain);
    two_cpus_split_and_coalesce(Shared);
}

#[test]
fn a_run_is_freed_in_parts_by_two_cpus() {
    Scope::new(Plain, "bs+order=2", ALL).exhaust(4, 2, |machine: &Machine<'_, Loom>| {
        // The ledger expects one holder per run, but two CPUs free this one, so the system is called directly.
        let run = machine.on(0, |w| w.allocate_untracked(Request::frames(3)));
        let free = |start: u32, frames| {
            let release = Release::frames(Index(run.0 + start), frames);
            move |w: &mut Worker<'_, Loom>| w.free_untracked(release)
        };
        machine.at_once(&[&free(1, 2), &free(0, 1)]);
    });
}

#[test]
fn two_cpus_ask_for_the_whole_memory() {
    Scope::new(Plain, "bs+order=2", 3).exhaust(4, 2, |machine| {
        let ask = |w: &mut Worker<'_, Loom>| {
            w.try_churn(2);
            let rest = w.try_allocate_frames(3);
            rest.into_iter().for_each(|start| w.free_frames(start, 3));
        };
        machine.at_once(&[&ask, &ask]);
    });
}

/// Two CPUs whose lists refill and drain three frames at a time, with the lock released in between.
fn two_cpus_refill_and_drain(spec: &'static str, preemptions: usize) {
    // Not enough for two batches: a refill ends early.
    for frames in [4, 6] {
        Scope::new(Plain, spec, preemptions).exhaust(frames, 2, |machine| {
            let both = |w: &mut Worker<'_, Loom>| {
                w.churn(0);
                w.drain();
            };
            machine.park_after(&[&both, &both]);
            for cpu in 0..2 {
                machine.on(cpu, |w| {
                    w.check();
                    w.has_all();
                    w.park();
                });
            }
        });
    }
}

#[test]
fn batches_let_the_lock_go_after_each_block() {
    two_cpus_refill_and_drain("lbs-31+batch=3+high=3+order=1+hold=iteration", 2);
    two_cpus_refill_and_drain(
        "lbs-31+batch=3+high=3+order=1+lock=ticket+hold=iteration",
        1,
    );
    two_cpus_refill_and_drain("linux-6+order=1+hold=iteration", 2);
    two_cpus_refill_and_drain(
        "lbs-31+batch=3+high=3+order=1+lock=queued+hold=iteration",
        1,
    );
}

#[test]
fn batches_let_the_lock_go_to_who_waits() {
    two_cpus_refill_and_drain(
        "lbs-31+batch=3+high=3+order=1+lock=ticket+hold=when-contended",
        2,
    );
    two_cpus_refill_and_drain("linux-6+order=1+lock=ticket+hold=when-contended", 2);
}

/// Two CPUs with full lists each drain a batch concurrently, each triggered by its own free.
fn two_full_lists_drain(spec: &'static str, preemptions: usize) {
    Scope::new(Plain, spec, preemptions).exhaust(8, 2, |machine| {
        let held: Vec<Vec<_>> = (0..2)
            .map(|cpu| {
                machine.on(cpu, |w| {
                    let mut blocks: Vec<_> = (0..3).map(|_| w.allocate(0)).collect();
                    let last = blocks.pop().unwrap();
                    blocks.into_iter().for_each(|block| w.free(block));
                    w.park();
                    vec![last]
                })
            })
            .collect();
        let give = |w: &mut Worker<'_, Loom>, cpu: usize| {
            held[cpu].iter().for_each(|block| w.free(*block));
            w.churn(0);
            w.park();
        };
        machine.at_once(&[&|w| give(w, 0), &|w| give(w, 1)]);
        machine.on(0, |w| {
            w.check();
            w.has_all();
            w.park();
        });
    });
}

#[test]
fn full_lists_drain_at_once_under_every_hold() {
    two_full_lists_drain("lbs-31+batch=3+high=3+order=1+hold=iteration", 2);
    two_full_lists_drain(
        "lbs-31+batch=3+high=3+order=1+lock=ticket+hold=when-contended",
        2,
    );
}
