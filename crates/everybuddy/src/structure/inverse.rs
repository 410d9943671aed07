//! iBuddy's structure: every free frame separately in a list, and bits that also represent groups.
//!
//! Nearly all requests are for single frames. Here a frame is allocated without a split: the frame that is found at
//! the highest level can be taken "without any modification to the lower levels". Larger blocks pay for that, since
//! their frames are linked and unlinked one by one.
//!
//! # Source
//! \[iBuddy\] §3.1, §3.1.1 to §3.1.3 and §5; figures 5c, 6b, 7b.
//!
//! # Invariants
//! For every free frame and every aligned group of frames:
//! 1. each free frame is in exactly one list;
//! 2. a group's bit is set exactly if one of its frames, the *representative*, is in the list of the group's level,
//!    and then the whole group is free;
//! 3. a free group that is not part of a larger free group has its bit set;
//! 4. inside a group whose bit is set, of each two halves the one without the representative has its own bit set, and
//!    the bit of the other is clear.
//!
//! A frame is therefore free exactly if a bit on its way up is set, and the first such bit is the one that it
//! represents. A group is free exactly if its own bit or one above it is set.
//!
//! # Design decisions
//! The paper does not decide the following. A frame is inserted at the head of its list and removed from there. A
//! block of order j is the one, in the group at the highest level, that contains that group's representative: any
//! other would leave a group without one. The levels have no lengths, since the bits of a level show its elements; the
//! free frames are counted. The heads of the lists are next to the rest, so one or two lines serve a request.
//!
//! # Complexity
//! Removing one frame takes O(1) list operations, in O(orders), with one insertion. Removing a block of m frames
//! takes O(m), in O(m × orders). Counting blocks is O(frames / 32). Two bits per frame in addition to the records.

use core::ops::Range;

use super::group_bits::GroupBits;
use super::levels::{Head, LEVELS, Plain};
use super::{Placed, Structure, StructureKind, StructurePlace};
use crate::detail::Detail;
use crate::frame::Order;
use crate::frame_table::{Frame, FrameTable, Tag};
use crate::platform::{Platform, SharedCell};
use crate::probe::{Event, NoProbe, Probe};
use crate::snapshot::{BlocksByOrder, Snapshot, Violation};

/// iBuddy's free area.
#[repr(C)]
pub struct Inverse<'a, P: Platform> {
    /// The paper's `next_allocation_level`: one more than the highest level that is not empty, 0 if all are.
    next_allocation_level: P::Cell<u32>,
    /// Free frames.
    free: P::Cell<u32>,
    max_order: Order,
    bits: GroupBits<'a, P>,
    table: FrameTable<'a, P>,
    /// The list of each level.
    heads: [Head<P>; LEVELS],
}

impl<'a, P: Platform> Placed<'a, P> for Inverse<'a, P> {
    const KIND: StructureKind = StructureKind::Frames;

    fn new(place: StructurePlace<'a, P>) -> Self {
        Self {
            next_allocation_level: P::Cell::new(0),
            free: P::Cell::new(0),
            max_order: place.max_order,
            bits: GroupBits::new(place.bits, place.first),
            table: place.table,
            heads: core::array::from_fn(|_| Head::new()),
        }
    }
}

/// Returns an order as a level.
#[inline(always)]
fn level_of(order: Order) -> u32 {
    order.index() as u32
}

impl<P: Platform> Inverse<'_, P> {
    /// Where the heads of the lists begin.
    #[cfg(test)]
    pub(crate) const LISTS: usize = core::mem::offset_of!(Self, heads);

    /// Returns an order's free frames in the order of their list.
    #[cfg(test)]
    pub(crate) fn heads(&self, order: Order) -> impl Iterator<Item = Frame> + '_ {
        self.head(level_of(order)).iter(self.table)
    }

    /// Returns `true` if the bit of this group is set.
    #[cfg(test)]
    pub(crate) fn bit(&self, head: Frame, order: Order) -> bool {
        self.bits.get(head, level_of(order))
    }

    #[inline(always)]
    fn head(&self, level: u32) -> &Head<P> {
        &self.heads[level as usize & (LEVELS - 1)]
    }

    /// Adds a frame to the list of a level, whose bit the caller sets.
    #[inline(always)]
    fn link(&self, frame: Frame, level: u32) {
        self.head(level).push(self.table, Plain, frame);
        self.free.set(self.free.get() + 1);
    }

    /// Removes a frame from the list of its level, whose bit it represents.
    #[inline]
    fn unlink(&self, frame: Frame, level: u32) {
        self.bits.clear(frame, level);
        self.head(level).unlink(self.table, Plain, frame);
        self.free.set(self.free.get() - 1);
    }

    /// Returns the lowest set bit, from `order` upwards, on the way of a frame.
    #[inline]
    fn representing(&self, frame: Frame, order: Order, probe: &mut impl Probe) -> Option<Order> {
        let mut order = order;
        loop {
            probe.record(Event::Mark);
            if self.bits.get(frame, level_of(order)) {
                return Some(order);
            }
            if order >= self.max_order {
                return None;
            }
            order = order.up();
        }
    }

    /// Inserts one frame: it ascends while the neighbouring group is free, and is inserted once.
    #[inline(always)]
    fn ascend(&self, frame: Frame, probe: &mut impl Probe) {
        let last = level_of(self.max_order);
        let level = self.bits.ascend(frame, last, || probe.record(Event::Mark));
        self.link(frame, level);
        record_move(probe);
        debug_assert_eq!(
            self.representing(frame, Order::ZERO, &mut NoProbe),
            Some(Order::saturating(level))
        );
        if self.next_allocation_level.get() <= level {
            self.next_allocation_level.set(level + 1);
        }
    }

    /// Inserts the frames of a block, one by one.
    #[inline(never)]
    fn ascend_each(&self, head: Frame, order: Order, probe: &mut impl Probe) {
        for offset in 0..order.frames() {
            self.ascend(head.offset(offset), probe);
        }
    }

    /// Returns the representative of a group whose bit is set: at each level it is in the half without a bit.
    fn representative(&self, group: Frame, order: Order) -> Frame {
        let mut head = group.aligned(order);
        for level in Order::up_to(order).rev().filter(|level| *level < order) {
            if self.bits.get(head, level_of(level)) {
                head = head.offset(level.frames());
            }
        }
        head
    }

    /// Removes any free frame. The groups above it are no longer free; each frame that represented one of them now
    /// represents the part of it on its own side. O(orders^2).
    fn extract(&self, frame: Frame) {
        let Some(own) = self.representing(frame, Order::ZERO, &mut NoProbe) else {
            return;
        };
        // From the highest: the way down to a representative passes the bits below.
        let levels = level_of(own) + 1..=level_of(self.max_order);
        for level in levels.rev().filter(|level| self.bits.get(frame, *level)) {
            let other = self.representative(frame, Order::saturating(level));
            self.unlink(other, level);
            let side = (other.index().0 ^ frame.index().0).ilog2();
            self.bits.set(other, side);
            self.link(other, side);
        }
        self.unlink(frame, level_of(own));
    }

    /// Removes one free frame of a group that is removed as a whole, including its representative.
    #[inline]
    fn pick(&self, frame: Frame, probe: &mut impl Probe) {
        if let Some(order) = self.representing(frame, Order::ZERO, probe) {
            self.unlink(frame, level_of(order));
            record_move(probe);
        }
    }

    /// Lowers `next_allocation_level` to the highest level that is not empty.
    #[inline]
    fn adjust(&self) {
        let mut level = self.next_allocation_level.get();
        while level > 0 && self.head(level - 1).is_empty() {
            level -= 1;
        }
        self.next_allocation_level.set(level);
    }

    /// Removes the block of an order that holds the representative of a group of the highest level.
    #[inline(never)]
    fn take_block(&self, order: Order, highest: u32, probe: &mut impl Probe) -> Option<Frame> {
        let head = self.head(highest).first(self.table)?.aligned(order);
        for offset in 0..order.frames() {
            let frame = head.offset(offset);
            self.pick(frame, probe);
            self.table().set_tag(frame, Tag::INTERIOR);
        }
        self.adjust();
        Some(head)
    }
}

/// Records that a frame was linked or unlinked, and its bit set or cleared.
#[inline(always)]
fn record_move(probe: &mut impl Probe) {
    probe.record(Event::Link);
    probe.record(Event::Mark);
}

impl<P: Platform> Structure<P> for Inverse<'_, P> {
    const INDIVIDUAL: bool = true;

    #[inline(always)]
    fn table(&self) -> FrameTable<'_, P> {
        self.table
    }

    #[inline(always)]
    fn max_order(&self) -> Order {
        self.max_order
    }

    #[inline]
    fn insert(&self, head: Frame, order: Order) {
        self.insert_recorded(head, order, &mut NoProbe);
    }

    #[inline(always)]
    fn insert_recorded(&self, head: Frame, order: Order, probe: &mut impl Probe) {
        if order == Order::ZERO {
            self.ascend(head, probe);
        } else {
            self.ascend_each(head, order, probe);
        }
    }

    #[inline]
    fn remove(&self, head: Frame, order: Order) {
        for offset in 0..order.frames() {
            let frame = head.offset(offset);
            self.extract(frame);
            self.table().set_tag(frame, Tag::INTERIOR);
        }
        self.adjust();
    }

    #[inline]
    fn take(&self, order: Order) -> Option<Frame> {
        self.take_recorded(order, &mut NoProbe)
    }

    #[inline(always)]
    fn take_recorded(&self, order: Order, probe: &mut impl Probe) -> Option<Frame> {
        let next = self.next_allocation_level.get();
        if next <= level_of(order) {
            return None;
        }
        let highest = next - 1;
        if order > Order::ZERO {
            return self.take_block(order, highest, probe);
        }
        let head = self.head(highest);
        let frame = head.pop(self.table, Plain)?;
        // Before the other writes, so that the compiler knows what the head is.
        let is_empty = head.is_empty();
        self.bits.clear(frame, highest);
        self.free.set(self.free.get() - 1);
        record_move(probe);
        debug_assert!(!self.contains(frame, Order::ZERO), "{:?}", frame.index());
        if is_empty {
            self.adjust();
        }
        Some(frame)
    }

    #[inline]
    fn contains(&self, head: Frame, order: Order) -> bool {
        self.representing(head, order, &mut NoProbe).is_some()
    }

    fn blocks(&self, order: Order) -> u32 {
        self.blocks_by_order()[order.index()]
    }

    fn blocks_by_order(&self) -> BlocksByOrder {
        let mut all = Snapshot::NONE.free_blocks;
        // A free group that is not part of a larger one has, at each level below, one bit for the half without its
        // representative, and the bits of that half's halves: 1, 2, 4 and so on.
        let (mut inside, mut whole) = (0, 0);
        for level in Order::up_to(self.max_order).rev() {
            inside = 2 * inside + whole;
            whole = self.bits.count(level_of(level)).saturating_sub(inside);
            all[level.index()] = whole;
        }
        all
    }

    fn free_frames(&self) -> u64 {
        u64::from(self.free.peek())
    }

    fn largest(&self) -> Option<Order> {
        let level = self.level();
        level.checked_sub(1).map(Order::saturating)
    }

    #[inline(always)]
    fn level(&self) -> u32 {
        self.next_allocation_level.get()
    }

    fn inspect(&self, part: u32, _: Range<u32>, see: &mut dyn FnMut(Detail)) {
        for order in Order::up_to(self.max_order) {
            let head = self.head(level_of(order));
            head.inspect(self.table, (part, order), see);
        }
    }

    fn check(&self) -> Result<(), Violation> {
        let overall = |what| Err(Violation::overall(what));
        let mut all = 0;
        for order in Order::up_to(self.max_order) {
            let level = level_of(order);
            let length = self.head(level).check(self.table, Plain, |frame| {
                self.check_representative(frame, order)
            })?;
            if self.bits.count(level) != length {
                return overall("a level does not have as many frames as bits");
            }
            if length > 0 && level >= self.level() {
                return overall("a level above next_allocation_level is not empty");
            }
            if length == 0 && level + 1 == self.level() {
                return overall("next_allocation_level is an empty level");
            }
            all += length;
        }
        if self.free.get() != all {
            return overall("the free frames are miscounted");
        }
        Ok(())
    }
}

impl<P: Platform> Inverse<'_, P> {
    /// Checks a frame in the list of an order, and the group that it represents.
    fn check_representative(&self, frame: Frame, order: Order) -> Result<(), Violation> {
        let index = frame.index();
        let fail = |what| Err(Violation { index, what });
        let is_set = |frame, order| self.bits.get(frame, level_of(order));
        if self.representing(frame, Order::ZERO, &mut NoProbe) != Some(order) {
            return fail("a frame is in the list of a level whose bit it doesn't represent");
        }
        if order < self.max_order && is_set(frame.buddy(order), order) {
            return fail("two adjacent groups are free, and neither ascended");
        }
        let group = frame.aligned(order);
        for offset in 0..order.frames() {
            if !self.contains(group.offset(offset), Order::ZERO) {
                return fail("a group's bit is set, but not all of it is free");
            }
        }
        let mut half = frame;
        for level in Order::up_to(order).filter(|level| *level < order) {
            half = half.aligned(level);
            if is_set(half, level) || !is_set(half.buddy(level), level) {
                return fail("inside a free group, the wrong half has its bit set");
            }
        }
        Ok(())
    }
}
