//! Buddy spaces: memory in parts, each with a lock and a free area of its own.
//!
//! With one space assigned to each CPU, CPUs meet at a lock only when one frees what another allocated, or when
//! spaces have run out. The blocks that one CPU splits are in its space, not everywhere in memory.
//!
//! # Source
//! \[iBuddy\] §3.2, §5, algorithms 1 and 2, figure 8b.
//!
//! # Invariants
//! A block lies in one space. A space's structure and its count of free frames are touched only under its lock. What
//! the pool records of an unassigned space is what the space can provide, once every operation on it has ended; see
//! [`pool`](super::pool) for states and lock order. Which frames are holes or reserved changes only under the range
//! lock, so a range that was found to be a hole is one until the operation on it ends.
//!
//! # Design decisions
//! The paper does not decide the following:
//! - Algorithm 1 looks at a space before it acquires the lock. Here the space is tried under its lock. If it cannot
//!   serve, it is tried again, and exchanged in the same critical section, so no other CPU can intervene. (Tried once,
//!   each request would have the registers saved that an exchange needs.)
//! - A CPU keeps a space that cannot serve a request if no other space can either.
//! - If no unassigned space can serve, the spaces of the other CPUs are tried one by one, and the one that serves is
//!   shared.
//! - A request fails as exhausted if all of that failed, and meanwhile no space was reassigned and no frame was freed:
//!   a frame may be freed into a space that was tried already, while another CPU takes one from a space that was not.
//!
//! # Complexity
//! Allocating and freeing is O(orders) with one lock, and a lock of the pool when a space is exchanged or an unassigned
//! one changes its list: twice while all of it is freed. A request tries the spaces of all CPUs before it fails.
//!
//! # A walk: `lis-1`
//! 1. `Spaces` looks up the CPU's space and acquires its lock. The policy asks `Inverse`, which takes the first frame
//!    of the list of the highest level and clears its bit. It splits nothing.
//! 2. If the space has no such frame, it is exchanged while its lock is held: for the first partly used space of the
//!    pool, or a free one if there is none. If no space is unassigned, the spaces of other CPUs are tried, and the one
//!    that serves is shared.
//! 3. A frame that is freed goes into the space that contains it, whichever CPU owns that space. Its level rises while
//!    the neighbouring group is free; then it is inserted. If the space is unassigned, and was all used before or is
//!    all free now, it changes its list in the pool.

use core::marker::PhantomData;
use core::ops::Range;

use super::bulk;
use super::pool::{Pool, PoolOptions, SpaceRecord, State};
use super::space::Space;
use super::{Caller, ZoneLayer, range};
use crate::arena::{Arena, ArenaPlan};
use crate::cache_padded::CachePadded;
use crate::coalesce::Coalesce;
use crate::detail::Detail;
use crate::error::{AllocateError, BuildError, FreeError, RangeError};
use crate::frame::{Index, Order};
use crate::frame_table::{Frame, FrameTable, Tag};
use crate::lock::{Guard, Hold, InlineGuard, Locks, Unserved, ZoneLock};
use crate::platform::{CpuId, Platform, SharedCell};
use crate::probe::{Event, Probe};
use crate::snapshot::{Census, Snapshot, Violation};
use crate::structure::{Placed, StructurePlace};

/// All spaces.
pub struct Spaces<'a, P: Platform, S, C> {
    pub(super) spaces: &'a [Space<'a, P, S>],
    pub(super) pool: Pool<'a, P, Space<'a, P, S>>,
    table: FrameTable<'a, P>,
    /// Frames of a space, as a power of two.
    shift: u32,
    max_order: Order,
    policy: C,
    hold: Hold,
    /// Held while a range is added or withdrawn.
    range_lock: &'a CachePadded<ZoneLock<'a, P>>,
    memory: PhantomData<&'a P>,
}

impl<'a, P: Platform, S: Placed<'a, P>, C: Coalesce<P, S>> Spaces<'a, P, S, C> {
    /// Plans the memory of [`new`](Self::new), in addition to that of the structures.
    pub(crate) fn plan(plan: ArenaPlan, spaces: u32, cpus: u16, shards: u32) -> ArenaPlan {
        let plan = plan.slice::<Space<'a, P, S>>(spaces as usize);
        Pool::<P, Space<'a, P, S>>::plan(plan, spaces, cpus, shards)
            .slice::<CachePadded<ZoneLock<'_, P>>>(1)
    }

    /// Creates spaces of 2^`shift` frames, all empty.
    pub(crate) fn new(
        arena: &mut Arena<'a>,
        (table, shift, max_order): (FrameTable<'a, P>, u32, Order),
        locks: Locks<'a, P>,
        part: impl Fn(u32) -> StructurePlace<'a, P>,
        (cpus, options): (u16, PoolOptions),
        policy: C,
        hold: Hold,
    ) -> Result<Self, BuildError> {
        let count = table.frames().div_ceil(1 << shift);
        let spaces = arena.slice("space", count as usize, |index| {
            let record = SpaceRecord::new(options.exchange, cpus, index, count);
            Space::new(ZoneLock::new(locks), record, part(index as u32))
        })?;
        Ok(Self {
            spaces,
            pool: Pool::new(arena, spaces, cpus, locks, options)?,
            table,
            shift,
            max_order,
            policy,
            hold,
            range_lock: arena.one("lock of ranges", CachePadded::new(ZoneLock::new(locks)))?,
            memory: PhantomData,
        })
    }

    /// Adds a run of interior frames as free, before the spaces are in use. O(frames / largest block + orders),
    /// with iBuddy's structure O(frames x orders).
    pub(crate) fn seed(&self, start: Index, frames: u32) {
        let probe = &mut P::Probe::default();
        for (index, start, frames) in self.parts(start, frames) {
            if let (Some(space), Some(first)) =
                (self.spaces.get(index as usize), self.table.frame(start))
            {
                range::adopt_pieces(&space.structure, &self.policy, first, frames, probe);
                space.give(frames);
                space.managed.set(space.managed.get() + frames);
                self.pool.settle(index, space.state());
            }
        }
    }

    /// Splits a run at the borders of spaces: space, first frame, frames.
    fn parts(
        &self,
        start: Index,
        frames: u32,
    ) -> impl Iterator<Item = (u32, Index, u32)> + use<'a, P, S, C> {
        let (shift, end) = (self.shift, start.0 + frames);
        let mut at = start.0;
        core::iter::from_fn(move || {
            if at >= end {
                return None;
            }
            let index = at >> shift;
            // In 64 bits, since the last space may end where frame numbers do.
            let border = (u64::from(index) + 1) << shift;
            let upto = border.min(u64::from(end)) as u32;
            let part = (index, Index(at), upto - at);
            at = upto;
            Some(part)
        })
    }

    fn frames_of(&self, index: u32) -> Range<u32> {
        let end = (u64::from(index) + 1) << self.shift;
        index << self.shift..end.min(u64::from(self.table.frames())) as u32
    }

    /// Updates what the pool records of an unassigned space. Under the space's lock; not for a nested caller.
    #[inline(always)]
    pub(super) fn update_pool(&self, index: u32, space: &Space<'a, P, S>, probe: &mut P::Probe) {
        if !space.is_settled() {
            self.update_unassigned(index, space, probe);
        }
    }

    /// Updates it if the pool records another state.
    #[inline(never)]
    fn update_unassigned(&self, index: u32, space: &Space<'a, P, S>, probe: &mut P::Probe) {
        let state = space.state();
        if !space.is_recorded_as(state) {
            self.change_state(index, state, probe);
        }
    }

    /// Updates it, and releases the space's lock.
    #[cold]
    #[inline(never)]
    fn update_and_release(
        &self,
        frame: Frame,
        space: &Space<'a, P, S>,
        guard: InlineGuard<'_, P>,
    ) -> Result<(), Unserved> {
        self.update_unassigned(frame.index().0 >> self.shift, space, guard.probe);
        Ok(())
    }

    /// Records a state, with the pool's lock if the space changes its list.
    #[inline(never)]
    fn change_state(&self, index: u32, state: State, probe: &mut P::Probe) {
        if !self.pool.stays(index, state)
            && let Some(_pool) = self.pool.enter(self.pool.shard_of(index), probe, false)
        {
            self.pool.settle(index, state);
        }
    }

    /// Serves a request that the CPU's own space could not serve; it may be able to now.
    #[cold]
    #[inline(never)]
    fn allocate_elsewhere(
        &self,
        caller: &mut Caller<'_, P>,
        order: Order,
    ) -> Result<Frame, AllocateError> {
        if caller.cpu.index() >= self.pool.cpus() {
            return Err(AllocateError::Busy);
        }
        self.try_spaces(caller, order, |space, guard| {
            let head = self.policy.allocate(&space.structure, order, guard.probe)?;
            self.table.set_tag(head, Tag::allocated(order));
            Some((head, order.frames()))
        })
    }

    /// Adds a range, space by space. The caller holds the range lock, so no space rejects a part that was found valid.
    fn add_parts(
        &self,
        ranges: &mut Guard<'_, P>,
        start: Index,
        frames: u32,
        from: Tag,
    ) -> Result<(), RangeError> {
        range::check_add(self.table, start, frames, from)?;
        for (index, start, frames) in self.parts(start, frames) {
            let Some(space) = self.spaces.get(index as usize) else {
                return Err(RangeError::OutsideSpan);
            };
            let guard = Guard::lock(&space.lock, ranges.probe);
            let structure = &space.structure;
            range::add(structure, &self.policy, start, frames, from, guard.probe)?;
            space.managed.set(space.managed.get() + frames);
            space.give(frames);
            self.update_pool(index, space, guard.probe);
        }
        Ok(())
    }

    /// Checks that a range is free, space by space. Under the range lock.
    fn check_parts(
        &self,
        ranges: &mut Guard<'_, P>,
        start: Index,
        frames: u32,
    ) -> Result<Frame, RangeError> {
        let first = range::run(self.table, start, frames)?;
        for (index, start, frames) in self.parts(start, frames) {
            let Some(space) = self.spaces.get(index as usize) else {
                return Err(RangeError::OutsideSpan);
            };
            let _guard = Guard::lock(&space.lock, ranges.probe);
            range::check_withdraw(&space.structure, start, frames)?;
        }
        Ok(first)
    }

    /// Withdraws a range, space by space. Under the range lock.
    fn withdraw_parts(
        &self,
        ranges: &mut Guard<'_, P>,
        start: Index,
        frames: u32,
        to: Tag,
    ) -> Result<(), RangeError> {
        self.check_parts(ranges, start, frames)?;
        for (index, part, frames) in self.parts(start, frames) {
            let Some(space) = self.spaces.get(index as usize) else {
                return Err(RangeError::OutsideSpan);
            };
            let guard = Guard::lock(&space.lock, ranges.probe);
            let (structure, policy) = (&space.structure, &self.policy);
            let withdrawn = range::withdraw(structure, policy, part, frames, to, guard.probe);
            if let Err(error) = withdrawn {
                // Settling may have coalesced a larger block.
                self.update_pool(index, space, guard.probe);
                drop(guard);
                // Another CPU allocated a frame after the check: what was withdrawn is added again.
                if part.0 > start.0 {
                    self.add_parts(ranges, start, part.0 - start.0, to)?;
                }
                return Err(error);
            }
            space.managed.set(space.managed.get() - frames);
            space.take(frames);
            self.update_pool(index, space, guard.probe);
        }
        Ok(())
    }

    /// Calls `work`, which returns how many frames it freed, on the space that holds a frame.
    #[inline(always)]
    fn with_space_of(
        &self,
        caller: &mut Caller<'_, P>,
        frame: Frame,
        work: impl FnOnce(&S, &mut P::Probe) -> Result<u32, FreeError>,
    ) -> Result<(), FreeError> {
        let index = frame.index().0 >> self.shift;
        let space = self.spaces.get(index as usize).ok_or(FreeError::Foreign)?;
        let nested = caller.nested;
        let guard = caller.enter(&space.lock).ok_or(FreeError::Busy)?;
        if nested && !space.is_assigned() {
            // A nested caller cannot wait for the pool later, so it acquires the pool's lock first.
            let shard = self.pool.shard_of(index);
            let pool = self.pool.enter(shard, guard.probe, true);
            let pool = pool.ok_or(FreeError::Busy)?;
            space.give(work(&space.structure, pool.probe)?);
            self.pool.settle(index, space.state());
            return Ok(());
        }
        space.give(work(&space.structure, guard.probe)?);
        self.update_pool(index, space, guard.probe);
        Ok(())
    }
}

impl<'a, P: Platform, S: Placed<'a, P>, C: Coalesce<P, S>> ZoneLayer<P> for Spaces<'a, P, S, C> {
    const UNKNOWN_CPUS_ARE_BUSY: bool = true;
    const TRIES: bool = true;

    #[inline(always)]
    fn table(&self) -> FrameTable<'_, P> {
        self.table
    }

    #[inline(always)]
    fn max_order(&self) -> Order {
        self.max_order
    }

    #[inline(always)]
    fn try_allocate(&self, caller: &mut Caller<'_, P>) -> Result<Frame, Unserved> {
        let own = self.pool.of(caller.cpu.index());
        let space = self.spaces.get(own as usize).ok_or(Unserved::Other)?;
        let guard = InlineGuard::try_lock(&space.lock, caller.probe)?;
        // A nested request may have exchanged the space since it was looked up.
        if !space.is_assigned() {
            return Err(Unserved::Other);
        }
        let frame = self
            .policy
            .allocate(&space.structure, Order::ZERO, guard.probe);
        let frame = frame.ok_or(Unserved::Other)?;
        self.table.set_tag(frame, Tag::allocated(Order::ZERO));
        space.take(1);
        Ok(frame)
    }

    #[inline(always)]
    fn allocate(&self, caller: &mut Caller<'_, P>, order: Order) -> Result<Frame, AllocateError> {
        let own = self.pool.of(caller.cpu.index());
        if !caller.nested
            && let Some(space) = self.spaces.get(own as usize)
            && let Some(guard) = caller.enter(&space.lock)
            && let Some(head) = self.policy.allocate(&space.structure, order, guard.probe)
        {
            self.table.set_tag(head, Tag::allocated(order));
            space.take(order.frames());
            self.update_pool(own, space, guard.probe);
            return Ok(head);
        }
        self.allocate_elsewhere(caller, order)
    }

    fn allocate_run(
        &self,
        caller: &mut Caller<'_, P>,
        frames: u32,
    ) -> Result<Frame, AllocateError> {
        let order = Order::covering(frames)
            .filter(|order| *order <= self.max_order)
            .ok_or(AllocateError::TooLarge {
                largest: self.max_order,
            })?;
        self.try_spaces(caller, order, |space, guard| {
            let structure = &space.structure;
            let head = self.policy.allocate(structure, order, guard.probe)?;
            range::tag_allocated(self.table, head, frames);
            let (rest, remnant) = (head.offset(frames), order.frames() - frames);
            range::free_pieces(structure, &self.policy, rest, remnant, guard.probe);
            Some((head, frames))
        })
    }

    fn allocate_bulk(
        &self,
        caller: &mut Caller<'_, P>,
        order: Order,
        wanted: u32,
        tag: Tag,
        mut sink: impl FnMut(Frame),
    ) -> u32 {
        let mut given = 0;
        // A batch may come from several spaces, each under its own lock.
        while given < wanted {
            let result = self.try_spaces(caller, order, |space, guard| {
                let parts = (&space.structure, &self.policy);
                let rest = wanted - given;
                // Other CPUs may allocate from the space whenever the lock is released, and count what they allocate.
                let mut before = 0;
                let moved = bulk::allocate(self.hold, guard, parts, order, rest, tag, |head| {
                    before += 1;
                    sink(head);
                });
                (moved > 0).then_some((moved, before << order.get()))
            });
            match result {
                Ok(moved) => given += moved,
                Err(_) => break,
            }
        }
        given
    }

    #[inline(always)]
    fn try_free(&self, caller: &mut Caller<'_, P>, frame: Frame, tag: Tag) -> Result<(), Unserved> {
        let index = frame.index().0 >> self.shift;
        let space = self.spaces.get(index as usize).ok_or(Unserved::Other)?;
        let guard = InlineGuard::try_lock(&space.lock, caller.probe)?;
        if self.table.tag(frame) != tag {
            drop(guard);
            return Err(Unserved::Other);
        }
        self.policy
            .free(&space.structure, frame, Order::ZERO, guard.probe);
        space.give(1);
        if space.is_settled() {
            drop(guard);
            return Ok(());
        }
        self.update_and_release(frame, space, guard)
    }

    #[inline(always)]
    fn free(
        &self,
        caller: &mut Caller<'_, P>,
        head: Frame,
        order: Order,
        tag: Tag,
    ) -> Result<(), FreeError> {
        self.with_space_of(caller, head, |structure, probe| {
            if self.table.tag(head) != tag {
                return Err(self.table.diagnose(head));
            }
            self.policy.free(structure, head, order, probe);
            Ok(order.frames())
        })
    }

    #[inline]
    fn free_bulk(
        &self,
        caller: &mut Caller<'_, P>,
        mut source: impl FnMut() -> Option<(Frame, Order, Tag)>,
    ) {
        let mut next = source();
        while let Some((head, ..)) = next {
            let index = head.index().0 >> self.shift;
            let Some(space) = self.spaces.get(index as usize) else {
                return;
            };
            let mut guard = Guard::lock(&space.lock, caller.probe);
            let parts = (&space.structure, &self.policy);
            let within = self.frames_of(index);
            let given = bulk::free(
                self.hold,
                &mut guard,
                parts,
                within,
                &mut next,
                &mut source,
                |_, p| {
                    p.record(Event::RacedDoubleFree);
                    true
                },
            );
            space.give(given);
            self.update_pool(index, space, guard.probe);
        }
    }

    fn free_each(
        &self,
        caller: &mut Caller<'_, P>,
        mut source: impl FnMut() -> Option<(Frame, Order)>,
    ) -> Result<(), FreeError> {
        while let Some((head, order)) = source() {
            self.free(caller, head, order, Tag::allocated(order))?;
        }
        Ok(())
    }

    fn free_run(
        &self,
        caller: &mut Caller<'_, P>,
        start: Frame,
        frames: u32,
    ) -> Result<(), FreeError> {
        // No allocation crosses a border, so each part can be checked by itself.
        for (_, start, frames) in self.parts(start.index(), frames) {
            let first = self.table.frame(start).ok_or(FreeError::Foreign)?;
            self.with_space_of(caller, first, |structure, _| {
                range::check_free_run(structure.table(), first, frames)?;
                Ok(0)
            })?;
        }
        for (_, start, frames) in self.parts(start.index(), frames) {
            let first = self.table.frame(start).ok_or(FreeError::Foreign)?;
            self.with_space_of(caller, first, |structure, probe| {
                range::free_run(structure, &self.policy, first, frames, probe)?;
                Ok(frames)
            })?;
        }
        Ok(())
    }

    fn add(
        &self,
        caller: &mut Caller<'_, P>,
        start: Index,
        frames: u32,
        from: Tag,
    ) -> Result<(), RangeError> {
        let mut ranges = Guard::lock(self.range_lock, caller.probe);
        self.add_parts(&mut ranges, start, frames, from)
    }

    fn withdraw(
        &self,
        caller: &mut Caller<'_, P>,
        start: Index,
        frames: u32,
        to: Tag,
    ) -> Result<(), RangeError> {
        let mut ranges = Guard::lock(self.range_lock, caller.probe);
        self.withdraw_parts(&mut ranges, start, frames, to)
    }

    fn allocate_at(
        &self,
        caller: &mut Caller<'_, P>,
        start: Index,
        frames: u32,
    ) -> Result<Frame, RangeError> {
        // The range lock: no other CPU removes a space's memory meanwhile.
        let mut ranges = Guard::lock(self.range_lock, caller.probe);
        let first = self.check_parts(&mut ranges, start, frames)?;
        for (index, part, frames) in self.parts(start, frames) {
            let Some(space) = self.spaces.get(index as usize) else {
                return Err(RangeError::OutsideSpan);
            };
            let guard = Guard::lock(&space.lock, ranges.probe);
            let structure = &space.structure;
            let taken = range::allocate_at(structure, &self.policy, part, frames, guard.probe);
            if taken.is_ok() {
                space.take(frames);
            }
            // Also after a failure: settling may have coalesced a larger block.
            self.update_pool(index, space, guard.probe);
            let Err(error) = taken else {
                continue;
            };
            drop(guard);
            // Another CPU allocated a frame after the check. Only misuse can make this free fail: ignore its error.
            if part.0 > start.0 {
                let caller = &mut Caller {
                    cpu: caller.cpu,
                    probe: ranges.probe,
                    nested: false,
                    found_held: false,
                    class: caller.class,
                };
                let _ = self.free_run(caller, first, part.0 - start.0);
            }
            return Err(error);
        }
        Ok(first)
    }

    fn settle(&self, _: &mut Caller<'_, P>) -> bool {
        true
    }

    fn snapshot(&self, caller: &mut Caller<'_, P>) -> Snapshot {
        let mut all = Snapshot::NONE;
        for space in self.spaces {
            let _guard = Guard::lock(&space.lock, caller.probe);
            all.add(&Snapshot::of_blocks(if space.free() > 0 {
                space.structure.blocks_by_order()
            } else {
                Snapshot::NONE.free_blocks
            }));
        }
        all
    }

    fn free_frames(&self) -> u64 {
        // A batch that moves is on its way to or from a list, which may count it, too.
        let spaces = self.spaces.iter();
        spaces.map(|space| u64::from(space.free_hint())).sum()
    }

    fn inspect(&self, see: &mut dyn FnMut(Detail)) {
        for (part, space) in (0..).zip(self.spaces) {
            let frames = self.frames_of(part);
            see(Detail::Part {
                part,
                start: Index(frames.start),
                frames: frames.end - frames.start,
            });
            space.structure.inspect(part, frames, see);
        }
        for cpu in 0..self.pool.cpus() {
            let part = self.pool.of(cpu);
            if (part as usize) < self.spaces.len() {
                let cpu = CpuId(cpu as u16);
                see(Detail::Assigned { cpu, part });
            }
        }
    }

    fn check(&self, caller: &mut Caller<'_, P>) -> Result<Census, Violation> {
        let mut census = Census::default();
        for (index, space) in self.spaces.iter().enumerate() {
            let _guard = Guard::lock(&space.lock, caller.probe);
            let frames = self.frames_of(index as u32);
            let index = Index(frames.start);
            let promised = self.policy.check(&space.structure);
            promised.map_err(|what| Violation { index, what })?;
            let own = crate::check::walk(&space.structure, frames.clone())?;
            let managed = own.free + own.allocated + own.buffered;
            if u64::from(space.free()) != own.free || u64::from(space.managed.get()) != managed {
                return Err(Violation {
                    index: Index(frames.start),
                    what: "a space's frames are miscounted",
                });
            }
            census.add(&own);
        }
        let space = |index: u32| self.spaces.get(index as usize);
        let state = |index| space(index).map_or(State::Used, Space::state);
        self.pool.check(state).map_err(|(index, what)| Violation {
            index: Index(index.checked_shl(self.shift).unwrap_or(0)),
            what,
        })?;
        Ok(census)
    }
}
