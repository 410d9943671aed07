//! Requests to a manager that runs on a thread of its own.
//!
//! # Purpose
//!
//! It shows what the literal reading costs: each request passes through two threads, and through two context switches
//! if they do not both run.
//!
//! # Source
//!
//! \[Serewa\] §2.2.2, read literally: resource management is the third of three threads.
//!
//! # Invariants
//!
//! A slot belongs to its CPU while it is idle or answered, and to the managers while it contains a request. A caller
//! that stops waiting takes the request back, unless a manager is processing it.

use crate::arena::{Arena, ArenaPlan};
use crate::error::{AllocateError, BuildError};
use crate::frame::{Order, Pfn};
use crate::frame_table::{Frame, FrameTable};
use crate::platform::{AtomicWord, CpuId, Ordering, Platform, SharedCell};

/// The states of a slot.
const IDLE: u32 = 0;
const POSTED: u32 = 1;
const TAKEN: u32 = 2;
const ANSWERED: u32 = 3;

/// Answers other than a frame.
const EXHAUSTED: u64 = u64::MAX;
const BUSY: u64 = u64::MAX - 1;

/// How often a request polls for its answer before it serves itself.
const MAX_POLLS: u32 = 1 << 12;

/// The request of a CPU, and its answer.
#[repr(C, align(64))]
struct RequestSlot<P: Platform> {
    state: P::AtomicU32,
    /// The order in the low 8 bits, the frames above them.
    request: P::Cell<u64>,
    /// The allocated frame, or the reason for a failure.
    answer: P::Cell<u64>,
}

/// One slot per CPU.
pub(crate) struct RequestSlots<'a, P: Platform> {
    slots: &'a [RequestSlot<P>],
    /// Whether a manager was seen working and has not let a request time out since.
    attended: &'a P::AtomicU32,
}

impl<'a, P: Platform> RequestSlots<'a, P> {
    /// Plans the memory of [`new`](Self::new).
    pub(crate) fn plan(plan: ArenaPlan, cpus: u16) -> ArenaPlan {
        plan.slice::<RequestSlot<P>>(usize::from(cpus))
            .slice::<P::AtomicU32>(1)
    }

    /// Creates the slots of `cpus` CPUs.
    pub(crate) fn new(arena: &mut Arena<'a>, cpus: u16) -> Result<Self, BuildError> {
        let slots = arena.slice(usize::from(cpus), |_| RequestSlot {
            state: P::AtomicU32::new(IDLE),
            request: P::Cell::new(0),
            answer: P::Cell::new(0),
        })?;
        let attended = arena.one(P::AtomicU32::new(0))?;
        Ok(Self { slots, attended })
    }

    /// Sends a request and waits for the answer. Returns `None` if no manager answers requests.
    pub(crate) fn call(
        &self,
        table: FrameTable<'_, P>,
        cpu: CpuId,
        order: Order,
        frames: u32,
    ) -> Option<Result<Frame, AllocateError>> {
        if self.attended.load(Ordering::Relaxed) == 0 {
            return None;
        }
        let RequestSlot {
            state,
            request,
            answer,
        } = self.slots.get(cpu.index())?;
        // A manager that did not answer in time still processes the last request.
        if state.load(Ordering::Relaxed) != IDLE {
            return None;
        }
        request.set(u64::from(frames) << 8 | u64::from(order.get()));
        // Release: pairs with the acquire in `serve`: the manager sees the request.
        state.store(POSTED, Ordering::Release);
        P::wake(state);
        let mut attempt = 0;
        loop {
            // Acquire: pairs with the release in `serve`: the answer is seen.
            let seen = state.load(Ordering::Acquire);
            if seen == ANSWERED {
                break;
            }
            if attempt >= MAX_POLLS && seen == POSTED {
                let back =
                    state.compare_exchange(POSTED, IDLE, Ordering::Relaxed, Ordering::Relaxed);
                if back.is_ok() {
                    self.attended.store(0, Ordering::Relaxed);
                    return None;
                }
                continue;
            }
            // The manager that processes the request has stopped or sleeps for long. If it answers later, the next
            // request finds the answer.
            if attempt >= 2 * MAX_POLLS {
                return Some(Err(AllocateError::Busy));
            }
            P::wait(state, seen, attempt.min(MAX_POLLS));
            attempt += 1;
        }
        let given = answer.get();
        state.store(IDLE, Ordering::Relaxed);
        Some(match given {
            EXHAUSTED => Err(AllocateError::Exhausted),
            BUSY => Err(AllocateError::Busy),
            frame => table.frame(Pfn(frame as u32)).ok_or(AllocateError::Busy),
        })
    }

    /// Takes an answer that came after its caller stopped waiting: frames that are allocated and have no owner.
    #[inline]
    pub(crate) fn take_late_reply(
        &self,
        table: FrameTable<'_, P>,
        cpu: CpuId,
    ) -> Option<(Frame, u32)> {
        let slot = self.slots.get(cpu.index())?;
        // Acquire: pairs with the release in `serve`.
        if slot.state.load(Ordering::Acquire) != ANSWERED {
            return None;
        }
        let (given, frames) = (slot.answer.get(), slot.request.get() >> 8);
        slot.state.store(IDLE, Ordering::Relaxed);
        let frame = u32::try_from(given).ok()?;
        Some((table.frame(Pfn(frame))?, frames as u32))
    }

    /// Answers at most `budget` requests, and returns how many it answered.
    pub(crate) fn serve(
        &self,
        budget: u32,
        mut answer: impl FnMut(Order, u32) -> Result<Frame, AllocateError>,
    ) -> u32 {
        self.attended.store(1, Ordering::Relaxed);
        let mut answered = 0;
        for slot in self.slots {
            let state = &slot.state;
            if answered == budget {
                break;
            }
            if state.load(Ordering::Relaxed) != POSTED {
                continue;
            }
            // Acquire: pairs with the release in `call`.
            let taken = state.compare_exchange(POSTED, TAKEN, Ordering::Acquire, Ordering::Relaxed);
            if taken.is_err() {
                continue;
            }
            let request = slot.request.get();
            let order = Order::saturating(request as u32 & 31);
            slot.answer.set(match answer(order, (request >> 8) as u32) {
                Ok(frame) => u64::from(frame.pfn().0),
                Err(AllocateError::Exhausted) => EXHAUSTED,
                Err(_) => BUSY,
            });
            // Release: pairs with the acquire in `call`.
            state.store(ANSWERED, Ordering::Release);
            P::wake(state);
            answered += 1;
        }
        answered
    }
}
