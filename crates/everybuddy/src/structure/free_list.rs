//! The standard buddy's structure: a bitmap and doubly linked lists, both by level.
//!
//! It is the baseline of every paper, and what Linux's zones are built on.
//!
//! # Source
//! \[iBuddy\] §3.1 and figure 5b; \[BL89\] §3. One bit per aligned block of each order says whether exactly that
//! block is free. The free blocks of an order are linked through the records of their heads.
//!
//! # Invariants
//! A block's bit is set exactly if its head is in the list of its order, and then the block of no other set bit
//! overlaps it.
//!
//! # Design decisions
//! Blocks are inserted at the head of their list and removed from there, as in Linux. Levels are searched upwards one
//! by one: a mask of the non-empty levels would be faster, but no paper's baseline has one.
//!
//! # Complexity
//! `insert`, `remove`, `take` and `contains` are O(1). Two bits per frame in addition to the records.

use core::ops::Range;

use super::bits::LevelBits;
use super::levels::LevelLists;
use super::{Placed, Structure, StructureKind, StructurePlace};
use crate::detail::Detail;
use crate::frame::Order;
use crate::frame_table::{Frame, FrameTable};
use crate::platform::Platform;
use crate::snapshot::Violation;

/// Bitmap and free lists of one zone.
pub struct FreeLists<'a, P: Platform> {
    lists: LevelLists<'a, P>,
    bits: LevelBits<'a, P>,
    max_order: Order,
}

impl<'a, P: Platform> FreeLists<'a, P> {
    /// Returns the heads of an order's free blocks in the order of their list.
    #[cfg(test)]
    pub(crate) fn heads(&self, order: Order) -> impl Iterator<Item = Frame> + '_ {
        self.lists.iter(order)
    }
}

impl<'a, P: Platform> Placed<'a, P> for FreeLists<'a, P> {
    const KIND: StructureKind = StructureKind::Lists;

    fn new(place: StructurePlace<'a, P>) -> Self {
        Self {
            lists: LevelLists::new(place.table, place.levels),
            bits: LevelBits::new(place.bits, place.first, place.blocks, place.max_order),
            max_order: place.max_order,
        }
    }
}

impl<P: Platform> Structure<P> for FreeLists<'_, P> {
    const INDIVIDUAL: bool = false;

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
        self.bits.set(head, order);
        self.lists.push(head, order);
    }

    #[inline]
    fn remove(&self, head: Frame, order: Order) {
        self.bits.clear(head, order);
        self.lists.unlink(head, order);
    }

    #[inline]
    fn take(&self, order: Order) -> Option<Frame> {
        let head = self.lists.pop(order)?;
        self.bits.clear(head, order);
        Some(head)
    }

    #[inline]
    fn contains(&self, head: Frame, order: Order) -> bool {
        self.bits.get(head, order)
    }

    fn blocks(&self, order: Order) -> u32 {
        if order > self.max_order {
            0
        } else {
            self.lists.peek_length(order)
        }
    }

    fn largest(&self) -> Option<Order> {
        let mut orders = Order::up_to(self.max_order).rev();
        orders.find(|order| self.lists.length(*order) > 0)
    }

    fn inspect(&self, part: u32, _: Range<u32>, see: &mut dyn FnMut(Detail)) {
        self.lists.inspect(part, self.max_order, see);
    }

    fn check(&self) -> Result<(), Violation> {
        let mut blocks = 0u64;
        for order in Order::up_to(self.max_order) {
            self.lists.check(order, |head| {
                let index = head.index();
                let fail = |what| Err(Violation { index, what });
                if !index.is_aligned(order) {
                    return fail("a free block is not aligned to its order");
                }
                if !self.contains(head, order) {
                    return fail("a block is in its list, but its bit is clear");
                }
                Ok(())
            })?;
            blocks += u64::from(self.lists.length(order));
        }
        if self.bits.ones() != blocks {
            return Err(Violation::overall("a bit is set without a block in a list"));
        }
        Ok(())
    }
}
