//! Elastic domains and their spring, under loom.
//!
//! A domain is taken by one exchange and put back by a store, while other CPUs queue for it under a lock, receive
//! parts of it, and merge it with others. No CPU may take a block from another CPU's domain, no CPU may wait for
//! ever, and no request may fail because its frames are in a domain that the CPU does not hold.
//!
//! # Invariants
//! In every schedule no frame is handed out twice or lost, and no request for a single frame fails while one is free.
//! At the end no CPU waits, no domain number is lost, each CPU can allocate every frame, and one domain is left in
//! which everything is coalesced. The event that a model tests occurs in some of its schedules, which is counted.
//!
//! The numbers before a model's name bound the preemptions, see [`bound`]; `LOOM_MAX_PREEMPTIONS=N` replaces them.
//!
//! # Not modelled
//! More than three CPUs; ranges that are added or removed; a domain number that three domains had in succession,
//! which needs more preemptions than can be tried (the random programs of `zone/tests/programs.rs` check after each
//! step that a number names no old domain).

use std::sync::Arc;
use std::sync::Mutex;
use std::sync::atomic::{AtomicU64, Ordering};

use everybuddy::{AllocateError, Counts, CpuId, FreeError, Index, Release, Request};
use everybuddy_model::machine::Program;
use everybuddy_model::{Loom, Machine, Plain, Scope, Shared, Worker, bound};

type Cpu<'w> = Worker<'w, Loom>;
/// The program of one CPU.
type Do<'a> = Program<'a, Loom>;

/// The events of all schedules of a model together.
#[derive(Default)]
struct Seen(Arc<Sums>);

#[derive(Default)]
struct Sums {
    ghosts: AtomicU64,
    extensions: AtomicU64,
    merges: AtomicU64,
}

impl Sums {
    /// Adds the events that a CPU counted.
    fn add(&self, counts: &Counts) {
        self.ghosts.fetch_add(counts.ghosts, Ordering::Relaxed);
        self.extensions
            .fetch_add(counts.extensions, Ordering::Relaxed);
        self.merges.fetch_add(counts.merges, Ordering::Relaxed);
    }
}

impl Drop for Seen {
    fn drop(&mut self) {
        let [ghosts, extensions, merges] = [&self.0.ghosts, &self.0.extensions, &self.0.merges]
            .map(|sum| sum.load(Ordering::Relaxed));
        eprintln!("{ghosts} ghosts, {extensions} extensions, {merges} merges");
        if !std::thread::panicking() {
            assert!(extensions > 0, "no schedule extended the spring");
            assert!(merges > 0, "no schedule compressed it");
        }
    }
}

/// Checks every invariant, and that each CPU can allocate every frame.
fn all_is_well(machine: &Machine<'_, Loom>, sums: &Sums, cpus: u16) {
    for cpu in 0..cpus {
        machine.on(cpu, |w| {
            w.check();
            w.has_all();
            w.park();
            w.check();
            sums.add(w.counts());
        });
    }
}

/// Runs programs concurrently, adds up their events, and checks everything afterwards.
fn at_once(machine: &Machine<'_, Loom>, sums: &Sums, programs: &[&Do<'_>]) {
    let counted: Vec<_> = programs
        .iter()
        .map(|program| {
            move |w: &mut Cpu<'_>| {
                program(w);
                w.park();
                sums.add(w.counts());
            }
        })
        .collect();
    let counted: Vec<_> = counted.iter().map(|program| program as &Do<'_>).collect();
    machine.at_once(&counted);
    all_is_well(machine, sums, programs.len() as u16);
}

/// Runs a model whose last step is to run programs concurrently.
fn model(
    scope: Scope,
    (frames, cpus): (u64, u16),
    body: impl Fn(&Machine<'_, Loom>, &Sums) + Send + Sync + 'static,
) {
    let seen = Seen::default();
    let sums = Arc::clone(&seen.0);
    scope.exhaust(frames, cpus, move |machine| {
        body(machine, &sums);
    });
}

/// Each of two CPUs finds that the other holds the only domain, and receives a part of it.
fn two_cpus_extend_the_spring(scope: Scope) {
    model(scope, (4, 2), |machine, sums| {
        at_once(machine, sums, &[&|w| w.churn(0), &|w| w.churn(0)]);
    });
}

/// The second ghost receives the whole rest, or a part of what the first received.
fn three_cpus_extend_the_spring(scope: Scope) {
    model(scope, (6, 3), |machine, sums| {
        let churn = |w: &mut Cpu<'_>| w.churn(0);
        at_once(machine, sums, &[&churn, &churn, &churn]);
    });
}

/// Frames of one block are freed into different domains while looks merge these domains.
fn buddies_are_freed_into_domains_that_merge(scope: Scope) {
    model(scope, (4, 2), |machine, sums| {
        let held = machine.on(0, |w| {
            let blocks = [w.allocate(0), w.allocate(0), w.allocate(0)];
            w.hand(blocks[1], 1);
            w.park();
            blocks
        });
        at_once(
            machine,
            sums,
            &[
                &|w| {
                    w.free(held[0]);
                    w.free(held[2]);
                },
                &|w| {
                    w.churn(0);
                    w.free(held[1]);
                },
            ],
        );
    });
}

/// No single domain has a whole block, but together they do; both CPUs want it.
fn two_cpus_collect(scope: Scope) {
    model(scope, (2, 2), |machine, sums| {
        let program = |w: &mut Cpu<'_>| {
            w.try_churn(0);
            w.try_churn(1);
        };
        at_once(machine, sums, &[&program, &program]);
    });
}

/// One CPU collects for a block whose halves may be in two domains, while another allocates and frees.
fn one_collects_while_another_works(scope: Scope) {
    model(scope, (2, 2), |machine, sums| {
        // The other CPU may hold both frames.
        let work = |w: &mut Cpu<'_>| {
            w.try_churn(0);
            w.try_churn(0);
        };
        at_once(machine, sums, &[&|w| w.try_churn(1), &work]);
    });
}

/// One CPU collects for a large block while two others allocate and free.
fn one_collects_while_two_work(scope: Scope) {
    model(scope, (4, 3), |machine, sums| {
        let work = |w: &mut Cpu<'_>| w.churn(0);
        at_once(machine, sums, &[&|w| w.try_churn(1), &work, &work]);
    });
}

/// The CPUs allocate all frames, each a given number: whichever domain contains the last frame, the CPU that requests
/// it gets it. No frame is freed before all requests are served.
fn take_all_frames(scope: Scope, shares: &'static [usize]) {
    let size = (shares.iter().sum::<usize>() as u64, shares.len() as u16);
    model(scope, size, move |machine, sums| {
        let held = Mutex::new(Vec::new());
        let programs: Vec<_> = (0u16..)
            .zip(shares)
            .map(|(cpu, share)| {
                let held = &held;
                move |w: &mut Cpu<'_>| {
                    let blocks: Vec<_> = (0..*share).map(|_| w.allocate(0)).collect();
                    held.lock().unwrap().push((cpu, blocks));
                    w.park();
                    sums.add(w.counts());
                }
            })
            .collect();
        let programs: Vec<_> = programs.iter().map(|program| program as &Do<'_>).collect();
        machine.at_once(&programs);
        for (cpu, blocks) in held.into_inner().unwrap() {
            machine.on(cpu, |w| {
                blocks.into_iter().for_each(|block| w.free(block));
                w.park();
            });
        }
        all_is_well(machine, sums, shares.len() as u16);
    });
}

fn two_cpus_take_all_frames(scope: Scope) {
    take_all_frames(scope, &[2, 1]);
}

fn three_cpus_take_all_frames(scope: Scope) {
    take_all_frames(scope, &[1, 1, 1]);
}

/// As above, with lists that are drained on demand, and enough frames that a domain can be divided.
fn two_lists_take_all_frames(scope: Scope) {
    take_all_frames(scope, &[4, 3]);
}

/// All lists are drained while another CPU works.
fn one_settles_while_another_works(scope: Scope) {
    model(scope, (4, 2), |machine, sums| {
        at_once(
            machine,
            sums,
            &[
                &|w| {
                    w.churn(0);
                    w.quiesce();
                },
                &|w| {
                    w.churn(0);
                    w.churn(1);
                },
            ],
        );
    });
}

/// Both CPUs free the same frame, each into its own domain; the accepted frees are counted.
fn a_frame_is_freed_twice_at_once(scope: Scope) {
    model(scope, (4, 2), |machine, sums| {
        // The ledger expects one holder per frame. This frame has one holder and two CPUs that free it, so the ledger
        // is bypassed.
        let frame = machine.on(0, |w| w.allocate_untracked(Request::FRAME));
        let accepted = Mutex::new(0);
        let free = |w: &mut Cpu<'_>| {
            // Each CPU finds or creates its own domain.
            w.churn(0);
            let ok = w.try_free_untracked(Release::frame(frame));
            *accepted.lock().unwrap() += u32::from(ok);
        };
        at_once(machine, sums, &[&free, &free]);
        assert_eq!(*accepted.lock().unwrap(), 1);
    });
}

/// Two CPUs free a run in parts.
fn a_run_is_freed_in_parts(scope: Scope) {
    model(scope, (4, 2), |machine, sums| {
        // The ledger expects one holder per run, but two CPUs free this one, so the system is called directly.
        let run = machine.on(0, |w| w.allocate_untracked(Request::frames(3)));
        let free = |start: u32, frames| {
            let release = Release::frames(Index(run.0 + start), frames);
            move |w: &mut Cpu<'_>| w.free_untracked(release)
        };
        at_once(machine, sums, &[&free(1, 2), &free(0, 1)]);
    });
}

/// Code that interrupted one CPU allocates and frees while the others do too: it never waits.
fn nested_requests_come_between(scope: Scope) {
    model(scope, (4, 2), |machine, sums| {
        let left = Mutex::new(None);
        let nested = |w: &mut Cpu<'_>| {
            let (system, _) = w.raw();
            // As if CPU 1 were interrupted before it does anything.
            match system.allocate_nested(CpuId(1), Request::FRAME) {
                Ok(frame) => match system.free_nested(CpuId(1), Release::frame(frame)) {
                    Ok(()) => {}
                    Err(error) => {
                        assert_eq!(error, FreeError::Busy);
                        *left.lock().unwrap() = Some(frame);
                    }
                },
                Err(error) => assert_eq!(error, AllocateError::Busy),
            }
        };
        let programs: &[&Do<'_>] = &[
            &|w| {
                w.churn(0);
                w.churn(0);
                w.park();
                sums.add(w.counts());
            },
            &|w| {
                nested(w);
                w.churn(0);
                w.park();
                sums.add(w.counts());
            },
        ];
        machine.at_once(programs);
        let left = left.into_inner().unwrap();
        machine.on(1, |w| {
            if let Some(frame) = left {
                w.free_untracked(Release::frame(frame));
            }
            w.check();
            w.has_all();
            w.park();
            sums.add(w.counts());
        });
    });
}

/// A third CPU's nested free takes the domain that one CPU waits for and another has put back.
fn a_nested_release_comes_between(scope: Scope) {
    model(scope, (4, 3), |machine, sums| {
        let frame = machine.on(2, |w| w.allocate_untracked(Request::FRAME));
        let freed = Mutex::new(false);
        let churn = |w: &mut Cpu<'_>| {
            w.churn(0);
            w.park();
            sums.add(w.counts());
        };
        machine.at_once(&[&churn, &churn, &|w| {
            let (system, _) = w.raw();
            let result = system.free_nested(CpuId(2), Release::frame(frame));
            *freed.lock().unwrap() = result.is_ok();
            assert!(matches!(result, Ok(()) | Err(FreeError::Busy)));
        }]);
        let freed = freed.into_inner().unwrap();
        machine.on(2, |w| {
            if !freed {
                w.free_untracked(Release::frame(frame));
            }
            w.check();
            w.has_all();
            w.park();
            sums.add(w.counts());
        });
    });
}

models!(
    core, Plain, "spring-core+order=1";
    [4] two_cpus_extend_the_spring,
    [1, 2] three_cpus_extend_the_spring,
    [4] buddies_are_freed_into_domains_that_merge,
    [2] two_cpus_collect,
    [3] one_collects_while_another_works,
    [1, 2] one_collects_while_two_work,
    [3] two_cpus_take_all_frames,
    [2] three_cpus_take_all_frames,
    [2, 3] one_settles_while_another_works,
    [3] a_frame_is_freed_twice_at_once,
    [3] nested_requests_come_between,
    [2] a_nested_release_comes_between,
);
// A CPU that puts a domain back looks, and merges domains that are not needed.
models!(
    idle, Plain, "spring-core+order=1+idle=1";
    [3] two_cpus_extend_the_spring,
    [1] three_cpus_extend_the_spring,
    [3] buddies_are_freed_into_domains_that_merge,
    [2] two_cpus_collect,
    [1] one_collects_while_two_work,
    [2] two_cpus_take_all_frames,
    [2] one_settles_while_another_works,
    [2] a_frame_is_freed_twice_at_once,
    [2] nested_requests_come_between,
);
// The paper's spring: each visit takes a domain and puts it back under the lock.
models!(
    locked, Plain, "spring-core+order=1+spring=locked+idle=1";
    [2] two_cpus_extend_the_spring,
    [2] buddies_are_freed_into_domains_that_merge,
    [1] two_cpus_collect,
    [1] nested_requests_come_between,
);
models!(
    shared, Shared, "spring-core+order=1+idle=1";
    [2] two_cpus_extend_the_spring,
    [2, 3] buddies_are_freed_into_domains_that_merge,
    [2] one_collects_while_another_works,
    [1] two_cpus_collect,
    [2] a_frame_is_freed_twice_at_once,
);
models!(
    ticket, Plain, "spring-core+order=1+lock=ticket";
    [3] two_cpus_extend_the_spring,
    [1] one_collects_while_another_works,
    [2] two_cpus_take_all_frames,
);
models!(
    halves, Plain, "spring-core+order=2";
    [3] a_run_is_freed_in_parts,
    [3] buddies_are_freed_into_domains_that_merge,
);
models!(
    lists, Plain, "spring-fixlazy-186+batch=2+high=3+order=1";
    [3] two_cpus_extend_the_spring,
    [2, 3] buddies_are_freed_into_domains_that_merge,
    [2] two_lists_take_all_frames,
    [2] one_collects_while_another_works,
    [2] one_settles_while_another_works,
);
