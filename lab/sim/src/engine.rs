//! Virtual CPUs as coroutines of one host thread.
//!
//! An allocator is ordinary code that cannot be suspended at its accesses. A coroutine has its own stack, so a CPU
//! can stop inside an access, at any call depth, and continue later.
//!
//! Control flow: [`run`] switches to the coroutine that [`Schedule`] names. The platform's cells call
//! [`accessed`] *after* their effect. If another CPU has a smaller clock now, the coroutine switches to that CPU's
//! coroutine directly. Because the effect comes first and the charge and switch come second, a waiter's check of a
//! word and its parking are one step, and no wake-up can be lost between them. The last coroutine that can run, or the
//! first one that fails, switches back to `run`.
//!
//! A CPU that is stopped by a [fault](crate::faults) suspends itself like one that waits, and no CPU continues it. An
//! interrupt runs its handler as a call at the access that it interrupts, on the stack of that CPU.
//!
//! # Invariants
//! 1. `CURRENT` of a thread is either null, or it points to a live engine and the running code is the coroutine of
//!    the engine's running CPU (on that coroutine's stack), or code of this module that calls no closure.
//! 2. Every coroutine that was started ends before `run` returns, even if `run` unwinds. At its end, `run` enters each
//!    unfinished coroutine once more; it then unwinds itself from the place where it was suspended.
//! 3. A coroutine never suspends itself while it unwinds. Destructors that run because of a panic therefore run to
//!    completion, and panics of two CPUs never interleave.
//! 4. The first function of a coroutine catches all panics of its closure.
//! 5. The schedule is not borrowed during a switch.
//!
//! # Not modelled
//! The actions of other host threads. A closure may start threads; their accesses take effect but are neither charged
//! nor counted.
#![allow(unsafe_code)]

mod coroutine;
mod switch;

use core::cell::{Cell, RefCell, RefMut};
use core::ptr;
use std::panic::resume_unwind;
use std::thread;

use everybuddy::CpuId;

pub(crate) use self::coroutine::run;
use self::switch::Suspended;
use crate::cost::{AccessKind, CostModel};
use crate::report::LastAccess;
use crate::schedule::{Next, Schedule};

thread_local! {
    /// The engine whose coroutine runs on this thread. The lifetime is a placeholder.
    static CURRENT: Cell<*const Engine<'static>> = const { Cell::new(ptr::null()) };
}

/// The state of one run.
struct Engine<'m> {
    schedule: RefCell<Schedule<'m>>,
    /// For each CPU, what continues its coroutine. Valid while the CPU does not run and has not ended.
    suspended: Box<[Cell<Suspended>]>,
    /// What continues [`run`]. Valid while a coroutine runs.
    home: Cell<Suspended>,
    /// Why the coroutines returned to `run`.
    stop: Cell<Stop>,
    /// Whether the run was aborted and coroutines are being unwound.
    closing: Cell<bool>,
    /// What an interrupt runs on the CPU that it interrupts.
    handler: &'m dyn Fn(CpuId),
}

/// Why the coroutines returned to [`run`].
#[derive(Clone, Copy)]
enum Stop {
    /// No CPU can run, or the limit was exceeded.
    Next(Next),
    /// The closure of this CPU panicked.
    Panic(CpuId),
}

/// The panic payload for a closure that caught the unwinding of its coroutine and continued.
struct GivenUp;

/// Unwinds the coroutine of an aborted run.
#[cold]
fn give_up() -> ! {
    resume_unwind(Box::new(GivenUp))
}

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
    /// Charges an access, and lets an earlier CPU run.
    ///
    /// The whole path to the switch is one function: after a switch, the host predicts each return wrongly.
    #[inline(never)]
    fn charge(&self, kind: AccessKind, address: usize) {
        let mut schedule = self.schedule.borrow_mut();
        if schedule.access(kind, address) {
            self.give_way_with(schedule, Some((kind, address)));
        }
    }

    /// Yields to the CPU that runs next, if this one may be suspended.
    #[inline(never)]
    fn give_way(&self) {
        self.give_way_with(self.schedule.borrow_mut(), None);
    }

    /// The same, for callers that have borrowed the schedule.
    #[inline(always)]
    fn give_way_with<'m>(
        &self,
        mut schedule: RefMut<'_, Schedule<'m>>,
        access: Option<(AccessKind, usize)>,
    ) {
        if thread::panicking() {
            return;
        }
        let (cpu, next) = (schedule.cpu(), schedule.switch(access));
        drop(schedule);
        if next != Next::Run(cpu) {
            self.suspend(cpu, next);
        }
    }

    /// Suspends the coroutine of `cpu`, which must be the caller. Unwinds the coroutine if the run is or was aborted.
    #[inline(always)]
    fn suspend(&self, cpu: CpuId, next: Next) {
        let to = match next {
            Next::Run(next) => self.suspended[next.index()].get(),
            Next::Interrupt => return self.interrupt(cpu),
            _ => self.stop(Stop::Next(next)),
        };
        // SAFETY: the caller runs on the coroutine of `cpu` (invariant 1), so the place for what continues it is
        // free. `to` continues `run`, which waits, or a CPU that was ready. That CPU is not the caller. It was
        // prepared or has suspended itself on this thread, and has not run since: a running CPU is not ready. Its
        // stack and all that its closure borrows live until all coroutines have ended (invariant 2).
        unsafe { switch::switch(self.suspended[cpu.index()].as_ptr(), to) };
        if self.closing.get() {
            give_up();
        }
    }

    /// Runs the handler on the coroutine of `cpu`, which is the caller, and then lets an earlier CPU run.
    #[cold]
    #[inline(never)]
    fn interrupt(&self, cpu: CpuId) {
        // The next interrupt may be due already: a loop, because handlers must not pile up on the stack.
        let next = loop {
            (self.handler)(cpu);
            let mut schedule = self.schedule.borrow_mut();
            schedule.end_handler();
            match schedule.switch(None) {
                Next::Interrupt => {}
                next => break next,
            }
        };
        if next != Next::Run(cpu) {
            self.suspend(cpu, next);
        }
    }

    /// Returns what continues `run`, which shall stop for the reason given. Unwinds the coroutine if the run was
    /// aborted before and the closure caught the unwinding.
    #[cold]
    fn stop(&self, stop: Stop) -> Suspended {
        if self.closing.get() {
            give_up();
        }
        self.stop.set(stop);
        self.home.get()
    }

    /// Switches from `run` to a coroutine, and returns when one switches back.
    ///
    /// # Safety
    /// `to` must be the value in `suspended` of a CPU that has not ended. Its stack, and what the closures borrow,
    /// must be alive.
    unsafe fn enter(&self, to: Suspended) {
        // SAFETY: the caller is not suspended, so `home` is free. The rest is the caller's promise.
        unsafe { switch::switch(self.home.as_ptr(), to) };
    }
}

/// Returns `true` if the caller is a virtual CPU.
pub(crate) fn is_inside() -> bool {
    with_engine(|_| ()).is_some()
}

/// Charges an access to the word at `address`, which has already taken effect, and lets an earlier CPU run.
#[inline(always)]
pub(crate) fn accessed(kind: AccessKind, address: usize) {
    with_engine(|engine| engine.charge(kind, address));
}

/// Parks the CPU until another CPU wakes the waiters of the word at `address`, unless the word has `changed`. A wait
/// begins with `attempt` 0. The check is charged as a load. Returns early if the CPU is interrupted. Returns `true` if
/// the caller is a virtual CPU.
pub(crate) fn wait(address: usize, changed: bool, attempt: u32) -> bool {
    with_engine(|engine| {
        if attempt == 0 {
            engine.schedule.borrow_mut().tell(|cost, cpu, _| {
                cost.wait(cpu);
                0
            });
        }
        if changed {
            engine.charge(AccessKind::Load, address);
            return;
        }
        engine
            .schedule
            .borrow_mut()
            .access(AccessKind::Load, address);
        assert!(
            !thread::panicking(),
            "a destructor waited for another CPU while its own CPU unwound"
        );
        let (cpu, next) = {
            let mut schedule = engine.schedule.borrow_mut();
            (schedule.cpu(), schedule.park(address, attempt))
        };
        if next != Next::Run(cpu) {
            engine.suspend(cpu, next);
        }
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

/// Tells the cost model something about the running CPU, at the present time, and charges the cycles that it takes.
#[inline]
pub(crate) fn tell(tell: impl FnOnce(&mut dyn CostModel, CpuId, u64) -> u64) {
    with_engine(|engine| {
        if engine.schedule.borrow_mut().tell(tell) {
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

/// Holds the CPU until all others that have neither ended nor stood aside are at the barrier too.
pub(crate) fn barrier() {
    with_engine(|engine| {
        assert!(
            !thread::panicking(),
            "a destructor waited for other CPUs while its own CPU unwound"
        );
        let (cpu, next) = {
            let mut schedule = engine.schedule.borrow_mut();
            (schedule.cpu(), schedule.barrier())
        };
        if next != Next::Run(cpu) {
            engine.suspend(cpu, next);
        }
    });
}

/// Lets barriers no longer wait for the calling virtual CPU.
pub(crate) fn stand_aside() {
    with_engine(|engine| engine.schedule.borrow_mut().stand_aside());
}

/// Lets the calling virtual CPU keep its core, or no longer.
pub(crate) fn keep_core(keeps: bool) {
    with_engine(|engine| engine.schedule.borrow_mut().keep_core(keeps));
}

/// Notes that the run makes progress.
pub(crate) fn progress() {
    with_engine(|engine| engine.schedule.borrow_mut().progress());
}

/// Returns the number of accesses of the calling virtual CPU.
pub(crate) fn accesses() -> Option<u64> {
    with_engine(|engine| {
        let schedule = engine.schedule.borrow();
        schedule.accesses(schedule.cpu())
    })
}

/// Returns the last access of the calling virtual CPU, if the run records writers.
pub(crate) fn last_access() -> Option<LastAccess> {
    with_engine(|engine| engine.schedule.borrow().last_access()).flatten()
}

/// Returns the clock of the calling virtual CPU, in cycles.
pub(crate) fn clock() -> Option<u64> {
    with_engine(|engine| engine.schedule.borrow().clock())
}
