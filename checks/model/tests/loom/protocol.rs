//! The protocol that finds frames in other CPUs' lists, under loom.
//!
//! A request may fail only if no CPU caches a suitable frame, yet hits must not use an atomic read-modify-write.
//! `everybuddy::percpu::buffered` argues that the protocol achieves both; these models test it. In every schedule,
//! the test ends if a request for a single frame fails although one was free throughout, or if a frame is handed out
//! twice, lost, or not coalesced at the end.
//!
//! The numbers in `all_models!` bound the preemptions, see [`bound`]; `LOOM_MAX_PREEMPTIONS=N` replaces them.
//!
//! # Not modelled
//! A CPU that neither calls nor parks (the CPU that waits for it gives up after 65,536 polls, too many for loom);
//! three concurrent CPUs with more than one preemption.

use everybuddy::Platform;
use everybuddy::platform::{AtomicWord, Ordering};
use everybuddy_model::{Loom, Machine, Plain, Scope, Shared, Worker, bound};

/// Leaves `frames` frames in the list of a CPU.
fn keep(w: &mut Worker<'_, Loom>, frames: usize) {
    let blocks: Vec<_> = (0..frames).map(|_| w.allocate(0)).collect();
    blocks.into_iter().for_each(|block| w.free(block));
}

/// Leaves frames in the list of a CPU that parks.
fn keep_parked(machine: &Machine<'_, Loom>, cpu: u16, frames: usize) {
    machine.on(cpu, |w| {
        keep(w, frames);
        w.park();
    });
}

/// Leaves one frame in the list of each of two CPUs, which then run.
fn each_keeps_one(machine: &Machine<'_, Loom>) {
    let first = machine.on(0, |w| {
        let block = w.allocate(0);
        // The second CPU may have to drain the first one's list, which would not reply here.
        w.park();
        block
    });
    let second = machine.on(1, |w| w.allocate(0));
    machine.on(0, |w| w.free(first));
    machine.on(1, |w| w.free(second));
}

/// Allocates a frame, and frees it.
fn churn(w: &mut Worker<'_, Loom>) {
    w.churn(0);
}

fn churn_twice(w: &mut Worker<'_, Loom>) {
    w.churn(0);
    w.churn(0);
}

fn a_running_cpu_that_keeps_all_gives_up_one(scope: Scope) {
    scope.exhaust(2, 2, |machine| {
        machine.on(1, |w| keep(w, 2));
        machine.park_after(&[&churn, &churn_twice]);
    });
}

fn a_block_is_made_of_what_a_running_cpu_keeps(scope: Scope) {
    scope.exhaust(2, 2, |machine| {
        machine.on(1, |w| keep(w, 2));
        machine.park_after(&[&|w| w.churn(1), &|w| {
            // An operation that holds nothing, so the block is free throughout.
            w.drain();
        }]);
    });
}

fn a_block_is_made_of_what_both_keep(scope: Scope) {
    scope.exhaust(2, 2, |machine| {
        each_keeps_one(machine);
        machine.park_after(&[&|w| w.churn(1), &|_| ()]);
    });
}

fn a_cpu_that_holds_the_only_frame_makes_others_fail(scope: Scope) {
    scope.exhaust(1, 2, |machine| {
        machine.on(1, |w| keep(w, 1));
        machine.park_after(&[&|w| w.try_churn(0), &|w| w.try_churn(0)]);
    });
}

fn an_owner_may_resume_while_its_list_is_fetched(scope: Scope) {
    scope.exhaust(2, 2, |machine| {
        keep_parked(machine, 1, 2);
        machine.park_after(&[&churn, &churn]);
    });
}

fn an_owner_may_drain_while_its_list_is_fetched(scope: Scope) {
    scope.exhaust(2, 2, |machine| {
        keep_parked(machine, 1, 2);
        machine.park_after(&[&|w| w.churn(1), &|w| w.drain()]);
    });
}

fn an_owner_may_park_while_somebody_waits_for_it(scope: Scope) {
    scope.exhaust(2, 2, |machine| {
        machine.on(1, |w| keep(w, 2));
        machine.park_after(&[&churn, &|_| ()]);
    });
}

fn an_owner_may_park_and_come_back_while_somebody_waits_for_it(scope: Scope) {
    scope.exhaust(2, 2, |machine| {
        machine.on(1, |w| keep(w, 2));
        machine.park_after(&[&churn, &|w| {
            w.park();
            w.churn(0);
        }]);
    });
}

fn two_askers_share_what_a_parked_cpu_keeps(scope: Scope) {
    scope.exhaust(2, 3, |machine| {
        keep_parked(machine, 2, 2);
        machine.park_after(&[&churn, &churn]);
    });
}

fn two_askers_for_what_both_keep_answer_each_other(scope: Scope) {
    scope.exhaust(2, 2, |machine| {
        each_keeps_one(machine);
        let ask = |w: &mut Worker<'_, Loom>| w.try_churn(1);
        machine.park_after(&[&ask, &ask]);
    });
}

fn an_asker_comes_while_an_owner_refills_and_drains(scope: Scope) {
    scope.exhaust(3, 2, |machine| {
        machine.on(1, |w| w.drain());
        machine.park_after(&[
            &|w| {
                let blocks = [w.allocate(0), w.allocate(0)];
                blocks.into_iter().for_each(|block| w.free(block));
            },
            &churn_twice,
        ]);
    });
}

fn one_asker_and_a_quiescing_cpu(scope: Scope) {
    scope.exhaust(2, 2, |machine| {
        machine.on(1, |w| keep(w, 2));
        machine.park_after(&[&churn, &|w| w.quiesce()]);
    });
}

/// A parked CPU asks all others to drain, without a request that ends its parking first.
fn a_parked_cpu_quiesces_while_its_list_is_fetched(scope: Scope) {
    scope.exhaust(2, 2, |machine| {
        keep_parked(machine, 1, 2);
        machine.park_after(&[&churn, &|w| w.quiesce()]);
    });
}

fn two_askers_and_a_running_cpu(scope: Scope) {
    scope.exhaust(3, 3, |machine| {
        machine.on(2, |w| keep(w, 3));
        machine.park_after(&[&churn, &churn, &|w| w.churn(0)]);
    });
}

/// A drain request arrives while the owner ends one run and begins another. The number of frames that the owner then
/// drains, and its new limit, were predicted before the drain.
fn an_asker_comes_between_two_runs(scope: Scope) {
    scope.exhaust(4, 2, |machine| {
        machine.on(1, |w| {
            w.work_for(1);
            keep(w, 4);
        });
        machine.park_after(&[&churn, &|w| {
            w.work_for(2);
            w.churn(0);
            w.work_for(3);
            w.churn(0);
        }]);
    });
}

/// A CPU drains the list of one that went offline, while that one comes back.
fn an_owner_may_resume_while_its_parked_list_is_drained(scope: Scope) {
    scope.exhaust(2, 2, |machine| {
        keep_parked(machine, 1, 2);
        machine.park_after(&[
            &|w| {
                w.drain_parked(1);
                w.churn(0);
            },
            &churn,
        ]);
    });
}

/// A CPU that never parks answers a request: it goes on with hits until the request is served. If it missed the
/// request, the other CPU would wait for ever. The parked CPU opens its list just when the request comes.
fn an_owner_that_never_parks_answers(scope: Scope) {
    scope.exhaust(2, 2, |machine| {
        keep_parked(machine, 1, 2);
        let served = <Loom as Platform>::AtomicU32::new(0);
        machine.park_after(&[
            &|w| {
                w.churn(0);
                // Relaxed: no ordering that the allocator could depend on.
                served.store(1, Ordering::Relaxed);
            },
            &|w| {
                while served.load(Ordering::Relaxed) == 0 {
                    w.churn(0);
                    loom::thread::yield_now();
                }
            },
        ]);
    });
}

/// Three magazines of one frame: loaded, previous, and one in the depot.
fn a_frame_in_the_depot_is_found(scope: Scope) {
    scope.exhaust(3, 2, |machine| {
        machine.on(1, |w| keep(w, 3));
        machine.park_after(&[
            // Five requests for three frames would fail; each of these holds one, of which there is always one more.
            &churn_twice,
            &churn,
        ]);
    });
}

/// Both CPUs fill the depot and empty it.
fn two_cpus_exchange_magazines(scope: Scope) {
    scope.exhaust(6, 2, |machine| {
        let run = |w: &mut Worker<'_, Loom>| keep(w, 3);
        machine.park_after(&[&run, &run]);
    });
}

/// Models of one kind of list: models with single frames, and models with a largest block of two frames.
macro_rules! models {
    ($kind:ident, $memory:ident, $spec:literal; $($bounds:tt $single:ident),*; $($pair_bounds:tt $pair:ident),*) => {
        mod $kind {
            use super::*;
            $(
                #[test]
                fn $single() {
                    super::$single(Scope::new($memory, concat!($spec, "+order=0"), bound(&$bounds)));
                }
            )*
            $(
                #[test]
                fn $pair() {
                    super::$pair(Scope::new($memory, concat!($spec, "+order=1"), bound(&$pair_bounds)));
                }
            )*
        }
    };
}

/// All models of a kind: those of two concurrent CPUs with the first bounds, that of three with the others.
macro_rules! all_models {
    ($kind:ident, $memory:ident, $two:tt, $three:tt, $spec:literal) => {
        models!(
            $kind, $memory, $spec;
            $two a_running_cpu_that_keeps_all_gives_up_one,
            $two a_cpu_that_holds_the_only_frame_makes_others_fail,
            $two an_owner_may_resume_while_its_list_is_fetched,
            $two an_owner_may_resume_while_its_parked_list_is_drained,
            $two an_owner_may_park_while_somebody_waits_for_it,
            $two an_owner_may_park_and_come_back_while_somebody_waits_for_it,
            $two two_askers_share_what_a_parked_cpu_keeps,
            $two an_asker_comes_while_an_owner_refills_and_drains,
            $two one_asker_and_a_quiescing_cpu,
            $two an_owner_that_never_parks_answers,
            $three two_askers_and_a_running_cpu;
            $two a_block_is_made_of_what_a_running_cpu_keeps,
            $two a_block_is_made_of_what_both_keep,
            $two an_owner_may_drain_while_its_list_is_fetched,
            $two two_askers_for_what_both_keep_answer_each_other
        );
    };
}

all_models!(linux, Shared, [2, 3], [0, 1], "lbs-31+batch=2+high=4");
all_models!(linux_tight, Shared, [2], [0, 1], "lbs-31+batch=1+high=2");
all_models!(
    linux_locked,
    Plain,
    [2, 3],
    [0, 1],
    "lbs-31+batch=2+high=4+percpu=locked"
);
all_models!(bypass, Shared, [2], [0, 1], "lbs-1+high=3");
all_models!(spring, Shared, [2], [0, 1], "spring+high=4");
all_models!(spring_tight, Shared, [2], [0, 1], "spring+high=1");
all_models!(spring_plain, Plain, [2], [0, 1], "spring+high=4");
models!(spring_runs, Shared, "spring+high=8"; [2] an_asker_comes_between_two_runs; );
models!(spring_runs_plain, Plain, "spring+high=8"; [2] an_asker_comes_between_two_runs; );
all_models!(linux6, Plain, [2], [0, 1], "linux-6");
all_models!(linux6_locked, Plain, [2], [0, 1], "linux-6+percpu=locked");
all_models!(pcp_buddy, Plain, [2], [0, 1], "pcp-buddy+batch=1+high=2");
all_models!(magazines, Shared, [2], [0, 1], "magazines+batch=1");
all_models!(magazines_plain, Plain, [2], [0, 1], "magazines+batch=1");
models!(
    magazines_depot, Plain, "magazines+batch=1";
    [2, 3] a_frame_in_the_depot_is_found,
    [2, 3] two_cpus_exchange_magazines; );
models!(
    magazines_depot_stale, Shared, "magazines+batch=1";
    [2, 3] a_frame_in_the_depot_is_found,
    [2, 3] two_cpus_exchange_magazines; );
models!(
    linux_merged, Plain, "lbs-31+batch=2+high=4+drain=merged";
    [2] a_running_cpu_that_keeps_all_gives_up_one;
    [2] a_block_is_made_of_what_a_running_cpu_keeps,
    [2] a_block_is_made_of_what_both_keep,
    [2] an_owner_may_drain_while_its_list_is_fetched,
    [2] two_askers_for_what_both_keep_answer_each_other
);

// Every access to plain memory is checked for races. A hit may look at a list that is being drained, but only with
// `peek`, as a hint.
all_models!(linux_plain, Plain, [2], [1], "lbs-31+batch=2+high=4");
models!(
    linux_parked, Plain, "lbs-31+batch=2+high=4";
    [2] a_parked_cpu_quiesces_while_its_list_is_fetched; );
