//! Doubly linked lists of frames by level, through the records of the frames.
//!
//! The standard buddy links the heads of free blocks, iBuddy every free frame; the lists are the same.
//!
//! # Invariants
//! A list's length is counted. Its first element has no previous one. Links agree in both directions.

use crate::detail::Detail;
use crate::frame::{Index, Order};
use crate::frame_table::{Frame, FrameTable};
use crate::platform::{Platform, SharedCell};
use crate::snapshot::Violation;

/// The number of levels: room for all orders, rounded up to a power of two, so that a masked order needs no bounds
/// check.
pub const LEVELS: usize = (Order::LIMIT.index() + 2).next_power_of_two();

/// A list's head and length, next to each other, since a request that takes from a level touches both. A tree's root
/// and count are stored here, too.
#[repr(C)]
pub struct Level<P: Platform> {
    head: P::Cell<u32>,
    length: P::Cell<u32>,
}

/// The head of an empty list.
const NO_HEAD: u32 = u32::MAX;

impl<P: Platform> Level<P> {
    /// Creates an empty list.
    pub fn new() -> Self {
        Self {
            head: P::Cell::new(NO_HEAD),
            length: P::Cell::new(0),
        }
    }

    /// Returns the head or root. O(1).
    #[inline(always)]
    pub(super) fn head(&self, table: FrameTable<'_, P>) -> Option<Frame> {
        table.frame(Index(self.head.get()))
    }

    /// Replaces the head or root. O(1).
    #[inline(always)]
    pub(super) fn set_head(&self, head: Option<Frame>) {
        self.head.set(head.map_or(NO_HEAD, |head| head.index().0));
    }

    /// Returns the number of elements. O(1).
    #[inline(always)]
    pub(super) fn length(&self) -> u32 {
        self.length.get()
    }

    /// Returns the number of elements, or an earlier number while another CPU works on the list. O(1).
    pub(super) fn peek_length(&self) -> u32 {
        self.length.peek()
    }

    /// Adds one to the number of elements. O(1).
    #[inline(always)]
    pub(super) fn grow(&self) {
        self.length.set(self.length.get() + 1);
    }

    /// Subtracts one from the number of elements. O(1).
    #[inline(always)]
    pub(super) fn shrink(&self) {
        self.length.set(self.length.get() - 1);
    }
}

impl<P: Platform> Default for Level<P> {
    fn default() -> Self {
        Self::new()
    }
}

/// Returns an order's level.
#[inline(always)]
pub(super) fn level_of<P: Platform>(levels: &[Level<P>; LEVELS], order: Order) -> &Level<P> {
    &levels[order.index() & (LEVELS - 1)]
}

/// The lists of all levels of some memory.
pub(crate) struct LevelLists<'a, P: Platform> {
    table: FrameTable<'a, P>,
    levels: &'a [Level<P>; LEVELS],
}

impl<'a, P: Platform> LevelLists<'a, P> {
    /// Creates lists from levels that are empty.
    pub(crate) fn new(table: FrameTable<'a, P>, levels: &'a [Level<P>; LEVELS]) -> Self {
        Self { table, levels }
    }

    /// Returns the per-frame metadata.
    #[inline(always)]
    pub(crate) fn table(&self) -> FrameTable<'a, P> {
        self.table
    }

    #[inline(always)]
    fn level(&self, order: Order) -> &'a Level<P> {
        level_of(self.levels, order)
    }

    /// Returns a cell next to the lists that no list uses: the length of the last level, which no order has.
    #[inline(always)]
    pub(crate) fn spare(&self) -> &'a P::Cell<u32> {
        &self.levels[LEVELS - 1].length
    }

    /// Returns the number of elements. O(1).
    #[inline(always)]
    pub(crate) fn length(&self, order: Order) -> u32 {
        self.level(order).length()
    }

    /// Returns the number of elements, or an earlier number while another CPU works on the list. O(1).
    pub(crate) fn peek_length(&self, order: Order) -> u32 {
        self.level(order).peek_length()
    }

    /// Returns the first element. O(1).
    #[inline(always)]
    pub(crate) fn first(&self, order: Order) -> Option<Frame> {
        self.level(order).head(self.table)
    }

    /// Returns the elements in their order.
    pub(crate) fn iter(&self, order: Order) -> impl Iterator<Item = Frame> + '_ {
        core::iter::successors(self.first(order), |head| self.table.next(*head))
    }

    /// Passes the elements of all lists to `see`, as those of `part`.
    pub(crate) fn inspect(&self, part: u32, last: Order, see: &mut dyn FnMut(Detail)) {
        for order in Order::up_to(last) {
            for head in self.iter(order) {
                see(Detail::Listed {
                    part,
                    order,
                    head: head.index(),
                    is_local: false,
                });
            }
        }
    }

    /// Adds a first element. O(1).
    #[inline]
    pub(crate) fn push(&self, frame: Frame, order: Order) {
        let level = self.level(order);
        let old = level.head(self.table);
        self.table.set_next(frame, old);
        self.table.set_previous(frame, None);
        if let Some(old) = old {
            self.table.set_previous(old, Some(frame));
        }
        level.set_head(Some(frame));
        level.grow();
    }

    /// Removes the first element. O(1).
    #[inline]
    pub(crate) fn pop(&self, order: Order) -> Option<Frame> {
        let level = self.level(order);
        let head = level.head(self.table)?;
        let next = self.table.next(head);
        if let Some(next) = next {
            self.table.set_previous(next, None);
        }
        level.set_head(next);
        level.shrink();
        Some(head)
    }

    /// Removes an element. O(1).
    #[inline]
    pub(crate) fn unlink(&self, frame: Frame, order: Order) {
        let level = self.level(order);
        let (previous, next) = (self.table.previous(frame), self.table.next(frame));
        if let Some(next) = next {
            self.table.set_previous(next, previous);
        }
        match previous {
            Some(previous) => self.table.set_next(previous, next),
            None => level.set_head(next),
        }
        level.shrink();
    }

    /// Walks a list: calls `visit` for each element, checks links and length.
    pub(crate) fn check(
        &self,
        order: Order,
        mut visit: impl FnMut(Frame) -> Result<(), Violation>,
    ) -> Result<(), Violation> {
        let (mut length, mut previous) = (0, None);
        for frame in self.iter(order) {
            let fail = |what| {
                let index = frame.index();
                Err(Violation { index, what })
            };
            visit(frame)?;
            if self.table.previous(frame) != previous {
                return fail("a list's backward link is wrong");
            }
            length += 1;
            if length > self.table.frames() {
                return fail("a list has a cycle");
            }
            previous = Some(frame);
        }
        if length != self.length(order) {
            return Err(Violation::overall("a list's length is miscounted"));
        }
        Ok(())
    }
}
