//! Lists of locally and of globally free blocks.
//!
//! A block that is freed locally costs a list operation and nothing else. Its bit stays clear, so its buddy treats it
//! as allocated, and no free coalesces it until its class has too many locally free blocks.
//!
//! # Source
//! \[BL89\] §3.1 and §4: both kinds in one doubly linked list per class, locally free blocks at the head, globally
//! free ones at the tail, allocation from the head.
//!
//! # Invariants
//! The first `local` blocks of a list are locally free, and their bits are clear. The other `global` ones have their
//! bits set. `total` is the number N of blocks of the class that exist: free, allocated or split further.
//!
//! # Design decisions
//! \[BL89\] §4 keeps one variable per class, the slack D = N - 2 Fl - Fg; here there are four. With D alone, the bit of
//! the first block tells whether it is locally free. Finding that bit takes more instructions than keeping the counts:
//! a call that only moves a block takes one less, one that coalesces or splits up to 6 % more. The watermarks need
//! Fl + Fg and N.
//!
//! # Complexity
//! O(1) each. Two bits per frame in addition to the records, and six words per class.

use core::ops::Range;

use super::bits::LevelBits;
use super::levels::LEVELS;
use super::{Placed, Structure, StructureKind, StructurePlace};
use crate::detail::Detail;
use crate::frame::{Index, Order};
use crate::frame_table::{Frame, FrameTable, Tag};
use crate::platform::{Platform, SharedCell};
use crate::snapshot::Violation;

/// A class of blocks.
#[repr(C)]
pub(crate) struct BlockClass<P: Platform> {
    head: P::Cell<u32>,
    tail: P::Cell<u32>,
    /// Locally free blocks, Fl.
    pub(crate) local: P::Cell<u32>,
    /// Globally free blocks, Fg.
    pub(crate) global: P::Cell<u32>,
    /// Blocks that exist, N.
    pub(crate) total: P::Cell<u32>,
    /// The slack variable D of DELAY-2.
    pub(crate) slack: P::Cell<u32>,
}

/// No frame.
const NO_FRAME: u32 = u32::MAX;

impl<P: Platform> BlockClass<P> {
    /// Creates a class without blocks.
    pub(crate) fn new() -> Self {
        Self {
            head: P::Cell::new(NO_FRAME),
            tail: P::Cell::new(NO_FRAME),
            local: P::Cell::new(0),
            global: P::Cell::new(0),
            total: P::Cell::new(0),
            slack: P::Cell::new(0),
        }
    }
}

/// Adds to a count. A negative amount is passed as its two's complement.
#[inline(always)]
pub(crate) fn add<P: Platform>(cell: &P::Cell<u32>, amount: u32) {
    cell.set(cell.get().wrapping_add(amount));
}

/// A structure that distinguishes locally free blocks.
pub(crate) trait LocalStructure<P: Platform>: Structure<P> {
    /// Returns a class.
    fn class(&self, order: Order) -> &BlockClass<P>;

    /// Inserts a block that no free should coalesce.
    fn insert_local(&self, head: Frame, order: Order);

    /// Removes the first block if it is locally free.
    fn take_local(&self, order: Order) -> Option<Frame>;
}

/// The lists of all classes.
pub struct LocalLists<'a, P: Platform> {
    table: FrameTable<'a, P>,
    classes: &'a [BlockClass<P>],
    bits: LevelBits<'a, P>,
    max_order: Order,
}

impl<'a, P: Platform> Placed<'a, P> for LocalLists<'a, P> {
    const KIND: StructureKind = StructureKind::LocalLists;

    fn new(place: StructurePlace<'a, P>) -> Self {
        Self {
            table: place.table,
            classes: place.classes,
            bits: LevelBits::new(place.bits, place.first, place.blocks, place.max_order),
            max_order: place.max_order,
        }
    }
}

impl<P: Platform> LocalLists<'_, P> {
    /// Removes an element from any place in a list.
    #[inline]
    fn unlink(&self, frame: Frame, order: Order) {
        let class = self.class(order);
        let (previous, next) = (self.table.previous(frame), self.table.next(frame));
        let number = |frame: Option<Frame>| frame.map_or(NO_FRAME, |frame| frame.index().0);
        match next {
            Some(next) => self.table.set_previous(next, previous),
            None => class.tail.set(number(previous)),
        }
        match previous {
            Some(previous) => self.table.set_next(previous, next),
            None => class.head.set(number(next)),
        }
    }

    /// Removes the first element of a list: as [`unlink`](Self::unlink) for an element without a predecessor.
    #[inline(always)]
    fn pop(&self, class: &BlockClass<P>, first: Frame) {
        match self.table.next(first) {
            Some(next) => {
                self.table.set_previous(next, None);
                class.head.set(next.index().0);
            }
            None => {
                class.tail.set(NO_FRAME);
                class.head.set(NO_FRAME);
            }
        }
    }

    #[inline(always)]
    fn first(&self, order: Order) -> Option<Frame> {
        self.table.frame(Index(self.class(order).head.get()))
    }

    fn iter(&self, order: Order) -> impl Iterator<Item = Frame> + '_ {
        core::iter::successors(self.first(order), |head| self.table.next(*head))
    }
}

impl<P: Platform> LocalStructure<P> for LocalLists<'_, P> {
    #[inline(always)]
    fn class(&self, order: Order) -> &BlockClass<P> {
        &self.classes[order.index() & (LEVELS - 1)]
    }

    #[inline]
    fn insert_local(&self, head: Frame, order: Order) {
        let class = self.class(order);
        let old = self.first(order);
        self.table.set_next(head, old);
        self.table.set_previous(head, None);
        match old {
            Some(old) => self.table.set_previous(old, Some(head)),
            None => class.tail.set(head.index().0),
        }
        class.head.set(head.index().0);
        add::<P>(&class.local, 1);
    }

    #[inline]
    fn take_local(&self, order: Order) -> Option<Frame> {
        let class = self.class(order);
        if class.local.get() == 0 {
            return None;
        }
        let head = self.first(order)?;
        self.pop(class, head);
        class.local.set(class.local.get() - 1);
        Some(head)
    }
}

impl<P: Platform> Structure<P> for LocalLists<'_, P> {
    const INDIVIDUAL: bool = false;

    #[inline(always)]
    fn table(&self) -> FrameTable<'_, P> {
        self.table
    }

    #[inline(always)]
    fn max_order(&self) -> Order {
        self.max_order
    }

    /// Inserts a globally free block, at the tail.
    #[inline]
    fn insert(&self, head: Frame, order: Order) {
        self.bits.set(head, order);
        let class = self.class(order);
        let old = self.table.frame(Index(class.tail.get()));
        self.table.set_next(head, None);
        self.table.set_previous(head, old);
        match old {
            Some(old) => self.table.set_next(old, Some(head)),
            None => class.head.set(head.index().0),
        }
        class.tail.set(head.index().0);
        add::<P>(&class.global, 1);
    }

    /// Removes a globally free block.
    #[inline]
    fn remove(&self, head: Frame, order: Order) {
        self.bits.clear(head, order);
        self.unlink(head, order);
        let class = self.class(order);
        class.global.set(class.global.get() - 1);
    }

    /// Removes the first globally free block, if there is no locally free one.
    #[inline]
    fn take(&self, order: Order) -> Option<Frame> {
        let class = self.class(order);
        let head = self.first(order)?;
        if class.local.get() > 0 {
            return None;
        }
        self.bits.clear(head, order);
        self.pop(class, head);
        class.global.set(class.global.get() - 1);
        Some(head)
    }

    /// Returns `true` if this block is globally free.
    #[inline]
    fn contains(&self, head: Frame, order: Order) -> bool {
        self.bits.get(head, order)
    }

    fn blocks(&self, order: Order) -> u32 {
        if order > self.max_order {
            return 0;
        }
        let class = self.class(order);
        class.local.peek().wrapping_add(class.global.peek())
    }

    fn largest(&self) -> Option<Order> {
        let mut orders = Order::up_to(self.max_order).rev();
        orders.find(|order| self.first(*order).is_some())
    }

    fn order_at(&self, head: Frame) -> Option<Order> {
        let aligned = |order: &Order| head.index().is_aligned(*order);
        let mut orders = Order::up_to(self.max_order).filter(aligned);
        if let Some(order) = orders.find(|order| self.contains(head, *order)) {
            return Some(order);
        }
        // A locally free block has no bit: it ends where the next record is not interior.
        let mut frames = 1;
        while head.index().0 + frames < self.table.frames()
            && self.table.tag(head.offset(frames)) == Tag::INTERIOR
        {
            frames += 1;
        }
        Order::covering(frames).filter(|order| order.frames() == frames)
    }

    fn inspect(&self, part: u32, _: Range<u32>, see: &mut dyn FnMut(Detail)) {
        for order in Order::up_to(self.max_order) {
            let class = self.class(order);
            let local = class.local.get();
            see(Detail::Class {
                part,
                order,
                total: class.total.get(),
                local,
                global: class.global.get(),
                slack: class.slack.get(),
            });
            let first = self.table.frame(Index(class.head.get()));
            let heads = core::iter::successors(first, |head| self.table.next(*head));
            // The locally free ones come first.
            for (at, head) in (0..).zip(heads) {
                see(Detail::Listed {
                    part,
                    order,
                    head: head.index(),
                    is_local: at < local,
                });
            }
        }
    }

    fn check(&self) -> Result<(), Violation> {
        let mut global = 0u64;
        for order in Order::up_to(self.max_order) {
            let class = self.class(order);
            let (mut seen, mut previous) = (0, None);
            for head in self.iter(order) {
                let index = head.index();
                let fail = |what| Err(Violation { index, what });
                if !index.is_aligned(order) {
                    return fail("a free block is not aligned to its order");
                }
                if self.contains(head, order) != (seen >= class.local.get()) {
                    return fail("locally free blocks come first, and only the others have bits");
                }
                if self.table.previous(head) != previous {
                    return fail("a list's backward link is wrong");
                }
                if order < self.max_order
                    && self.contains(head, order)
                    && self.contains(head.buddy(order), order)
                {
                    return fail("two buddies are globally free and not coalesced");
                }
                previous = Some(head);
                seen += 1;
                if seen > self.table.frames() {
                    return fail("a list has a cycle");
                }
            }
            let fail = |what| Err(Violation::overall(what));
            let (fl, fg) = (class.local.get(), class.global.get());
            if seen != fl + fg || self.table.frame(Index(class.tail.get())) != previous {
                return fail("a list's length or its tail is wrong");
            }
            let total = class.total.get();
            // The policy decides whether it may fall below zero.
            if class.slack.get() != total.wrapping_sub(2 * fl + fg) {
                return fail("a slack variable is not N - 2 Fl - Fg");
            }
            global += u64::from(fg);
        }
        if self.bits.ones() == global {
            Ok(())
        } else {
            Err(Violation::overall("a bit is set without a block in a list"))
        }
    }
}
