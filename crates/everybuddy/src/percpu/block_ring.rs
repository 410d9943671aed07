//! A list of blocks of one order in an array, for one CPU.
//!
//! Linux links the frames of a per-CPU list through their metadata. The same order of frames in an array needs one
//! cache line where the links need one line per frame. Every kind of list is built from these rings.
//!
//! # Invariants
//! `bottom <= top <= bottom + capacity` and `bottom < capacity`. The entries `bottom..top`, modulo the capacity (a
//! power of two), are the list, with the youngest at the top. The heads of the blocks are tagged as buffered by the
//! CPU that owns the list. One CPU touches the list at a time.

use super::merge;
use crate::frame::{Index, Order};
use crate::frame_table::{Frame, FrameTable, Tag};
use crate::platform::{CpuId, Platform, SharedCell};
use crate::probe::{Event, Probe};
use crate::wrapping_slice::WrappingSlice;
use crate::zone::{Caller, ZoneLayer};

/// The positions of a ring. They are separate from the entries so that a list decides on which cache line they lie.
#[repr(C)]
pub(crate) struct Ends<P: Platform> {
    pub(crate) top: P::Cell<u32>,
    pub(crate) bottom: P::Cell<u32>,
}

/// The same positions in registers, while many blocks move.
#[derive(Clone, Copy)]
struct Positions {
    top: u32,
    bottom: u32,
}

impl Positions {
    /// Removes the oldest entry.
    #[inline(always)]
    fn pop_bottom<P: Platform>(&mut self, entries: RingEntries<'_, P>) -> Option<u32> {
        if self.top == self.bottom {
            return None;
        }
        let value = entries.at(self.bottom).get();
        self.bottom += 1;
        if self.bottom == entries.len() {
            // Keeps the positions small. Entries do not move, since positions count modulo the capacity.
            self.top -= self.bottom;
            self.bottom = 0;
        }
        Some(value)
    }

    /// Adds an oldest entry; the caller knows that there is room.
    #[inline(always)]
    fn push_bottom<P: Platform>(&mut self, entries: RingEntries<'_, P>, value: u32) {
        debug_assert!(self.top - self.bottom < entries.len());
        if self.bottom == 0 {
            self.bottom = entries.len();
            self.top += self.bottom;
        }
        self.bottom -= 1;
        entries.at(self.bottom).set(value);
    }
}

/// The array of a ring.
pub(crate) type RingEntries<'a, P> = WrappingSlice<'a, <P as Platform>::Cell<u32>>;

impl<P: Platform> Ends<P> {
    /// Creates an empty ring.
    pub(crate) fn new() -> Self {
        Self {
            top: P::Cell::new(0),
            bottom: P::Cell::new(0),
        }
    }

    /// Returns the number of entries.
    #[inline(always)]
    pub(crate) fn length(&self) -> u32 {
        self.top.get() - self.bottom.get()
    }

    #[inline(always)]
    fn get(&self) -> Positions {
        Positions {
            top: self.top.get(),
            bottom: self.bottom.get(),
        }
    }

    #[inline(always)]
    fn set(&self, positions: Positions) {
        self.top.set(positions.top);
        self.bottom.set(positions.bottom);
    }

    /// Removes the youngest entry.
    #[inline(always)]
    pub(crate) fn pop_top(&self, entries: RingEntries<'_, P>) -> Option<u32> {
        let top = self.top.get();
        if top == self.bottom.get() {
            return None;
        }
        let value = entries.at(top - 1).get();
        self.top.set(top - 1);
        Some(value)
    }

    /// Adds a youngest entry above `top`, which is the top; the caller knows that there is room.
    #[inline(always)]
    pub(crate) fn push_top(&self, entries: RingEntries<'_, P>, top: u32, value: u32) {
        debug_assert!(self.length() < entries.len());
        entries.at(top).set(value);
        self.top.set(top + 1);
    }
}

/// A list of blocks of one order.
#[repr(C)]
pub(crate) struct BlockRing<'a, P: Platform> {
    ends: Ends<P>,
    entries: RingEntries<'a, P>,
}

impl<'a, P: Platform> BlockRing<'a, P> {
    /// Creates an empty list over entries whose number is a power of two.
    pub(crate) fn new(entries: &'a [P::Cell<u32>]) -> Self {
        Self {
            ends: Ends::new(),
            entries: WrappingSlice::new(entries),
        }
    }

    /// Returns the tag of a block in this list of a CPU.
    #[inline(always)]
    pub(crate) fn tag(order: Order, cpu: CpuId) -> Tag {
        Tag::buffered(order, cpu)
    }

    /// Returns the top. A hint while another CPU may be in the list.
    #[inline(always)]
    pub(crate) fn top(&self) -> u32 {
        self.ends.top.peek()
    }

    /// Returns the bottom. A hint while another CPU may be in the list.
    #[inline(always)]
    pub(crate) fn bottom(&self) -> u32 {
        self.ends.bottom.peek()
    }

    /// Returns the number of blocks. A hint while another CPU may be in the list.
    #[inline(always)]
    pub(crate) fn length(&self) -> u32 {
        self.top().wrapping_sub(self.bottom())
    }

    /// Removes the youngest block and tags it as allocated; `top` is the top, and above the bottom. Returns `None` if
    /// the block belongs to another list.
    #[inline(always)]
    pub(crate) fn pop(
        &self,
        table: FrameTable<'_, P>,
        top: u32,
        order: Order,
        cpu: CpuId,
    ) -> Option<Frame> {
        let head = table.frame(Index(self.entries.at(top - 1).get()))?;
        if table.tag(head) != Self::tag(order, cpu) {
            return None;
        }
        table.set_tag(head, Tag::allocated(order));
        self.ends.top.set(top - 1);
        Some(head)
    }

    /// Adds a block as the youngest if it is tagged as allocated, and returns `true` if it is; `top` is the top, and
    /// there is room.
    #[inline(always)]
    pub(crate) fn push(
        &self,
        table: FrameTable<'_, P>,
        top: u32,
        head: Frame,
        order: Order,
        cpu: CpuId,
    ) -> bool {
        if table.tag(head) != Tag::allocated(order) {
            return false;
        }
        table.set_tag(head, Self::tag(order, cpu));
        self.ends.push_top(self.entries, top, head.index().0);
        true
    }

    /// Removes the youngest block that still belongs to this list and tags it as allocated. Drops the blocks above
    /// it, which were freed twice. Also returns the number of blocks removed.
    pub(crate) fn pop_own(
        &self,
        caller: &mut Caller<'_, P>,
        table: FrameTable<'_, P>,
        order: Order,
    ) -> (Option<Frame>, u32) {
        let mut left = 0;
        while let Some(number) = self.ends.pop_top(self.entries) {
            left += 1;
            let Some(head) = table.frame(Index(number)) else {
                continue;
            };
            if table.tag(head) == Self::tag(order, caller.cpu) {
                table.set_tag(head, Tag::allocated(order));
                return (Some(head), left);
            }
            caller.probe.record(Event::RacedDoubleFree);
        }
        (None, left)
    }

    /// Moves up to `wanted` blocks from the zone into the list under one lock. Returns the first, tagged as allocated,
    /// and keeps the others below it in the order in which they came. Also returns the number of blocks that came.
    pub(crate) fn refill<Z: ZoneLayer<P>>(
        &self,
        caller: &mut Caller<'_, P>,
        zone: &Z,
        order: Order,
        wanted: u32,
    ) -> (Option<Frame>, u32) {
        let mut first = None;
        let tag = Self::tag(order, caller.cpu);
        let mut ends = self.ends.get();
        let moved = zone.allocate_bulk(caller, order, wanted, tag, |head| match first {
            None => first = Some(head),
            Some(_) => ends.push_bottom::<P>(self.entries, head.index().0),
        });
        self.ends.set(ends);
        caller.probe.record(Event::Refill {
            frames: moved * order.frames(),
        });
        if let Some(head) = first {
            zone.table().set_tag(head, Tag::allocated(order));
        }
        (first, moved)
    }

    /// Removes the oldest block, whatever its tag.
    #[inline]
    pub(crate) fn pop_oldest(&self, table: FrameTable<'_, P>) -> Option<Frame> {
        let mut ends = self.ends.get();
        let head = ends.pop_bottom::<P>(self.entries)?;
        self.ends.set(ends);
        table.frame(Index(head))
    }

    /// Returns up to `wanted` of the oldest blocks of an order to the zone, under one lock. Returns how many were
    /// moved.
    pub(crate) fn drain<Z: ZoneLayer<P>>(
        &self,
        caller: &mut Caller<'_, P>,
        owner: CpuId,
        zone: &Z,
        order: Order,
        wanted: u32,
    ) -> u32 {
        let table = zone.table();
        let tag = Self::tag(order, owner);
        let mut ends = self.ends.get();
        let mut moved = 0;
        zone.free_bulk(caller, || {
            if moved == wanted {
                return None;
            }
            let head = table.frame(Index(ends.pop_bottom::<P>(self.entries)?))?;
            moved += 1;
            Some((head, order, tag))
        });
        self.ends.set(ends);
        moved
    }

    /// Does what [`drain`](Self::drain) does with single frames, and merges them into larger blocks first, outside the
    /// zone's lock.
    pub(crate) fn drain_merged<Z: ZoneLayer<P>>(
        &self,
        caller: &mut Caller<'_, P>,
        owner: CpuId,
        zone: &Z,
        wanted: u32,
    ) -> u32 {
        let (table, entries) = (zone.table(), self.entries);
        let mut ends = self.ends.get();
        let (start, moved) = (ends.bottom, wanted.min(ends.top - ends.bottom));
        merge::sort::<P>(entries, start, moved);
        let largest = (table, zone.max_order());
        let blocks = merge::merge::<P>(entries, start, moved, largest, owner, caller.probe);
        let mut next = 0;
        zone.free_bulk(caller, || {
            if next == blocks {
                return None;
            }
            let head = table.frame(Index(entries.at(start + next).get()))?;
            next += 1;
            // What another CPU's list or a holder has does not belong to this list, and the zone drops it.
            let order = table.tag(head).buffered_by(owner).unwrap_or(Order::ZERO);
            Some((head, order, Self::tag(order, owner)))
        });
        ends.bottom += moved;
        if ends.bottom >= entries.len() {
            ends.bottom -= entries.len();
            ends.top -= entries.len();
        }
        self.ends.set(ends);
        moved
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Native;
    use crate::platform::NativeCell;
    use proptest::prelude::*;
    use std::collections::VecDeque;
    use std::vec::Vec;

    proptest! {
        #[test]
        fn behaves_as_a_deque(steps in prop::collection::vec(0u8..4, 0..400)) {
            let entries: Vec<NativeCell<u32>> = (0..8).map(|_| NativeCell::new(0)).collect();
            let entries = WrappingSlice::new(&entries);
            let ends = Ends::<Native>::new();
            let mut model = VecDeque::new();
            for (value, step) in steps.into_iter().enumerate() {
                let value = value as u32;
                match step {
                    0 if model.len() < 8 => {
                        ends.push_top(entries, ends.top.get(), value);
                        model.push_back(value);
                    }
                    1 if model.len() < 8 => {
                        let mut positions = ends.get();
                        positions.push_bottom::<Native>(entries, value);
                        ends.set(positions);
                        model.push_front(value);
                    }
                    2 => prop_assert_eq!(ends.pop_top(entries), model.pop_back()),
                    3 => {
                        let mut positions = ends.get();
                        prop_assert_eq!(positions.pop_bottom::<Native>(entries), model.pop_front());
                        ends.set(positions);
                    }
                    _ => {}
                }
                prop_assert_eq!(ends.length() as usize, model.len());
                prop_assert!(ends.bottom.get() < 8);
            }
        }
    }
}
