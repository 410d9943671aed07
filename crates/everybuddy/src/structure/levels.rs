//! Doubly linked lists of frames by level, through the records of the frames.
//!
//! The standard buddy links the heads of free blocks, iBuddy every free frame; the lists are the same. Where no bitmap
//! stores the orders of free blocks, the records of their heads do, in the word of the backward link.
//!
//! # Invariants
//! The length of a [`Level`]'s list is counted. A list's first element has no previous one. Links agree in both
//! directions.

use core::marker::PhantomData;

use crate::detail::Detail;
use crate::frame::{Index, Order};
use crate::frame_table::{Frame, FrameTable};
use crate::platform::{Platform, SharedCell};
use crate::snapshot::Violation;

/// The number of levels: room for all orders, rounded up to a power of two, so that a masked order needs no bounds
/// check.
pub const LEVELS: usize = (Order::LIMIT.index() + 2).next_power_of_two();

/// What the word of an element's backward link holds.
pub(crate) trait Links: Copy + Send + Sync {
    /// Returns the links of a list of this order's blocks.
    fn of(order: Order) -> Self;

    /// Returns the previous element.
    fn previous<P: Platform>(self, table: FrameTable<'_, P>, frame: Frame) -> Option<Frame>;

    /// Links an element back.
    fn set_previous<P: Platform>(
        self,
        table: FrameTable<'_, P>,
        frame: Frame,
        previous: Option<Frame>,
    );
}

/// The link alone.
#[derive(Clone, Copy)]
pub(crate) struct Plain;

impl Links for Plain {
    #[inline(always)]
    fn of(_: Order) -> Self {
        Plain
    }

    #[inline(always)]
    fn previous<P: Platform>(self, table: FrameTable<'_, P>, frame: Frame) -> Option<Frame> {
        table.previous(frame)
    }

    #[inline(always)]
    fn set_previous<P: Platform>(
        self,
        table: FrameTable<'_, P>,
        frame: Frame,
        previous: Option<Frame>,
    ) {
        table.set_previous(frame, previous);
    }
}

/// The link and the order of the blocks in the list.
#[derive(Clone, Copy)]
pub(crate) struct WithOrder(Order);

impl Links for WithOrder {
    #[inline(always)]
    fn of(order: Order) -> Self {
        WithOrder(order)
    }

    #[inline(always)]
    fn previous<P: Platform>(self, table: FrameTable<'_, P>, frame: Frame) -> Option<Frame> {
        table.ordered_previous(frame)
    }

    #[inline(always)]
    fn set_previous<P: Platform>(
        self,
        table: FrameTable<'_, P>,
        frame: Frame,
        previous: Option<Frame>,
    ) {
        table.set_ordered_previous(frame, previous, self.0);
    }
}

/// The head of an empty list.
const NO_HEAD: u32 = u32::MAX;

/// The head of a doubly linked list of frames, whose length is not counted.
#[repr(transparent)]
pub(crate) struct Head<P: Platform>(P::Cell<u32>);

impl<P: Platform> Head<P> {
    /// Creates an empty list.
    pub(crate) fn new() -> Self {
        Self(P::Cell::new(NO_HEAD))
    }

    /// Returns `true` if the list is empty. O(1).
    #[inline(always)]
    pub(super) fn is_empty(&self) -> bool {
        self.0.get() == NO_HEAD
    }

    /// Returns the first element. O(1).
    #[inline(always)]
    pub(super) fn first(&self, table: FrameTable<'_, P>) -> Option<Frame> {
        table.frame(Index(self.0.get()))
    }

    /// Replaces the first element. O(1).
    #[inline(always)]
    fn set(&self, first: Option<Frame>) {
        self.0.set(first.map_or(NO_HEAD, |first| first.index().0));
    }

    /// Returns the elements in their order.
    pub(super) fn iter<'t>(
        &self,
        table: FrameTable<'t, P>,
    ) -> impl Iterator<Item = Frame> + use<'t, P> {
        core::iter::successors(self.first(table), move |frame| table.next(*frame))
    }

    /// Passes the elements to `see`, as those of `part`.
    pub(super) fn inspect(
        &self,
        table: FrameTable<'_, P>,
        (part, order): (u32, Order),
        see: &mut dyn FnMut(Detail),
    ) {
        for head in self.iter(table) {
            see(Detail::Listed {
                part,
                order,
                head: head.index(),
                is_local: false,
            });
        }
    }

    /// Adds a first element. O(1).
    #[inline(always)]
    pub(super) fn push<L: Links>(&self, table: FrameTable<'_, P>, links: L, frame: Frame) {
        let old = self.first(table);
        table.set_next(frame, old);
        links.set_previous(table, frame, None);
        if let Some(old) = old {
            links.set_previous(table, old, Some(frame));
        }
        self.set(Some(frame));
    }

    /// Removes the first element. O(1).
    #[inline(always)]
    pub(super) fn pop<L: Links>(&self, table: FrameTable<'_, P>, links: L) -> Option<Frame> {
        let first = self.first(table)?;
        let next = table.next(first);
        if let Some(next) = next {
            links.set_previous(table, next, None);
        }
        self.set(next);
        Some(first)
    }

    /// Removes an element. O(1).
    #[inline(always)]
    pub(super) fn unlink<L: Links>(&self, table: FrameTable<'_, P>, links: L, frame: Frame) {
        let (previous, next) = (links.previous(table, frame), table.next(frame));
        if let Some(next) = next {
            links.set_previous(table, next, previous);
        }
        match previous {
            Some(previous) => table.set_next(previous, next),
            None => self.set(next),
        }
    }

    /// Walks the list: calls `visit` for each element, and checks the links. Returns the number of elements.
    pub(super) fn check(
        &self,
        table: FrameTable<'_, P>,
        links: impl Links,
        mut visit: impl FnMut(Frame) -> Result<(), Violation>,
    ) -> Result<u32, Violation> {
        let (mut length, mut previous) = (0, None);
        for frame in self.iter(table) {
            let fail = |what| {
                let index = frame.index();
                Err(Violation { index, what })
            };
            visit(frame)?;
            if links.previous(table, frame) != previous {
                return fail("a list's backward link is wrong");
            }
            length += 1;
            if length > table.frames() {
                return fail("a list has a cycle");
            }
            previous = Some(frame);
        }
        Ok(length)
    }
}

/// A list's head and length, next to each other, since a request that takes from a level touches both. A tree's root
/// and count are stored here, too.
#[repr(C)]
pub struct Level<P: Platform> {
    head: Head<P>,
    length: P::Cell<u32>,
}

impl<P: Platform> Level<P> {
    /// Creates an empty list.
    pub fn new() -> Self {
        Self {
            head: Head::new(),
            length: P::Cell::new(0),
        }
    }

    /// Returns the head or root. O(1).
    #[inline(always)]
    pub(super) fn head(&self, table: FrameTable<'_, P>) -> Option<Frame> {
        self.head.first(table)
    }

    /// Replaces the head or root. O(1).
    #[inline(always)]
    pub(super) fn set_head(&self, head: Option<Frame>) {
        self.head.set(head);
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
pub(crate) struct LevelLists<'a, P: Platform, L: Links = Plain> {
    table: FrameTable<'a, P>,
    levels: &'a [Level<P>; LEVELS],
    links: PhantomData<L>,
}

impl<'a, P: Platform, L: Links> LevelLists<'a, P, L> {
    /// Creates lists from levels that are empty.
    pub(crate) fn new(table: FrameTable<'a, P>, levels: &'a [Level<P>; LEVELS]) -> Self {
        Self {
            table,
            levels,
            links: PhantomData,
        }
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
    #[cfg(test)]
    pub(crate) fn iter(&self, order: Order) -> impl Iterator<Item = Frame> + '_ {
        self.level(order).head.iter(self.table)
    }

    /// Passes the elements of all lists to `see`, as those of `part`.
    pub(crate) fn inspect(&self, part: u32, last: Order, see: &mut dyn FnMut(Detail)) {
        for order in Order::up_to(last) {
            let head = &self.level(order).head;
            head.inspect(self.table, (part, order), see);
        }
    }

    /// Adds a first element. O(1).
    #[inline]
    pub(crate) fn push(&self, frame: Frame, order: Order) {
        let level = self.level(order);
        level.head.push(self.table, L::of(order), frame);
        level.grow();
    }

    /// Removes the first element. O(1).
    #[inline]
    pub(crate) fn pop(&self, order: Order) -> Option<Frame> {
        let level = self.level(order);
        let first = level.head.pop(self.table, L::of(order))?;
        level.shrink();
        Some(first)
    }

    /// Removes an element. O(1).
    #[inline]
    pub(crate) fn unlink(&self, frame: Frame, order: Order) {
        let level = self.level(order);
        level.head.unlink(self.table, L::of(order), frame);
        level.shrink();
    }

    /// Walks a list: calls `visit` for each element, checks links and length.
    pub(crate) fn check(
        &self,
        order: Order,
        visit: impl FnMut(Frame) -> Result<(), Violation>,
    ) -> Result<(), Violation> {
        let level = self.level(order);
        if level.head.check(self.table, L::of(order), visit)? != level.length() {
            return Err(Violation::overall("a list's length is miscounted"));
        }
        Ok(())
    }
}
