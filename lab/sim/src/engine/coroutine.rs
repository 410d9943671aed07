//! The coroutines of a run, from the first switch to the last.
//!
//! Starts a coroutine for each virtual CPU, collects what the closures return, and unwinds what an aborted run leaves.
//!
//! # Invariants
//! Those of the module [`engine`](super), mainly 2 and 4: [`Coroutines`] owns the stacks and is dropped before
//! anything that the closures borrow, and [`entry`] catches all panics.

use core::cell::{Cell, RefCell};
use core::ptr;
use std::panic::{AssertUnwindSafe, catch_unwind, resume_unwind};
use std::{process, thread};

use everybuddy::CpuId;

use super::switch::{self, Stack};
use super::{Engine, Entered, Stop};
use crate::report::{Report, SimError};
use crate::schedule::{Next, Schedule};

/// A virtual CPU, and the argument of [`entry`].
struct Coroutine<'r, 'm, T, F> {
    cpu: CpuId,
    engine: &'r Engine<'m>,
    body: &'r F,
    started: Cell<bool>,
    /// What the closure returned, or its panic.
    outcome: Cell<Option<thread::Result<T>>>,
}

/// The coroutines of a run with their stacks.
///
/// Dropping them aborts the run: it unwinds those that have not ended.
struct Coroutines<'r, 'm, T, F> {
    engine: &'r Engine<'m>,
    all: &'r [Coroutine<'r, 'm, T, F>],
    /// Only the coroutines use them.
    _stacks: Vec<Stack>,
}

/// The first function of each coroutine: runs the closure, stores its outcome, and continues another coroutine.
///
/// # Safety
/// `coroutine` must point to a [`Coroutine`] with the same `T` and `F`, which must be alive until it has ended. The
/// caller must be the coroutine's own stack, and must own nothing: this function never returns.
unsafe extern "C" fn entry<T, F: Fn(CpuId) -> T>(coroutine: *const ()) -> ! {
    // SAFETY: the caller promises it.
    let coroutine = unsafe { &*coroutine.cast::<Coroutine<'_, '_, T, F>>() };
    let (cpu, engine) = (coroutine.cpu, coroutine.engine);
    coroutine.started.set(true);
    let outcome = catch_unwind(AssertUnwindSafe(|| (coroutine.body)(cpu)));
    let panicked = outcome.is_err();
    coroutine.outcome.set(Some(outcome));
    let to = if engine.closing.get() {
        engine.home.get()
    } else if panicked {
        engine.stop(Stop::Panic(cpu))
    } else {
        let next = engine.schedule.borrow_mut().end();
        match next {
            Next::Run(next) => engine.suspended[next.index()].get(),
            _ => engine.stop(Stop::Next(next)),
        }
    };
    // SAFETY: as in `suspend`. In an aborted run, `to` is `run`. This stack owns nothing any more.
    unsafe { switch::switch(engine.suspended[cpu.index()].as_ptr(), to) };
    // Nothing continues a coroutine that has ended.
    process::abort()
}

impl<'r, 'm, T, F: Fn(CpuId) -> T> Coroutines<'r, 'm, T, F> {
    /// Prepares a stack of `bytes` bytes for each of `all`.
    fn prepare(
        engine: &'r Engine<'m>,
        all: &'r [Coroutine<'r, 'm, T, F>],
        bytes: usize,
    ) -> Result<Self, SimError> {
        let mut stacks = Vec::with_capacity(all.len());
        for (coroutine, suspended) in all.iter().zip(&engine.suspended) {
            let mut stack = Stack::new(bytes).map_err(|error| SimError::Stack(error.kind()))?;
            suspended.set(stack.prepare(entry::<T, F>, ptr::from_ref(coroutine).cast()));
            stacks.push(stack);
        }
        Ok(Self {
            engine,
            all,
            _stacks: stacks,
        })
    }

    /// Runs the coroutines until none can continue.
    fn execute(&self) -> Stop {
        let next = self.engine.schedule.borrow_mut().begin();
        match next {
            Next::Run(cpu) => {
                let to = self.engine.suspended[cpu.index()].get();
                // SAFETY: no coroutine has started. `self` owns the stacks and borrows what the closures borrow.
                unsafe { self.engine.enter(to) };
                self.engine.stop.get()
            }
            next => Stop::Next(next),
        }
    }
}

impl<T, F> Drop for Coroutines<'_, '_, T, F> {
    fn drop(&mut self) {
        self.engine.closing.set(true);
        // From now on every access asks whether to give way, and no CPU is charged.
        self.engine.schedule.borrow_mut().close();
        for coroutine in self.all {
            let outcome = coroutine.outcome.take();
            let unfinished = coroutine.started.get() && outcome.is_none();
            coroutine.outcome.set(outcome);
            if unfinished {
                let to = self.engine.suspended[coroutine.cpu.index()].get();
                // SAFETY: it has started and has not ended, so it is suspended. `self` still owns the stacks. It
                // does not return before it has ended: `switch` and `park` now answer that the limit was exceeded,
                // and `stop` unwinds.
                unsafe { self.engine.enter(to) };
            }
        }
    }
}

/// Runs `body` once on each of `cpus` CPUs, each on a stack of `stack` bytes.
///
/// # Panics
/// If a closure panics, with that panic, after all other coroutines were unwound.
pub(crate) fn run<'m, T>(
    cpus: u16,
    stack: usize,
    schedule: Schedule<'m>,
    handler: &'m dyn Fn(CpuId),
    body: impl Fn(CpuId) -> T,
) -> Result<Report<T>, SimError> {
    let engine = Engine {
        schedule: RefCell::new(schedule),
        suspended: vec![Cell::new(ptr::null()); usize::from(cpus)].into_boxed_slice(),
        home: Cell::new(ptr::null()),
        stop: Cell::new(Stop::Next(Next::Nobody)),
        closing: Cell::new(false),
        handler,
    };
    let coroutine = |cpu| Coroutine {
        cpu: CpuId(cpu),
        engine: &engine,
        body: &body,
        started: Cell::new(false),
        outcome: Cell::new(None),
    };
    let all: Vec<_> = (0..cpus).map(coroutine).collect();
    let coroutines = Coroutines::prepare(&engine, &all, stack)?;
    let (stop, waiting, running, stopped) = {
        let _entered = Entered::new(&engine);
        // Dropped before `_entered`.
        let coroutines = coroutines;
        let stop = coroutines.execute();
        // Before destructors wake the waiting CPUs.
        let schedule = engine.schedule.borrow();
        (
            stop,
            schedule.waiting(),
            schedule.running(),
            schedule.stopped(),
        )
    };

    match stop {
        Stop::Next(Next::Limit(cpu, limit)) => Err(SimError::TimeLimit {
            cpu,
            limit,
            waiting,
            stopped,
        }),
        Stop::Next(Next::Stall(steps)) => Err(SimError::Stall {
            steps,
            waiting,
            running,
            stopped,
        }),
        Stop::Next(_) if waiting.is_empty() => {
            let outcomes = all.into_iter().filter_map(|cpu| cpu.outcome.into_inner());
            let results = outcomes.filter_map(Result::ok).collect();
            let (cpus, switches, hash) = engine.schedule.into_inner().into_counts();
            Ok(Report {
                cpus,
                results,
                stopped,
                switches,
                hash,
            })
        }
        Stop::Next(_) if stopped.is_empty() => Err(SimError::Deadlock { waiting }),
        Stop::Next(_) => Err(SimError::Hang { stopped, waiting }),
        Stop::Panic(cpu) => match all[cpu.index()].outcome.take() {
            Some(Err(panic)) => resume_unwind(panic),
            _ => unreachable!("the outcome of a panic is a panic"),
        },
    }
}
