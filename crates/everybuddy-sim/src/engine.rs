//! Virtual CPUs as coroutines of one host thread.
//!
//! # Purpose
//!
//! An allocator is ordinary code that cannot be suspended at its accesses. A coroutine has its own stack, so a CPU
//! can stop inside an access, at any call depth, and continue later.
//!
//! Control flow: [`run`] resumes the coroutine that [`Schedule`] names. The platform's cells call
//! [`accessed`] *after* their effect. If another CPU has a smaller clock now, the coroutine suspends itself and
//! returns to `run`. Because the effect comes first and the charge and switch come second, a waiter's check of a word
//! and its parking are one step, and no wake-up can be lost between them.
//!
//! # Invariants
//! 1. `CURRENT` of a thread is either null, or it points to a live engine and the running code is the coroutine of
//!    the engine's running CPU (on that coroutine's stack).
//! 2. Every coroutine finishes or is unwound before `run` returns, even if `run` unwinds.
//! 3. A coroutine never suspends itself while it unwinds. Destructors that run because of a panic therefore run to
//!    completion, and panics of two CPUs never interleave.
//!
//! # Not modelled
//!
//! The actions of other host threads. A closure may start threads; their accesses take effect but are neither charged
//! nor counted.
#![allow(unsafe_code)]

use core::cell::{Cell, RefCell};
use core::ptr;
use std::panic::{AssertUnwindSafe, catch_unwind, resume_unwind};
use std::thread;

use corosensei::stack::DefaultStack;
use corosensei::{Coroutine, CoroutineResult, Yielder};
use everybuddy::CpuId;

use crate::cost::AccessKind;
use crate::report::{Report, SimError};
use crate::schedule::{Next, Schedule};

thread_local! {
    /// The engine whose coroutine runs on this thread. The lifetime is a placeholder.
    static CURRENT: Cell<*const Engine<'static>> = const { Cell::new(ptr::null()) };
}

/// The handle with which a coroutine suspends itself; it passes the CPU that runs next.
type Suspender = Yielder<(), Next>;

/// A virtual CPU: a coroutine that returns the result of its closure.
type VirtualCpu<T> = Coroutine<(), Next, T>;

/// The state of one run.
struct Engine<'m> {
    schedule: RefCell<Schedule<'m>>,
    /// For each CPU, the handle with which its coroutine suspends itself; null before the coroutine was started.
    suspenders: Box<[Cell<*const Suspender>]>,
    /// Whether the run was aborted and coroutines are being unwound.
    closing: Cell<bool>,
}

/// The panic payload for a closure that caught the unwinding of its coroutine and continued.
struct GivenUp;

/// Sets `CURRENT` while a coroutine runs.
struct Entered;

impl Entered {
    fn new(engine: &Engine<'_>) -> Self {
        CURRENT.set(ptr::from_ref(engine).cast());
        Self
    }
}

impl Drop for Entered {
    fn drop(&mut self) {
        CURRENT.set(ptr::null());
    }
}

/// Calls `then` if the caller is a virtual CPU.
#[inline(always)]
fn with_engine<T>(then: impl for<'e, 'm> FnOnce(&'e Engine<'m>) -> T) -> Option<T> {
    let engine = CURRENT.get();
    if engine.is_null() {
        return None;
    }
    // SAFETY: by invariant 1 the engine is alive. `Entered` was created from a reference to it, and dropping
    // `Entered` sets the pointer to null before `run` drops the engine. The placeholder lifetimes do not escape:
    // `then` accepts any lifetimes, and its result cannot name them.
    Some(then(unsafe { &*engine }))
}

impl Engine<'_> {
    /// Yields to the CPU that runs next, if this one may be suspended.
    #[inline(never)]
    fn give_way(&self) {
        if !self.may_suspend() {
            return;
        }
        let (cpu, next) = {
            let mut schedule = self.schedule.borrow_mut();
            (schedule.cpu(), schedule.switch())
        };
        if next != Next::Run(cpu) {
            self.suspend(cpu, next);
        }
    }

    /// Returns `true` if this coroutine may suspend itself. Unwinds the coroutine if the run was aborted and its
    /// closure caught the unwinding.
    fn may_suspend(&self) -> bool {
        if thread::panicking() {
            return false;
        }
        if self.closing.get() {
            resume_unwind(Box::new(GivenUp));
        }
        true
    }

    /// Suspends the coroutine of `cpu`, which must be the caller.
    fn suspend(&self, cpu: CpuId, next: Next) {
        let suspender = self.suspenders[cpu.index()].get();
        // SAFETY: the caller runs on the coroutine of `cpu` (invariant 1), which stored the pointer before it called
        // any code that can reach this line. The pointer refers to that coroutine's stack, below all active frames,
        // and to data that is never borrowed exclusively.
        let suspender = unsafe { &*suspender };
        suspender.suspend(next);
    }

    /// Aborts the run: from now on no CPU is charged or suspended.
    fn close(&self) {
        self.closing.set(true);
        self.schedule.borrow_mut().close();
    }
}

/// Returns `true` if the caller is a virtual CPU.
pub(crate) fn is_inside() -> bool {
    with_engine(|_| ()).is_some()
}

/// Charges an access to the word at `address`, which has already taken effect, and lets an earlier CPU run.
#[inline(always)]
pub(crate) fn accessed(kind: AccessKind, address: usize) {
    with_engine(|engine| {
        if engine.schedule.borrow_mut().access(kind, address) {
            engine.give_way();
        }
    });
}

/// Parks the CPU until another CPU wakes the waiters of the word at `address`, unless the word has `changed`. The
/// check is charged as a load. Returns `true` if the caller is a virtual CPU.
pub(crate) fn wait(address: usize, changed: bool) -> bool {
    with_engine(|engine| {
        let switch = engine
            .schedule
            .borrow_mut()
            .access(AccessKind::Load, address);
        if changed {
            if switch {
                engine.give_way();
            }
            return;
        }
        assert!(
            engine.may_suspend(),
            "a destructor waited for another CPU while its own CPU unwound"
        );
        let (cpu, next) = {
            let mut schedule = engine.schedule.borrow_mut();
            (schedule.cpu(), schedule.park(address))
        };
        engine.suspend(cpu, next);
    })
    .is_some()
}

/// Wakes all waiters of the word at `address`.
#[inline]
pub(crate) fn wake(address: usize) {
    with_engine(|engine| {
        if engine.schedule.borrow_mut().wake(address) {
            engine.give_way();
        }
    });
}

/// Charges instructions that touch no shared memory.
#[inline]
pub(crate) fn work(instructions: u32) {
    with_engine(|engine| {
        if engine.schedule.borrow_mut().work(instructions) {
            engine.give_way();
        }
    });
}

/// Asks a CPU to call into the allocator soon.
pub(crate) fn poke(cpu: CpuId) {
    with_engine(|engine| engine.schedule.borrow_mut().poke(cpu));
}

/// Returns `true` if `cpu` was poked since the last call.
pub(crate) fn take_poke(cpu: CpuId) -> bool {
    with_engine(|engine| engine.schedule.borrow_mut().take_poke(cpu)).unwrap_or(false)
}

/// Tells the cost model that counting begins.
pub(crate) fn mark() {
    with_engine(|engine| engine.schedule.borrow_mut().mark());
}

/// Returns the clock of the calling virtual CPU, in cycles.
pub(crate) fn clock() -> Option<u64> {
    with_engine(|engine| engine.schedule.borrow().clock())
}

/// Runs `body` once on each of `cpus` CPUs, each on a stack of `stack` bytes.
///
/// # Panics
/// If a closure panics, with that panic, after all other coroutines were unwound.
pub(crate) fn run<T>(
    cpus: u16,
    stack: usize,
    schedule: Schedule<'_>,
    body: impl Fn(CpuId) -> T,
) -> Result<Report<T>, SimError> {
    let count = usize::from(cpus);
    let engine = Engine {
        schedule: RefCell::new(schedule),
        suspenders: vec![Cell::new(ptr::null()); count].into_boxed_slice(),
        closing: Cell::new(false),
    };
    let mut results: Vec<Option<T>> = Vec::new();
    results.resize_with(count, || None);
    let mut coroutines: Vec<VirtualCpu<T>> = Vec::with_capacity(count);
    for cpu in 0..cpus {
        let stack = DefaultStack::new(stack).map_err(|error| SimError::Stack(error.kind()))?;
        let (engine, body) = (&engine, &body);
        let closure = move |suspender: &Suspender, (): ()| {
            engine.suspenders[usize::from(cpu)].set(suspender);
            body(CpuId(cpu))
        };
        // SAFETY: the closure borrows `engine` and `body`, which outlive `coroutines`: `coroutines` is declared
        // later, is never moved away, and is dropped first on every path. Dropping a coroutine unwinds it.
        let coroutine = unsafe { Coroutine::with_stack_unchecked(stack, closure) };
        coroutines.push(coroutine);
    }

    let ended = catch_unwind(AssertUnwindSafe(|| {
        drive(&engine, &mut coroutines, &mut results)
    }));
    engine.close();
    for coroutine in &mut coroutines {
        // If a closure catches its unwinding and panics itself, that panic cannot be reported to anything.
        let _ = catch_unwind(AssertUnwindSafe(|| {
            let _entered = Entered::new(&engine);
            coroutine.force_unwind();
        }));
    }
    drop(coroutines);
    match ended {
        Ok(Ok(())) => {
            let (cpus, switches, hash) = engine.schedule.into_inner().into_counts();
            Ok(Report {
                cpus,
                results: results.into_iter().flatten().collect(),
                switches,
                hash,
            })
        }
        Ok(Err(error)) => Err(error),
        Err(panic) => resume_unwind(panic),
    }
}

/// Resumes the next CPU until all have returned. Unwinds with the panic of a closure.
fn drive<T>(
    engine: &Engine<'_>,
    coroutines: &mut [VirtualCpu<T>],
    results: &mut [Option<T>],
) -> Result<(), SimError> {
    let mut next = engine.schedule.borrow_mut().begin();
    loop {
        let cpu = match next {
            Next::Run(cpu) => cpu,
            Next::Limit(cpu, limit) => return Err(SimError::TimeLimit { cpu, limit }),
            Next::Nobody => {
                let waiting = engine.schedule.borrow().waiting();
                return if waiting.is_empty() {
                    Ok(())
                } else {
                    Err(SimError::Deadlock { waiting })
                };
            }
        };
        let resumed = {
            let _entered = Entered::new(engine);
            coroutines[cpu.index()].resume(())
        };
        next = match resumed {
            CoroutineResult::Yield(next) => next,
            CoroutineResult::Return(result) => {
                results[cpu.index()] = Some(result);
                engine.schedule.borrow_mut().end()
            }
        };
    }
}
