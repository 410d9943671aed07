//! Virtual CPUs as coroutines of one host thread.
//!
//! Why it exists: an allocator is ordinary code that can't be cut at its accesses. A coroutine has a stack
//! of its own, so a CPU can stop inside an access, however deep, and go on later.
//!
//! Who calls whom: [`run`] resumes the coroutine that [`Schedule`] names. The platform's cells call
//! [`accessed`] *after* their effect; if another CPU is earlier now, the coroutine suspends itself back to
//! `run`. Effect first, then charge and switch: a waiter's look at a word and its parking are one step then,
//! and no wake-up falls between them.
//!
//! Invariants:
//! 1. `CURRENT` of a thread is null, or points to a living engine and the code that runs is (on the stack
//!    of) the coroutine of its running CPU.
//! 2. A coroutine ends, or is unwound, before `run` returns, also when `run` unwinds.
//! 3. No coroutine suspends itself while it unwinds. So destructors that run because of a panic take effect
//!    at once, and panics of two CPUs never mix.
//!
//! Not modelled: what other host threads do. A closure may start some; their accesses take effect and are
//! neither charged nor counted.
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
    /// The engine whose coroutine runs on this thread; the lifetime is not the true one.
    static CURRENT: Cell<*const Engine<'static>> = const { Cell::new(ptr::null()) };
}

/// A coroutine suspends itself with what is to run next.
type Suspender = Yielder<(), Next>;

/// A virtual CPU: a coroutine that returns what its closure does.
type VirtualCpu<T> = Coroutine<(), Next, T>;

/// A run.
struct Engine<'m> {
    schedule: RefCell<Schedule<'m>>,
    /// By CPU: how its coroutine suspends itself; null before it was started.
    suspenders: Box<[Cell<*const Suspender>]>,
    /// Whether the run was given up, and coroutines are being unwound.
    closing: Cell<bool>,
}

/// What unwinds a closure that has caught the unwinding of its coroutine, and went on.
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
    // SAFETY: by invariant 1 the engine lives: `Entered` was made from a reference to it, and is dropped,
    // which makes the pointer null, before `run` drops the engine. The untrue lifetimes don't leave: `then`
    // takes any, and its result can't name them.
    Some(then(unsafe { &*engine }))
}

impl Engine<'_> {
    /// Gives way to the CPU that is to run next, if this one may be stopped.
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

    /// Tells whether this coroutine may suspend itself. Unwinds it if the run was given up and its closure
    /// caught that.
    fn may_suspend(&self) -> bool {
        if thread::panicking() {
            return false;
        }
        if self.closing.get() {
            resume_unwind(Box::new(GivenUp));
        }
        true
    }

    /// Suspends the coroutine of `cpu`, whose code calls this.
    fn suspend(&self, cpu: CpuId, next: Next) {
        let suspender = self.suspenders[cpu.index()].get();
        // SAFETY: the caller runs on the coroutine of `cpu` (invariant 1), which stored the pointer before
        // it called any code that can get here. It points into that coroutine's stack, below all frames that
        // run now, and to nothing that is ever borrowed exclusively.
        let suspender = unsafe { &*suspender };
        suspender.suspend(next);
    }

    /// Gives the run up: from here on nobody is charged or suspended.
    fn close(&self) {
        self.closing.set(true);
        self.schedule.borrow_mut().close();
    }
}

/// Tells whether the caller is a virtual CPU.
pub(crate) fn is_inside() -> bool {
    with_engine(|_| ()).is_some()
}

/// Charges an access to the word at `address`, which has taken effect, and lets an earlier CPU run.
#[inline(always)]
pub(crate) fn accessed(kind: AccessKind, address: usize) {
    with_engine(|engine| {
        if engine.schedule.borrow_mut().access(kind, address) {
            engine.give_way();
        }
    });
}

/// Parks the CPU until somebody wakes those who wait for the word at `address`, unless the word has
/// `changed`. The look is charged as a load. Returns whether the caller is a virtual CPU.
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
            "a destructor waits for another CPU while its own CPU unwinds"
        );
        let (cpu, next) = {
            let mut schedule = engine.schedule.borrow_mut();
            (schedule.cpu(), schedule.park(address))
        };
        engine.suspend(cpu, next);
    })
    .is_some()
}

/// Wakes all who wait for the word at `address`.
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

/// Tells whether `cpu` was asked since the last time.
pub(crate) fn take_poke(cpu: CpuId) -> bool {
    with_engine(|engine| engine.schedule.borrow_mut().take_poke(cpu)).unwrap_or(false)
}

/// Returns the clock of the virtual CPU that calls, in cycles.
pub(crate) fn clock() -> Option<u64> {
    with_engine(|engine| engine.schedule.borrow().clock())
}

/// Runs `body` once on each of `cpus` CPUs, each on a stack of `stack` bytes.
///
/// # Panics
/// With the panic of a closure, after all other coroutines were unwound.
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
        // SAFETY: the closure borrows `engine` and `body`, which outlive `coroutines`: that was declared
        // later, isn't moved away, and is dropped before them on every path. Dropping a coroutine unwinds
        // it.
        let coroutine = unsafe { Coroutine::with_stack_unchecked(stack, closure) };
        coroutines.push(coroutine);
    }

    let ended = catch_unwind(AssertUnwindSafe(|| {
        drive(&engine, &mut coroutines, &mut results)
    }));
    engine.close();
    for coroutine in &mut coroutines {
        // A closure that catches its unwinding and panics itself has nobody left to tell.
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

/// Resumes whoever is next until all have returned. Unwinds with the panic of a closure.
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
