//! A structure of the allocators' crate without a zone, a lock or a policy.
//!
//! The emulation program has its own rules of when to split and to merge. It needs the structures by address and
//! nothing else. A unit of the program stands for a frame.
//!
//! # Invariants
//! Every call is checked before the structure sees it, so a wrong call changes nothing. The records belong to one
//! [`Standalone`], which passes only frames of its own table to its structure.
#![allow(unsafe_code)]

use everybuddy::platform::{Platform, SharedCell};
use everybuddy::structure::{
    Frame, FrameTable, LEVELS, Level, Ordered, Placed, Record, StructurePlace, Tag,
};
use everybuddy::{BuildError, Index, Order, Pfn, Violation};

/// The memory of a structure.
pub struct StructureMemory<P: Platform> {
    records: Vec<Record<P>>,
    levels: [Level<P>; LEVELS],
    bits: Vec<P::Cell<u64>>,
}

impl<P: Platform> StructureMemory<P> {
    /// Allocates the memory of an empty structure `S` for `frames` frames. O(frames).
    ///
    /// # Errors
    /// [`BuildError::NoMemory`] for no frames, [`BuildError::SpanTooLarge`] for more than the structure can keep.
    pub fn new<'a, S: Placed<'a, P>>(frames: u32, max_order: Order) -> Result<Self, BuildError> {
        if frames == 0 {
            return Err(BuildError::NoMemory);
        }
        let most = S::KIND.max_frames();
        if frames > most {
            return Err(BuildError::SpanTooLarge {
                first: Pfn(0),
                last: Pfn(u64::from(frames - 1)),
                most,
            });
        }
        let words = S::BITS.words(frames.div_ceil(max_order.frames()), max_order);
        Ok(Self {
            records: (0..frames).map(|_| Record::new(Tag::INTERIOR)).collect(),
            levels: core::array::from_fn(|_| Level::new()),
            bits: (0..words).map(|_| P::Cell::new(0)).collect(),
        })
    }
}

/// A structure with checked calls: free blocks by order and address. One thread at a time uses it.
pub struct Standalone<'a, P: Platform, S> {
    structure: S,
    table: FrameTable<'a, P>,
    max_order: Order,
}

impl<'a, P: Platform, S: Placed<'a, P> + Ordered<P>> Standalone<'a, P, S> {
    /// Creates an empty structure in memory that was allocated for it, with the same largest order. O(1).
    pub fn new(memory: &'a mut StructureMemory<P>, max_order: Order) -> Self {
        // SAFETY: the table and the structure are private here and borrow the memory exclusively; all frames that
        // they receive come from `head`, which asks this table, or from the structure itself.
        let table = unsafe { FrameTable::over(&memory.records) };
        Self {
            structure: S::new(StructurePlace::new(
                table,
                &memory.levels,
                &memory.bits,
                max_order,
            )),
            table,
            max_order,
        }
    }

    /// Returns the number of frames.
    pub fn frames(&self) -> u32 {
        self.table.frames()
    }

    /// Returns the frame at which a block may start.
    #[inline]
    fn head(&self, head: Index, order: Order) -> Option<Frame> {
        let end = u64::from(head.0) + u64::from(order.frames());
        let fits = order <= self.max_order
            && head.is_aligned(order)
            && end <= u64::from(self.table.frames());
        self.table.frame(head).filter(|_| fits)
    }

    /// Adds a block. Returns `false`, and does nothing, if the block is not in the memory, is not aligned, or is
    /// already present. The caller ensures that it overlaps no other block.
    #[inline]
    pub fn insert(&self, head: Index, order: Order) -> bool {
        let Some(head) = self.head(head, order) else {
            return false;
        };
        let new = !self.structure.contains(head, order);
        if new {
            self.structure.insert(head, order);
        }
        new
    }

    /// Removes a block. Returns `false`, and does nothing, if it is not present.
    #[inline]
    pub fn remove(&self, head: Index, order: Order) -> bool {
        let Some(head) = self.head(head, order) else {
            return false;
        };
        let known = self.structure.contains(head, order);
        if known {
            self.structure.remove(head, order);
            self.table.set_tag(head, Tag::INTERIOR);
        }
        known
    }

    /// Removes the block of this order with the lowest address.
    #[inline]
    pub fn take(&self, order: Order) -> Option<Index> {
        if order > self.max_order {
            return None;
        }
        let head = self.structure.take(order)?;
        self.table.set_tag(head, Tag::INTERIOR);
        Some(head.index())
    }

    /// Returns `true` if a block is present. O(1).
    #[inline]
    pub fn contains(&self, head: Index, order: Order) -> bool {
        let head = self.head(head, order);
        head.is_some_and(|head| self.structure.contains(head, order))
    }

    /// Returns the head of the lower one of the lowest two buddies of this order that are both present, starting at
    /// an address.
    #[inline]
    pub fn pair(&self, order: Order, from: Index) -> Option<Index> {
        if order > self.max_order || from.0 >= self.table.frames() {
            return None;
        }
        self.structure.pair(order, from).map(Frame::index)
    }

    /// Returns the number of blocks of this order. O(1).
    pub fn blocks(&self, order: Order) -> u32 {
        self.structure.blocks(order)
    }

    /// Checks the structure's invariants. O(frames).
    ///
    /// # Errors
    /// Returns the first invariant that does not hold.
    pub fn check(&self) -> Result<(), Violation> {
        self.structure.check()
    }
}

#[cfg(test)]
mod tests {
    use everybuddy::Native;
    use everybuddy::structure::{BitScan, Trees};

    use super::*;

    /// Makes wrong calls between two blocks that are present.
    fn wrong_calls<'a, S: Placed<'a, Native> + Ordered<Native>>(
        blocks: &Standalone<'a, Native, S>,
    ) {
        let [one, four] = [1, 4].map(|order| Order::new(order).unwrap());
        assert!(blocks.insert(Index(2), one) && blocks.insert(Index(96), Order::ZERO));
        for (head, order) in [
            (Index(2), one),
            (Index(3), one),
            (Index(100), Order::ZERO),
            (Index(96), four),
            (Index(u32::MAX), Order::ZERO),
            (Index(0), Order::TEN),
        ] {
            assert!(!blocks.insert(head, order), "{head} {order}");
        }
        for (head, order) in [(Index(2), Order::ZERO), (Index(3), one), (Index(101), one)] {
            assert!(!blocks.remove(head, order), "{head} {order}");
            assert!(!blocks.contains(head, order), "{head} {order}");
        }
        assert_eq!(blocks.take(Order::TEN), None);
        assert_eq!(blocks.pair(Order::TEN, Index(0)), None);
        assert_eq!(blocks.pair(Order::ZERO, Index(u32::MAX)), None);
        blocks.check().unwrap();
        assert!(blocks.remove(Index(2), one));
        assert_eq!(blocks.take(Order::ZERO), Some(Index(96)));
        assert_eq!(blocks.take(Order::ZERO), None);
        assert!(blocks.insert(Index(6), Order::ZERO) && blocks.insert(Index(7), Order::ZERO));
        assert_eq!(blocks.pair(Order::ZERO, Index(0)), Some(Index(6)));
        assert_eq!(blocks.pair(Order::ZERO, Index(7)), None);
        blocks.check().unwrap();
    }

    #[test]
    fn a_wrong_call_changes_nothing() {
        let order = Order::new(4).unwrap();
        let mut memory = StructureMemory::<Native>::new::<Trees<'_, _>>(100, order).unwrap();
        wrong_calls(&Standalone::<_, Trees<'_, _>>::new(&mut memory, order));
        let mut memory = StructureMemory::<Native>::new::<BitScan<'_, _>>(100, order).unwrap();
        wrong_calls(&Standalone::<_, BitScan<'_, _>>::new(&mut memory, order));
    }

    #[test]
    fn what_a_structure_cannot_keep_is_refused_before_memory_is_allocated() {
        let refused =
            |frames| StructureMemory::<Native>::new::<Trees<'_, _>>(frames, Order::TEN).err();
        assert_eq!(refused(0), Some(BuildError::NoMemory));
        let too_large = BuildError::SpanTooLarge {
            first: Pfn(0),
            last: Pfn(1 << 30),
            most: 1 << 30,
        };
        assert_eq!(refused((1 << 30) + 1), Some(too_large));
    }
}
