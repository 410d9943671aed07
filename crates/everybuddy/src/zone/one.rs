//! One zone under one lock.
//!
//! Source: iBuddy (000) section 2.1 and figure 8a: the buddy layer as a single resource.
//!
//! Why it exists: it is what Linux has for each zone of memory, and the lock that the other zone layers
//! want to avoid.
//!
//! Invariant: structure, and the records of free blocks' heads, are touched only while the lock is held.
//! The lock has a cache line of its own: waiters that look at it don't slow its holder's work on the lists.

use super::{Caller, ZoneLayer, range};
use crate::arena::{Arena, ArenaPlan};
use crate::coalesce::{Coalesce, Row};
use crate::error::{AllocateError, BuildError, FreeError, RegionError};
use crate::frame::{Order, Pfn};
use crate::frame_table::{Frame, FrameTable, Tag};
use crate::lock::{Guard, RawLock};
use crate::platform::Platform;
use crate::probe::{Event, Probe};
use crate::snapshot::{Census, Snapshot, Violation};
use crate::structure::Structure;

/// A lock on a line of its own.
#[repr(C, align(64))]
pub(crate) struct LockLine<L>(L);

/// One zone: a structure, a policy, a lock.
pub(crate) struct OneZone<'a, P: Platform, S, C, L> {
    lock: &'a LockLine<L>,
    structure: S,
    policy: C,
    table: FrameTable<'a, P>,
}

impl<'a, P: Platform, S: Structure<P>, C: Coalesce<P>, L: RawLock<P>> OneZone<'a, P, S, C, L> {
    /// Plans the memory of [`new`](Self::new) beside the structure's.
    pub(crate) fn plan(plan: ArenaPlan) -> ArenaPlan {
        plan.slice::<LockLine<L>>(1)
    }

    /// Makes a zone around an empty structure.
    pub(crate) fn new(
        arena: &mut Arena<'a>,
        table: FrameTable<'a, P>,
        structure: S,
        policy: C,
    ) -> Result<Self, BuildError> {
        Ok(Self {
            lock: arena.one(LockLine(L::new()))?,
            structure,
            policy,
            table,
        })
    }

    /// Makes a run of interior frames free, before the zone is in use. O(frames / largest block + orders).
    pub(crate) fn seed(&self, start: Pfn, frames: u32) {
        if let Some(start) = self.table.frame(start) {
            let probe = &mut P::Probe::default();
            range::free_pieces(&self.structure, &self.policy, start, frames, probe);
        }
    }

    /// Takes the lock; a nested caller only tries.
    #[inline]
    fn enter(&self, caller: &mut Caller<'_, P>) -> Option<Guard<'_, P, L>> {
        if caller.nested {
            Guard::try_lock(&self.lock.0, caller.probe)
        } else {
            Some(Guard::lock(&self.lock.0, caller.probe))
        }
    }

    /// Takes in the blocks that `source` yields, those that follow each other in memory in one go. A block
    /// whose head is not tagged as yielded is left alone, and `wrong` says whether to go on. Under the lock.
    ///
    /// A block that comes twice doesn't follow itself, so it is looked at when its first coming was freed.
    #[inline]
    fn take_in(
        &self,
        probe: &mut P::Probe,
        mut source: impl FnMut() -> Option<(Frame, Order, Tag)>,
        mut wrong: impl FnMut(Frame, &mut P::Probe) -> bool,
    ) {
        let mut next = source();
        while let Some((head, order, tag)) = next {
            if self.table.tag(head) != tag {
                if !wrong(head, probe) {
                    return;
                }
                next = source();
                continue;
            }
            let mut row = Row {
                head,
                order,
                blocks: 1,
            };
            loop {
                next = source();
                match next {
                    Some((head, order, tag))
                        if row.is_followed_by(head, order) && self.table.tag(head) == tag =>
                    {
                        row.blocks += 1;
                    }
                    _ => break,
                }
            }
            if row.blocks == 1 {
                self.policy.free(&self.structure, head, order, probe);
            } else {
                self.policy.free_row(&self.structure, row, probe);
            }
        }
    }

    /// Takes the lock for what no nested caller does.
    fn enter_whole(&self, caller: &mut Caller<'_, P>) -> Guard<'_, P, L> {
        debug_assert!(!caller.nested);
        Guard::lock(&self.lock.0, caller.probe)
    }
}

impl<P: Platform, S: Structure<P>, C: Coalesce<P>, L: RawLock<P>> ZoneLayer<P>
    for OneZone<'_, P, S, C, L>
{
    #[inline(always)]
    fn table(&self) -> FrameTable<'_, P> {
        self.table
    }

    #[inline(always)]
    fn max_order(&self) -> Order {
        self.structure.max_order()
    }

    #[inline]
    fn allocate(&self, caller: &mut Caller<'_, P>, order: Order) -> Result<Frame, AllocateError> {
        let _guard = self.enter(caller).ok_or(AllocateError::Busy)?;
        let head = self
            .policy
            .allocate(&self.structure, order, caller.probe)
            .ok_or(AllocateError::Exhausted)?;
        self.table.set_tag(head, Tag::allocated(order));
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
        let _guard = self.enter(caller).ok_or(AllocateError::Busy)?;
        let head = self
            .policy
            .allocate(&self.structure, order, caller.probe)
            .ok_or(AllocateError::Exhausted)?;
        range::tag_allocated(self.table, head, frames);
        let rest = head.offset(frames);
        let remnant = order.frames() - frames;
        range::free_pieces(&self.structure, &self.policy, rest, remnant, caller.probe);
        Ok(head)
    }

    #[inline]
    fn allocate_bulk(
        &self,
        caller: &mut Caller<'_, P>,
        order: Order,
        wanted: u32,
        tag: Tag,
        mut sink: impl FnMut(Frame),
    ) -> u32 {
        let Some(_guard) = self.enter(caller) else {
            return 0;
        };
        self.policy
            .allocate_bulk(&self.structure, order, wanted, caller.probe, |head| {
                self.table.set_tag(head, tag);
                sink(head);
            })
    }

    #[inline]
    fn free(
        &self,
        caller: &mut Caller<'_, P>,
        head: Frame,
        order: Order,
        tag: Tag,
    ) -> Result<(), FreeError> {
        let _guard = self.enter(caller).ok_or(FreeError::Busy)?;
        if self.table.tag(head) != tag {
            return Err(self.table.diagnose(head));
        }
        self.policy.free(&self.structure, head, order, caller.probe);
        Ok(())
    }

    #[inline]
    fn free_bulk(
        &self,
        caller: &mut Caller<'_, P>,
        source: impl FnMut() -> Option<(Frame, Order, Tag)>,
    ) {
        let _guard = self.enter_whole(caller);
        self.take_in(caller.probe, source, |_, probe| {
            probe.record(Event::RacedDoubleFree);
            true
        });
    }

    fn free_each(
        &self,
        caller: &mut Caller<'_, P>,
        mut source: impl FnMut() -> Option<(Frame, Order)>,
    ) -> Result<(), FreeError> {
        let _guard = self.enter(caller).ok_or(FreeError::Busy)?;
        let mut result = Ok(());
        let source = || source().map(|(head, order)| (head, order, Tag::allocated(order)));
        self.take_in(caller.probe, source, |head, _| {
            result = Err(self.table.diagnose(head));
            false
        });
        result
    }

    fn free_run(
        &self,
        caller: &mut Caller<'_, P>,
        start: Frame,
        frames: u32,
    ) -> Result<(), FreeError> {
        let _guard = self.enter(caller).ok_or(FreeError::Busy)?;
        range::free_run(&self.structure, &self.policy, start, frames, caller.probe)
    }

    fn add(
        &self,
        caller: &mut Caller<'_, P>,
        start: Pfn,
        frames: u32,
        from: Tag,
    ) -> Result<(), RegionError> {
        let _guard = self.enter_whole(caller);
        range::add(
            &self.structure,
            &self.policy,
            start,
            frames,
            from,
            caller.probe,
        )
    }

    fn withdraw(
        &self,
        caller: &mut Caller<'_, P>,
        start: Pfn,
        frames: u32,
        to: Tag,
    ) -> Result<(), RegionError> {
        let _guard = self.enter_whole(caller);
        range::withdraw(&self.structure, start, frames, to)
    }

    fn snapshot(&self, caller: &mut Caller<'_, P>) -> Snapshot {
        let _guard = self.enter_whole(caller);
        let mut free_blocks = [0; Order::LIMIT.index() + 1];
        for (order, blocks) in Order::up_to(Order::LIMIT).zip(&mut free_blocks) {
            *blocks = self.structure.blocks(order);
        }
        Snapshot {
            free_blocks,
            buffered_frames: 0,
        }
    }

    fn check(&self, caller: &mut Caller<'_, P>) -> Result<Census, Violation> {
        let _guard = self.enter_whole(caller);
        crate::check::zone(&self.structure, &self.policy)
    }
}
