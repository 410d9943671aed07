//! The standard buddy's structure: a bitmap and doubly linked lists, both by level.
//!
//! Source: iBuddy (000) section 3.1 and figure 5b; Barkley and Lee (003) section 3. One bit for each
//! aligned block of each order says whether exactly that block is free; the free blocks of an order are
//! linked through the records of their heads.
//!
//! Why it exists: it is the baseline of every paper, and what Linux's zones have been built on.
//!
//! Invariant: a block's bit is set exactly when its head is in the list of its order, and then no other
//! set bit's block overlaps it.
//!
//! Decides: blocks are inserted at the head of their list and taken from there, as Linux does. Levels are
//! searched upwards one by one: a mask of the non-empty levels would be quicker, but no paper's baseline
//! has it.
//!
//! Cost: insert, remove, take, contains O(1). Two bits a frame beside the records.

use super::Structure;
use crate::arena::{Arena, ArenaPlan};
use crate::error::BuildError;
use crate::frame::{Order, Pfn};
use crate::frame_table::{Frame, FrameTable};
use crate::platform::{Platform, SharedCell};
use crate::snapshot::Violation;

/// Room for orders 0 to the limit, rounded up to a power of two: an order masked so needs no bounds check.
const LEVELS: usize = (Order::LIMIT.index() + 1).next_power_of_two();

/// The lists' heads and lengths, side by side: a request that takes from a level touches both.
#[repr(C)]
pub(crate) struct Level<P: Platform> {
    head: P::Cell<u32>,
    blocks: P::Cell<u32>,
}

/// Says that a list is empty.
const EMPTY: u32 = u32::MAX;

/// Bitmap and free lists of one zone.
pub(crate) struct FreeLists<'a, P: Platform> {
    table: FrameTable<'a, P>,
    levels: &'a [Level<P>; LEVELS],
    bits: &'a [P::Cell<u64>],
    /// Where each level's words begin in `bits`.
    level_words: [u32; LEVELS],
    max_order: Order,
}

impl<'a, P: Platform> FreeLists<'a, P> {
    /// Returns the words of each level's bits and where they begin.
    fn geometry(frames: u32, max_order: Order) -> ([u32; LEVELS], usize) {
        // Rounded up to the largest block, so that a buddy's bit exists even where the buddy does not.
        let padded = u64::from(frames).next_multiple_of(u64::from(max_order.frames()));
        let mut starts = [0; LEVELS];
        let mut words = 0u64;
        for order in Order::up_to(max_order) {
            starts[order.index()] = words as u32;
            words += (padded >> order.get()).div_ceil(64);
        }
        (starts, words as usize)
    }

    /// Plans the memory of [`new`](Self::new).
    pub(crate) fn plan(plan: ArenaPlan, frames: u32, max_order: Order) -> ArenaPlan {
        let (_, words) = Self::geometry(frames, max_order);
        plan.slice::<Level<P>>(LEVELS).slice::<P::Cell<u64>>(words)
    }

    /// Makes an empty structure. O(frames / 32).
    pub(crate) fn new(
        arena: &mut Arena<'a>,
        table: FrameTable<'a, P>,
        max_order: Order,
    ) -> Result<Self, BuildError> {
        let (level_words, words) = Self::geometry(table.frames(), max_order);
        let levels = arena.slice(LEVELS, |_| Level {
            head: P::Cell::new(EMPTY),
            blocks: P::Cell::new(0),
        })?;
        let Ok(levels) = levels.try_into() else {
            unreachable!("a slice is as long as was asked")
        };
        Ok(Self {
            table,
            levels,
            bits: arena.slice(words, |_| P::Cell::new(0))?,
            level_words,
            max_order,
        })
    }

    #[inline(always)]
    fn level(&self, order: Order) -> &'a Level<P> {
        &self.levels[order.index() & (LEVELS - 1)]
    }

    #[inline(always)]
    fn bit(&self, head: Frame, order: Order) -> (&'a P::Cell<u64>, u64) {
        let group = head.pfn().0 >> order.get();
        let word = self.level_words[order.index() & (LEVELS - 1)] + group / 64;
        (&self.bits[word as usize], 1 << (group % 64))
    }

    /// Returns the heads of an order's free blocks in the order of their list.
    #[cfg(test)]
    pub(crate) fn heads(&self, order: Order) -> impl Iterator<Item = Frame> + '_ {
        core::iter::successors(self.first(self.level(order)), |head| self.table.next(*head))
    }

    #[inline(always)]
    fn first(&self, level: &Level<P>) -> Option<Frame> {
        self.table.frame(Pfn(level.head.get()))
    }
}

impl<P: Platform> Structure<P> for FreeLists<'_, P> {
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
        let (word, mask) = self.bit(head, order);
        debug_assert!(
            word.get() & mask == 0,
            "{:?} of {order:?} is in already",
            head.pfn()
        );
        word.set(word.get() | mask);
        let level = self.level(order);
        let old = self.first(level);
        self.table.set_next(head, old);
        self.table.set_previous(head, None);
        if let Some(old) = old {
            self.table.set_previous(old, Some(head));
        }
        level.head.set(head.pfn().0);
        level.blocks.set(level.blocks.get() + 1);
    }

    #[inline]
    fn remove(&self, head: Frame, order: Order) {
        let (word, mask) = self.bit(head, order);
        debug_assert!(
            word.get() & mask != 0,
            "{:?} of {order:?} is not in",
            head.pfn()
        );
        word.set(word.get() & !mask);
        let level = self.level(order);
        let (previous, next) = (self.table.previous(head), self.table.next(head));
        if let Some(next) = next {
            self.table.set_previous(next, previous);
        }
        match previous {
            Some(previous) => self.table.set_next(previous, next),
            None => level.head.set(next.map_or(EMPTY, |next| next.pfn().0)),
        }
        level.blocks.set(level.blocks.get() - 1);
    }

    #[inline]
    fn take(&self, order: Order) -> Option<Frame> {
        let level = self.level(order);
        let head = self.first(level)?;
        let next = self.table.next(head);
        if let Some(next) = next {
            self.table.set_previous(next, None);
        }
        level.head.set(next.map_or(EMPTY, |next| next.pfn().0));
        level.blocks.set(level.blocks.get() - 1);
        let (word, mask) = self.bit(head, order);
        word.set(word.get() & !mask);
        Some(head)
    }

    #[inline]
    fn contains(&self, head: Frame, order: Order) -> bool {
        let (word, mask) = self.bit(head, order);
        word.get() & mask != 0
    }

    fn blocks(&self, order: Order) -> u32 {
        if order > self.max_order {
            0
        } else {
            self.level(order).blocks.get()
        }
    }

    fn check(&self) -> Result<(), Violation> {
        let mut words = 0u64;
        for order in Order::up_to(self.max_order) {
            let level = self.level(order);
            let (mut blocks, mut previous, mut at) = (0, None, self.first(level));
            while let Some(head) = at {
                let fail = |what| {
                    Err(Violation {
                        pfn: head.pfn(),
                        what,
                    })
                };
                if !head.pfn().is_aligned(order) {
                    return fail("a free block is not aligned to its order");
                }
                if !self.contains(head, order) {
                    return fail("a block is in its list, but its bit is clear");
                }
                if self.table.previous(head) != previous {
                    return fail("a list's backward link is wrong");
                }
                blocks += 1;
                if blocks > self.table.frames() {
                    return fail("a list has a cycle");
                }
                previous = Some(head);
                at = self.table.next(head);
            }
            if blocks != level.blocks.get() {
                return Err(Violation {
                    pfn: Pfn(0),
                    what: "a list's length is miscounted",
                });
            }
            words += u64::from(blocks);
        }
        let set: u64 = self
            .bits
            .iter()
            .map(|word| u64::from(word.get().count_ones()))
            .sum();
        if set != words {
            return Err(Violation {
                pfn: Pfn(0),
                what: "a bit is set without a block in a list",
            });
        }
        Ok(())
    }
}
