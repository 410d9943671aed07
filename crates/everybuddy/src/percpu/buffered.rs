//! Lists that CPUs keep for themselves, and how others get at them.
//!
//! Why it exists: a hit must not take an atomic read-modify-write, a token makes its CPU's list exclusive
//! by type, and yet a request may fail only when no CPU keeps a frame that would do. These agree only with
//! a protocol. It is the same for every kind of list ([`CpuList`]), and stands here.
//!
//! # The protocol (with tokens)
//!
//! A list is *open* or *closed*. A hit compares the list's length with its marks anyway; a closed list has
//! marks that nothing hits, so that noticing costs nothing. Each CPU has a word, its *presence*: running,
//! parked, or fetched (somebody drains its list for it), and the last epoch that it answered.
//!
//! A CPU whose request the zone can't serve asks ([`with_all_home`](Buffered::with_all_home)):
//! 1. it counts itself among the askers, begins a new epoch, closes and drains its own list;
//! 2. for each other CPU: parked, it takes it over, drains its list, and parks it again; running, it closes
//!    its list and waits for it to answer. The owner notices at its next operation, drains, and answers;
//! 3. it tries again, and opens its list when nobody asks any more. As long as anybody asks, every owner
//!    that answered keeps its list closed and passes everything on to the zone.
//!
//! So at the moment of the last try every list is empty: a request that fails fails rightly. Askers don't
//! wait in a circle: an asker answers its own epoch before it waits, so it waits only for CPUs that asked
//! before it, or not at all.
//!
//! A CPU that neither calls nor parks is given up after a bounded number of looks; the asker goes on with the
//! others, and if it then still fails, it fails as busy. A host
//! parks the CPUs that go idle; an operation ends that by itself, since a parked list is closed.
//!
//! What it costs: nothing on a hit; on a miss or a drain, one exchange on a line of this CPU and two loads
//! of a line that is written only when somebody asks. The proposal that it replaces (each CPU looks at a
//! shared word every so many hits) costs a counter on each hit, and answers later.
//!
//! # With locks
//!
//! [`Locked`](super::access::Locked) is Linux's way: each operation tries the list's own lock, an asker takes
//! it and drains the list itself. Marks, askers and the order of steps are the same.
//!
//! Invariant: a list is touched by the holder of its CPU's token while the presence says running, by the
//! asker that fetched it while it says fetched, by nobody while it says parked. (With locks: by whoever
//! holds the list's lock.)

use core::marker::PhantomData;

use super::PerCpu;
use super::access::{Access, CpuState, EPOCHS};
use crate::arena::{Arena, ArenaPlan};
use crate::error::{AllocateError, BuildError, FreeError};
use crate::frame::Order;
use crate::frame_table::{Frame, FrameTable, Tag};
use crate::lock::{RawLock, SpinLock};
use crate::platform::{AtomicWord, CpuId, CpuToken, Ordering, Platform};
use crate::probe::{Event, Probe};
use crate::request::Hint;
use crate::zone::{Caller, ZoneLayer};

/// What became of a release that was no hit.
pub(crate) enum FreeOutcome {
    /// The list keeps the block, and may have drained others.
    Kept,
    /// The block is not this list's: it goes to the zone layer, or is a misuse.
    Refused,
}

/// The list of one CPU: what is kept, how much, when it moves.
pub(crate) trait CpuList<P: Platform>: Send + Sync {
    /// Whether kept blocks are tagged as such, so that misuse is noticed; see the option `check`.
    const TAGS: bool;

    /// Tells whether blocks of this order are kept at all.
    fn caches(&self, order: Order) -> bool;

    /// The hit of a request: gives a block, tagged as allocated.
    fn pop(&self, table: FrameTable<'_, P>, cpu: CpuId, order: Order, hint: Hint) -> Option<Frame>;

    /// The hit of a release: keeps a block that is tagged as allocated, if there is room.
    fn push(
        &self,
        table: FrameTable<'_, P>,
        cpu: CpuId,
        head: Frame,
        order: Order,
        hint: Hint,
    ) -> bool;

    /// Serves a request that was no hit, by a refill; nothing when it should go past the list.
    fn refill<Z: ZoneLayer<P>>(
        &self,
        caller: &mut Caller<'_, P>,
        zone: &Z,
        order: Order,
        hint: Hint,
    ) -> Option<Frame>;

    /// Takes a release that was no hit.
    fn overflow<Z: ZoneLayer<P>>(
        &self,
        caller: &mut Caller<'_, P>,
        zone: &Z,
        head: Frame,
        order: Order,
        hint: Hint,
    ) -> FreeOutcome;

    /// Gives everything to the zone layer. `owner` is the CPU whose list it is.
    fn drain<Z: ZoneLayer<P>>(&self, caller: &mut Caller<'_, P>, owner: CpuId, zone: &Z);

    /// Lets hits through, by marks for the present content. An exchange that acquires.
    fn open(&self);

    /// Lets no hit through. An exchange that acquires and releases, so that an owner that closes its list
    /// sees what an asker did that closed it before.
    fn close(&self);

    /// Tells whether hits are let through. A hint: relaxed.
    fn is_closed(&self) -> bool;

    /// Returns the frames that are kept. A hint while others work.
    fn frames(&self) -> u64;
}

/// A list and how others get at it, on separate lines.
#[repr(C, align(64))]
pub(crate) struct Slot<P: Platform, L> {
    list: L,
    remote: Remote<P>,
}

/// What others write.
#[repr(C, align(64))]
struct Remote<P: Platform> {
    cpu_state: P::AtomicU32,
    lock: SpinLock<P>,
}

/// What all CPUs look at on misses, and askers write.
#[repr(C, align(64))]
pub(crate) struct DrainRequests<P: Platform> {
    count: P::AtomicU32,
    epoch: P::AtomicU32,
}

/// How often an asker looks whether a CPU answered before it fails as busy.
const MAX_POLLS: u32 = 1 << 16;

/// Lists for each CPU.
pub struct Buffered<'a, P: Platform, L, A> {
    slots: &'a [Slot<P, L>],
    requests: &'a DrainRequests<P>,
    access: PhantomData<A>,
}

impl<'a, P: Platform, L: CpuList<P>, A: Access<P>> Buffered<'a, P, L, A> {
    /// Plans the memory of [`new`](Self::new), beside what the lists need themselves.
    pub(crate) fn plan(plan: ArenaPlan, cpus: u16) -> ArenaPlan {
        plan.slice::<Slot<P, L>>(usize::from(cpus))
            .slice::<DrainRequests<P>>(1)
    }

    /// Makes the lists of `cpus` CPUs, all parked.
    pub(crate) fn new(
        arena: &mut Arena<'a>,
        cpus: u16,
        mut list: impl FnMut(usize) -> L,
    ) -> Result<Self, BuildError> {
        let slots = arena.slice(usize::from(cpus), |cpu| Slot {
            list: list(cpu),
            remote: Remote {
                cpu_state: P::AtomicU32::new(CpuState::new(0, CpuState::PARKED).0),
                lock: SpinLock::new(),
            },
        })?;
        let requests = arena.one(DrainRequests {
            count: P::AtomicU32::new(0),
            epoch: P::AtomicU32::new(0),
        })?;
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
                    // Acquire: pairs with the release of whoever parked this list: what an asker did to it
                    // is seen, and so is the epoch for which it did.
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

    /// Answers those who ask, and opens the list unless somebody does; returns whether it is open. Called by
    /// the owner, inside its list, at the beginning of a miss that found it closed and at the end of every
    /// miss that moved something.
    fn service_drain_request<Z: ZoneLayer<P>>(
        &self,
        caller: &mut Caller<'_, P>,
        slot: &Slot<P, L>,
        zone: &Z,
    ) -> bool {
        loop {
            // Acquire: pairs with the exchanges that count askers.
            let open = self.requests.count.load(Ordering::Acquire) == 0;
            // An asker begins its epoch before it closes this list. If its close came before this opening,
            // the exchange in `open` saw it, and so the load of the epoch below does; if it comes after, it
            // stays, and the next operation ends here again.
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
            // Relaxed: while it runs, only its owner writes a presence.
            if CpuState(slot.remote.cpu_state.load(Ordering::Relaxed)).epoch() == epoch {
                return open;
            }
            slot.list.drain(caller, caller.cpu, zone);
            self.acknowledge(slot, epoch);
        }
    }

    /// Says that the list was empty in this epoch.
    fn acknowledge(&self, slot: &Slot<P, L>, epoch: u32) {
        let cpu_state = CpuState::new(epoch, CpuState::RUNNING);
        // Release: pairs with the acquire in `fetch`: an asker that sees the answer sees the drained frames
        // in the zone. (They are under the zone's lock too; the answer orders the attempts.)
        slot.remote.cpu_state.store(cpu_state.0, Ordering::Release);
        P::wake(&slot.remote.cpu_state);
    }

    /// Brings home what another CPU keeps. Returns whether it did: not when that CPU neither
    /// parks nor answers in time.
    fn drain_remote<Z: ZoneLayer<P>>(
        &self,
        caller: &mut Caller<'_, P>,
        zone: &Z,
        other: CpuId,
        slot: &Slot<P, L>,
        epoch: u32,
    ) -> bool {
        if A::LOCKS {
            let (state, _) = slot.remote.lock.lock();
            slot.list.close();
            slot.list.drain(caller, other, zone);
            slot.remote.lock.unlock(&state);
            return true;
        }
        let cpu_state = &slot.remote.cpu_state;
        let mut requested = false;
        for attempt in 0..MAX_POLLS {
            // Acquire: pairs with the release in `answer`.
            let seen = CpuState(cpu_state.load(Ordering::Acquire));
            if seen.acknowledged(epoch) {
                return true;
            }
            match seen.state() {
                CpuState::PARKED => {
                    if self.drain_parked_list(caller, zone, other, slot, seen, epoch) {
                        return true;
                    }
                }
                CpuState::RUNNING if !requested => {
                    // Once is enough: the owner changes its marks by exchanges, so it sees this close, and
                    // with it the epoch, before it opens the list again.
                    requested = true;
                    slot.list.close();
                    P::poke(other);
                }
                _ => P::wait(cpu_state, seen.0, attempt),
            }
        }
        false
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

    /// Prepares this CPU's list for a miss: ends parking, answers. Returns whether the list is open.
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

impl<P: Platform, L: CpuList<P>, A: Access<P>> PerCpu<P> for Buffered<'_, P, L, A> {
    const CACHES: bool = true;

    fn cpus(&self) -> u16 {
        self.slots.len() as u16
    }

    #[inline(always)]
    fn pop(
        &self,
        cpu: &mut P::Cpu,
        table: FrameTable<'_, P>,
        order: Order,
        hint: Hint,
    ) -> Option<Frame> {
        let slot = self.slot(cpu.id())?;
        let _held = A::enter(&slot.remote.lock)?;
        slot.list.pop(table, cpu.id(), order, hint)
    }

    #[inline(always)]
    fn push(
        &self,
        cpu: &mut P::Cpu,
        table: FrameTable<'_, P>,
        head: Frame,
        order: Order,
        hint: Hint,
    ) -> bool {
        let Some(slot) = self.slot(cpu.id()) else {
            return false;
        };
        let Some(_held) = A::enter(&slot.remote.lock) else {
            return false;
        };
        slot.list.push(table, cpu.id(), head, order, hint)
    }

    #[inline(never)]
    fn allocate<Z: ZoneLayer<P>>(
        &self,
        cpu: &mut P::Cpu,
        zone: &Z,
        order: Order,
        hint: Hint,
    ) -> Result<Frame, AllocateError> {
        let caller = &mut Caller::of(cpu);
        let Some(slot) = self.slot(caller.cpu) else {
            return Err(AllocateError::NoSuchCpu);
        };
        if let Some(_held) = A::enter(&slot.remote.lock) {
            let open = self.begin(caller, slot, zone);
            if open && slot.list.caches(order) {
                // What gave nothing moved no mark; an asker's close, if one came, stays for the next operation.
                if let Some(head) = slot.list.refill(caller, zone, order, hint) {
                    self.service_drain_request(caller, slot, zone);
                    return Ok(head);
                }
            }
        }
        caller.probe.record(Event::Bypass(order));
        zone.allocate(caller, order)
    }

    #[inline(never)]
    fn free<Z: ZoneLayer<P>>(
        &self,
        cpu: &mut P::Cpu,
        zone: &Z,
        head: Frame,
        order: Order,
        hint: Hint,
    ) -> Result<(), FreeError> {
        let caller = &mut Caller::of(cpu);
        let Some(slot) = self.slot(caller.cpu) else {
            return Err(FreeError::NoSuchCpu);
        };
        if let Some(_held) = A::enter(&slot.remote.lock) {
            let open = self.begin(caller, slot, zone);
            if open
                && slot.list.caches(order)
                && let FreeOutcome::Kept = slot.list.overflow(caller, zone, head, order, hint)
            {
                self.service_drain_request(caller, slot, zone);
                return Ok(());
            }
        }
        zone.free(caller, head, order, Tag::allocated(order))?;
        caller.probe.record(Event::Bypass(order));
        Ok(())
    }

    fn drain<Z: ZoneLayer<P>>(&self, cpu: &mut P::Cpu, zone: &Z) {
        let caller = &mut Caller::of(cpu);
        if let Some(slot) = self.slot(caller.cpu)
            && let Some(_held) = A::enter(&slot.remote.lock)
        {
            self.begin(caller, slot, zone);
            slot.list.drain(caller, caller.cpu, zone);
            self.service_drain_request(caller, slot, zone);
        }
    }

    fn drain_parked<Z: ZoneLayer<P>>(&self, cpu: &mut P::Cpu, zone: &Z, other: CpuId) -> bool {
        let Some(slot) = self.slot(other) else {
            return true;
        };
        if other == cpu.id() {
            self.drain(cpu, zone);
            return true;
        }
        let caller = &mut Caller::of(cpu);
        if A::LOCKS {
            return self.drain_remote(caller, zone, other, slot, 0);
        }
        // Acquire: pairs with the release in `park`.
        let seen = CpuState(slot.remote.cpu_state.load(Ordering::Acquire));
        seen.state() == CpuState::PARKED
            && self.drain_parked_list(caller, zone, other, slot, seen, seen.epoch())
    }

    #[cold]
    #[inline(never)]
    fn with_all_drained<Z: ZoneLayer<P>>(
        &self,
        cpu: &mut P::Cpu,
        zone: &Z,
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
        // The count comes first: who sees the epoch sees that somebody asks. Release: pairs with the
        // acquires in `attend`.
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
        let mut all_drained = true;
        for (index, slot) in self.slots.iter().enumerate() {
            let other = CpuId(index as u16);
            if other != caller.cpu || A::LOCKS {
                all_drained &= self.drain_remote(caller, zone, other, slot, epoch);
            }
        }
        then(cpu, all_drained);
        // Release: pairs with the acquires in `attend`: who opens its list again does so after `then`.
        self.requests.count.fetch_sub(1, Ordering::AcqRel);
        let caller = &mut Caller::of(cpu);
        if let Some(own) = own
            && let Some(_held) = A::enter(&own.remote.lock)
        {
            self.service_drain_request(caller, own, zone);
        }
    }

    fn park(&self, cpu: &mut P::Cpu) {
        let Some(slot) = self.slot(cpu.id()) else {
            return;
        };
        if A::LOCKS {
            return;
        }
        let cpu_state = CpuState(slot.remote.cpu_state.load(Ordering::Relaxed));
        if cpu_state.state() == CpuState::RUNNING {
            slot.list.close();
            let parked = CpuState::new(cpu_state.epoch(), CpuState::PARKED);
            // Release: pairs with the acquire in `fetch`: who takes the list over sees its content.
            slot.remote.cpu_state.store(parked.0, Ordering::Release);
            P::wake(&slot.remote.cpu_state);
        }
    }

    fn buffered_frames(&self) -> u64 {
        self.slots.iter().map(|slot| slot.list.frames()).sum()
    }

    fn cached_frames_of(&self, cpu: CpuId) -> u64 {
        self.slot(cpu).map_or(0, |slot| slot.list.frames())
    }

    fn tags_cached(&self) -> bool {
        L::TAGS
    }
}
