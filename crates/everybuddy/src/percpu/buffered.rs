//! Per-CPU lists, and how other CPUs reach them.
//!
//! A request may fail only if no CPU caches a suitable frame. Two kinds of [access](super::access) achieve that:
//! - With tokens, the CPUs drain their lists by the [protocol](super::drain) when another CPU asks. A list is closed by
//!   watermarks that no operation hits.
//! - [`Locked`](super::access::Locked) is Linux's method: each operation tries the list's own lock, and a requester
//!   acquires it and drains the list itself. The watermarks, the drain requests and the order of steps are the same.
//!
//! A list that [routes](CpuList::ROUTES) frees also accepts blocks from other CPUs: these try its lock as its owner
//! does, and find it open or closed.
//!
//! # Complexity
//! A hit pays nothing, and neither does a miss that finds the list open and goes past it. Any other miss pays one
//! exchange on a cache line of this CPU, and two loads of a line that is written only when a CPU requests a drain. The
//! alternative, in which each CPU reads a shared word after every N hits, costs a counter on each hit and reacts later.
//!
//! # Invariants
//! A list is touched as the protocol says, or, with locks, by the holder of the list's lock.

use core::marker::PhantomData;

use super::access::Access;
use super::cpu_list::CpuList;
use super::drain::{self, CpuState, DrainRequests, Drains};
use super::{Missed, PerCpu};
use crate::arena::{Arena, ArenaPlan};
use crate::cache_padded::CachePadded;
use crate::error::{BuildError, FreeError};
use crate::frame::Order;
use crate::frame_table::{Frame, FrameTable, Tag};
use crate::lock::{RawLock, Section, SpinLock};
use crate::platform::{AtomicWord, CpuId, CpuToken, Platform};
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

/// One list per CPU.
pub struct Buffered<'a, P: Platform, L, A> {
    slots: &'a [Slot<P, L>],
    requests: &'a CachePadded<DrainRequests<P>>,
    access: PhantomData<A>,
}

impl<'a, P: Platform, L: CpuList<P>, A: Access<P>> Buffered<'a, P, L, A> {
    /// Plans the memory of [`new`](Self::new), in addition to what the lists themselves need.
    pub(crate) fn plan(plan: ArenaPlan, cpus: u16) -> ArenaPlan {
        plan.slice::<Slot<P, L>>(usize::from(cpus))
            .slice::<CachePadded<DrainRequests<P>>>(1)
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
                cpu_state: P::AtomicU32::new(CpuState::NEW.0),
                lock: SpinLock::new(),
            },
        })?;
        let requests = arena.one("drain requests", CachePadded::new(DrainRequests::new()))?;
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

    /// Returns the lists above a zone layer.
    fn above<'z, Z>(&'z self, zone: &'z Z) -> Above<'z, 'a, P, L, A, Z> {
        Above { lists: self, zone }
    }

    /// Acknowledges drain requests, and opens the list unless one is pending. Returns `true` if the list is open.
    /// Called by the owner, inside its list, at the start of a miss that found it closed and at the end of every miss
    /// that moved blocks.
    fn answer<Z: ZoneLayer<P>>(
        &self,
        caller: &mut Caller<'_, P>,
        slot: &Slot<P, L>,
        zone: &Z,
    ) -> bool {
        if A::LOCKS {
            return self.above(zone).open_unless_asked(slot);
        }
        let owner = caller.cpu;
        self.above(zone).answer(caller, owner, slot)
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
            self.above(zone).resume(slot);
        }
        self.answer(caller, slot, zone)
    }
}

/// The lists above a zone layer, into which they are drained.
struct Above<'z, 'a, P: Platform, L, A, Z> {
    lists: &'z Buffered<'a, P, L, A>,
    zone: &'z Z,
}

impl<P, L, A, Z> Drains<P> for Above<'_, '_, P, L, A, Z>
where
    P: Platform,
    L: CpuList<P>,
    A: Access<P>,
    Z: ZoneLayer<P>,
{
    type Slot = Slot<P, L>;
    type With<'c> = Caller<'c, P>;
    const KEEPS_WHILE_PARKED: bool = true;

    #[inline(always)]
    fn with(cpu: &mut P::Cpu) -> Caller<'_, P> {
        Caller::of(cpu)
    }

    #[inline(always)]
    fn requests(&self) -> &DrainRequests<P> {
        self.lists.requests
    }

    #[inline(always)]
    fn slots(&self) -> &[Slot<P, L>] {
        self.lists.slots
    }

    #[inline(always)]
    fn state(slot: &Slot<P, L>) -> &P::AtomicU32 {
        &slot.remote.cpu_state
    }

    #[inline(always)]
    fn set_open(&self, slot: &Slot<P, L>, is_open: bool) {
        if is_open {
            slot.list.open();
        } else {
            slot.list.close();
        }
    }

    fn leave(&self, slot: &Slot<P, L>) {
        slot.list.close();
    }

    #[inline(always)]
    fn empty(&self, caller: &mut Caller<'_, P>, owner: CpuId, slot: &Slot<P, L>) {
        slot.list.drain(caller, owner, self.zone);
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
        self.answer(caller, slot, zone);
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
            self.answer(caller, slot, zone);
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
            self.answer(caller, slot, zone);
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
        if A::LOCKS {
            self.drain_locked(&mut Caller::of(cpu), zone, other, slot);
            return true;
        }
        self.above(zone).empty_parked(cpu, other, slot)
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
        P::probe(cpu).record(Event::Reclaim);
        if !A::LOCKS {
            return self.above(zone).while_all_empty(cpu, waits, then);
        }
        self.requests.begin();
        let caller = &mut Caller::of(cpu);
        for (owner, slot) in (0..).map(CpuId).zip(self.slots) {
            self.drain_locked(caller, zone, owner, slot);
        }
        then(cpu, true);
        self.requests.end();
        let caller = &mut Caller::of(cpu);
        if let Some(own) = self.slot(caller.cpu)
            && let Some(_held) = A::enter(&own.remote.lock)
        {
            self.answer(caller, own, zone);
        }
    }

    fn is_alone(&self, own: CpuId) -> bool {
        let is_parked = |slot: &Slot<P, L>| drain::is_parked::<P>(&slot.remote.cpu_state);
        let mut all = (0..).map(CpuId).zip(self.slots);
        A::LOCKS || all.all(|(cpu, slot)| cpu == own || is_parked(slot))
    }

    fn park(&self, cpu: &mut P::Cpu) {
        if let Some(slot) = self.slot(cpu.id())
            && !A::LOCKS
        {
            drain::park::<P>(&slot.remote.cpu_state, || slot.list.close());
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
