//! Per-CPU lists, and how other CPUs drain them.
//!
//! A hit must not execute an atomic read-modify-write, a token makes its CPU's list exclusive by type, and yet a
//! request may fail only if no CPU caches a suitable frame. These three requirements need a protocol. It is the same
//! for every kind of list ([`CpuList`]) and is defined here.
//!
//! # The protocol (with tokens)
//! A list is *open* or *closed*. A hit compares the list's length with its watermarks in any case. A closed list has
//! watermarks that no operation hits, so a hit pays nothing to notice a close. Each CPU has a word, its [`CpuState`]:
//! running, parked, or draining (another CPU drains its list), and the last epoch that the CPU acknowledged.
//!
//! A CPU whose request the zone layer cannot serve asks all others to drain
//! ([`with_all_drained`](Buffered::with_all_drained)):
//! 1. It adds itself to the count of drain requests, begins a new epoch, and closes and drains its own list.
//! 2. It visits each other CPU. If that CPU is parked, it takes the list over, drains it, and parks the CPU again. If
//!    that CPU is running, it closes the list, and afterwards waits for an acknowledgement. The owner notices the close
//!    at its next operation, drains the list, and acknowledges. If the platform lends the token of that CPU between two
//!    of its operations, the requester parks it.
//! 3. It tries again, and opens its list when no drain request is left. While any is left, every owner that
//!    acknowledged keeps its list closed and frees everything into the zone layer.
//!
//! At the moment of the last attempt every list is therefore empty, so a request that fails then fails correctly.
//! Requesters do not wait in a circle: a requester acknowledges its own epoch before it waits, so it waits only for
//! CPUs whose requests are older, or for none.
//!
//! The requester stops waiting for CPUs that neither call nor park after [`Platform::MAX_WAIT`], for all of them
//! together. If it still fails after that, it fails as busy. A host parks the CPUs that go idle. An operation ends
//! parking by itself, since a parked list is closed.
//!
//! A request that must not wait takes the same steps if all other CPUs are parked. Otherwise it fails as busy: a hit
//! leaves no trace, so while another CPU runs, no look at one list after the other shows that all of them were empty
//! at one moment. For the same reason a nested request, which cannot drain a list, is never exhausted.
//!
//! # Complexity
//! A hit pays nothing, and neither does a miss that finds the list open and goes past it. Any other miss pays one
//! exchange on a cache line of this CPU, and two loads of a line that is written only when a CPU requests a drain. The
//! alternative, in which each CPU reads a shared word after every N hits, costs a counter on each hit and reacts later.
//!
//! # With locks
//! [`Locked`](super::access::Locked) is Linux's method: each operation tries the list's own lock, and a requester
//! acquires it and drains the list itself. The watermarks, the drain requests and the order of steps are the same.
//!
//! A list that [routes](CpuList::ROUTES) frees also accepts blocks from other CPUs: these try its lock as its owner
//! does, and find it open or closed.
//!
//! # Invariants
//! A list is touched by the holder of its CPU's token while the CPU's state is running, by the requester that took it
//! over while the state is draining, and by no CPU while the state is parked. With locks, it is touched by the holder
//! of the list's lock.

use core::marker::PhantomData;

use super::access::{Access, CpuState, EPOCHS};
use super::cpu_list::CpuList;
use super::{Missed, PerCpu};
use crate::arena::{Arena, ArenaPlan};
use crate::error::{BuildError, FreeError};
use crate::frame::Order;
use crate::frame_table::{Frame, FrameTable, Tag};
use crate::lock::{RawLock, Section, SpinLock};
use crate::platform::{AtomicWord, CpuId, CpuToken, Ordering, Platform, WaitLimit};
use crate::probe::{Event, Probe};
use crate::request::Hint;
use crate::zone::{Caller, ZoneLayer};

/// A list and the words by which other CPUs reach it, on separate cache lines.
#[repr(C, align(64))]
pub(crate) struct Slot<P: Platform, L> {
    list: L,
    remote: Remote<P>,
}

/// The words that other CPUs write.
#[repr(C, align(64))]
struct Remote<P: Platform> {
    cpu_state: P::AtomicU32,
    lock: SpinLock<P>,
}

/// The words that all CPUs read on misses, and that requesters write.
#[repr(C, align(64))]
pub(crate) struct DrainRequests<P: Platform> {
    count: P::AtomicU32,
    epoch: P::AtomicU32,
}

/// One list per CPU.
pub struct Buffered<'a, P: Platform, L, A> {
    slots: &'a [Slot<P, L>],
    requests: &'a DrainRequests<P>,
    access: PhantomData<A>,
}

impl<'a, P: Platform, L: CpuList<P>, A: Access<P>> Buffered<'a, P, L, A> {
    /// Plans the memory of [`new`](Self::new), in addition to what the lists themselves need.
    pub(crate) fn plan(plan: ArenaPlan, cpus: u16) -> ArenaPlan {
        plan.slice::<Slot<P, L>>(usize::from(cpus))
            .slice::<DrainRequests<P>>(1)
    }

    /// Creates the lists of `cpus` CPUs, all parked.
    pub(crate) fn new(
        arena: &mut Arena<'a>,
        cpus: u16,
        mut list: impl FnMut(usize) -> L,
    ) -> Result<Self, BuildError> {
        let slots = arena.slice("per-CPU list", usize::from(cpus), |cpu| Slot {
            list: list(cpu),
            remote: Remote {
                cpu_state: P::AtomicU32::new(CpuState::new(0, CpuState::PARKED).0),
                lock: SpinLock::new(),
            },
        })?;
        let requests = arena.one(
            "drain requests",
            DrainRequests {
                count: P::AtomicU32::new(0),
                epoch: P::AtomicU32::new(0),
            },
        )?;
        Ok(Self {
            slots,
            requests,
            access: PhantomData,
        })
    }

    #[inline(always)]
    fn slot(&self, cpu: CpuId) -> Option<&'a Slot<P, L>> {
        self.slots.get(cpu.index())
    }

    /// Returns the slot into which a CPU frees a block: `own`, unless the list routes frees.
    #[inline(always)]
    fn home(&self, own: &'a Slot<P, L>, head: Frame) -> &'a Slot<P, L> {
        if L::ROUTES
            && let Some(home) = own.list.home(head)
            && let Some(slot) = self.slot(home)
        {
            return slot;
        }
        own
    }

    /// Ends parking. Called by the owner, before it touches its list.
    #[cold]
    fn resume(&self, slot: &Slot<P, L>) {
        let cpu_state = &slot.remote.cpu_state;
        let mut attempt = 0;
        loop {
            let seen = CpuState(cpu_state.load(Ordering::Relaxed));
            match seen.state() {
                CpuState::RUNNING => return,
                CpuState::PARKED => {
                    let running = CpuState::new(seen.epoch(), CpuState::RUNNING);
                    // Acquire: pairs with the release of the CPU that parked this list: the owner sees what a
                    // requester did to the list, and the epoch for which the requester did it.
                    let swapped = cpu_state.compare_exchange(
                        seen.0,
                        running.0,
                        Ordering::Acquire,
                        Ordering::Relaxed,
                    );
                    if swapped.is_ok() {
                        return;
                    }
                }
                _ => {
                    P::wait(cpu_state, seen.0, attempt);
                    attempt = attempt.saturating_add(1);
                }
            }
        }
    }

    /// Acknowledges drain requests, and opens the list unless one is pending. Returns `true` if the list is open.
    /// Called by the owner, inside its list, at the start of a miss that found it closed and at the end of every miss
    /// that moved blocks.
    fn service_drain_request<Z: ZoneLayer<P>>(
        &self,
        caller: &mut Caller<'_, P>,
        slot: &Slot<P, L>,
        zone: &Z,
    ) -> bool {
        loop {
            // Acquire: pairs with the exchanges that count requests.
            let open = self.requests.count.load(Ordering::Acquire) == 0;
            // A requester begins its epoch before it closes this list. If its close came before this opening, the
            // exchange in `open` saw it, and so the load of the epoch below sees that epoch. If the close comes after
            // the opening, it persists, and the next operation gets here again.
            if open {
                slot.list.open();
            } else {
                slot.list.close();
            }
            if A::LOCKS {
                return open;
            }
            // Acquire: pairs with the exchange that begins an epoch.
            let epoch = self.requests.epoch.load(Ordering::Acquire) & EPOCHS;
            // Relaxed: while a CPU runs, only the CPU itself writes its state.
            if CpuState(slot.remote.cpu_state.load(Ordering::Relaxed)).epoch() == epoch {
                return open;
            }
            slot.list.drain(caller, caller.cpu, zone);
            self.acknowledge(slot, epoch);
        }
    }

    /// Announces that the list was empty in this epoch.
    fn acknowledge(&self, slot: &Slot<P, L>, epoch: u32) {
        let cpu_state = CpuState::new(epoch, CpuState::RUNNING);
        // Release: pairs with the acquire in `try_drain`: a requester that sees the acknowledgement sees the
        // drained frames in the zone. (The zone's lock covers them too; the acknowledgement orders the attempts.)
        slot.remote.cpu_state.store(cpu_state.0, Ordering::Release);
        P::wake(&slot.remote.cpu_state);
    }

    /// Drains a list that has a lock.
    fn drain_locked<Z: ZoneLayer<P>>(
        &self,
        caller: &mut Caller<'_, P>,
        zone: &Z,
        owner: CpuId,
        slot: &Slot<P, L>,
    ) {
        let _section = Section::<P>::begin();
        let (state, _) = slot.remote.lock.lock();
        slot.list.close();
        slot.list.drain(caller, owner, zone);
        slot.remote.lock.unlock(&state);
    }

    /// Succeeds if the list of another CPU was empty in this epoch: that CPU has acknowledged, or it is parked and the
    /// list was drained here. Fails with its state.
    fn try_drain<Z: ZoneLayer<P>>(
        &self,
        cpu: &mut P::Cpu,
        zone: &Z,
        (other, slot): (CpuId, &Slot<P, L>),
        epoch: u32,
    ) -> Result<(), CpuState> {
        // Acquire: pairs with the release in `acknowledge`.
        let seen = CpuState(slot.remote.cpu_state.load(Ordering::Acquire));
        let is_empty = seen.acknowledged(epoch)
            || seen.state() == CpuState::PARKED
                && self.drain_parked_list(&mut Caller::of(cpu), zone, other, slot, seen, epoch);
        is_empty.then_some(()).ok_or(seen)
    }

    /// Waits until the lists of all other CPUs were empty; `false` if one neither parks nor acknowledges in time.
    /// Without `waits`, a CPU that is not parked is not asked, either.
    fn drain_others<Z: ZoneLayer<P>>(
        &self,
        cpu: &mut P::Cpu,
        zone: &Z,
        epoch: u32,
        waits: bool,
    ) -> bool {
        let own = cpu.id();
        let all = (0..).map(CpuId).zip(self.slots);
        let others = all.filter(|(other, _)| *other != own);
        // All are asked before the first wait, so that they answer simultaneously. Once is enough: an owner changes its
        // watermarks by exchanges, so it sees this close, and with it the epoch, before it opens the list again.
        for (other, slot) in others.clone() {
            if self.try_drain(cpu, zone, (other, slot), epoch).is_err() {
                if !waits {
                    return false;
                }
                slot.list.close();
                self.exclude(cpu, other, slot);
            }
        }
        let (mut polls, mut limit, mut all_drained) = (0, WaitLimit::<P>::new(), true);
        for (other, slot) in others {
            let mut attempt = 0;
            while let Err(seen) = self.try_drain(cpu, zone, (other, slot), epoch) {
                // After the look: a wait may have taken long because this CPU was stopped.
                if limit.is_over(polls) {
                    all_drained = false;
                    break;
                }
                P::wait(&slot.remote.cpu_state, seen.0, attempt);
                polls = polls.saturating_add(1);
                attempt = attempt.saturating_add(1);
                if attempt.is_power_of_two() {
                    self.exclude(cpu, other, slot); // Its last operation may be over.
                }
            }
        }
        all_drained
    }

    /// Drains the list of a parked CPU, whose state was `seen`, and parks it again as one that acknowledged `epoch`.
    /// Returns `false`, and does nothing, if that state has changed.
    fn drain_parked_list<Z: ZoneLayer<P>>(
        &self,
        caller: &mut Caller<'_, P>,
        zone: &Z,
        other: CpuId,
        slot: &Slot<P, L>,
        seen: CpuState,
        epoch: u32,
    ) -> bool {
        let cpu_state = &slot.remote.cpu_state;
        let draining = CpuState::new(seen.epoch(), CpuState::DRAINING);
        // The owner waits until the list is drained.
        let _section = Section::<P>::begin();
        // Acquire: pairs with the release in `park`: the list's content is seen.
        let swapped =
            cpu_state.compare_exchange(seen.0, draining.0, Ordering::Acquire, Ordering::Relaxed);
        if swapped.is_err() {
            return false;
        }
        slot.list.drain(caller, other, zone);
        let parked = CpuState::new(epoch, CpuState::PARKED);
        // Release: pairs with the acquire in `resume` and above: the empty list is seen.
        cpu_state.store(parked.0, Ordering::Release);
        P::wake(cpu_state);
        true
    }

    /// Parks another CPU, if the platform lends its token.
    fn exclude(&self, cpu: &P::Cpu, other: CpuId, slot: &Slot<P, L>) {
        // The token exists until the CPU is parked.
        if let Some(_token) = cpu.exclude(other) {
            self.park_slot(slot);
        }
    }

    /// Parks a CPU, by its token.
    fn park_slot(&self, slot: &Slot<P, L>) {
        let cpu_state = CpuState(slot.remote.cpu_state.load(Ordering::Relaxed));
        if cpu_state.state() == CpuState::RUNNING {
            slot.list.close();
            let parked = CpuState::new(cpu_state.epoch(), CpuState::PARKED);
            // Release: pairs with the acquire in `try_drain`: a CPU that takes the list over sees its content.
            slot.remote.cpu_state.store(parked.0, Ordering::Release);
            P::wake(&slot.remote.cpu_state);
        }
    }

    /// Prepares this CPU's list for a miss: ends parking and acknowledges drain requests. Returns `true` if the list
    /// is open.
    #[inline]
    fn begin<Z: ZoneLayer<P>>(
        &self,
        caller: &mut Caller<'_, P>,
        slot: &Slot<P, L>,
        zone: &Z,
    ) -> bool {
        if !slot.list.is_closed() {
            return true;
        }
        if !A::LOCKS {
            self.resume(slot);
        }
        self.service_drain_request(caller, slot, zone)
    }
}

impl<P, Z, L, A> PerCpu<P, Z> for Buffered<'_, P, L, A>
where
    P: Platform,
    Z: ZoneLayer<P>,
    L: CpuList<P>,
    A: Access<P>,
{
    #[inline(always)]
    fn caches(&self) -> bool {
        true
    }

    fn uses_hints(&self) -> bool {
        L::USES_HINTS
    }

    fn cpus(&self) -> u16 {
        self.slots.len() as u16
    }

    #[inline(always)]
    fn has_cpu(&self, cpu: CpuId) -> bool {
        self.slot(cpu).is_some()
    }

    #[inline(always)]
    fn pop(
        &self,
        cpu: &mut P::Cpu,
        table: FrameTable<'_, P>,
        order: Order,
        hint: Hint,
        missed: &mut Missed,
    ) -> Option<Frame> {
        let slot = self.slot(cpu.id())?;
        let _held = A::enter(&slot.remote.lock)?;
        slot.list.pop(table, cpu.id(), order, hint, missed)
    }

    #[inline(always)]
    fn push(
        &self,
        cpu: &mut P::Cpu,
        table: FrameTable<'_, P>,
        head: Frame,
        order: Order,
        hint: Hint,
        missed: &mut Missed,
    ) -> bool {
        let Some(slot) = self.slot(cpu.id()) else {
            return false;
        };
        let slot = self.home(slot, head);
        let Some(_held) = A::enter(&slot.remote.lock) else {
            return false;
        };
        slot.list.push(table, cpu.id(), head, order, hint, missed)
    }

    #[inline(never)]
    fn serve(&self, cpu: &mut P::Cpu, zone: &Z, order: Order, hint: Hint) -> Option<Frame> {
        let caller = &mut Caller::of(cpu);
        let slot = self.slot(caller.cpu)?;
        let _held = A::enter(&slot.remote.lock)?;
        if !self.begin(caller, slot, zone) || !slot.list.caches(order) {
            return None;
        }
        // A refill that returned no frame changed no watermark. If a requester closed the list, the close persists
        // until the next operation.
        let head = slot.list.refill(caller, zone, order, hint)?;
        self.service_drain_request(caller, slot, zone);
        Some(head)
    }

    #[inline(never)]
    fn keep(&self, cpu: &mut P::Cpu, zone: &Z, head: Frame, order: Order, hint: Hint) -> bool {
        let caller = &mut Caller::of(cpu);
        let Some(slot) = self.slot(caller.cpu) else {
            return false;
        };
        let slot = self.home(slot, head);
        let Some(_held) = A::enter(&slot.remote.lock) else {
            return false;
        };
        let is_kept = self.begin(caller, slot, zone)
            && slot.list.caches(order)
            && slot.list.overflow(caller, zone, head, order, hint);
        if is_kept {
            self.service_drain_request(caller, slot, zone);
        }
        is_kept
    }

    #[inline(always)]
    fn claim(&self, table: FrameTable<'_, P>, head: Frame, order: Order) -> Result<Tag, FreeError> {
        let tag = Tag::allocated(order);
        if !L::ROUTES {
            return Ok(tag);
        }
        // Another CPU may free the same block into a list at this moment. Only one of the two CPUs claims it. The tag
        // names no list, so no merge treats the block as part of a list.
        let claimed = Tag::claimed(order);
        if table.exchange(head, tag, claimed) {
            Ok(claimed)
        } else {
            Err(table.diagnose(head))
        }
    }

    fn drain(&self, cpu: &mut P::Cpu, zone: &Z) {
        let caller = &mut Caller::of(cpu);
        let Some(slot) = self.slot(caller.cpu) else {
            return;
        };
        if L::ROUTES {
            // A CPU that frees into this list may hold its lock at this moment.
            self.drain_locked(caller, zone, caller.cpu, slot);
        } else if let Some(_held) = A::enter(&slot.remote.lock) {
            self.begin(caller, slot, zone);
            slot.list.drain(caller, caller.cpu, zone);
            self.service_drain_request(caller, slot, zone);
        }
    }

    fn drain_parked(&self, cpu: &mut P::Cpu, zone: &Z, other: CpuId) -> bool {
        let Some(slot) = self.slot(other) else {
            return true;
        };
        if other == cpu.id() {
            self.drain(cpu, zone);
            return true;
        }
        let caller = &mut Caller::of(cpu);
        if A::LOCKS {
            self.drain_locked(caller, zone, other, slot);
            return true;
        }
        // Acquire: pairs with the release in `park`.
        let seen = CpuState(slot.remote.cpu_state.load(Ordering::Acquire));
        seen.state() == CpuState::PARKED
            && self.drain_parked_list(caller, zone, other, slot, seen, seen.epoch())
    }

    #[cold]
    #[inline(never)]
    fn with_all_drained(
        &self,
        cpu: &mut P::Cpu,
        zone: &Z,
        waits: bool,
        then: &mut dyn FnMut(&mut P::Cpu, bool),
    ) {
        let own = self.slot(cpu.id());
        let caller: &mut Caller<'_, P> = &mut Caller::of(cpu);
        caller.probe.record(Event::Reclaim);
        if let Some(own) = own
            && !A::LOCKS
        {
            self.resume(own);
        }
        // The count comes first: a CPU that sees the epoch sees that a request is pending. Release: pairs with the
        // acquires in `service_drain_request`.
        self.requests.count.fetch_add(1, Ordering::AcqRel);
        let epoch = self
            .requests
            .epoch
            .fetch_add(1, Ordering::AcqRel)
            .wrapping_add(1)
            & EPOCHS;
        if let Some(own) = own
            && !A::LOCKS
        {
            own.list.close();
            own.list.drain(caller, caller.cpu, zone);
            self.acknowledge(own, epoch);
        }
        let all_drained = if A::LOCKS {
            for (owner, slot) in (0..).map(CpuId).zip(self.slots) {
                self.drain_locked(caller, zone, owner, slot);
            }
            true
        } else {
            self.drain_others(cpu, zone, epoch, waits)
        };
        then(cpu, all_drained);
        // Release: pairs with the acquires in `service_drain_request`: a CPU that opens its list again does so after
        // `then`.
        self.requests.count.fetch_sub(1, Ordering::AcqRel);
        let caller = &mut Caller::of(cpu);
        if let Some(own) = own
            && let Some(_held) = A::enter(&own.remote.lock)
        {
            self.service_drain_request(caller, own, zone);
        }
    }

    fn is_alone(&self, own: CpuId) -> bool {
        let is_parked = |slot: &Slot<P, L>| {
            // Relaxed: a hint.
            let state = slot.remote.cpu_state.load(Ordering::Relaxed);
            CpuState(state).state() == CpuState::PARKED
        };
        let mut all = (0..).map(CpuId).zip(self.slots);
        A::LOCKS || all.all(|(cpu, slot)| cpu == own || is_parked(slot))
    }

    fn park(&self, cpu: &mut P::Cpu) {
        if let Some(slot) = self.slot(cpu.id())
            && !A::LOCKS
        {
            self.park_slot(slot);
        }
    }

    fn buffered_frames(&self) -> u64 {
        let shared = |slot: &Slot<P, L>| slot.list.shared_frames();
        let frames = |slot: &Slot<P, L>| slot.list.frames();
        self.slots.first().map_or(0, shared) + self.slots.iter().map(frames).sum::<u64>()
    }

    fn cached_frames_of(&self, cpu: CpuId) -> u64 {
        self.slot(cpu).map_or(0, |slot| slot.list.frames())
    }
}
