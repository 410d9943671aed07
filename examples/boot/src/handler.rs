//! What the timer of each CPU does: its handler allocates a frame, and frees it at the next tick.
//!
//! Where the handler interrupted an operation, it has no token, and uses the nested calls.
//!
//! # Invariants
//! The handler runs with interrupts disabled. It never waits for a lock that the code below it may hold.

use core::sync::atomic::{AtomicBool, AtomicU32, AtomicU64, Ordering};

use everybuddy::{AllocateError, Flags, FreeError, Index, Release, Request};

use crate::blocks::Content;
use crate::cpus::{Local, Token, local};
use crate::frames::frames;

/// Ticks of a timer in a second.
pub(crate) const TICKS_PER_SECOND: u32 = 5000;

/// Whether timer interrupts allocate.
static ALLOCATES: AtomicBool = AtomicBool::new(false);

/// The state of a CPU's timer handler. Only that CPU uses it while its timer allocates.
pub(crate) struct Handler {
    ticks: AtomicU64,
    /// The frame that the handler holds, plus one.
    held: AtomicU32,
    /// Calls inside an operation of this CPU, without a token.
    pub(crate) inside: AtomicU32,
    /// Calls with the token.
    pub(crate) direct: AtomicU32,
    /// Calls that were refused as busy, or because memory was exhausted.
    pub(crate) busy: AtomicU32,
}

impl Handler {
    pub(crate) const fn new() -> Self {
        Self {
            ticks: AtomicU64::new(0),
            held: AtomicU32::new(0),
            inside: AtomicU32::new(0),
            direct: AtomicU32::new(0),
            busy: AtomicU32::new(0),
        }
    }

    /// Allocates a frame, or frees the one that the last tick allocated.
    fn step(&self, local: &Local) {
        let add =
            |count: &AtomicU32| count.store(count.load(Ordering::Relaxed) + 1, Ordering::Relaxed);
        let cpu = local.id();
        let content = Content::of_handler(cpu);
        let mut token = Token::claim();
        add(match token {
            Some(_) => &self.direct,
            None => &self.inside,
        });
        match self.held.load(Ordering::Relaxed) {
            0 => {
                let result = match &mut token {
                    Some(token) => {
                        frames().allocate(token, Request::FRAME.with_flags(Flags::NO_WAIT))
                    }
                    None => frames().allocate_nested(cpu, Request::FRAME),
                };
                match result {
                    Ok(frame) => {
                        content.fill(frame, 1);
                        self.held.store(frame.0 + 1, Ordering::Relaxed);
                    }
                    Err(AllocateError::Busy | AllocateError::Exhausted) => add(&self.busy),
                    Err(error) => panic!("CPU {}, in an interrupt: {error}", cpu.0),
                }
            }
            held => {
                let frame = Index(held - 1);
                content.check(frame, 1);
                let release = Release::frame(frame);
                let result = match &mut token {
                    Some(token) => frames().free(token, release),
                    None => frames().free_nested(cpu, release),
                };
                match result {
                    Ok(()) => self.held.store(0, Ordering::Relaxed),
                    Err(FreeError::Busy) => add(&self.busy),
                    Err(error) => panic!("CPU {}, free in an interrupt: {error}", cpu.0),
                }
            }
        }
    }

    /// Takes the frame that the handler holds. Its timer does not allocate any more.
    pub(crate) fn take(&self) -> Option<Index> {
        self.held
            .swap(0, Ordering::Relaxed)
            .checked_sub(1)
            .map(Index)
    }
}

/// Says whether the timers' handlers allocate from now on.
pub(crate) fn let_handlers_allocate(allocates: bool) {
    ALLOCATES.store(allocates, Ordering::Relaxed);
}

/// Returns the ticks of this CPU's timer.
pub(crate) fn ticks() -> u64 {
    local().handler.ticks.load(Ordering::Relaxed)
}

/// The timer of a CPU calls this at each tick.
pub(crate) fn on_timer() {
    let local = local();
    let handler = &local.handler;
    handler
        .ticks
        .store(handler.ticks.load(Ordering::Relaxed) + 1, Ordering::Relaxed);
    if ALLOCATES.load(Ordering::Relaxed) {
        handler.step(local);
    }
}
