//! Free lists by mobility: each page block has a type, and its free blocks are in the lists of that type.
//!
//! A frame that stays keeps the block around it from becoming whole. If frames that stay lie in few blocks, the others
//! can become whole again, or can be made whole by moving what is in them.
//!
//! # Source
//! Linux 6.12, mm/page_alloc.c: a page block has a type, and each free block is in the list of the type of the page
//! block that contains it. Which types there are, and when a page block changes its type, is a policy:
//! [`mobility`](crate::coalesce::mobility).
//!
//! # Invariants
//! 1. A page block is a block of the largest order, aligned. Its free blocks are in the lists of its type.
//! 2. The bits are those of the standard buddy's free lists, and do not depend on the type.
//!
//! # Complexity
//! As [`free_list`](super::free_list), except that changing a type is O(frames of a page block / 64 + free blocks). Two
//! bits per page block in addition.

use super::bits::LevelBits;
use super::levels::LevelLists;
use super::{Placed, Structure, StructureKind, StructurePlace};
use crate::frame::Order;
use crate::frame_table::{Frame, FrameTable};
use crate::platform::{Platform, SharedCell};
use crate::request::{BlockType, Class};
use crate::snapshot::{PageBlocks, Violation};

/// Page blocks whose types share a word.
const TYPES_PER_WORD: u32 = 32;

/// Returns the number of words for the types of `blocks` page blocks, and for the type that the present request is for.
pub(super) fn type_words(blocks: u32) -> usize {
    blocks.div_ceil(TYPES_PER_WORD) as usize + 1
}

/// Bitmap, and free lists by type.
pub struct MobilityLists<'a, P: Platform> {
    lists: [LevelLists<'a, P>; BlockType::ALL.len()],
    bits: LevelBits<'a, P>,
    /// The types of page blocks, two bits each.
    types: &'a [P::Cell<u64>],
    /// The type that the present request is for.
    wanted: &'a P::Cell<u64>,
    first: u32,
    blocks: u32,
    max_order: Order,
}

impl<'a, P: Platform> MobilityLists<'a, P> {
    /// Returns the lists of a type.
    #[inline(always)]
    fn of(&self, kind: BlockType) -> &LevelLists<'a, P> {
        &self.lists[kind as usize]
    }

    /// Returns the word of a page block's type, and the position in it.
    #[inline(always)]
    fn locate(&self, frame: Frame) -> (&'a P::Cell<u64>, u32) {
        self.locate_block((frame.index().0 - self.first) >> self.max_order.get())
    }

    #[inline(always)]
    fn locate_block(&self, block: u32) -> (&'a P::Cell<u64>, u32) {
        let word = &self.types[(block / TYPES_PER_WORD) as usize];
        (word, block % TYPES_PER_WORD * 2)
    }

    /// Returns the type of the page block that contains a frame. O(1).
    #[inline(always)]
    pub(crate) fn type_at(&self, frame: Frame) -> BlockType {
        let (word, shift) = self.locate(frame);
        BlockType::ALL[(word.get() >> shift & 3) as usize]
    }

    /// Returns the type that the present request is for. O(1).
    pub(crate) fn wanted(&self) -> BlockType {
        BlockType::ALL[(self.wanted.get() & 3) as usize]
    }

    /// Returns the first free block of a type and an order. O(1).
    pub(crate) fn first_of(&self, kind: BlockType, order: Order) -> Option<Frame> {
        self.of(kind).first(order)
    }

    /// Returns the free frames of the page block that contains a frame. O(frames of a page block / 64).
    pub(crate) fn free_in_page_block(&self, frame: Frame) -> u32 {
        let head = frame.aligned(self.max_order);
        let free = |order: Order| {
            let heads = self.bits.within(head, self.max_order, order);
            heads.count() as u32 * order.frames()
        };
        Order::up_to(self.max_order).map(free).sum()
    }

    /// Changes the type of the page block that contains a frame, and moves its free blocks to the lists of that type.
    pub(crate) fn retype(&self, frame: Frame, to: BlockType) {
        let from = self.type_at(frame);
        let head = frame.aligned(self.max_order);
        for order in Order::up_to(self.max_order) {
            for block in self.bits.within(head, self.max_order, order) {
                self.of(from).unlink(block, order);
                self.of(to).push(block, order);
            }
        }
        let (word, shift) = self.locate(frame);
        word.set(word.get() & !(3 << shift) | (to as u64) << shift);
    }
}

impl<'a, P: Platform> Placed<'a, P> for MobilityLists<'a, P> {
    const KIND: StructureKind = StructureKind::MobilityLists;

    fn new(place: StructurePlace<'a, P>) -> Self {
        let plain = place.bits.len() - type_words(place.blocks);
        let (bits, types) = place.bits.split_at(plain);
        let [types @ .., wanted] = types else {
            unreachable!("the words of types include that of the request");
        };
        let [second, third, fourth] = place.more_levels else {
            unreachable!("the memory was planned with lists for each type");
        };
        let sets = [place.levels, &**second, &**third, &**fourth];
        Self {
            lists: sets.map(|levels| LevelLists::new(place.table, levels)),
            bits: LevelBits::new(bits, place.first, place.blocks, place.max_order),
            types,
            wanted,
            first: place.first,
            blocks: place.blocks,
            max_order: place.max_order,
        }
    }
}

impl<P: Platform> Structure<P> for MobilityLists<'_, P> {
    const INDIVIDUAL: bool = false;
    const HAS_CLASSES: bool = true;

    #[inline(always)]
    fn table(&self) -> FrameTable<'_, P> {
        self.lists[0].table()
    }

    #[inline(always)]
    fn max_order(&self) -> Order {
        self.max_order
    }

    #[inline(always)]
    fn select(&self, class: Class) {
        self.wanted.set(BlockType::of(class) as u64);
    }

    #[inline]
    fn insert(&self, head: Frame, order: Order) {
        self.bits.set(head, order);
        self.of(self.type_at(head)).push(head, order);
    }

    #[inline]
    fn remove(&self, head: Frame, order: Order) {
        self.bits.clear(head, order);
        self.of(self.type_at(head)).unlink(head, order);
    }

    fn take(&self, order: Order) -> Option<Frame> {
        let head = self.first_of(self.wanted(), order)?;
        self.remove(head, order);
        Some(head)
    }

    #[inline]
    fn contains(&self, head: Frame, order: Order) -> bool {
        self.bits.get(head, order)
    }

    fn blocks(&self, order: Order) -> u32 {
        if order > self.max_order {
            return 0;
        }
        let lengths = self.lists.iter().map(|lists| lists.peek_length(order));
        lengths.fold(0, u32::wrapping_add)
    }

    fn page_blocks(&self) -> [PageBlocks; BlockType::ALL.len()] {
        let mut all = BlockType::ALL.map(|kind| PageBlocks {
            blocks: 0,
            free_frames: Order::up_to(self.max_order)
                .map(|order| u64::from(self.of(kind).length(order)) * u64::from(order.frames()))
                .sum(),
        });
        for block in 0..self.blocks {
            let (word, shift) = self.locate_block(block);
            all[(word.get() >> shift & 3) as usize].blocks += 1;
        }
        all
    }

    fn largest(&self) -> Option<Order> {
        let mut orders = Order::up_to(self.max_order).rev();
        orders.find(|order| self.blocks(*order) > 0)
    }

    fn check(&self) -> Result<(), Violation> {
        let mut blocks = 0u64;
        for (kind, order) in BlockType::ALL
            .into_iter()
            .flat_map(|kind| Order::up_to(self.max_order).map(move |order| (kind, order)))
        {
            self.of(kind).check(order, |head| {
                let index = head.index();
                let fail = |what| Err(Violation { index, what });
                if !index.is_aligned(order) {
                    return fail("a free block is not aligned to its order");
                }
                if !self.contains(head, order) {
                    return fail("a block is in its list, but its bit is clear");
                }
                if self.type_at(head) != kind {
                    return fail(
                        "a free block is in the list of another type than that of its page block",
                    );
                }
                Ok(())
            })?;
            blocks += u64::from(self.of(kind).length(order));
        }
        if self.bits.ones() != blocks {
            return Err(Violation::overall("a bit is set without a block in a list"));
        }
        Ok(())
    }
}
