//! Magazines: two short stacks of frames for each CPU, and a shared depot of full and empty ones.
//!
//! A list that drains a batch when it is full and refills one when it is empty moves frames through the zone whenever
//! requests and frees of different CPUs differ: on one CPU that only frees, and another that only allocates, every
//! frame goes through the zone's lock. CPUs with magazines exchange them whole, without touching the frames.
//!
//! # Source
//! Bonwick and Adams 2001, "Magazines and Vmem", section 3. A CPU has a *loaded* and a *previous* magazine. A request
//! takes the youngest frame of the loaded one, and a free adds to it. If the loaded one is empty, or full at a free,
//! and the previous one is full, or empty, the two change places. Otherwise the previous one is exchanged for a full
//! one, or an empty one, in the *depot*, under the depot's lock. If the depot has none, a whole magazine is refilled
//! from the zone, or drained into it. FreeBSD's UMA calls magazines buckets. OpenBSD's physical memory has two of them
//! for each CPU and no depot.
//!
//! # Invariants
//! 1. Each number of a magazine is in one place: loaded or previous of one CPU, or in the depot. An exchange swaps two
//!    numbers.
//! 2. The previous magazine, and each one in the depot, is full or empty. Full is `size` frames.
//! 3. The frames in a magazine are tagged as buffered, with the number of the *magazine* where other lists have that
//!    of the CPU. A frame whose record names another magazine was freed by two CPUs at the same moment; it is dropped.
//! 4. A CPU that drains its list leaves no full magazine in the depot, and adds none before it opens its list again.
//!    When all lists have been drained, the depot is therefore empty, too.
//!
//! # Design decisions
//! The number in the record makes an exchange independent of the number of frames. With the number of the CPU, the CPU
//! that receives a magazine would have to write the record of each of its frames.
//!
//! The depot has a fixed number of magazines, initially all empty, since every exchange gives one and takes one. The
//! source resizes magazines when the depot's lock is contended, and returns magazines that were not used for a while.
//! Here both numbers are fixed.
//!
//! # Complexity
//! A hit is O(1). A miss is O(1) with no lock or with one, or O(size × orders) with one more lock.

use super::Missed;
use super::block_ring::RingEntries;
use super::cpu_list::CpuList;
use super::linux::CLOSED_MARKS;
use crate::arena::{Arena, ArenaPlan};
use crate::error::BuildError;
use crate::frame::{Index, Order};
use crate::frame_table::{Frame, FrameTable, Tag};
use crate::lock::{Guard, Locks, Section, ZoneLock};
use crate::platform::{AtomicWord, CpuId, Ordering, Platform, SharedCell};
use crate::probe::{Event, Probe};
use crate::request::Hint;
use crate::wrapping_slice::WrappingSlice;
use crate::zone::{Caller, ZoneLayer};

/// The magazines of a CPU.
const OF_CPU: u32 = 2;
/// The magazines in the depot, for each CPU.
const IN_DEPOT: u32 = 2;

/// The largest number of CPUs: a record has 16 bits for the number of a magazine.
pub(crate) const MAX_MAGAZINE_CPUS: u16 = u16::MAX / (OF_CPU + IN_DEPOT) as u16;

/// Returns the number of magazines in the depot.
fn stored(cpus: u16) -> usize {
    (IN_DEPOT * u32::from(cpus)) as usize
}

/// Returns the number of magazines for which there are entries: a power of two, since positions are masked.
fn planned(cpus: u16) -> usize {
    ((OF_CPU + IN_DEPOT) * u32::from(cpus)).next_power_of_two() as usize
}

/// Returns the binary logarithm of the number of entries of a magazine of `size` frames.
fn shift(size: u32) -> u32 {
    size.next_power_of_two().trailing_zeros()
}

/// The full and the empty magazines that no CPU has.
#[repr(C, align(64))]
pub(crate) struct Depot<'a, P: Platform> {
    lock: ZoneLock<'a, P>,
    /// The number of full magazines. Written under the lock.
    full: P::AtomicU32,
    /// The frames of a full magazine.
    size: u32,
    /// The numbers of the magazines: first the full ones, then the empty ones.
    numbers: &'a [P::Cell<u32>],
}

impl<P: Platform> Depot<'_, P> {
    /// Exchanges an empty magazine for a full one. Returns `None`, and takes nothing, if there is none.
    fn take_full(&self, empty: u32, probe: &mut P::Probe) -> Option<u32> {
        self.exchange(empty, probe, |full| {
            let place = full.checked_sub(1)?;
            Some((place, place))
        })
    }

    /// Exchanges a full magazine for an empty one. Returns `None`, and takes nothing, if there is none.
    fn take_empty(&self, full: u32, probe: &mut P::Probe) -> Option<u32> {
        self.exchange(full, probe, |place| Some((place, place + 1)))
    }

    /// Exchanges a magazine for that at a place. From the number of full magazines, `choose` returns the place, and the
    /// number of full magazines after the exchange.
    fn exchange(
        &self,
        given: u32,
        probe: &mut P::Probe,
        choose: impl FnOnce(u32) -> Option<(u32, u32)>,
    ) -> Option<u32> {
        let _section = Section::<P>::begin();
        let _guard = Guard::lock(&self.lock, probe);
        // Relaxed: the lock orders all writes, and all reads except hints.
        let (place, full) = choose(self.full.load(Ordering::Relaxed))?;
        let cell = self.numbers.get(place as usize)?;
        let taken = cell.get();
        cell.set(given);
        self.full.store(full, Ordering::Relaxed);
        Some(taken)
    }

    /// Returns the number of frames. A hint.
    fn frames(&self) -> u64 {
        u64::from(self.full.load(Ordering::Relaxed)) * u64::from(self.size)
    }
}

/// The magazines of one CPU. The first cache line holds everything that a hit touches.
#[repr(C, align(64))]
pub struct MagazineList<'a, P: Platform> {
    /// The frames in the loaded magazine.
    top: P::Cell<u32>,
    /// The number of the loaded magazine.
    loaded: P::Cell<u32>,
    /// As in [`LinuxList`](super::linux::LinuxList): a request hits while `top` is above the low half, a free while it
    /// is below the high half.
    marks: P::AtomicU64,
    /// The entries of all magazines.
    entries: RingEntries<'a, P>,
    shift: u32,
    size: u32,
    /// The number of the previous magazine.
    previous: P::Cell<u32>,
    /// The frames in it: 0 or `size`.
    previous_top: P::Cell<u32>,
    depot: &'a Depot<'a, P>,
}

impl<'a, P: Platform> MagazineList<'a, P> {
    /// Plans the magazines of `size` frames of all CPUs, and the depot.
    pub(crate) fn plan(plan: ArenaPlan, size: u32, cpus: u16) -> ArenaPlan {
        plan.slices::<P::Cell<u32>>(1 << shift(size), planned(cpus))
            .slice::<P::Cell<u32>>(stored(cpus))
            .slice::<Depot<'_, P>>(1)
    }

    /// Returns a function that creates the list of a CPU, closed.
    pub(crate) fn maker(
        arena: &mut Arena<'a>,
        (size, locks): (u32, Locks<'a, P>),
        cpus: u16,
    ) -> Result<impl FnMut(usize) -> Self + use<'a, P>, BuildError> {
        let (shift, planned) = (shift(size), planned(cpus));
        let entries = arena.zeros_of_all::<P, u32>("entry of a magazine", 1 << shift, planned)?;
        let first = OF_CPU * u32::from(cpus);
        let number = |index: usize| P::Cell::new(first + index as u32);
        let numbers = arena.slice("magazine in the depot", stored(cpus), number)?;
        let depot = arena.one(
            "depot",
            Depot {
                lock: ZoneLock::new(locks),
                full: P::AtomicU32::new(0),
                size,
                numbers,
            },
        )?;
        Ok(move |cpu: usize| {
            let own = OF_CPU * cpu as u32;
            Self {
                top: P::Cell::new(0),
                loaded: P::Cell::new(own),
                marks: P::AtomicU64::new(CLOSED_MARKS),
                entries: WrappingSlice::new(entries),
                shift,
                size,
                previous: P::Cell::new(own + 1),
                previous_top: P::Cell::new(0),
                depot,
            }
        })
    }

    /// Returns the tag of the frames in a magazine.
    #[inline(always)]
    fn tag(magazine: u32) -> Tag {
        Tag::buffered(Order::ZERO, CpuId(magazine as u16))
    }

    /// Returns the entry at a position of a magazine.
    #[inline(always)]
    fn entry(&self, magazine: u32, position: u32) -> &'a P::Cell<u32> {
        self.entries.at((magazine << self.shift) + position)
    }

    /// Lets the loaded and the previous magazine change places. The loaded one is full or empty.
    fn swap(&self) {
        let (loaded, top) = (self.loaded.get(), self.top.get());
        self.loaded.set(self.previous.get());
        self.top.set(self.previous_top.get());
        self.previous.set(loaded);
        self.previous_top.set(top);
    }

    /// Exchanges the previous magazine, which is empty, for a full one of the depot. Returns `false` if there is none.
    fn fetch(&self, caller: &mut Caller<'_, P>) -> bool {
        let Some(number) = self.depot.take_full(self.previous.get(), caller.probe) else {
            return false;
        };
        self.previous.set(number);
        self.previous_top.set(self.size);
        true
    }

    /// Exchanges the previous magazine, which is full, for an empty one of the depot. Returns `false` if there is none.
    fn store(&self, caller: &mut Caller<'_, P>) -> bool {
        let Some(number) = self.depot.take_empty(self.previous.get(), caller.probe) else {
            return false;
        };
        self.previous.set(number);
        self.previous_top.set(0);
        true
    }

    /// Removes the youngest frame of the loaded magazine that still belongs to it, and tags it as allocated. Drops the
    /// frames above it, which were freed twice.
    fn pop_own(&self, caller: &mut Caller<'_, P>, table: FrameTable<'_, P>) -> Option<Frame> {
        let loaded = self.loaded.get();
        while let Some(top) = self.top.get().checked_sub(1) {
            self.top.set(top);
            let Some(head) = table.frame(Index(self.entry(loaded, top).get())) else {
                continue;
            };
            if table.tag(head) == Self::tag(loaded) {
                table.set_tag(head, Tag::allocated(Order::ZERO));
                return Some(head);
            }
            caller.probe.record(Event::RacedDoubleFree);
        }
        None
    }

    /// Moves a magazine of frames from the zone into the loaded one, which is empty. Returns the first frame, tagged as
    /// allocated. The others are then allocated in the order in which they came.
    fn refill_loaded<Z: ZoneLayer<P>>(
        &self,
        caller: &mut Caller<'_, P>,
        zone: &Z,
    ) -> Option<Frame> {
        let loaded = self.loaded.get();
        let (mut first, mut count) = (None, 0);
        let tag = Self::tag(loaded);
        let moved = zone.allocate_bulk(caller, Order::ZERO, self.size, tag, |head| match first {
            None => first = Some(head),
            Some(_) => {
                self.entry(loaded, count).set(head.index().0);
                count += 1;
            }
        });
        for low in 0..count / 2 {
            let (low, high) = (self.entry(loaded, low), self.entry(loaded, count - 1 - low));
            let number = low.get();
            low.set(high.get());
            high.set(number);
        }
        self.top.set(count);
        caller.probe.record(Event::Refill { frames: moved });
        let head = first?;
        zone.table().set_tag(head, Tag::allocated(Order::ZERO));
        Some(head)
    }

    /// Returns all frames of a magazine to the zone, the oldest first, under one lock.
    fn drain_magazine<Z: ZoneLayer<P>>(
        &self,
        caller: &mut Caller<'_, P>,
        zone: &Z,
        magazine: u32,
        top: &P::Cell<u32>,
    ) {
        let frames = top.get();
        if frames == 0 {
            return;
        }
        let (table, tag) = (zone.table(), Self::tag(magazine));
        let mut next = 0;
        zone.free_bulk(caller, || {
            if next == frames {
                return None;
            }
            let head = table.frame(Index(self.entry(magazine, next).get()))?;
            next += 1;
            Some((head, Order::ZERO, tag))
        });
        top.set(0);
        caller.probe.record(Event::Drain { frames });
    }

    /// Returns all frames of the previous magazine to the zone.
    fn drain_previous<Z: ZoneLayer<P>>(&self, caller: &mut Caller<'_, P>, zone: &Z) {
        self.drain_magazine(caller, zone, self.previous.get(), &self.previous_top);
    }
}

impl<P: Platform> CpuList<P> for MagazineList<'_, P> {
    #[inline(always)]
    fn caches(&self, order: Order) -> bool {
        order == Order::ZERO
    }

    #[inline(always)]
    fn pop(
        &self,
        table: FrameTable<'_, P>,
        _: CpuId,
        order: Order,
        _: Hint,
        _: &mut Missed,
    ) -> Option<Frame> {
        if order != Order::ZERO {
            return None;
        }
        // A hint while the list is closed, and not used then: another CPU may be draining the list.
        let top = self.top.peek();
        // Relaxed: a close may be seen late; the CPU that closed the list waits for that.
        if top <= self.marks.load(Ordering::Relaxed) as u32 {
            return None;
        }
        let loaded = self.loaded.get();
        let head = table.frame(Index(self.entry(loaded, top - 1).get()))?;
        if table.tag(head) != Self::tag(loaded) {
            return None;
        }
        table.set_tag(head, Tag::allocated(Order::ZERO));
        self.top.set(top - 1);
        Some(head)
    }

    #[inline(always)]
    fn push(
        &self,
        table: FrameTable<'_, P>,
        _: CpuId,
        head: Frame,
        order: Order,
        _: Hint,
        _: &mut Missed,
    ) -> bool {
        let top = self.top.peek();
        // A hint, and relaxed: as in `pop`.
        if order != Order::ZERO || top >= (self.marks.load(Ordering::Relaxed) >> 32) as u32 {
            return false;
        }
        if table.tag(head) != Tag::allocated(Order::ZERO) {
            return false;
        }
        let loaded = self.loaded.get();
        table.set_tag(head, Self::tag(loaded));
        self.entry(loaded, top).set(head.index().0);
        self.top.set(top + 1);
        true
    }

    fn refill<Z: ZoneLayer<P>>(
        &self,
        caller: &mut Caller<'_, P>,
        zone: &Z,
        _: Order,
        _: Hint,
    ) -> Option<Frame> {
        loop {
            // A magazine that is not empty was closed, was swapped or fetched, or has frames that were freed twice.
            if let Some(head) = self.pop_own(caller, zone.table()) {
                return Some(head);
            }
            if self.previous_top.get() == 0 && !self.fetch(caller) {
                return self.refill_loaded(caller, zone);
            }
            self.swap();
        }
    }

    fn overflow<Z: ZoneLayer<P>>(
        &self,
        caller: &mut Caller<'_, P>,
        zone: &Z,
        head: Frame,
        _: Order,
        _: Hint,
    ) -> bool {
        let table = zone.table();
        // Before anything moves: misuse changes nothing.
        if table.tag(head) != Tag::allocated(Order::ZERO) {
            return false;
        }
        if self.top.get() == self.size {
            if self.previous_top.get() > 0 && !self.store(caller) {
                self.drain_previous(caller, zone);
            }
            self.swap();
        }
        let (loaded, top) = (self.loaded.get(), self.top.get());
        table.set_tag(head, Self::tag(loaded));
        self.entry(loaded, top).set(head.index().0);
        self.top.set(top + 1);
        true
    }

    /// Drains the depot, too: each full magazine of it becomes the previous one of this CPU.
    fn drain<Z: ZoneLayer<P>>(&self, caller: &mut Caller<'_, P>, _: CpuId, zone: &Z) {
        self.drain_magazine(caller, zone, self.loaded.get(), &self.top);
        loop {
            self.drain_previous(caller, zone);
            if !self.fetch(caller) {
                return;
            }
        }
    }

    #[inline]
    fn open(&self) {
        // As in Linux's list. Acquire: pairs with the release in `close`. Release: passes that on.
        self.marks
            .swap(u64::from(self.size) << 32, Ordering::AcqRel);
    }

    #[inline]
    fn close(&self) {
        // Release: pairs with the acquire in `open`. Acquire: an owner that parks replaces a requester's close.
        self.marks.swap(CLOSED_MARKS, Ordering::AcqRel);
    }

    #[inline]
    fn is_closed(&self) -> bool {
        self.marks.load(Ordering::Relaxed) == CLOSED_MARKS
    }

    fn frames(&self) -> u64 {
        u64::from(self.top.peek()) + u64::from(self.previous_top.peek())
    }

    fn shared_frames(&self) -> u64 {
        self.depot.frames()
    }
}
