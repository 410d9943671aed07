//! Loom: every schedule of a tiny program, under the memory model of C11.
//!
//! The protocol that finds frames in other CPUs' lists depends on a few acquires and releases. Loom tries every
//! relevant order of the atomic operations, lets relaxed loads return every value that the model allows, and reports
//! unordered accesses to plain memory.
//!
//! # Invariants
//! A run starts no thread that outlives it, and nothing from one run is used in another.
//!
//! # Not modelled
//! Loom executes operations in the order in which they take effect, so no store or exchange overtakes an earlier one
//! (a relaxed reply in the protocol would go unnoticed). It keeps the last seven values of each atomic, so a load
//! never returns an older one. A thread that yielded sees all earlier writes of other threads. Sequentially
//! consistent operations are treated as acquire and release. There are at most
//! [`loom::MAX_THREADS`] threads. After a CPU has polled [`MAX_POLLS`] times in one wait, the rest of that schedule
//! runs fairly but is not varied. A bound on preemptions, where a model has one, omits the schedules with more, and
//! a budget of schedules ends about a third of the models in the gate before they reach their bound.
#![allow(unsafe_code)]

use core::mem::MaybeUninit;
use std::cell::Cell;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering as StdOrdering};
use std::time::Instant;

use everybuddy::platform::{CellValue, Ordering, SharedCell};
use everybuddy::{BuildError, Counts, Platform, Setup, SystemSpec, with_any_system};

use crate::machine::Thread;
use crate::words::{from_word, to_word};
use crate::{Checker, Machine, Memory, ModelCpu, Visitor, bound};

/// The number of polls of one wait after which its schedule runs to its end without further branches.
///
/// Two CPUs that wait for a third could alternate for ever, and loom would explore that. From here on the CPU that
/// has waited least runs.
pub const MAX_POLLS: u32 = 3;

thread_local! {
    /// The polls of a wait that do not yield; see [`polling`]. All threads of a model run on one host thread.
    static POLLS_WITHOUT_YIELD: Cell<u32> = const { Cell::new(0) };
    /// The factor of the budget; see [`thoroughly`].
    static FACTOR: Cell<usize> = const { Cell::new(1) };
    /// How the cells of the model that runs on this thread are treated.
    static MEMORY: Cell<Memory> = const { Cell::new(Memory::Plain) };
}

/// Explores models in which the first `polls` polls of each wait do not yield.
///
/// Loom never switches back to a thread that has yielded while another one can run. A CPU that yields at every poll
/// therefore never gives up a wait while the CPU that it waits for is in the middle of its work.
pub fn polling<T>(polls: u32, models: impl FnOnce() -> T) -> T {
    let former = POLLS_WITHOUT_YIELD.replace(polls);
    let result = models();
    POLLS_WITHOUT_YIELD.set(former);
    result
}

/// Explores models with three times as many schedules, where a known defect needs that.
pub fn thoroughly<T>(models: impl FnOnce() -> T) -> T {
    let former = FACTOR.replace(3);
    let result = models();
    FACTOR.set(former);
    result
}

/// Loom as a platform.
#[derive(Debug)]
pub struct Loom;

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

/// Plain memory whose accesses loom checks: two unordered accesses, one of them a write, end the run.
#[derive(Debug)]
struct TrackedCell<T> {
    cell: loom::cell::Cell<T>,
    /// A copy of the value for hints, which loom must not report as races.
    latest: std::sync::atomic::AtomicU64,
}

// SAFETY: all threads of a model take turns on one host thread, so no two accesses run simultaneously, and loom
// panics before an access that would race if they did.
unsafe impl<T: Send> Sync for TrackedCell<T> {}

impl<T: CellValue> TrackedCell<T> {
    fn new(value: T) -> Self {
        Self {
            cell: loom::cell::Cell::new(value),
            latest: std::sync::atomic::AtomicU64::new(to_word(value)),
        }
    }
    fn set(&self, value: T) {
        self.cell.set(value);
        self.latest.store(to_word(value), StdOrdering::Relaxed);
    }
}

/// A cell, as the [`Memory`] of its model says. Systems are compiled once for both.
#[derive(Debug)]
pub struct LoomCell<T>(Treated<T>);

#[derive(Debug)]
enum Treated<T> {
    Plain(TrackedCell<T>),
    /// Loom tries every value that a relaxed load may return.
    Shared(loom::sync::atomic::AtomicU64),
}

impl<T: CellValue> SharedCell<T> for LoomCell<T> {
    fn new(value: T) -> Self {
        Self(match MEMORY.get() {
            Memory::Plain => Treated::Plain(TrackedCell::new(value)),
            Memory::Shared => Treated::Shared(loom::sync::atomic::AtomicU64::new(to_word(value))),
        })
    }
    fn get(&self) -> T {
        match &self.0 {
            Treated::Plain(own) => own.cell.get(),
            Treated::Shared(word) => from_word(word.load(Ordering::Relaxed)),
        }
    }
    fn peek(&self) -> T {
        match &self.0 {
            Treated::Plain(own) => from_word(own.latest.load(StdOrdering::Relaxed)),
            Treated::Shared(_) => self.get(),
        }
    }
    fn set(&self, value: T) {
        match &self.0 {
            Treated::Plain(own) => own.set(value),
            Treated::Shared(word) => word.store(to_word(value), Ordering::Relaxed),
        }
    }
    fn exchange(&self, current: T, new: T) -> bool {
        match &self.0 {
            Treated::Plain(own) => {
                let is_current = own.cell.get() == current;
                if is_current {
                    own.set(new);
                }
                is_current
            }
            Treated::Shared(word) => {
                let (current, new) = (to_word(current), to_word(new));
                let result =
                    word.compare_exchange(current, new, Ordering::Relaxed, Ordering::Relaxed);
                result.is_ok()
            }
        }
    }
}

// SAFETY: every read of its cells and words returns a value that was stored there, in the order that the machine chose.
#[allow(unsafe_code)]
unsafe impl Platform for Loom {
    // A request leaves after its second poll, before the rest of the schedule runs without branches.
    const SERVICE_POLLS: u32 = 1;

    type AtomicU32 = AtomicU32;
    type AtomicU64 = AtomicU64;
    type Cell<T: CellValue> = LoomCell<T>;
    type Cpu = ModelCpu;
    type Probe = Counts;

    fn probe(cpu: &mut ModelCpu) -> &mut Counts {
        cpu.probe()
    }

    fn wait(_: &AtomicU32, _: u32, attempt: u32) {
        if attempt < POLLS_WITHOUT_YIELD.get() {
            return;
        }
        if attempt >= MAX_POLLS {
            loom::skip_branch();
        }
        loom::thread::yield_now();
    }

    fn wake(_: &AtomicU32) {}
}

/// The content of a frame: loom ends the run if two CPUs access it and nothing orders them.
#[derive(Debug)]
pub struct TrackedContent(TrackedCell<u32>);

impl Default for TrackedContent {
    fn default() -> Self {
        Self(TrackedCell::new(0))
    }
}

impl Checker for Loom {
    type Content = TrackedContent;

    fn access(content: &TrackedContent) {
        content.0.set(0);
    }

    /// Loom remembers only the last access to a word. Where a CPU loads a word and then exchanges it, its own load
    /// hides the loads of the others, and a schedule in which it comes first is found only if some schedule begins with
    /// it. So every order in which the threads can start is explored, at no cost in preemptions.
    fn run(threads: Vec<Thread<'_>>) {
        let started = Arc::new(loom::sync::atomic::AtomicU32::new(0));
        let threads: Vec<_> = threads
            .into_iter()
            .map(|thread| {
                // SAFETY: only the lifetime changes, and nothing is used after the lifetime ends: every thread is
                // joined below before this function returns. A panic, here or in any of the threads, can also leave
                // the function; loom then ends the whole run and drops the stacks of the other threads without
                // running them any further.
                let thread: Thread<'static> = unsafe { core::mem::transmute(thread) };
                let started = Arc::clone(&started);
                loom::thread::spawn(move || {
                    started.fetch_add(1, Ordering::Relaxed);
                    thread();
                })
            })
            .collect();
        for thread in threads {
            if let Err(panic) = thread.join() {
                std::panic::resume_unwind(panic);
            }
        }
    }

    #[inline(never)]
    fn build(
        spec: &SystemSpec,
        setup: &Setup<'_>,
        memory: &mut [MaybeUninit<u8>],
        visitor: Visitor<'_, Self>,
    ) -> Result<(), BuildError> {
        with_any_system(spec, setup, memory, visitor)
    }
}

/// The most schedules of one model in the gate, and with `EVERYBUDDY_BOUNDS=full` or `LOOM_MAX_PREEMPTIONS`.
///
/// The gate would otherwise take hours when a path gains a few accesses. A thousand schedules take about a fifth of a
/// second. Of the weakened orderings that models notice with 5,000 schedules, all are noticed with 2,000, but for those
/// of the two models that run [`thoroughly`].
const BUDGETS: [usize; 2] = [2_000, 100_000];

/// No bound on preemptions.
pub const ALL: usize = usize::MAX;

/// Tries every schedule of `model`, or every schedule with at most `preemptions` preemptions, with cells as `memory`
/// says; returns the number of schedules.
///
/// The environment variable `LOOM_MAX_PREEMPTIONS` replaces the bound; a large value lifts it.
pub fn explore(
    memory: Memory,
    preemptions: Option<usize>,
    model: impl Fn() + Send + Sync + 'static,
) -> usize {
    explore_at_most(usize::MAX, memory, preemptions, model)
}

/// Does the same, but stops after `most` schedules.
fn explore_at_most(
    most: usize,
    memory: Memory,
    preemptions: Option<usize>,
    model: impl Fn() + Send + Sync + 'static,
) -> usize {
    let mut builder = loom::model::Builder::new();
    builder.preemption_bound = builder.preemption_bound.or(preemptions);
    // The longest run of the models here takes several thousand steps; an endless wait takes more.
    builder.max_branches = builder.max_branches.max(20_000);
    // Loom compares the numbers once per interval.
    builder.checkpoint_interval = 1;
    builder.max_permutations = Some(most);
    let schedules = Arc::new(AtomicUsize::new(0));
    let count = Arc::clone(&schedules);
    builder.check(move || {
        MEMORY.set(memory);
        count.fetch_add(1, StdOrdering::Relaxed);
        model();
    });
    schedules.load(StdOrdering::Relaxed)
}

/// What a model explores.
#[derive(Clone, Copy, Debug)]
pub struct Scope {
    memory: Memory,
    spec: &'static str,
    preemptions: usize,
}

impl Scope {
    /// The system `spec`, its cells as `memory` says, and at most `preemptions` preemptions.
    pub fn new(memory: Memory, spec: &'static str, preemptions: usize) -> Self {
        Self {
            memory,
            spec,
            preemptions,
        }
    }

    /// Tries the schedules of `model` on a fresh machine of `frames` frames and `cpus` CPUs each time: all with one
    /// preemption, then with two, up to `preemptions` or until the budget is spent; those with any number for [`ALL`].
    /// The last line that it prints says what was tried. At the end of each schedule every CPU must be parked and every
    /// frame must be free: see [`Machine::settle`].
    pub fn exhaust(
        self,
        frames: u64,
        cpus: u16,
        model: impl Fn(&Machine<'_, Loom>) + Send + Sync + 'static,
    ) {
        let Self {
            memory,
            spec,
            preemptions,
        } = self;
        let start = Instant::now();
        let model = Arc::new(model);
        let replaced = std::env::var_os("LOOM_MAX_PREEMPTIONS").is_some();
        let mut budget = if replaced {
            BUDGETS[1]
        } else {
            bound(&BUDGETS) * FACTOR.get()
        };
        let bounds: Vec<Option<usize>> = match preemptions {
            ALL => vec![None],
            most if replaced => vec![Some(most)],
            most => (most.min(1)..=most).map(Some).collect(),
        };
        let mut tried = Vec::new();
        for preemptions in bounds {
            let model = Arc::clone(&model);
            let schedules = explore_at_most(budget, memory, preemptions, move || {
                Machine::build(spec, frames, cpus, |machine| {
                    model(machine);
                    machine.settle();
                });
            });
            budget = budget.saturating_sub(schedules);
            let all = if budget > 1 { "all" } else { "the first" };
            let with = match preemptions {
                Some(most) if !replaced => format!(" with at most {most} preemptions"),
                _ => String::new(),
            };
            tried.push(format!("{all} {schedules} schedules{with}"));
            if budget <= 1 {
                break;
            }
        }
        let thread = std::thread::current();
        let name = thread.name().unwrap_or(spec);
        let tried = tried.join(", ");
        eprintln!("{name}: {tried}, in {:.1?}", start.elapsed());
    }
}
