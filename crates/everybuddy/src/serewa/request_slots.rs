//! Requests to a manager that runs on a thread of its own.
//!
//! It shows what the literal reading costs: each request passes through two threads, and through two context switches
//! if they do not both run.
//!
//! # Source
//! \[Serewa\] §2.2.2, read literally: resource management is the third of three threads.
//!
//! # Invariants
//! A slot belongs to its CPU while it is idle or answered, and to the managers while it contains a request. A caller
//! that stops waiting takes the request back. If a manager is already processing it, the caller leaves, and the slot
//! belongs to that manager until the manager has freed what it allocated. The exchange that answers and the exchange
//! that leaves exclude each other, so an allocated block always has exactly one owner.

use crate::arena::{Arena, ArenaPlan};
use crate::error::{AllocateError, BuildError};
use crate::frame::{Index, Order};
use crate::frame_table::{Frame, FrameTable};
use crate::platform::{AtomicWord, CpuId, Ordering, Platform, SharedCell, WaitLimit};

/// The states of a slot.
const IDLE: u32 = 0;
const POSTED: u32 = 1;
const TAKEN: u32 = 2;
const ANSWERED: u32 = 3;
/// The caller left while a manager was processing the request.
const LEFT: u32 = 4;

/// Answers other than a frame.
const EXHAUSTED: u64 = u64::MAX;
const BUSY: u64 = u64::MAX - 1;

/// The request of a CPU, and its answer.
#[repr(C, align(64))]
struct RequestSlot<P: Platform> {
    state: P::AtomicU32,
    /// The order in the low 8 bits, the frames above them.
    request: P::Cell<u64>,
    /// The allocated frame, or the reason for a failure.
    answer: P::Cell<u64>,
}

/// What a manager did in one step.
pub(crate) enum Served<'a, P: Platform> {
    /// No request waited.
    Nothing,
    /// It answered a request.
    Answered,
    /// Its caller left meanwhile.
    Late(LateReply<'a, P>),
}

/// A reply without a caller. What it allocated must be freed before the slot is.
#[must_use = "a late reply owns a slot, and possibly a block"]
pub(crate) struct LateReply<'a, P: Platform> {
    state: &'a P::AtomicU32,
    /// The allocated frames, if the request succeeded.
    pub(crate) run: Option<(Frame, u32)>,
}

impl<P: Platform> LateReply<'_, P> {
    /// Releases the slot, after the frames were freed.
    pub(crate) fn release(self) {
        // Release: pairs with the acquire in `owes`: a CPU that sees the slot idle sees the frames in a queue or filed.
        // A read-modify-write, because `owes` writes the state back: loom does not order a store behind that write.
        self.state.swap(IDLE, Ordering::Release);
    }
}

/// One slot per CPU.
pub(crate) struct RequestSlots<'a, P: Platform> {
    slots: &'a [RequestSlot<P>],
    /// Whether a manager was seen working and has taken every request in time since.
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
        let slots = arena.slice("request slot", usize::from(cpus), |_| RequestSlot {
            state: P::AtomicU32::new(IDLE),
            request: P::Cell::new(0),
            answer: P::Cell::new(0),
        })?;
        let attended = arena.one("presence of the manager", P::AtomicU32::new(0))?;
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
        // A manager that did not answer in time still processes the last request. Acquire: pairs with the release in
        // `LateReply::release`: the manager has read that request before this one replaces it.
        if state.load(Ordering::Acquire) != IDLE {
            return None;
        }
        request.set(u64::from(frames) << 8 | u64::from(order.get()));
        // Release: pairs with the acquire in `serve`: the manager sees the request.
        state.store(POSTED, Ordering::Release);
        P::wake(state);
        let (mut attempt, mut limit) = (0, WaitLimit::<P>::new());
        loop {
            // Acquire: pairs with the release in `serve`: the answer is seen.
            let seen = state.load(Ordering::Acquire);
            if seen == ANSWERED {
                break;
            }
            if seen == POSTED && limit.is_over_after(attempt, P::SERVICE_POLLS) {
                let back =
                    state.compare_exchange(POSTED, IDLE, Ordering::Relaxed, Ordering::Relaxed);
                if back.is_ok() {
                    self.attended.store(0, Ordering::Relaxed);
                    return None;
                }
                continue;
            }
            // The manager that processes the request has stopped or sleeps for long.
            if seen == TAKEN && limit.is_over_after(attempt, 2 * P::SERVICE_POLLS) {
                // Release: pairs with the acquire of the manager's exchange. If the exchange fails, the answer is here.
                let left =
                    state.compare_exchange(TAKEN, LEFT, Ordering::Release, Ordering::Relaxed);
                if left.is_ok() {
                    return Some(Err(AllocateError::Busy));
                }
                continue;
            }
            P::wait(state, seen, attempt.min(P::SERVICE_POLLS));
            attempt = attempt.saturating_add(1);
        }
        let given = answer.get();
        state.store(IDLE, Ordering::Relaxed);
        Some(match given {
            EXHAUSTED => Err(AllocateError::Exhausted),
            BUSY => Err(AllocateError::Busy),
            frame => table.frame(Index(frame as u32)).ok_or(AllocateError::Busy),
        })
    }

    /// Returns `true` if a manager still owes the frames of a request whose caller left, other than that of `own`.
    pub(crate) fn owes(&self, own: Option<CpuId>) -> bool {
        self.slots.iter().enumerate().any(|(cpu, slot)| {
            // A read-modify-write, because it always reads the last value, and a load need not. Acquire and release:
            // pairs with the release in `LateReply::release`.
            slot.state.fetch_add(0, Ordering::AcqRel) == LEFT && Some(cpu) != own.map(CpuId::index)
        })
    }

    /// Returns `true` if the caller of a request that a manager processes has left.
    pub(crate) fn has_left(&self, cpu: CpuId) -> bool {
        let slot = self.slots.get(cpu.index());
        // Relaxed: a hint. The manager's exchange decides.
        slot.is_some_and(|slot| slot.state.load(Ordering::Relaxed) == LEFT)
    }

    /// Processes one request, if any waits.
    pub(crate) fn serve(
        &self,
        answer: impl FnOnce(CpuId, Order, u32) -> Result<Frame, AllocateError>,
    ) -> Served<'a, P> {
        self.attended.store(1, Ordering::Relaxed);
        let is_taken = |(_, slot): &(u16, &RequestSlot<P>)| {
            let state = &slot.state;
            // Acquire: pairs with the release in `call`.
            state.load(Ordering::Relaxed) == POSTED
                && state
                    .compare_exchange(POSTED, TAKEN, Ordering::Acquire, Ordering::Relaxed)
                    .is_ok()
        };
        let Some((cpu, slot)) = (0..).zip(self.slots).find(is_taken) else {
            return Served::Nothing;
        };
        let state = &slot.state;
        let request = slot.request.get();
        let frames = (request >> 8) as u32;
        let result = answer(CpuId(cpu), Order::saturating(request as u32 & 31), frames);
        slot.answer.set(match result {
            Ok(frame) => u64::from(frame.index().0),
            Err(AllocateError::Exhausted) => EXHAUSTED,
            Err(_) => BUSY,
        });
        // Release: pairs with the acquire in `call`. Acquire: pairs with the release of a caller that left.
        match state.compare_exchange(TAKEN, ANSWERED, Ordering::AcqRel, Ordering::Acquire) {
            Ok(_) => {
                P::wake(state);
                Served::Answered
            }
            Err(_) => Served::Late(LateReply {
                state,
                run: result.ok().map(|head| (head, frames)),
            }),
        }
    }
}
