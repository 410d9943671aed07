//! A buddy allocator for each CPU: whole page blocks, owned by the CPU that claimed them.
//!
//! Frames that one CPU allocates and another frees empty the list of the one and fill the list of the other, so both
//! call on the zone. Here a frame returns to the list of the CPU that owns its page block, whichever CPU frees it, and
//! buddies meet there again: they are merged under the list's lock instead of the zone's.
//!
//! # Source
//! Johannes Weiner, RFC "mm: page_alloc: pcp buddy allocator", linux-mm, 2026-04-03, from its description and from the
//! thread's. A refill claims whole page blocks under the zone's lock and splits them outside; a free goes to the list
//! of the page block's owner; a drain merges bottom-up under the list's lock and returns larger chunks under the zone's
//! lock. The four phases of a refill are those of [`supply`](crate::zone::supply).
//!
//! # Invariants
//! 1. The head of a cached block is tagged as buffered by the CPU of the list, with the block's order. It is in the
//!    list of that order, and the second word of its record links it to the next block.
//! 2. A free claims its block by one exchange of the tag. Of two CPUs that free the same block one is refused, so no
//!    block is in two lists. (A link that two lists share would lose whatever follows.)
//! 3. A frame whose page block this CPU owns may be merged; other frames are only cached.
//! 4. Everything except `open` is touched only under the list's lock.
//!
//! # Design decisions
//! The description leaves these points open:
//! - A CPU that frees into the list of another only tries its lock, and frees into the zone if the lock is held.
//! - The batch and the high watermark are those of Linux 6.12 before self-tuning, except that the high watermark is at
//!   least two page blocks. A drain returns as many frames as the current run of frees has freed, at least a batch.
//!   It returns the largest blocks first and keeps at least half of what may stay.
//! - The orders are those of Linux's lists: 0 to 3, and the page block. Chunks of other orders wait to be split.
//! - A miss splits a block in advance, into up to 32 blocks of the requested order, so that the next requests hit.
//! - A page block that becomes whole only in the zone keeps its owner until a CPU claims it, or until the owner's next
//!   refill finds it whole. No frame of it is allocated then, so no free goes astray.
//! - A CPU that is offline or parked still owns page blocks, and frees go to its lists until these are drained.
//! - A CPU remembers 32 page blocks with parts in the zone. If there are more, it forgets the oldest.
//!
//! # Complexity
//! A hit of a request is O(1); a hit of a free takes one atomic read-modify-write besides the lock. A drain visits
//! every cached block.

use super::Missed;
use super::cpu_list::CpuList;
use super::linux::Watermarks;
use super::linux6::COSTLY_ORDER;
use super::page_blocks::PageBlockTable;
use crate::frame::{Index, Order};
use crate::frame_table::{Frame, FrameTable, Tag};
use crate::platform::{AtomicWord, CpuId, Ordering, Platform, SharedCell};
use crate::probe::{Event, Probe};
use crate::request::Hint;
use crate::zone::supply::{Demand, Supplied};
use crate::zone::{Caller, ZoneLayer};

/// Orders 0 to 9.
const PAGE_BLOCK_LISTS: usize = 10;
/// A miss splits a block into at most 2^AHEAD blocks of the requested order.
const AHEAD: u32 = 5;
/// Page blocks with parts in the zone that a CPU remembers; a power of two.
const REMEMBERED: u32 = 32;
/// No block: no frame has this number.
const NO_BLOCK: u32 = u32::MAX;

/// The lists of one CPU.
#[repr(C, align(64))]
pub struct PcpBuddyList<'a, P: Platform> {
    /// Zero when closed.
    open: P::AtomicU32,
    /// Frames in all lists.
    frames: P::Cell<u32>,
    /// Frames freed in the present run of frees; halved by each request.
    freed: P::Cell<u32>,
    watermarks: Watermarks,
    owner: CpuId,
    pages: PageBlockTable<'a, P>,
    /// The youngest block of each order.
    first: [P::Cell<u32>; PAGE_BLOCK_LISTS],
    /// The oldest of the remembered page blocks, and their number.
    oldest: P::Cell<u32>,
    count: P::Cell<u32>,
    /// Remembered page blocks, as a ring.
    remembered: [P::Cell<u32>; REMEMBERED as usize],
}

impl<'a, P: Platform> PcpBuddyList<'a, P> {
    /// Creates the empty lists of a CPU, closed.
    pub(crate) fn new(cpu: usize, watermarks: Watermarks, pages: PageBlockTable<'a, P>) -> Self {
        Self {
            open: P::AtomicU32::new(0),
            frames: P::Cell::new(0),
            freed: P::Cell::new(0),
            watermarks,
            owner: CpuId(cpu as u16),
            pages,
            first: [(); PAGE_BLOCK_LISTS].map(|()| P::Cell::new(NO_BLOCK)),
            oldest: P::Cell::new(0),
            count: P::Cell::new(0),
            remembered: [(); REMEMBERED as usize].map(|()| P::Cell::new(0)),
        }
    }

    #[inline(always)]
    fn tag(&self, order: Order) -> Tag {
        Tag::buffered(order, self.owner)
    }

    /// Returns the youngest block of an order.
    #[inline(always)]
    fn youngest(&self, table: FrameTable<'_, P>, order: Order) -> Option<Frame> {
        table.frame(Index(self.first.get(order.index())?.get()))
    }

    /// Replaces the youngest block of an order.
    #[inline(always)]
    fn set_youngest(&self, order: Order, head: Option<Frame>) {
        if let Some(first) = self.first.get(order.index()) {
            first.set(head.map_or(NO_BLOCK, |head| head.index().0));
        }
    }

    /// Adds a block that is tagged already.
    #[inline(always)]
    fn link(&self, table: FrameTable<'_, P>, head: Frame, order: Order) {
        table.set_link(head, self.youngest(table, order));
        self.set_youngest(order, Some(head));
    }

    /// Tags a block and adds it.
    fn insert(&self, table: FrameTable<'_, P>, head: Frame, order: Order) {
        table.set_tag(head, self.tag(order));
        self.link(table, head, order);
    }

    /// Removes the youngest block of an order.
    #[inline(always)]
    fn unlink(&self, table: FrameTable<'_, P>, order: Order) -> Option<Frame> {
        let head = self.youngest(table, order)?;
        self.set_youngest(order, table.link(head));
        Some(head)
    }

    /// Counts frames that leave.
    #[inline(always)]
    fn count_out(&self, order: Order) {
        self.frames.set(self.frames.get() - order.frames());
    }

    /// Removes a block of an order, or a part of the smallest larger one, and tags it as allocated.
    fn take(
        &self,
        caller: &mut Caller<'_, P>,
        table: FrameTable<'_, P>,
        order: Order,
    ) -> Option<Frame> {
        let mut found = order;
        let head = loop {
            match self.unlink(table, found) {
                Some(head) => break head,
                None if found < self.pages.order() => found = found.up(),
                None => return None,
            }
        };
        let ahead = Order::saturating(u32::from(order.get()) + AHEAD);
        while found > ahead {
            caller.probe.record(Event::Split(found));
            found = found.down();
            self.insert(table, head.offset(found.frames()), found);
        }
        // From the highest address to the lowest, so that the next request receives the next block.
        let blocks = found.frames() >> order.get();
        for block in (1..blocks).rev() {
            self.insert(table, head.offset(block << order.get()), order);
            caller.probe.record(Event::Split(order.up()));
        }
        table.set_tag(head, Tag::allocated(order));
        self.count_out(order);
        Some(head)
    }

    /// Removes the largest block of at most `room` frames; splits a block if all are larger, and counts that.
    fn take_largest(
        &self,
        table: FrameTable<'_, P>,
        room: u32,
        split: &mut [u32; PAGE_BLOCK_LISTS],
    ) -> Option<(Frame, Order)> {
        loop {
            let mut smallest = None;
            for order in Order::up_to(self.pages.order()).rev() {
                if self.youngest(table, order).is_some() {
                    if order.frames() <= room {
                        return self.unlink(table, order).map(|head| (head, order));
                    }
                    smallest = Some(order);
                }
            }
            let order = smallest?;
            let (head, half) = (self.unlink(table, order)?, order.down());
            self.insert(table, head.offset(half.frames()), half);
            self.insert(table, head, half);
            if let Some(split) = split.get_mut(order.index()) {
                *split += 1;
            }
        }
    }

    /// Merges all buddies that this CPU owns, bottom-up.
    fn merge(&self, table: FrameTable<'_, P>, probe: &mut P::Probe) {
        for order in Order::up_to(self.pages.order().down()) {
            if order == self.pages.order() {
                return;
            }
            let mut previous: Option<Frame> = None;
            let mut next = self.youngest(table, order);
            while let Some(head) = next {
                next = table.link(head);
                let buddy = table.frame(head.buddy(order).index());
                let buddy = buddy.filter(|_| self.pages.owner(head) == Some(self.owner));
                let is_last = match buddy.map(|buddy| table.tag(buddy)) {
                    // The first of two buddies is unlinked, until the scan reaches the second. No other CPU sets its
                    // tag: a head that the zone divides or coalesces may be tagged as interior meanwhile.
                    Some(tag) if tag == self.tag(order) => false,
                    Some(tag) if tag == Tag::unlinked(order) => true,
                    _ => {
                        previous = Some(head);
                        continue;
                    }
                };
                match previous {
                    Some(previous) => table.set_link(previous, next),
                    None => self.set_youngest(order, next),
                }
                if is_last {
                    probe.record(Event::Coalesce(order));
                    let (lower, upper) = head.merged(order);
                    table.set_tag(upper, Tag::INTERIOR);
                    self.insert(table, lower, order.up());
                } else {
                    table.set_tag(head, Tag::unlinked(order));
                }
            }
        }
    }

    /// Merges what can be merged, and returns the largest blocks to the zone until at most `until` frames are left.
    /// At least `keep` frames stay.
    fn return_largest<Z: ZoneLayer<P>>(
        &self,
        caller: &mut Caller<'_, P>,
        zone: &Z,
        (until, keep): (u32, u32),
    ) {
        let table = zone.table();
        self.merge(table, caller.probe);
        let before = self.frames.get();
        let mut split = [0; PAGE_BLOCK_LISTS];
        zone.free_bulk(caller, || {
            let frames = self.frames.get();
            if frames <= until {
                return None;
            }
            let (head, order) = self.take_largest(table, frames - keep, &mut split)?;
            self.count_out(order);
            self.note_return(table, head, order);
            Some((head, order, self.tag(order)))
        });
        for (order, splits) in Order::up_to(self.pages.order()).zip(split) {
            (0..splits).for_each(|_| caller.probe.record(Event::Split(order)));
        }
        let frames = before - self.frames.get();
        caller.probe.record(Event::Drain { frames });
    }

    /// Notes that a block returns to the zone: a whole page block loses its owner, and a page block with a part in the
    /// zone is remembered. Called under the zone's lock.
    fn note_return(&self, table: FrameTable<'_, P>, head: Frame, order: Order) {
        if self.pages.owner(head) != Some(self.owner) {
            return;
        }
        if order == self.pages.order() {
            self.pages.set_owner(head, None);
            self.pages.remember(head, None);
            return;
        }
        let start = head.aligned(self.pages.order());
        if !self.pages.remember(start, Some(self.owner)) {
            return;
        }
        let (oldest, count) = (self.oldest.get(), self.count.get());
        if let Some(place) = self
            .remembered
            .get(((oldest + count) % REMEMBERED) as usize)
        {
            if count == REMEMBERED
                && let Some(forgotten) = table.frame(Index(place.get()))
            {
                self.pages.forget(forgotten, self.owner);
            }
            place.set(start.index().0);
        }
        if count == REMEMBERED {
            self.oldest.set((oldest + 1) % REMEMBERED)
        } else {
            self.count.set(count + 1)
        }
    }

    /// Returns the oldest remembered page block that this CPU still owns, and forgets it. Called under the zone's lock.
    fn recall(&self, table: FrameTable<'_, P>) -> Option<Frame> {
        while self.count.get() > 0 {
            let oldest = self.oldest.get();
            let number = self.remembered.get(oldest as usize)?.get();
            self.oldest.set((oldest + 1) % REMEMBERED);
            self.count.set(self.count.get() - 1);
            let start = table.frame(Index(number))?;
            self.pages.forget(start, self.owner);
            if self.pages.owner(start) == Some(self.owner) {
                return Some(start);
            }
        }
        None
    }

    /// Keeps a block that a CPU frees, if it is allocated. Returns `false` if it is not.
    #[inline(always)]
    fn accept(&self, table: FrameTable<'_, P>, head: Frame, order: Order) -> bool {
        let is_claimed = table.exchange(head, Tag::allocated(order), self.tag(order));
        if is_claimed {
            self.link(table, head, order);
            self.frames.set(self.frames.get() + order.frames());
            let freed = self.freed.get();
            if freed < self.watermarks.high {
                self.freed.set(freed + order.frames());
            }
        }
        is_claimed
    }
}

impl<P: Platform> CpuList<P> for PcpBuddyList<'_, P> {
    const ROUTES: bool = true;

    #[inline(always)]
    fn home(&self, head: Frame) -> Option<CpuId> {
        self.pages.owner(head)
    }

    #[inline(always)]
    fn caches(&self, order: Order) -> bool {
        order == self.pages.order() || order.get() <= COSTLY_ORDER && order < self.pages.order()
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
        // Relaxed: it is written under the list's lock.
        if !self.caches(order) || self.open.load(Ordering::Relaxed) == 0 {
            return None;
        }
        let head = self.unlink(table, order)?;
        table.set_tag(head, Tag::allocated(order));
        self.count_out(order);
        self.freed.set(self.freed.get() >> 1);
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
        // Relaxed: it is written under the list's lock.
        if !self.caches(order)
            || self.open.load(Ordering::Relaxed) == 0
            || self.frames.get() + order.frames() >= self.watermarks.high
        {
            return false;
        }
        self.accept(table, head, order)
    }

    fn refill<Z: ZoneLayer<P>>(
        &self,
        caller: &mut Caller<'_, P>,
        zone: &Z,
        order: Order,
        _: Hint,
    ) -> Option<Frame> {
        let table = zone.table();
        self.freed.set(self.freed.get() >> 1);
        if let Some(head) = self.take(caller, table, order) {
            return Some(head);
        }
        let demand = Demand {
            order,
            frames: self.watermarks.batch,
            page_block: self.pages.order(),
        };
        let recall = || self.recall(table);
        let frames = zone.supply(caller, demand, recall, |head, order, supplied| {
            match supplied {
                Supplied::Whole => return self.pages.set_owner(head, None),
                Supplied::PageBlock => self.pages.set_owner(head, Some(self.owner)),
                Supplied::Fragment | Supplied::Chunk => {}
            }
            self.insert(table, head, order);
            self.frames.set(self.frames.get() + order.frames());
        });
        caller.probe.record(Event::Refill { frames });
        self.take(caller, table, order)
    }

    fn overflow<Z: ZoneLayer<P>>(
        &self,
        caller: &mut Caller<'_, P>,
        zone: &Z,
        head: Frame,
        order: Order,
        _: Hint,
    ) -> bool {
        if !self.accept(zone.table(), head, order) {
            return false;
        }
        let Watermarks { batch, high, .. } = self.watermarks;
        if self.frames.get() >= high {
            let most = high.saturating_sub(batch).max(batch);
            let until = high.saturating_sub(self.freed.get().clamp(batch, most));
            // Half of what may stay, rounded up.
            self.return_largest(caller, zone, (until, until - until / 2));
        }
        true
    }

    fn drain<Z: ZoneLayer<P>>(&self, caller: &mut Caller<'_, P>, _: CpuId, zone: &Z) {
        if self.frames.get() > 0 {
            self.return_largest(caller, zone, (0, 0));
        }
    }

    #[inline]
    fn open(&self) {
        // Relaxed: everything is ordered by the list's lock.
        self.open.store(1, Ordering::Relaxed);
    }

    #[inline]
    fn close(&self) {
        self.open.store(0, Ordering::Relaxed);
    }

    #[inline]
    fn is_closed(&self) -> bool {
        self.open.load(Ordering::Relaxed) == 0
    }

    fn frames(&self) -> u64 {
        u64::from(self.frames.peek())
    }
}
