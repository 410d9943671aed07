//! Resource management: the work that callers wait for.
//!
//! A request removes a block from a list and leaves the remnant to dividing; a free leaves its blocks to linking. The
//! operations of every zone layer are implemented here.
//!
//! # Source
//! \[Serewa\] §2.2.1 and §2.2.2.
//!
//! # Invariants
//! Before each operation of a queue, the records say of every frame whether it is allocated or free, or which waiting
//! area it belongs to. A thread that stops there therefore leaves every frame accounted for. A thread that stops
//! while it frees a block still owns that block: it is tagged as waiting, and no other thread receives it.
//!
//! # A walk: `serewa`
//! 1. `Serewa` is a zone layer without a per-CPU list. It takes a block of the requested order out of its structure,
//!    under the lock. If there is none it takes a larger one, allocates its first frames, and pushes the rest into the
//!    dividing queue as one word (queue.rs).
//! 2. A free changes the block's record from "allocated" to "waiting" by one exchange, and pushes the block into the
//!    linking queue. It needs no lock.
//! 3. The services take an area out of a queue. They file it piece by piece or merge it level by level, and hold the
//!    lock for one piece or level. The slot always says what remains of the area. The host runs services on threads of
//!    their own, or when a CPU is idle.
//! 4. A request that finds nothing does this work itself. It fails only if it found no block and then both queues
//!    empty, in this order, under the lock.

use super::area::Area;
use super::queue::Contents;
use super::request_slots::{RequestSlots, Served};
use super::{Linking, RemnantPolicy, Serewa};
use crate::api::{Progress, Service};
use crate::check;
use crate::coalesce::{Coalesce, Eager, record_move};
use crate::detail::Detail;
use crate::error::{AllocateError, FreeError, RangeError};
use crate::frame::{Index, Order};
use crate::frame_table::{Frame, FrameTable, Tag, pieces};
use crate::lock::Guard;
use crate::platform::{AtomicWord, CpuId, Ordering, Platform, WaitLimit};
use crate::probe::{Event, Probe, Queue};
use crate::snapshot::{Census, Snapshot, Violation};
use crate::structure::Structure;
use crate::zone::{Caller, ZoneLayer, range};

impl<P: Platform, S: Structure<P>> Serewa<'_, P, S> {
    /// Notifies waiting threads that an area was filed.
    pub(super) fn notify_done(&self) {
        // Release: pairs with the acquire in `search`.
        self.done.fetch_add(1, Ordering::Release);
        P::wake(self.done);
    }

    /// Allocates the first `frames` frames of a block of at least `order`, which covers them.
    #[inline]
    fn allocate_from(
        &self,
        caller: &mut Caller<'_, P>,
        order: Order,
        frames: u32,
    ) -> Result<Frame, AllocateError> {
        if let Some(request_slots) = &self.request_slots
            && !caller.nested
        {
            let table = self.structure.table();
            if let Some(answer) = request_slots.call(table, caller.cpu, order, frames) {
                return answer;
            }
        }
        self.allocate_here(caller, None, order, frames)
    }

    /// Does the same on the calling thread; a manager does it for another CPU.
    #[inline]
    fn allocate_here(
        &self,
        caller: &mut Caller<'_, P>,
        served: Option<CpuId>,
        order: Order,
        frames: u32,
    ) -> Result<Frame, AllocateError> {
        let nested = caller.nested;
        let mut divides = self.remnants == RemnantPolicy::First && !nested;
        loop {
            let guard = self.enter(caller).ok_or(AllocateError::Busy)?;
            divides &= self.structure.blocks(order) == 0 && self.dividing.length() > 0;
            if divides {
                drop(guard);
                divides = self.dividing_step(caller.probe);
                continue;
            }
            if let Some(head) = self.take_and_split(guard.probe, nested, order, frames) {
                return Ok(head);
            }
            if nested {
                return self.search_within(guard.probe, order, frames);
            }
            break;
        }
        self.search(caller, served, order, frames)
    }

    /// Removes a block, tags its first `frames` frames as allocated, and leaves the rest to dividing. Under the lock.
    #[inline]
    fn take_and_split(
        &self,
        probe: &mut P::Probe,
        nested: bool,
        order: Order,
        frames: u32,
    ) -> Option<Frame> {
        let table = self.structure.table();
        if frames == order.frames()
            && let Some(head) = self.structure.take(order)
        {
            record_move::<P>(probe);
            table.set_tag(head, Tag::allocated(order));
            return Some(head);
        }
        let found = self.smallest_from(order)?;
        self.split_off(probe, nested, found, frames, |head| {
            range::tag_allocated(table, head, frames);
        })
    }

    /// Returns the smallest order, from `order` on, of which a block is free. O(orders).
    #[inline]
    fn smallest_from(&self, order: Order) -> Option<Order> {
        let mut found = order;
        while self.structure.blocks(found) == 0 {
            if found >= self.structure.max_order() {
                return None;
            }
            found = found.up();
        }
        Some(found)
    }

    /// Removes a block of order `found`, tags its first frames, and leaves the rest to dividing. Under the lock.
    #[inline]
    fn split_off(
        &self,
        probe: &mut P::Probe,
        nested: bool,
        found: Order,
        frames: u32,
        tag: impl FnOnce(Frame),
    ) -> Option<Frame> {
        let table = self.structure.table();
        let rest = found.frames() - frames;
        let head = self.structure.take(found)?;
        record_move::<P>(probe);
        // The caller owns all of it until a slot accounts for the rest. A thread that takes that slot waits for the
        // lock.
        table.set_tag(head, Tag::allocated(found));
        let rest = Area {
            start: head.offset(frames),
            frames: rest,
        };
        let left = rest.frames > 0 && self.dividing.push(rest, nested, probe);
        tag(head);
        if left {
            table.set_tag(rest.start, Tag::queued(rest.frames));
        } else {
            for (head, order) in pieces(rest.start, rest.frames, found) {
                probe.record(Event::Split(order.up()));
                self.structure.insert(head, order);
                record_move::<P>(probe);
            }
        }
        Some(head)
    }

    /// Processes what waits in the queues until the request can be served.
    #[cold]
    #[inline(never)]
    fn search(
        &self,
        caller: &mut Caller<'_, P>,
        served: Option<CpuId>,
        order: Order,
        frames: u32,
    ) -> Result<Frame, AllocateError> {
        let (mut attempt, mut limit) = (0, WaitLimit::<P>::new());
        loop {
            // Acquire: pairs with the release in `notify_done`.
            let seen = self.done.load(Ordering::Acquire);
            let guard = Guard::lock(self.lock, caller.probe);
            // In one go: no other thread may take what is filed here before this request looks for it.
            let worked = self.step_within(guard.probe);
            if let Some(head) = self.take_and_split(guard.probe, false, order, frames) {
                return Ok(head);
            }
            if worked {
                continue;
            }
            let contents = self.contents(served);
            drop(guard);
            if contents == Contents::Nothing {
                return Err(AllocateError::Exhausted);
            }
            // After the look: a wait may have taken long because this thread was stopped.
            if limit.is_over(attempt) {
                return Err(AllocateError::Busy);
            }
            // What waits was pushed meanwhile, and possibly no other thread is about to process it.
            if contents == Contents::InHand {
                // No CPU wants the answer, and two managers must not wait for each other.
                if self.has_left(served) {
                    return Err(AllocateError::Busy);
                }
                P::wait(self.done, seen, attempt);
            }
            attempt = attempt.saturating_add(1);
        }
    }

    /// Returns `true` if the CPU that a manager serves no longer waits.
    fn has_left(&self, served: Option<CpuId>) -> bool {
        let slots = self.request_slots.as_ref();
        slots
            .zip(served)
            .is_some_and(|(slots, cpu)| slots.has_left(cpu))
    }

    /// The same for a nested caller: under the lock, and without waiting.
    #[cold]
    #[inline(never)]
    fn search_within(
        &self,
        probe: &mut P::Probe,
        order: Order,
        frames: u32,
    ) -> Result<Frame, AllocateError> {
        let open = self.dividing.is_open_to_nested();
        while open && self.step_within(probe) {
            if let Some(head) = self.take_and_split(probe, true, order, frames) {
                return Ok(head);
            }
        }
        Err(match self.contents(None) {
            Contents::Nothing => AllocateError::Exhausted,
            _ => AllocateError::Busy,
        })
    }

    /// Leaves a block that is tagged as `tag` to linking. No lock, unless the queue is full.
    #[inline]
    fn enqueue_free(
        &self,
        caller: &mut Caller<'_, P>,
        head: Frame,
        order: Order,
        tag: Tag,
    ) -> Result<(), FreeError> {
        let table = self.structure.table();
        if table.tag(head) != tag {
            return Err(table.diagnose(head));
        }
        let area = Area::block(head, order);
        // From here on this CPU owns the block as waiting, and a second free detects that.
        if !table.exchange(head, tag, Tag::queued(area.frames)) {
            return Err(table.diagnose(head));
        }
        if self.linking.push(area, caller.nested, caller.probe) {
            return Ok(());
        }
        self.link_here(caller, head, order, tag)
    }

    /// Links a block for which the queue had no room.
    #[cold]
    #[inline(never)]
    fn link_here(
        &self,
        caller: &mut Caller<'_, P>,
        head: Frame,
        order: Order,
        tag: Tag,
    ) -> Result<(), FreeError> {
        match self.enter(caller) {
            Some(guard) => {
                Eager.free(&self.structure, head, order, guard.probe);
                Ok(())
            }
            None => {
                self.structure.table().set_tag(head, tag);
                Err(FreeError::Busy)
            }
        }
    }

    /// Calls `work` under the lock when the queues are empty, or as soon as it succeeds.
    fn with_finished<T>(
        &self,
        caller: &mut Caller<'_, P>,
        work: impl Fn(&mut P::Probe) -> Result<T, RangeError>,
    ) -> Result<T, RangeError> {
        let (mut attempt, mut limit) = (0, WaitLimit::<P>::new());
        while !limit.is_over(attempt) {
            attempt = attempt.saturating_add(1);
            let finished = self.finish(caller.probe);
            let guard = Guard::lock(self.lock, caller.probe);
            // A part of the run may have passed through a queue just now.
            match work(guard.probe) {
                Err(RangeError::NotFree(_)) if !finished => return Err(RangeError::Busy),
                Err(RangeError::NotFree(_)) if self.contents(None) != Contents::Nothing => {}
                result => return result,
            }
        }
        Err(RangeError::Busy)
    }

    /// Returns the content of the queues. A block that a manager allocates for a caller that left counts as being
    /// processed, except for the manager that serves CPU `served`, which would wait for itself. Under the lock.
    fn contents(&self, served: Option<CpuId>) -> Contents {
        // Before the queues: the manager puts the block into a queue before it releases the slot.
        let slots = self.request_slots.as_ref();
        let owes = slots.is_some_and(|slots| slots.owes(served));
        let contents = self.dividing.contents().max(self.linking.contents());
        if owes {
            contents.max(Contents::InHand)
        } else {
            contents
        }
    }

    /// Answers a request as the manager. Returns `false` if none waits.
    fn manager_step(&self, caller: &mut Caller<'_, P>, slots: &RequestSlots<'_, P>) -> bool {
        let served =
            slots.serve(|cpu, order, frames| self.allocate_here(caller, Some(cpu), order, frames));
        match served {
            Served::Nothing => false,
            Served::Answered => true,
            Served::Late(reply) => {
                if let Some((head, frames)) = reply.run {
                    // It was allocated a moment ago and has no other owner, so it can be freed.
                    let freed = self.free_run(caller, head, frames);
                    debug_assert!(freed.is_ok(), "{freed:?}");
                }
                reply.release();
                self.notify_done();
                true
            }
        }
    }

    /// Processes everything that waits. Returns `false` if another thread processes an area for too long.
    fn finish(&self, probe: &mut P::Probe) -> bool {
        let (mut attempt, mut limit) = (0, WaitLimit::<P>::new());
        loop {
            // Acquire: pairs with the release in `notify_done`.
            let seen = self.done.load(Ordering::Acquire);
            if self.dividing_step(probe) || self.linking_step(probe) {
                continue;
            }
            let guard = Guard::lock(self.lock, probe);
            let contents = self.contents(None);
            drop(guard);
            match contents {
                Contents::Nothing => return true,
                // After the look, as in `search`.
                Contents::InHand if limit.is_over(attempt) => return false,
                Contents::InHand => P::wait(self.done, seen, attempt),
                Contents::Waiting => continue,
            }
            attempt = attempt.saturating_add(1);
        }
    }
}

impl<P: Platform, S: Structure<P>> ZoneLayer<P> for Serewa<'_, P, S> {
    #[inline(always)]
    fn table(&self) -> FrameTable<'_, P> {
        self.structure.table()
    }

    #[inline(always)]
    fn max_order(&self) -> Order {
        self.structure.max_order()
    }

    #[inline]
    fn allocate(&self, caller: &mut Caller<'_, P>, order: Order) -> Result<Frame, AllocateError> {
        self.allocate_from(caller, order, order.frames())
    }

    fn allocate_run(
        &self,
        caller: &mut Caller<'_, P>,
        frames: u32,
    ) -> Result<Frame, AllocateError> {
        let largest = self.max_order();
        let order = Order::covering(frames)
            .filter(|order| *order <= largest)
            .ok_or(AllocateError::TooLarge { largest })?;
        self.allocate_from(caller, order, frames)
    }

    /// Allocates as many blocks as one free block provides at a time, then continues with the next.
    fn allocate_bulk(
        &self,
        caller: &mut Caller<'_, P>,
        order: Order,
        wanted: u32,
        tag: Tag,
        mut sink: impl FnMut(Frame),
    ) -> u32 {
        let nested = caller.nested;
        let Some(guard) = self.enter(caller) else {
            return 0;
        };
        let table = self.structure.table();
        let mut given = 0;
        while given < wanted
            && let Some(found) = self.smallest_from(order)
        {
            let blocks = (wanted - given).min(1 << (found.get() - order.get()));
            let frames = blocks << order.get();
            let each = |first: Frame| {
                for at in (0..frames).step_by(order.frames() as usize) {
                    let head = first.offset(at);
                    table.set_tag(head, tag);
                    sink(head);
                }
            };
            if self
                .split_off(guard.probe, nested, found, frames, each)
                .is_none()
            {
                break;
            }
            given += blocks;
        }
        given
    }

    #[inline]
    fn free(
        &self,
        caller: &mut Caller<'_, P>,
        head: Frame,
        order: Order,
        tag: Tag,
    ) -> Result<(), FreeError> {
        self.enqueue_free(caller, head, order, tag)
    }

    fn free_bulk(
        &self,
        caller: &mut Caller<'_, P>,
        mut source: impl FnMut() -> Option<(Frame, Order, Tag)>,
    ) {
        while let Some((head, order, tag)) = source() {
            if self.enqueue_free(caller, head, order, tag).is_err() {
                caller.probe.record(Event::RacedDoubleFree);
            }
        }
    }

    fn free_each(
        &self,
        caller: &mut Caller<'_, P>,
        mut source: impl FnMut() -> Option<(Frame, Order)>,
    ) -> Result<(), FreeError> {
        while let Some((head, order)) = source() {
            self.enqueue_free(caller, head, order, Tag::allocated(order))?;
        }
        Ok(())
    }

    /// Turns the run into whole allocations, and leaves these to linking.
    fn free_run(
        &self,
        caller: &mut Caller<'_, P>,
        start: Frame,
        frames: u32,
    ) -> Result<(), FreeError> {
        let table = self.structure.table();
        let nested = caller.nested;
        let guard = self.enter(caller).ok_or(FreeError::Busy)?;
        if nested {
            // A queue may become full after half of the run was pushed, when the lock may be held.
            return range::free_run(&self.structure, &Eager, start, frames, guard.probe);
        }
        range::detach(table, start, frames)?;
        drop(guard);
        let end = start.index().0 + frames;
        let mut at = start;
        while at.index().0 < end {
            let order = range::block_at(table, at)?;
            self.enqueue_free(caller, at, order, Tag::allocated(order))?;
            at = at.offset(order.frames());
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
        let guard = Guard::lock(self.lock, caller.probe);
        range::add(&self.structure, &Eager, start, frames, from, guard.probe)
    }

    fn withdraw(
        &self,
        caller: &mut Caller<'_, P>,
        start: Index,
        frames: u32,
        to: Tag,
    ) -> Result<(), RangeError> {
        self.with_finished(caller, |probe| {
            range::withdraw(&self.structure, &Eager, start, frames, to, probe)
        })
    }

    fn allocate_at(
        &self,
        caller: &mut Caller<'_, P>,
        start: Index,
        frames: u32,
    ) -> Result<Frame, RangeError> {
        self.with_finished(caller, |probe| {
            range::allocate_at(&self.structure, &Eager, start, frames, probe)
        })
    }

    fn settle(&self, caller: &mut Caller<'_, P>) -> bool {
        self.finish(caller.probe)
    }

    fn services(&self) -> &'static [Service] {
        let services = match self.linking_rule {
            Linking::Eager => &super::SERVICES,
            Linking::Idle => &super::IDLE_SERVICES,
        };
        match self.request_slots {
            None => &services[..2],
            Some(_) => services,
        }
    }

    /// Runs a service, by its number in [`SERVICES`](super::SERVICES). The budget counts areas, or requests.
    fn serve(&self, caller: &mut Caller<'_, P>, service: usize, budget: u32) -> Progress {
        for _ in 0..budget {
            let worked = match (service, &self.request_slots) {
                (0, _) => self.dividing_step(caller.probe),
                (1, _) => self.linking_step(caller.probe),
                (_, Some(slots)) => self.manager_step(caller, slots),
                _ => false,
            };
            if !worked {
                return Progress::Idle;
            }
        }
        Progress::More
    }

    fn snapshot(&self, caller: &mut Caller<'_, P>) -> Snapshot {
        let _guard = Guard::lock(self.lock, caller.probe);
        Snapshot {
            buffered_frames: self.dividing.frames() + self.linking.frames(),
            ..Snapshot::of_blocks(self.structure.blocks_by_order())
        }
    }

    fn free_frames(&self) -> u64 {
        self.structure.free_frames() + self.dividing.frames() + self.linking.frames()
    }

    fn inspect(&self, see: &mut dyn FnMut(Detail)) {
        let frames = 0..self.structure.table().frames();
        self.structure.inspect(0, frames, see);
        let queues = [
            (Queue::Dividing, &self.dividing),
            (Queue::Linking, &self.linking),
        ];
        for (queue, areas) in queues {
            for Area { start, frames } in areas.areas() {
                let start = start.index();
                see(Detail::Waiting {
                    queue,
                    start,
                    frames,
                });
            }
        }
    }

    fn check(&self, caller: &mut Caller<'_, P>) -> Result<Census, Violation> {
        let _guard = Guard::lock(self.lock, caller.probe);
        let frames = 0..self.structure.table().frames();
        let census = check::walk_divided(&self.structure, frames, self.presplit)?;
        let table = self.structure.table();
        let mut waiting = 0;
        for area in self.dividing.areas().chain(self.linking.areas()) {
            let index = area.start.index();
            if table.tag(area.start).waiting() != Some(area.frames) {
                let what = "an area waits in a queue, but its record says otherwise";
                return Err(Violation { index, what });
            }
            waiting += u64::from(area.frames);
        }
        // An area that is tagged as waiting but is in no queue belongs to a thread that stopped while freeing it.
        if waiting > census.queued {
            return Err(Violation::overall("an area waits in two slots"));
        }
        Ok(census)
    }
}
