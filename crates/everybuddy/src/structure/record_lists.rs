//! The standard buddy's structure as Linux has it: doubly linked lists by level, and no bitmap.
//!
//! A lookup of a buddy reads the record of its head instead of a bit. A line of a bitmap has the bits of 512 blocks; a
//! record of Linux is about one line, which a program that uses the caches between two calls evicts.
//!
//! # Source
//! Linux 2.6.32, mm/page_alloc.c: `page_is_buddy`, `set_page_order`, `rmv_page_order`, `expand`. \[iBuddy\] measures
//! this kernel; its figure 5b shows a bitmap.
//!
//! # Invariants
//! The record of a frame stores an order exactly if the frame is the head of a free block of that order, in the list of
//! the order, and then no other free block overlaps it.
//!
//! # Design decisions
//! A record keeps its eight bytes; struct page of Linux 2.6.32 has 56. The first word is a link only in the head of a
//! free block, so it needs no flag, and the order shares the word of the backward link.
//!
//! `insert` reads the record before it writes it. Linux sets a flag in a word that also has other flags, so it reads
//! that word of each half that a split keeps. Here the read finds a block that is in already, which is then not linked
//! again. Linux writes the links first, and its read of the flags waits for the line all the same. A simulated store
//! buffer would hide a read that follows a store to its line, so the read comes first here.
//!
//! # Deviates
//! Linux reads the flags of the freed block, too, writes the links of a removed block, and has a list of an order for
//! each migrate type.
//!
//! # Complexity
//! `insert`, `remove`, `take` and `contains` are O(1). Nothing in addition to the records.

use core::ops::Range;

use super::levels::{LevelLists, WithOrder};
use super::{Placed, Structure, StructureKind, StructurePlace};
use crate::detail::Detail;
use crate::frame::{Index, Order};
use crate::frame_table::{Frame, FrameTable};
use crate::platform::Platform;
use crate::snapshot::Violation;

/// The free lists of one zone, whose records store the orders.
pub struct RecordLists<'a, P: Platform> {
    lists: LevelLists<'a, P, WithOrder>,
    /// The frames that the structure may contain.
    first: u32,
    end: u32,
    max_order: Order,
}

impl<'a, P: Platform> RecordLists<'a, P> {
    /// Returns the heads of an order's free blocks in the order of their list.
    #[cfg(test)]
    pub(crate) fn heads(&self, order: Order) -> impl Iterator<Item = Frame> + '_ {
        self.lists.iter(order)
    }
}

impl<'a, P: Platform> Placed<'a, P> for RecordLists<'a, P> {
    const KIND: StructureKind = StructureKind::Records;

    fn new(place: StructurePlace<'a, P>) -> Self {
        let end = u64::from(place.first) + (u64::from(place.blocks) << place.max_order.get());
        Self {
            lists: LevelLists::new(place.table, place.levels),
            first: place.first,
            end: end.min(u64::from(place.table.frames())) as u32,
            max_order: place.max_order,
        }
    }
}

impl<P: Platform> Structure<P> for RecordLists<'_, P> {
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
        if !self.table().has_order(head) {
            self.lists.push(head, order);
        }
    }

    #[inline]
    fn remove(&self, head: Frame, order: Order) {
        self.lists.unlink(head, order);
        self.table().clear_order(head);
    }

    #[inline]
    fn take(&self, order: Order) -> Option<Frame> {
        let head = self.lists.pop(order)?;
        self.table().clear_order(head);
        Some(head)
    }

    #[inline]
    fn contains(&self, head: Frame, order: Order) -> bool {
        // A buddy can start after the last frame, where there is no record.
        let head = self.table().frame(head.index());
        head.is_some_and(|head| self.table().is_of_order(head, order))
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
        let mut blocks = 0;
        for order in Order::up_to(self.max_order) {
            self.lists.check(order, |head| {
                let index = head.index();
                let fail = |what| Err(Violation { index, what });
                if !index.is_aligned(order) {
                    return fail("a free block is not aligned to its order");
                }
                if !self.contains(head, order) {
                    return fail("a block is in its list, but its record stores another order");
                }
                Ok(())
            })?;
            blocks += self.lists.length(order);
        }
        let frames = (self.first..self.end).filter_map(|frame| self.table().frame(Index(frame)));
        let heads = frames.filter(|frame| self.table().has_order(*frame));
        if heads.count() != blocks as usize {
            let what = "a record stores an order without a block in a list";
            return Err(Violation::overall(what));
        }
        Ok(())
    }
}
