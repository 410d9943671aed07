//! One zone under one lock.
//!
//! It is what Linux has for each zone of memory, and the lock that the other zone layers avoid.
//!
//! # Source
//! \[iBuddy\] §2.1 and figure 8a: the buddy layer as a single resource.
//!
//! # Invariants
//! The structure, and the records of the heads of free blocks, are touched only while the lock is held.

use core::marker::PhantomData;

use super::bulk;
use super::memory::LockedPart;
use super::supply::{self, Demand, Supplied};
use super::{Caller, ZoneLayer, range};
use crate::cache_padded::CachePadded;
use crate::coalesce::Coalesce;
use crate::detail::Detail;
use crate::error::{AllocateError, FreeError, RangeError};
use crate::frame::{Index, Order};
use crate::frame_table::{Frame, FrameTable, Tag};
use crate::lock::{Guard, Hold, InlineGuard, Unserved, ZoneLock};
use crate::platform::Platform;
use crate::probe::{Event, Probe};
use crate::snapshot::{Census, Snapshot, Violation};
use crate::structure::Placed;

/// One zone: a structure, a policy, a lock.
pub struct OneZone<'a, P: Platform, S, C> {
    lock: &'a ZoneLock<'a, P>,
    /// On lines of its own: a structure may have its lists in itself, next to what hits of lists read.
    structure: CachePadded<S>,
    policy: C,
    hold: Hold,
    memory: PhantomData<&'a P>,
}

impl<'a, P: Platform, S: Placed<'a, P>, C: Coalesce<P, S>> OneZone<'a, P, S, C> {
    /// Creates a zone around an empty structure.
    pub(crate) fn new((lock, place): LockedPart<'a, P>, policy: C, hold: Hold) -> Self {
        Self {
            lock,
            structure: CachePadded::new(S::new(place)),
            policy,
            hold,
            memory: PhantomData,
        }
    }

    /// Adds a run of interior frames as free, before the zone is in use. O(frames / largest block + orders).
    pub(crate) fn seed(&self, start: Index, frames: u32) {
        if let Some(start) = self.structure.table().frame(start) {
            let probe = &mut P::Probe::default();
            range::adopt_pieces(&*self.structure, &self.policy, start, frames, probe);
        }
    }

    /// Acquires the lock for an operation that no nested caller performs.
    fn enter_whole<'c>(&'c self, caller: &'c mut Caller<'_, P>) -> Guard<'c, P> {
        debug_assert!(!caller.nested);
        Guard::lock(self.lock, caller.probe)
    }
}

impl<'a, P: Platform, S: Placed<'a, P>, C: Coalesce<P, S>> ZoneLayer<P> for OneZone<'a, P, S, C> {
    const HAS_CLASSES: bool = S::HAS_CLASSES;
    const TRIES: bool = true;

    #[inline(always)]
    fn table(&self) -> FrameTable<'_, P> {
        self.structure.table()
    }

    #[inline(always)]
    fn max_order(&self) -> Order {
        self.structure.max_order()
    }

    #[inline(always)]
    fn try_allocate(&self, caller: &mut Caller<'_, P>) -> Result<Frame, Unserved> {
        let guard = InlineGuard::try_lock(self.lock, caller.probe)?;
        self.structure.select(caller.class);
        let frame = self
            .policy
            .allocate(&*self.structure, Order::ZERO, guard.probe)
            .ok_or(Unserved::Other)?;
        let table = self.structure.table();
        table.set_tag(frame, Tag::allocated(Order::ZERO));
        Ok(frame)
    }

    #[inline(always)]
    fn allocate(&self, caller: &mut Caller<'_, P>, order: Order) -> Result<Frame, AllocateError> {
        let class = caller.class;
        let guard = caller.enter(self.lock).ok_or(AllocateError::Busy)?;
        self.structure.select(class);
        let head = self
            .policy
            .allocate(&*self.structure, order, guard.probe)
            .ok_or(AllocateError::Exhausted)?;
        self.structure.table().set_tag(head, Tag::allocated(order));
        Ok(head)
    }

    fn allocate_run(
        &self,
        caller: &mut Caller<'_, P>,
        frames: u32,
    ) -> Result<Frame, AllocateError> {
        let order = Order::covering(frames)
            .filter(|order| *order <= self.max_order())
            .ok_or(AllocateError::TooLarge {
                largest: self.max_order(),
            })?;
        let class = caller.class;
        let guard = caller.enter(self.lock).ok_or(AllocateError::Busy)?;
        self.structure.select(class);
        let head = self
            .policy
            .allocate(&*self.structure, order, guard.probe)
            .ok_or(AllocateError::Exhausted)?;
        range::tag_allocated(self.structure.table(), head, frames);
        self.policy
            .split_allocated(&*self.structure, order, frames, order.frames());
        let rest = head.offset(frames);
        let remnant = order.frames() - frames;
        range::free_pieces(&*self.structure, &self.policy, rest, remnant, guard.probe);
        Ok(head)
    }

    #[inline]
    fn allocate_bulk(
        &self,
        caller: &mut Caller<'_, P>,
        order: Order,
        wanted: u32,
        tag: Tag,
        sink: impl FnMut(Frame),
    ) -> u32 {
        let class = caller.class;
        let Some(mut guard) = caller.enter(self.lock) else {
            return 0;
        };
        self.structure.select(class);
        let parts = (&*self.structure, &self.policy);
        bulk::allocate(self.hold, &mut guard, parts, order, wanted, tag, sink)
    }

    #[inline(always)]
    fn try_free(&self, caller: &mut Caller<'_, P>, frame: Frame, tag: Tag) -> Result<(), Unserved> {
        let guard = InlineGuard::try_lock(self.lock, caller.probe)?;
        if self.structure.table().tag(frame) != tag {
            return Err(Unserved::Other);
        }
        self.policy
            .free(&*self.structure, frame, Order::ZERO, guard.probe);
        Ok(())
    }

    #[inline(always)]
    fn free(
        &self,
        caller: &mut Caller<'_, P>,
        head: Frame,
        order: Order,
        tag: Tag,
    ) -> Result<(), FreeError> {
        let guard = caller.enter(self.lock).ok_or(FreeError::Busy)?;
        if self.structure.table().tag(head) != tag {
            return Err(self.structure.table().diagnose(head));
        }
        self.policy.free(&*self.structure, head, order, guard.probe);
        Ok(())
    }

    #[inline]
    fn free_bulk(
        &self,
        caller: &mut Caller<'_, P>,
        mut source: impl FnMut() -> Option<(Frame, Order, Tag)>,
    ) {
        let mut guard = self.enter_whole(caller);
        let parts = (&*self.structure, &self.policy);
        let mut next = source();
        let all = 0..u32::MAX;
        bulk::free(
            self.hold,
            &mut guard,
            parts,
            all,
            &mut next,
            source,
            |_, p| {
                p.record(Event::RacedDoubleFree);
                true
            },
        );
    }

    fn free_each(
        &self,
        caller: &mut Caller<'_, P>,
        mut source: impl FnMut() -> Option<(Frame, Order)>,
    ) -> Result<(), FreeError> {
        let mut guard = caller.enter(self.lock).ok_or(FreeError::Busy)?;
        let mut result = Ok(());
        let mut source = || source().map(|(head, order)| (head, order, Tag::allocated(order)));
        let parts = (&*self.structure, &self.policy);
        let mut next = source();
        bulk::free(
            self.hold,
            &mut guard,
            parts,
            0..u32::MAX,
            &mut next,
            source,
            |at, _| {
                result = Err(self.table().diagnose(at));
                false
            },
        );
        result
    }

    fn free_run(
        &self,
        caller: &mut Caller<'_, P>,
        start: Frame,
        frames: u32,
    ) -> Result<(), FreeError> {
        let guard = caller.enter(self.lock).ok_or(FreeError::Busy)?;
        range::free_run(&*self.structure, &self.policy, start, frames, guard.probe)
    }

    fn supply(
        &self,
        caller: &mut Caller<'_, P>,
        demand: Demand,
        owned: impl FnMut() -> Option<Frame>,
        sink: impl FnMut(Frame, Order, Supplied),
    ) -> u32 {
        // Single frames and delayed blocks are taken by their policies only.
        if S::INDIVIDUAL || C::DELAYS {
            return 0;
        }
        let guard = self.enter_whole(caller);
        let parts = (&*self.structure, &self.policy);
        supply::supply(parts, demand, guard.probe, owned, sink)
    }

    fn add(
        &self,
        caller: &mut Caller<'_, P>,
        start: Index,
        frames: u32,
        from: Tag,
    ) -> Result<(), RangeError> {
        let guard = self.enter_whole(caller);
        range::add(
            &*self.structure,
            &self.policy,
            start,
            frames,
            from,
            guard.probe,
        )
    }

    fn withdraw(
        &self,
        caller: &mut Caller<'_, P>,
        start: Index,
        frames: u32,
        to: Tag,
    ) -> Result<(), RangeError> {
        let guard = self.enter_whole(caller);
        let (structure, policy) = (&*self.structure, &self.policy);
        range::withdraw(structure, policy, start, frames, to, guard.probe)
    }

    fn allocate_at(
        &self,
        caller: &mut Caller<'_, P>,
        start: Index,
        frames: u32,
    ) -> Result<Frame, RangeError> {
        let guard = self.enter_whole(caller);
        range::allocate_at(&*self.structure, &self.policy, start, frames, guard.probe)
    }

    fn settle(&self, caller: &mut Caller<'_, P>) -> bool {
        if C::DELAYS {
            let guard = self.enter_whole(caller);
            self.policy.settle(&*self.structure, guard.probe);
        }
        true
    }

    fn snapshot(&self, caller: &mut Caller<'_, P>) -> Snapshot {
        let _guard = self.enter_whole(caller);
        Snapshot {
            page_blocks: self.structure.page_blocks(),
            ..Snapshot::of_blocks(self.structure.blocks_by_order())
        }
    }

    fn free_frames(&self) -> u64 {
        self.structure.free_frames()
    }

    fn inspect(&self, see: &mut dyn FnMut(Detail)) {
        self.structure.inspect(0, 0..self.table().frames(), see);
    }

    fn check(&self, caller: &mut Caller<'_, P>) -> Result<Census, Violation> {
        let _guard = self.enter_whole(caller);
        let promised = self.policy.check(&self.structure);
        promised.map_err(Violation::overall)?;
        crate::check::walk(&*self.structure, 0..self.table().frames())
    }
}
