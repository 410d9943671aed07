//! Loom: every schedule of a tiny program, under the memory model of C11.
//!
//! Why it exists: the protocol that finds frames in other CPUs' lists rests on a few acquires and releases.
//! Loom tries every order of the atomic operations that matter, lets relaxed loads return every value
//! that the model allows, and reports an access to plain memory that nothing orders.
//!
//! Invariant: a run starts no thread that outlives it, and nothing of a run is used in another.
//!
//! Not modelled: loom runs operations in the order in which they take effect, so no store or exchange
//! overtakes one that ran before it (a relaxed answer in the protocol would go unnoticed); it keeps the
//! last seven values of each atomic, so a load never returns an older one; a thread that yielded sees what
//! others wrote before; sequentially consistent operations are treated as acquire and release; at most
//! [`loom::MAX_THREADS`] threads; after a CPU looked [`LOOKS`] times in one wait, the rest of that schedule
//! is run, fairly, but not varied. A bound on preemptions, where a model has one, leaves out schedules
//! with more.
#![allow(unsafe_code)]

use core::marker::PhantomData;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering as StdOrdering};
use std::time::Instant;

use everybuddy::platform::{CellValue, Ordering, SharedCell};
use everybuddy::{Counts, Platform};

use crate::machine::Thread;
use crate::words::{from_word, to_word};
use crate::{Checker, Machine, Memory, ModelCpu, Plain};

/// How often one wait looks before its schedule is followed to its end without further branches.
///
/// Two CPUs that wait for a third could take turns for ever, and loom would follow them. From here on it
/// lets the CPU run that waited least.
pub const LOOKS: u32 = 3;

/// Loom as a platform.
#[derive(Debug)]
pub struct Loom<M: Memory = Plain>(PhantomData<fn() -> M>);

everybuddy::atomic_word!(
    /// A 32-bit atomic word under loom.
    AtomicU32,
    u32,
    loom::sync::atomic::AtomicU32
);
everybuddy::atomic_word!(
    /// A 64-bit atomic word under loom.
    AtomicU64,
    u64,
    loom::sync::atomic::AtomicU64
);

/// Plain memory whose accesses loom checks: two that nothing orders, one of them a write, end the run.
#[derive(Debug)]
pub struct TrackedCell<T> {
    cell: loom::cell::Cell<T>,
    /// The value again, for hints, which loom must not take for races.
    latest: std::sync::atomic::AtomicU64,
}

// SAFETY: all of a model's threads take turns on one thread of the machine, so no two accesses ever run
// at once; and loom panics before an access that would race if they did.
unsafe impl<T: Send> Sync for TrackedCell<T> {}

impl<T: CellValue> SharedCell<T> for TrackedCell<T> {
    fn new(value: T) -> Self {
        Self {
            cell: loom::cell::Cell::new(value),
            latest: std::sync::atomic::AtomicU64::new(to_word(value)),
        }
    }
    fn get(&self) -> T {
        self.cell.get()
    }
    fn peek(&self) -> T {
        from_word(self.latest.load(StdOrdering::Relaxed))
    }
    fn set(&self, value: T) {
        self.cell.set(value);
        self.latest.store(to_word(value), StdOrdering::Relaxed);
    }
}

/// Plain memory as the native platform has it: loom tries every value that a relaxed load may return.
#[derive(Debug)]
pub struct RelaxedCell<T>(loom::sync::atomic::AtomicU64, PhantomData<fn() -> T>);

impl<T: CellValue> SharedCell<T> for RelaxedCell<T> {
    fn new(value: T) -> Self {
        Self(
            loom::sync::atomic::AtomicU64::new(to_word(value)),
            PhantomData,
        )
    }
    fn get(&self) -> T {
        from_word(self.0.load(Ordering::Relaxed))
    }
    fn set(&self, value: T) {
        self.0.store(to_word(value), Ordering::Relaxed);
    }
}

impl<M: Memory> Platform for Loom<M> {
    type AtomicU32 = AtomicU32;
    type AtomicU64 = AtomicU64;
    type Cell<T: CellValue> = M::LoomCell<T>;
    type Cpu = ModelCpu;
    type Probe = Counts;

    fn wait(_: &AtomicU32, _: u32, attempt: u32) {
        if attempt >= LOOKS {
            loom::skip_branch();
        }
        loom::thread::yield_now();
    }

    fn wake(_: &AtomicU32) {}
}

impl<M: Memory> Checker for Loom<M> {
    fn run(threads: Vec<Thread<'_>>) {
        let mut threads = threads.into_iter();
        let own = threads.next();
        let others: Vec<_> = threads
            .map(|thread| {
                // SAFETY: only the lifetime changes, and nothing of it is used after it ends: below, every
                // thread is joined before this function returns. It can also be left by a panic, here or
                // in any of the threads; then loom ends the whole run: it drops the stacks of the other
                // threads without running them any further.
                let thread: Thread<'static> = unsafe { core::mem::transmute(thread) };
                loom::thread::spawn(thread)
            })
            .collect();
        if let Some(own) = own {
            own();
        }
        for other in others {
            if let Err(panic) = other.join() {
                std::panic::resume_unwind(panic);
            }
        }
    }
}

/// Tries every schedule of `model`, of those with at most `preemptions` if that is given; returns how
/// many there are.
///
/// `LOOM_MAX_PREEMPTIONS` in the environment replaces the bound; a large one lifts it.
pub fn explore(preemptions: Option<usize>, model: impl Fn() + Send + Sync + 'static) -> usize {
    let mut builder = loom::model::Builder::new();
    builder.preemption_bound = builder.preemption_bound.or(preemptions);
    // The longest run of the models here takes some thousand steps; an endless wait takes more.
    builder.max_branches = builder.max_branches.max(20_000);
    let schedules = Arc::new(AtomicUsize::new(0));
    let count = Arc::clone(&schedules);
    builder.check(move || {
        count.fetch_add(1, StdOrdering::Relaxed);
        model();
    });
    schedules.load(StdOrdering::Relaxed)
}

/// Tries every schedule of `model` on a fresh machine of `frames` frames and `cpus` CPUs each time. At the
/// end of each, every CPU must be parked and every frame free: see [`Machine::settle`].
pub fn exhaust<M: Memory>(
    spec: &'static str,
    frames: u64,
    cpus: u16,
    preemptions: Option<usize>,
    model: impl Fn(&Machine<'_, Loom<M>>) + Send + Sync + 'static,
) {
    let start = Instant::now();
    let schedules = explore(preemptions, move || {
        Machine::build(spec, frames, cpus, |machine| {
            model(machine);
            machine.settle();
        });
    });
    eprintln!("{spec}: {schedules} schedules in {:.1?}", start.elapsed());
}
