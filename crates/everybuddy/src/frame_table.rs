//! Per-frame metadata: the only place that indexes by frame number.
//!
//! Each frame has one 8-byte [`Record`] of two words, whose meaning depends on the use of the frame. The first word
//! alone determines the use, so one load detects every misuse:
//!
//! - below [`Tag::FIRST`]: the head of a free block. The word is the head of the next block in its list, and the
//!   second word is the head of the previous one. The second word also stores the block's order where nothing else
//!   does. In a tree the first word is the left child, and the second word is the right child and the node's lean;
//! - [`Tag::END`]: the same, for the last block of its list, or without a left child;
//! - any other [`Tag`]: the head of an allocated or buffered block, a frame inside a block, a hole, or reserved. The
//!   second word of a buffered block's head may link it to the next block of a per-CPU list.
//!
//! # Invariants
//! 1. Every [`Frame`] is below the number of records of the one table in its zone. Frames are made by
//!    [`FrameTable::frame`], which checks the number (and which [`FrameTable::right`] uses); by [`FrameTable::next`],
//!    [`FrameTable::previous`] and [`FrameTable::link`], which return only what was stored as a frame; and by
//!    [`Frame::offset`] and [`Frame::buddy`], whose callers argue that the result belongs to a block within the zone. A
//!    table outside a zone is made by [`FrameTable::over`], whose caller guarantees the same.
//! 2. A frame inside a block, free or not, has the tag [`Tag::INTERIOR`]. Consider the starts of the blocks that may
//!    contain a frame, by ascending order: the first record with another word is the head of the block that contains
//!    it. Frames that wait in a queue are the exception. Of such an area, which need not be a block, only the first
//!    frame has another tag, which stores the number of frames. The head that is found from another frame of the area
//!    belongs to a block that does not contain the frame.
//! 3. The words of the heads of free blocks are written under the zone's lock. The words of the heads of allocated
//!    and buffered blocks are written by the owner of the block. Records are relaxed atomics, because a caller's
//!    misuse (a double free on two CPUs) makes other CPUs read them at any time.
#![allow(unsafe_code)]

use crate::error::FreeError;
use crate::frame::{Block, Index, Order};
use crate::platform::{AtomicWord, CpuId, Ordering, Platform};
use crate::snapshot::FrameState;

/// The metadata of one frame.
#[repr(C)]
pub struct Record<P: Platform> {
    /// The tag, or the next block's head, or the left child.
    first: P::AtomicU32,
    /// The previous block's head, with or without the block's order; or the right child, and in the upper
    /// [`LEAN_BITS`] the lean.
    second: P::AtomicU32,
}

/// A frame number that was validated against the table (invariant 1).
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
#[repr(transparent)]
pub struct Frame(u32);

impl Frame {
    /// Returns the frame number.
    #[inline(always)]
    pub const fn index(self) -> Index {
        Index(self.0)
    }

    /// Returns the frame `frames` further on, which must belong to the same block or run.
    #[inline(always)]
    pub(crate) const fn offset(self, frames: u32) -> Frame {
        Frame(self.0 + frames)
    }

    /// Returns the head of the buddy of the block that starts here. It is meaningful only if that buddy is in the
    /// zone, which the caller knows from its bit.
    #[inline(always)]
    pub(crate) const fn buddy(self, order: Order) -> Frame {
        Frame(self.0 ^ order.frames())
    }

    /// Returns the head of the block that this block of `order` and its buddy make, and the head of its upper half.
    ///
    /// Rotations, although shifts would do: where buddies are looked up and seldom merged, the compiler would compute
    /// the shifted bit for every lookup.
    #[inline(always)]
    pub(crate) const fn merged(self, order: Order) -> (Frame, Frame) {
        let bit = order.index() as u32;
        let (lower, upper) = ((!1u32).rotate_left(bit), 1u32.rotate_left(bit));
        (Frame(self.0 & lower), Frame(self.0 | upper))
    }

    /// Returns the head of the block of `order` that contains this frame.
    #[inline(always)]
    pub(crate) const fn aligned(self, order: Order) -> Frame {
        Frame(self.0 & !(order.frames() - 1))
    }
}

/// Splits a run of frames into aligned blocks of at most the order `largest`, lowest address first. O(1) per block.
#[inline]
pub(crate) fn pieces(
    start: Frame,
    frames: u32,
    largest: Order,
) -> impl Iterator<Item = (Frame, Order)> {
    Block::cover(start.index(), frames, largest)
        .map(move |block| (start.offset(block.start.0 - start.index().0), block.order))
}

/// The first word of a record, where it is not a link.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(transparent)]
pub struct Tag(u32);

impl Tag {
    /// The smallest word that is not a frame number: frame numbers end below it.
    pub(crate) const FIRST: u32 = 0xff00_0000;
    const KIND: u32 = 0xffe0_0000;
    const ORDER_SHIFT: u32 = 16;

    /// A frame inside a block, whatever its use.
    pub const INTERIOR: Tag = Tag(Self::FIRST);
    const ALLOCATED: u32 = Self::FIRST | 1 << 21;
    const BUFFERED: u32 = Self::FIRST | 2 << 21;
    /// No memory.
    pub(crate) const HOLE: Tag = Tag(Self::FIRST | 3 << 21);
    /// Never allocated.
    pub(crate) const RESERVED: Tag = Tag(Self::FIRST | 4 << 21);
    const QUEUED: u32 = Self::FIRST | 5 << 21;
    /// The head of a free block that is the last of its list.
    pub(crate) const END: Tag = Tag(u32::MAX);

    /// The head of an allocated block.
    #[inline(always)]
    pub(crate) const fn allocated(order: Order) -> Tag {
        Tag(Self::ALLOCATED | (order.get() as u32) << Self::ORDER_SHIFT)
    }

    /// The head of a block that a CPU's list caches.
    #[inline(always)]
    pub(crate) const fn buffered(order: Order, cpu: CpuId) -> Tag {
        Tag(Self::BUFFERED | (order.get() as u32) << Self::ORDER_SHIFT | cpu.0 as u32)
    }

    /// The head of a block that a CPU has claimed and is freeing to the zone. The tag's CPU number belongs to no CPU.
    #[inline(always)]
    pub(crate) const fn claimed(order: Order) -> Tag {
        Self::buffered(order, CpuId(u16::MAX))
    }

    /// The head of a block that a list merges with its buddy, which is in that list, too. No CPU has this number.
    pub(crate) const fn unlinked(order: Order) -> Tag {
        Self::buffered(order, CpuId(u16::MAX - 1))
    }

    /// Returns the order of a block that this CPU's list caches. Returns `None` for any other word.
    #[inline]
    pub(crate) fn buffered_by(self, cpu: CpuId) -> Option<Order> {
        let order = self.order();
        (self == Tag::buffered(order, cpu)).then_some(order)
    }

    /// The first frame of an area of `frames` frames, at most a largest block, that waits in a queue.
    #[inline(always)]
    pub(crate) const fn queued(frames: u32) -> Tag {
        Tag(Self::QUEUED | frames & !Self::KIND)
    }

    /// Returns the number of frames that wait from here on. Returns `None` for any other word.
    #[inline]
    pub(crate) const fn waiting(self) -> Option<u32> {
        if self.0 & Self::KIND == Self::QUEUED {
            Some(self.0 & !Self::KIND)
        } else {
            None
        }
    }

    /// Returns `true` if the word belongs to the head of a free block.
    #[inline(always)]
    const fn is_link(self) -> bool {
        self.0 < Self::FIRST || self.0 == Self::END.0
    }

    const fn order(self) -> Order {
        Order::saturating((self.0 >> Self::ORDER_SHIFT) & 31)
    }

    /// Returns the meaning of the word for the frame `head` that has it.
    pub(crate) fn state(self, head: Frame) -> Option<FrameState> {
        Some(match self {
            tag if tag.is_link() => FrameState::Free { head: head.index() },
            Tag::HOLE => FrameState::Hole,
            Tag::RESERVED => FrameState::Reserved,
            tag if tag.0 & Self::KIND == Self::ALLOCATED => FrameState::Allocated {
                head: head.index(),
                order: tag.order(),
            },
            tag if tag.0 & Self::KIND == Self::BUFFERED => FrameState::Buffered {
                cpu: CpuId(tag.0 as u16),
                order: tag.order(),
            },
            tag if tag.waiting().is_some() => FrameState::Queued,
            _ => return None,
        })
    }
}

/// A side of a node in a tree of free blocks.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Side {
    /// Lower addresses.
    Left,
    /// Higher addresses.
    Right,
}

impl Side {
    /// Returns the opposite side.
    #[inline(always)]
    pub(crate) const fn other(self) -> Side {
        match self {
            Side::Left => Side::Right,
            Side::Right => Side::Left,
        }
    }
}

/// The bits of a record's second word that store which child of a node is higher, one of three values.
const LEAN_BITS: u32 = 2;
const LEAN_SHIFT: u32 = u32::BITS - LEAN_BITS;
const RIGHT: u32 = (1 << LEAN_SHIFT) - 1;

/// The maximum number of frames that a tree can link, limited by the bits of a right child's number.
pub(crate) const MAX_TREE_FRAMES: u32 = 1 << LEAN_SHIFT;

/// The maximum number of frames that lists can link if their records store the orders of the blocks: a head's number
/// and one more bit share a word.
pub(crate) const MAX_ORDERED_FRAMES: u32 = 1 << (u32::BITS - 1);

/// The records of all frames of a span.
pub struct FrameTable<'a, P: Platform> {
    records: &'a [Record<P>],
}

impl<P: Platform> Clone for FrameTable<'_, P> {
    fn clone(&self) -> Self {
        *self
    }
}

impl<P: Platform> Copy for FrameTable<'_, P> {}

impl<P: Platform> Record<P> {
    /// Creates the record of a frame with this tag.
    pub fn new(tag: Tag) -> Self {
        Self {
            first: P::AtomicU32::new(tag.0),
            second: P::AtomicU32::new(Tag::END.0),
        }
    }
}

impl<'a, P: Platform> FrameTable<'a, P> {
    /// Creates the table of a span that has as many frames as there are records.
    pub(crate) fn new(records: &'a [Record<P>]) -> Self {
        debug_assert!(records.len() <= Tag::FIRST as usize);
        Self { records }
    }

    /// Creates a table for structures that are used without a zone.
    ///
    /// # Safety
    /// Every [`Frame`] that is passed to this table, or to a structure that is made of it, was returned by
    /// [`frame`](Self::frame) of a table of the same records, or by such a structure.
    pub unsafe fn over(records: &'a [Record<P>]) -> Self {
        Self::new(records)
    }

    /// Returns the number of frames.
    #[inline(always)]
    pub fn frames(&self) -> u32 {
        self.records.len() as u32
    }

    /// Validates a frame number from outside.
    #[inline(always)]
    pub fn frame(&self, index: Index) -> Option<Frame> {
        // 32 bits, so that a list's hit keeps the number in one register.
        (index.0 < self.frames()).then_some(Frame(index.0))
    }

    #[inline(always)]
    fn record(&self, frame: Frame) -> &'a Record<P> {
        debug_assert!((frame.0 as usize) < self.records.len());
        // SAFETY: by invariant 1 every frame is below the number of records.
        unsafe { self.records.get_unchecked(frame.0 as usize) }
    }

    /// Returns the tag of a frame.
    #[inline(always)]
    pub(crate) fn tag(&self, frame: Frame) -> Tag {
        Tag(self.record(frame).first.load(Ordering::Relaxed))
    }

    /// Sets the tag of a frame.
    #[inline(always)]
    pub fn set_tag(&self, frame: Frame, tag: Tag) {
        self.record(frame).first.store(tag.0, Ordering::Relaxed);
    }

    /// Sets the tag of a frame to `to` if it is `from`. Returns `true` if it was. One atomic read-modify-write.
    #[inline(always)]
    pub(crate) fn exchange(&self, frame: Frame, from: Tag, to: Tag) -> bool {
        let first = &self.record(frame).first;
        // Relaxed: of two exchanges of the same tag one fails. Everything else that the two CPUs share is guarded by
        // a lock.
        first
            .compare_exchange(from.0, to.0, Ordering::Relaxed, Ordering::Relaxed)
            .is_ok()
    }

    /// Returns the next free block's head; the frame must be a free block's head.
    #[inline(always)]
    pub(crate) fn next(&self, frame: Frame) -> Option<Frame> {
        let word = self.record(frame).first.load(Ordering::Relaxed);
        (word < Tag::FIRST).then_some(Frame(word))
    }

    /// Turns the frame into the head of a free block that `next` follows.
    #[inline(always)]
    pub(crate) fn set_next(&self, frame: Frame, next: Option<Frame>) {
        let word = next.map_or(Tag::END.0, |next| next.0);
        self.record(frame).first.store(word, Ordering::Relaxed);
    }

    /// Returns the previous free block's head; the frame must be a free block's head.
    #[inline(always)]
    pub(crate) fn previous(&self, frame: Frame) -> Option<Frame> {
        let word = self.record(frame).second.load(Ordering::Relaxed);
        (word < Tag::FIRST).then_some(Frame(word))
    }

    /// Links a free block's head back to `previous`.
    #[inline(always)]
    pub(crate) fn set_previous(&self, frame: Frame, previous: Option<Frame>) {
        let word = previous.map_or(Tag::END.0, |previous| previous.0);
        self.record(frame).second.store(word, Ordering::Relaxed);
    }

    /// Returns the previous free block's head in a list of blocks of one order, which their records store. The frame
    /// must be a free block's head.
    #[inline(always)]
    pub(crate) fn ordered_previous(&self, frame: Frame) -> Option<Frame> {
        let word = self.record(frame).second.load(Ordering::Relaxed);
        // Without its lowest bit, which is that of the order.
        let previous = Frame((word & word.wrapping_sub(1)) >> 1);
        (previous != frame).then_some(previous)
    }

    /// Links a free block's head back to `previous`, the head of a block of the same order, and stores this order.
    ///
    /// The heads are multiples of the block's size, so the bits below that are free: the lowest bit of the word that is
    /// set tells the order, and the number lies above it. The first block of a list is its own predecessor.
    #[inline(always)]
    pub(crate) fn set_ordered_previous(&self, frame: Frame, previous: Option<Frame>, order: Order) {
        let previous = previous.unwrap_or(frame);
        debug_assert!(previous.index().is_aligned(order) && previous.0 < MAX_ORDERED_FRAMES);
        let word = previous.0 << 1 | 1 << (order.get() & 31);
        self.record(frame).second.store(word, Ordering::Relaxed);
    }

    /// Returns `true` if the frame is the head of a free block of any order, which its record stores.
    #[inline(always)]
    pub(crate) fn has_order(&self, frame: Frame) -> bool {
        let Record { first, second } = self.record(frame);
        Tag(first.load(Ordering::Relaxed)).is_link() && second.load(Ordering::Relaxed) != 0
    }

    /// Returns `true` if the frame is the head of a free block of this order, which its record stores.
    #[inline(always)]
    pub(crate) fn is_of_order(&self, frame: Frame, order: Order) -> bool {
        let Record { first, second } = self.record(frame);
        // The order's bit becomes the highest one, and lower ones that are set remain.
        let above = u32::BITS - 1 - u32::from(order.get());
        Tag(first.load(Ordering::Relaxed)).is_link()
            && second.load(Ordering::Relaxed) << (above & 31) == 1 << (u32::BITS - 1)
    }

    /// Removes the order from the record of a free block's head, which is no longer in a list. Its tag stays as it is.
    #[inline(always)]
    pub(crate) fn clear_order(&self, frame: Frame) {
        self.record(frame).second.store(0, Ordering::Relaxed);
    }

    /// Returns the block that follows a buffered block in the list that links it; the frame must be the head of a
    /// buffered block.
    #[inline(always)]
    pub(crate) fn link(&self, frame: Frame) -> Option<Frame> {
        self.previous(frame)
    }

    /// Links a buffered block's head to `next`. Its tag stays as it is.
    #[inline(always)]
    pub(crate) fn set_link(&self, frame: Frame, next: Option<Frame>) {
        self.set_previous(frame, next);
    }

    /// Returns a node's right child, and the side of the higher child, if one is higher. The frame must be a free
    /// block's head in a tree.
    #[inline(always)]
    pub(crate) fn right(&self, node: Frame) -> (Option<Frame>, Option<Side>) {
        let word = self.record(node).second.load(Ordering::Relaxed);
        let lean = match word >> LEAN_SHIFT {
            0 => None,
            1 => Some(Side::Left),
            _ => Some(Side::Right),
        };
        // A right child has a higher address than its parent, so it is never frame 0, which represents no child.
        let right = match word & RIGHT {
            0 => None,
            right => self.frame(Index(right)),
        };
        (right, lean)
    }

    /// Sets a node's right child and its lean. The child lies above the node, and below [`MAX_TREE_FRAMES`].
    #[inline(always)]
    pub(crate) fn set_right(&self, node: Frame, right: Option<Frame>, lean: Option<Side>) {
        debug_assert!(right.is_none_or(|right| right > node && right.0 <= RIGHT));
        let lean = match lean {
            None => 0,
            Some(Side::Left) => 1,
            Some(Side::Right) => 2,
        };
        let word = lean << LEAN_SHIFT | right.map_or(0, |right| right.0);
        self.record(node).second.store(word, Ordering::Relaxed);
    }

    /// Returns the head of the block that contains a frame, and its use. O(orders).
    ///
    /// For a frame inside an area that waits in a queue, it may return the free block before the area.
    pub(crate) fn holder(&self, frame: Frame) -> Option<(Frame, FrameState)> {
        let (head, state) = Order::up_to(Order::LIMIT).find_map(|order| {
            let head = frame.aligned(order);
            self.tag(head).state(head).map(|state| (head, state))
        })?;
        let within = match state {
            FrameState::Allocated { order, .. } | FrameState::Buffered { order, .. } => {
                frame.0 - head.0 < order.frames()
            }
            _ => true,
        };
        Some((head, if within { state } else { FrameState::Queued }))
    }

    /// Returns the reason why the block that allegedly starts at `frame` cannot be freed.
    #[cold]
    pub(crate) fn diagnose(&self, frame: Frame) -> FreeError {
        match self.holder(frame) {
            Some((_, FrameState::Hole)) => FreeError::Hole,
            Some((_, FrameState::Reserved)) => FreeError::Reserved,
            Some((
                head,
                FrameState::Allocated {
                    order: allocated, ..
                },
            )) if head == frame => FreeError::WrongOrder { allocated },
            Some((_, FrameState::Allocated { order, .. })) => FreeError::InsideBlock { order },
            _ => FreeError::NotAllocated,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Native;
    use std::vec;

    #[test]
    fn a_word_holds_a_link_and_the_order_of_any_block() {
        let records: std::vec::Vec<_> = (0..1 << 19)
            .map(|_| Record::<Native>::new(Tag::INTERIOR))
            .collect();
        let table = FrameTable::new(&records);
        let is_of = |frame, other: &Order| table.is_of_order(frame, *other);
        for order in Order::up_to(Order::LIMIT) {
            let second = Frame(order.frames());
            for (frame, previous) in [
                (Frame(0), None),
                (Frame(0), Some(second)),
                (second, None),
                (second, Some(Frame(0))),
                (Frame(0), Some(Frame(1 << 18))),
            ] {
                if previous == Some(frame) || frame.0 as usize >= records.len() {
                    continue;
                }
                table.set_next(frame, None);
                table.set_ordered_previous(frame, previous, order);
                assert_eq!(table.ordered_previous(frame), previous, "{order:?}");
                let mut orders = Order::up_to(Order::LIMIT);
                assert!(orders.all(|other| is_of(frame, &other) == (other == order)));
                assert!(table.has_order(frame));
                table.clear_order(frame);
                assert!(!table.has_order(frame));
            }
        }
        // The last numbers of the largest table.
        let last = Index(MAX_ORDERED_FRAMES - 1).0;
        for order in Order::up_to(Order::LIMIT) {
            let head = Frame(last & !(order.frames() - 1));
            table.set_ordered_previous(Frame(0), Some(head), order);
            assert_eq!(table.ordered_previous(Frame(0)), Some(head));
            assert!(table.is_of_order(Frame(0), order));
        }
    }

    #[test]
    fn a_record_is_eight_bytes_and_tags_are_distinct() {
        assert_eq!(size_of::<Record<Native>>(), 8);
        let mut tags = vec![Tag::INTERIOR, Tag::HOLE, Tag::RESERVED, Tag::END];
        for frames in [1, 3, Order::LIMIT.frames()] {
            assert_eq!(Tag::queued(frames).waiting(), Some(frames));
            tags.push(Tag::queued(frames));
        }
        for order in Order::up_to(Order::LIMIT) {
            tags.push(Tag::allocated(order));
            tags.extend([0, 1, 0xffff].map(|cpu| Tag::buffered(order, CpuId(cpu))));
        }
        for (i, a) in tags.iter().enumerate() {
            assert!(a.0 >= Tag::FIRST);
            assert!(tags[..i].iter().all(|b| a != b), "{a:x?}");
        }
        let head = Frame(8);
        for order in Order::up_to(Order::LIMIT) {
            let allocated = Tag::allocated(order).state(head);
            assert_eq!(
                allocated,
                Some(FrameState::Allocated {
                    head: Index(8),
                    order
                })
            );
            let cpu = CpuId(0xffff);
            let buffered = Tag::buffered(order, cpu).state(head);
            assert_eq!(buffered, Some(FrameState::Buffered { cpu, order }));
        }
    }
}
