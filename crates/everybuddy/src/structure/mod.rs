//! Structures: how the free blocks of a zone are stored.
//!
//! The papers differ in the structure that holds free blocks; everything around it is the same. A structure contains
//! no policy: it inserts and removes blocks, but does not split or coalesce them.
//!
//! # Invariants
//! Called under the zone's lock, by one CPU at a time. Methods take `&self`, and all state lies in the platform's
//! cells, so that no plain field escapes a simulator or a model checker.
//!
//! | structure | file | source |
//! |---|---|---|
//! | bitmap and doubly linked lists of blocks by level | [`free_list`] | \[iBuddy\] §3.1, \[BL89\] §3 |
//! | the same lists without a bitmap: the records store the orders | [`record_lists`] | Linux 2.6.32 |
//! | bitmap and lists, of locally and globally free blocks | [`local_lists`] | \[BL89\] §4 |
//! | the same of single frames: iBuddy | [`inverse`] | \[iBuddy\] §3.1 |
//! | bitmap and balanced trees of blocks by level, the lowest address first | [`tree`] | \[Serewa\] §2.2.4 |
//! | bitmaps with summaries, scanned, the lowest address first | [`bit_scan`] | \[Serewa\] §2.2.4, in bits |
//!
//! The last two can also be used without a zone: a program gives them a [`StructurePlace`] in memory of its own.

pub mod bit_scan;
pub(crate) mod bits;
pub(crate) mod domain_tags;
pub mod free_list;
pub(crate) mod group_bits;
pub mod inverse;
pub(crate) mod levels;
pub mod local_lists;
pub mod mobility_lists;
pub mod record_lists;
#[cfg(test)]
mod tests;
pub mod tree;

use core::ops::Range;

pub use bit_scan::BitScan;
pub(crate) use free_list::FreeLists;
pub(crate) use inverse::Inverse;
pub(crate) use local_lists::{LocalLists, LocalStructure, add};
pub(crate) use mobility_lists::MobilityLists;
pub(crate) use record_lists::RecordLists;
#[cfg(test)]
pub(crate) use tests::with_structure;
pub use tree::Trees;

pub use crate::frame_table::{Frame, FrameTable, Record, Tag};
use crate::frame_table::{MAX_ORDERED_FRAMES, MAX_TREE_FRAMES};
pub use levels::{LEVELS, Level};

use crate::cache_padded::CachePadded;
use crate::detail::Detail;
use crate::frame::{Index, Order};
use crate::platform::Platform;
use crate::probe::Probe;
use crate::request::{BlockType, Class};
use crate::snapshot::{BlocksByOrder, PageBlocks, Snapshot, Violation};

/// The bits that a structure needs: none; plain, one per aligned block of each order; groups, the same in another
/// layout; summed, with summaries above; or typed, with the types of page blocks.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Bits {
    /// None.
    None,
    /// Those of [`bits::LevelBits`]: slightly more than two per frame.
    Plain,
    /// Those of [`group_bits::GroupBits`]: two per frame.
    Groups,
    /// Those of [`BitScan`]: slightly more than 2.03 per frame.
    Summed,
    /// Those of [`MobilityLists`]: the plain ones, and two for each largest block.
    Typed,
}

impl Bits {
    /// Returns the bits that a kind of structure needs.
    pub(crate) const fn of(kind: StructureKind) -> Self {
        match kind {
            StructureKind::Frames => Bits::Groups,
            StructureKind::Bits => Bits::Summed,
            StructureKind::MobilityLists => Bits::Typed,
            StructureKind::Records => Bits::None,
            _ => Bits::Plain,
        }
    }

    /// Returns the number of words for `blocks` largest blocks.
    pub fn words(self, blocks: u32, max_order: Order) -> usize {
        match self {
            Bits::None => 0,
            Bits::Plain => bits::words(blocks, max_order),
            Bits::Groups => group_bits::words(blocks, max_order),
            Bits::Summed => bit_scan::words(blocks, max_order),
            Bits::Typed => bits::words(blocks, max_order) + mobility_lists::type_words(blocks),
        }
    }
}

/// The memory of a structure: a part of a zone layer's memory, and the frames that the structure may contain.
pub struct StructurePlace<'a, P: Platform> {
    /// The per-frame metadata.
    pub(crate) table: FrameTable<'a, P>,
    /// The lists, empty.
    pub(crate) levels: &'a [levels::Level<P>; levels::LEVELS],
    /// Further lists, empty, for structures with lists of several types.
    pub(crate) more_levels: &'a [CachePadded<[Level<P>; LEVELS]>],
    /// The classes of locally and globally free blocks; empty for structures without them.
    pub(crate) classes: &'a [local_lists::BlockClass<P>],
    /// The bits, all zero, in as many words as the structure's [`Bits`] need.
    pub(crate) bits: &'a [P::Cell<u64>],
    /// The first frame that the structure may contain.
    pub(crate) first: u32,
    /// The number of largest blocks whose frames it may contain.
    pub(crate) blocks: u32,
    /// The largest order.
    pub(crate) max_order: Order,
}

impl<'a, P: Platform> StructurePlace<'a, P> {
    /// Describes the memory of a structure that may contain all frames of a table, without a zone. O(1).
    ///
    /// The levels are new, and the bits are as many cells as [`Bits::words`] returns, all zero.
    pub fn new(
        table: FrameTable<'a, P>,
        levels: &'a [Level<P>; LEVELS],
        bits: &'a [P::Cell<u64>],
        max_order: Order,
    ) -> Self {
        Self {
            table,
            levels,
            more_levels: &[],
            classes: &[],
            bits,
            first: 0,
            blocks: table.frames().div_ceil(max_order.frames()),
            max_order,
        }
    }
}

/// A structure that stores free frames by order.
pub trait Structure<P: Platform>: Send + Sync {
    /// Whether it stores each frame separately, so that a free block is a group of frames that are all free.
    const INDIVIDUAL: bool;

    /// Returns the per-frame metadata.
    fn table(&self) -> FrameTable<'_, P>;

    /// Returns the largest order.
    fn max_order(&self) -> Order;

    /// Whether the class of a request decides which block serves it.
    const HAS_CLASSES: bool = false;

    /// Notes the class of the request that is about to be served. A structure without types ignores it.
    #[inline(always)]
    fn select(&self, _: Class) {}

    /// Inserts a block that is not in.
    fn insert(&self, head: Frame, order: Order);

    /// Removes a block that is in. The caller tags the record of its head; the others are interior.
    fn remove(&self, head: Frame, order: Order);

    /// Removes the block of this order that the structure prefers, as [`remove`](Self::remove) does.
    fn take(&self, order: Order) -> Option<Frame>;

    /// Does what [`insert`](Self::insert) does, and records the operations on lists and map. A structure whose
    /// operations follow from the call records nothing: its policy does.
    #[inline(always)]
    fn insert_recorded(&self, head: Frame, order: Order, _: &mut impl Probe) {
        self.insert(head, order);
    }

    /// Does what [`take`](Self::take) does, and records as [`insert_recorded`](Self::insert_recorded) does.
    #[inline(always)]
    fn take_recorded(&self, order: Order, _: &mut impl Probe) -> Option<Frame> {
        self.take(order)
    }

    /// Returns `true` if this block is in. `head` may be any aligned number below the span rounded up to the largest
    /// block.
    fn contains(&self, head: Frame, order: Order) -> bool;

    /// Returns how many blocks of this order are in, none of them a part of a larger one. O(orders), with iBuddy's
    /// structure O(frames / 32). A hint without the zone's lock.
    fn blocks(&self, order: Order) -> u32;

    /// Returns the same of all orders. O(orders²) at worst, with iBuddy's structure O(frames / 32).
    fn blocks_by_order(&self) -> BlocksByOrder {
        core::array::from_fn(|order| self.blocks(Order::saturating(order as u32)))
    }

    /// Returns the number of frames that are in. O(orders²) at worst. A hint without the zone's lock.
    fn free_frames(&self) -> u64 {
        let frames = |order| u64::from(self.blocks(order)) * u64::from(order.frames());
        Order::up_to(self.max_order()).map(frames).sum()
    }

    /// Returns the page blocks by the value of their type; none if they have no types. O(page blocks).
    fn page_blocks(&self) -> [PageBlocks; BlockType::ALL.len()] {
        Snapshot::NONE.page_blocks
    }

    /// Returns the largest order that has a block in it. O(orders).
    fn largest(&self) -> Option<Order>;

    /// Returns one more than that order, 0 if nothing is in. O(orders), with iBuddy's structure O(1).
    #[inline(always)]
    fn level(&self) -> u32 {
        self.largest().map_or(0, |order| order.index() as u32 + 1)
    }

    /// Returns the order of the free block that starts here; for checks. O(frames).
    fn order_at(&self, head: Frame) -> Option<Order> {
        let aligned = |order: &Order| head.index().is_aligned(*order);
        let mut orders = Order::up_to(self.max_order()).filter(aligned);
        orders.find(|order| self.contains(head, *order))
    }

    /// Passes the free blocks among `frames` to `see`, as those of `part`. O(frames × orders).
    fn inspect(&self, part: u32, frames: Range<u32>, see: &mut dyn FnMut(Detail)) {
        for order in Order::up_to(self.max_order()) {
            let starts = frames.clone().step_by(order.frames() as usize);
            let heads = starts.filter_map(|start| self.table().frame(Index(start)));
            for head in heads.filter(|head| self.contains(*head, order)) {
                see(Detail::Listed {
                    part,
                    order,
                    head: head.index(),
                    is_local: false,
                });
            }
        }
    }

    /// Checks the structure's own invariants. O(frames).
    fn check(&self) -> Result<(), Violation>;
}

/// Returns the free block that holds a frame. O(orders).
pub(crate) fn free_block_at<P: Platform, S: Structure<P>>(
    structure: &S,
    frame: Index,
) -> Option<(Frame, Order)> {
    let frame = structure.table().frame(frame)?;
    Order::up_to(structure.max_order())
        .map(|order| (frame.aligned(order), order))
        .find(|(head, order)| structure.contains(*head, *order))
}

/// The kinds of structures.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum StructureKind {
    /// Free blocks in one list per order, last in, first out, and a bitmap.
    #[default]
    Lists,
    /// The same lists without a bitmap: a free block's order and state are in its head's record.
    Records,
    /// Free blocks in one balanced tree per order, the lowest address first.
    Trees,
    /// Free blocks as bits, found by scans, the lowest address first.
    Bits,
    /// Single frames by level: iBuddy.
    Frames,
    /// Free blocks in one list per order, each block locally or globally free: delayed coalescing.
    LocalLists,
    /// Free blocks in one list per order and type of page block.
    MobilityLists,
    /// Bit fields with a counter for each 512 frames: `llfree`.
    Fields,
    /// The tree of all blocks in status words: `nbbs`.
    Words,
    /// Two bits per frame, and masks for each tree: `everybuddy`.
    Planes,
}

impl StructureKind {
    /// Returns the maximum number of frames of a span whose blocks it stores. It does not detect that there are more.
    pub const fn max_frames(self) -> u32 {
        match self {
            Self::Trees => MAX_TREE_FRAMES,
            Self::Records => MAX_ORDERED_FRAMES,
            _ => Tag::FIRST,
        }
    }
}

/// A structure that orders its blocks by address.
pub trait Ordered<P: Platform>: Structure<P> {
    /// Returns the head of the lower one of the lowest two buddies of this order that are both in, from an address
    /// on. O(log n), plus the blocks, or words of 64, that are passed.
    fn pair(&self, order: Order, from: Index) -> Option<Frame>;
}

/// A structure that can be created in given memory.
pub trait Placed<'a, P: Platform>: Structure<P> {
    /// Which structure it is.
    const KIND: StructureKind;

    /// Which bits it needs. Code that plans its memory reads this.
    const BITS: Bits = Bits::of(Self::KIND);

    /// Creates an empty structure. O(1).
    fn new(place: StructurePlace<'a, P>) -> Self;
}
