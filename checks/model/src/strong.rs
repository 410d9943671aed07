//! Shuttle: random schedules of larger programs.
//!
//! Errors that need three CPUs and a hundred operations are out of loom's reach. Shuttle picks schedules at random,
//! or with few preemptions at random places (PCT), and can replay a failing schedule.
//!
//! # Invariants
//! The schedule determines everything: the programs draw their random choices from shuttle's generator.
//!
//! # Not modelled
//! Weak memory. Every atomic operation is sequentially consistent here, whatever ordering it names, so a missing
//! acquire or release goes unnoticed; [`weak`](crate::weak) covers that. Nothing is exhaustive.

use core::mem::MaybeUninit;
use std::cell::Cell;
use std::panic::{AssertUnwindSafe, catch_unwind, resume_unwind};

use everybuddy::platform::{CellValue, NativeCell, Ordering, SharedCell};
use everybuddy::{BuildError, Counts, Platform, Setup, SystemSpec, with_any_system};
use shuttle::scheduler::{PctScheduler, RandomScheduler, ReplayScheduler, Scheduler};

use crate::machine::Thread;
use crate::{Checker, ModelCpu, Visitor};

/// Shuttle as a platform.
#[derive(Debug)]
pub struct Shuttle;

everybuddy::atomic_word!(
    /// A 32-bit atomic word under shuttle.
    AtomicU32,
    u32,
    shuttle::sync::atomic::AtomicU32
);
everybuddy::atomic_word!(
    /// A 64-bit atomic word under shuttle.
    AtomicU64,
    u64,
    shuttle::sync::atomic::AtomicU64
);

thread_local! {
    /// Whether a switch is possible at accesses to the plain memory of what is built now.
    static SWITCHES: Cell<bool> = const { Cell::new(false) };
}

/// Sets whether a switch is possible at each access to the plain memory of the systems that this thread builds from now
/// on. Without switches a model is fast, which suffices where a lock or a token guards the memory; with them it finds
/// data that two CPUs touch at the same time.
pub fn switch_at_cells(switches: bool) {
    SWITCHES.set(switches);
}

/// Plain memory.
pub struct PlainCell<T: CellValue> {
    value: NativeCell<T>,
    /// A word that is accessed for the sake of the switch.
    switch: Option<shuttle::sync::atomic::AtomicU32>,
}

impl<T: CellValue> PlainCell<T> {
    fn access(&self) -> &NativeCell<T> {
        if let Some(switch) = &self.switch {
            switch.load(Ordering::Relaxed);
        }
        &self.value
    }
}

impl<T: CellValue> SharedCell<T> for PlainCell<T> {
    fn new(value: T) -> Self {
        Self {
            value: NativeCell::new(value),
            switch: SWITCHES
                .get()
                .then(|| shuttle::sync::atomic::AtomicU32::new(0)),
        }
    }
    fn get(&self) -> T {
        self.access().get()
    }
    fn set(&self, value: T) {
        self.access().set(value);
    }
    fn exchange(&self, current: T, new: T) -> bool {
        self.access().exchange(current, new)
    }
}

// SAFETY: every read of its cells and words returns a value that was stored there, in the order that the machine chose.
#[allow(unsafe_code)]
unsafe impl Platform for Shuttle {
    type AtomicU32 = AtomicU32;
    type AtomicU64 = AtomicU64;
    type Cell<T: CellValue> = PlainCell<T>;
    type Cpu = ModelCpu;
    type Probe = Counts;

    fn probe(cpu: &mut ModelCpu) -> &mut Counts {
        cpu.probe()
    }

    fn wait(_: &AtomicU32, _: u32, _: u32) {
        shuttle::thread::yield_now();
    }

    fn wake(_: &AtomicU32) {}
}

impl Checker for Shuttle {
    // Sequential consistency orders everything.
    type Content = ();

    fn access(_: &()) {}

    fn run(threads: Vec<Thread<'_>>) {
        shuttle::thread::scope(|scope| {
            for thread in threads {
                scope.spawn(thread);
            }
        });
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

/// The selection of schedules.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Picking {
    /// At each step, any thread with equal probability.
    Random,
    /// Probabilistic concurrency testing: the thread with the highest priority runs, and priorities change at this
    /// many random steps.
    Preempting(usize),
}

/// Runs `program` under `schedules` schedules that are derived from `seed`.
///
/// A failing schedule is printed with instructions to run it again: the environment variable `EVERYBUDDY_SCHEDULE`
/// replaces all schedules by that one, and `EVERYBUDDY_MODEL` restricts the run to the model of that name.
pub fn sample(
    name: &str,
    picking: Picking,
    seed: u64,
    schedules: usize,
    program: impl Fn() + Send + Sync + 'static,
) {
    if std::env::var("EVERYBUDDY_MODEL").is_ok_and(|only| only != name) {
        return;
    }
    let scheduler: Box<dyn Scheduler + Send> = match std::env::var("EVERYBUDDY_SCHEDULE") {
        Ok(schedule) => Box::new(ReplayScheduler::new_from_encoded(&schedule)),
        Err(_) => match picking {
            Picking::Random => Box::new(RandomScheduler::new_from_seed(seed, schedules)),
            Picking::Preempting(depth) => {
                Box::new(PctScheduler::new_from_seed(seed, depth, schedules))
            }
        },
    };
    let mut config = shuttle::Config::new();
    // Shuttle warns that weak memory is not modelled; the documentation of this module says so.
    config.silence_warnings = true;
    config.stack_size = 1 << 17;
    let runner = shuttle::Runner::new(scheduler, config);
    if let Err(panic) = catch_unwind(AssertUnwindSafe(|| runner.run(program))) {
        let test = std::thread::current().name().unwrap_or("TEST").to_owned();
        eprintln!("help: to run it again, set the schedule to the first string above:");
        eprintln!("EVERYBUDDY_MODEL='{name}' EVERYBUDDY_SCHEDULE=... \\");
        eprintln!("    cargo test -p everybuddy-model --release -- --exact {test}");
        resume_unwind(panic);
    }
}
