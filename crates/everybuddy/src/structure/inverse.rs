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
//! other would leave a group without one.
//!
//! # Complexity
//! Removing one frame takes O(1) list operations, in O(orders), with one insertion. Removing a block of m frames
//! takes O(m), in O(m × orders). Two bits per frame in addition to the records.

use core::ops::Range;

use super::bits::LevelBits;
use super::levels::LevelLists;
use super::{Placed, Structure, StructureKind, StructurePlace};
use crate::detail::Detail;
use crate::frame::Order;
use crate::frame_table::{Frame, FrameTable, Tag};
use crate::platform::{Platform, SharedCell};
use crate::probe::{Event, NoProbe, Probe};
use crate::snapshot::Violation;

/// iBuddy's free area.
pub struct Inverse<'a, P: Platform> {
    lists: LevelLists<'a, P>,
    bits: LevelBits<'a, P>,
    max_order: Order,
    /// The paper's `next_allocation_level`: one more than the highest level that is not empty, 0 if all are.
    next_allocation_level: &'a P::Cell<u32>,
}

impl<'a, P: Platform> Placed<'a, P> for Inverse<'a, P> {
    const KIND: StructureKind = StructureKind::Frames;

    fn new(place: StructurePlace<'a, P>) -> Self {
        let lists = LevelLists::new(place.table, place.levels);
        Self {
            next_allocation_level: lists.spare(),
            lists,
            bits: LevelBits::new(place.bits, place.first, place.blocks, place.max_order),
            max_order: place.max_order,
        }
    }
}

impl<P: Platform> Inverse<'_, P> {
    /// Returns an order's free frames in the order of their list.
    #[cfg(test)]
    pub(crate) fn heads(&self, order: Order) -> impl Iterator<Item = Frame> + '_ {
        self.lists.iter(order)
    }

    /// Returns `true` if the bit of this group is set.
    #[cfg(test)]
    pub(crate) fn bit(&self, head: Frame, order: Order) -> bool {
        self.bits.get(head, order)
    }

    /// Returns the lowest set bit, from `order` upwards, on the way of a frame.
    #[inline]
    fn representing(&self, frame: Frame, order: Order, probe: &mut impl Probe) -> Option<Order> {
        let mut order = order;
        loop {
            probe.record(Event::Mark);
            if self.bits.get(frame, order) {
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
        let order = self
            .bits
            .ascend(frame, self.max_order, || probe.record(Event::Mark));
        self.lists.push(frame, order);
        record_move(probe);
        debug_assert_eq!(
            self.representing(frame, Order::ZERO, &mut NoProbe),
            Some(order)
        );
        let level = order.index() as u32;
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
            if self.bits.get(head, level) {
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
        for level in Order::up_to(self.max_order)
            .rev()
            .filter(|level| *level > own)
        {
            if !self.bits.get(frame, level) {
                continue;
            }
            let other = self.representative(frame, level);
            let apart = (other.index().0 ^ frame.index().0).ilog2();
            self.bits.clear(frame, level);
            self.lists.unlink(other, level);
            let side = Order::saturating(apart);
            self.bits.set(other, side);
            self.lists.push(other, side);
        }
        self.bits.clear(frame, own);
        self.lists.unlink(frame, own);
    }

    /// Removes one free frame of a group that is removed as a whole, including its representative.
    #[inline]
    fn pick(&self, frame: Frame, probe: &mut impl Probe) {
        if let Some(order) = self.representing(frame, Order::ZERO, probe) {
            self.bits.clear(frame, order);
            self.lists.unlink(frame, order);
            record_move(probe);
        }
    }

    /// Lowers `next_allocation_level` to the highest level that is not empty.
    #[inline]
    fn adjust(&self) {
        if let Some(highest) = self.largest() {
            let mut orders = Order::up_to(highest).rev();
            let found = orders.find(|order| self.lists.length(*order) > 0);
            let level = found.map_or(0, |order| order.index() as u32 + 1);
            self.next_allocation_level.set(level);
        }
    }

    /// Removes the block of an order that holds the representative of a group of the highest level.
    #[inline(never)]
    fn take_block(&self, order: Order, highest: Order, probe: &mut impl Probe) -> Option<Frame> {
        let head = self.lists.first(highest)?.aligned(order);
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
        self.lists.table()
    }

    #[inline(always)]
    fn max_order(&self) -> Order {
        self.max_order
    }

    #[inline]
    fn insert(&self, head: Frame, order: Order) {
        self.insert_recorded(head, order, &mut NoProbe);
    }

    #[inline]
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

    #[inline]
    fn take_recorded(&self, order: Order, probe: &mut impl Probe) -> Option<Frame> {
        let level = self.next_allocation_level.get();
        if level <= order.index() as u32 {
            return None;
        }
        let highest = Order::saturating(level - 1);
        if order > Order::ZERO {
            return self.take_block(order, highest, probe);
        }
        let frame = self.lists.pop(highest)?;
        self.bits.clear(frame, highest);
        record_move(probe);
        debug_assert!(!self.contains(frame, Order::ZERO), "{:?}", frame.index());
        if self.lists.length(highest) == 0 {
            self.adjust();
        }
        Some(frame)
    }

    #[inline]
    fn contains(&self, head: Frame, order: Order) -> bool {
        self.representing(head, order, &mut NoProbe).is_some()
    }

    fn blocks(&self, order: Order) -> u32 {
        if order > self.max_order {
            return 0;
        }
        // A free group that is not part of a larger one has, at each level below, one bit for the half without its
        // representative, and the bits of that half's halves: 1, 2, 4 and so on.
        let (mut inside, mut whole) = (0, 0);
        for level in Order::up_to(self.max_order).rev() {
            inside = 2 * inside + whole;
            whole = self.lists.peek_length(level).saturating_sub(inside);
            if level == order {
                break;
            }
        }
        whole
    }

    fn largest(&self) -> Option<Order> {
        let level = self.next_allocation_level.get();
        level.checked_sub(1).map(Order::saturating)
    }

    fn inspect(&self, part: u32, _: Range<u32>, see: &mut dyn FnMut(Detail)) {
        self.lists.inspect(part, self.max_order, see);
    }

    fn check(&self) -> Result<(), Violation> {
        let mut linked = 0u64;
        for order in Order::up_to(self.max_order) {
            self.lists.check(order, |frame| {
                let index = frame.index();
                let fail = |what| Err(Violation { index, what });
                if self.representing(frame, Order::ZERO, &mut NoProbe) != Some(order) {
                    return fail(
                        "a frame is in the list of a level whose bit it doesn't represent",
                    );
                }
                if order < self.max_order && self.bits.get(frame.buddy(order), order) {
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
                    if self.bits.get(half, level) || !self.bits.get(half.buddy(level), level) {
                        return fail("inside a free group, the wrong half has its bit set");
                    }
                }
                Ok(())
            })?;
            linked += u64::from(self.lists.length(order));
        }
        let fail = |what| Err(Violation::overall(what));
        if self.bits.ones() != linked {
            return fail("a bit is set without a frame in a list");
        }
        if self.next_allocation_level.get() > 0
            && self
                .largest()
                .is_some_and(|order| self.lists.length(order) == 0)
        {
            return fail("next_allocation_level is an empty level");
        }
        let above = Order::up_to(self.max_order).filter(|order| Some(*order) > self.largest());
        match above.map(|order| self.lists.length(order)).sum::<u32>() {
            0 => Ok(()),
            _ => fail("a level above next_allocation_level is not empty"),
        }
    }
}
