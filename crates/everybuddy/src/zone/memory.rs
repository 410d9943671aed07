//! The memory of a zone's lock, and of the lists and bits of a zone or of buddy spaces.
//!
//! One zone has lists and bits once, and its lock lies on a cache line of its own or next to the lists. Buddy spaces
//! have them many times, and have their locks in themselves.
//!
//! # Invariants
//! Bits of different parts never share a word. Lists of different parts never share a cache line. All parts share one
//! set of lists if their structure has its lists in itself, and uses none of these.

use crate::arena::{Arena, ArenaPlan};
use crate::cache_padded::CachePadded;
use crate::error::BuildError;
use crate::frame::Order;
use crate::frame_table::FrameTable;
use crate::lock::{Line, Locks, ZoneLock};
use crate::platform::{Native, Platform};
use crate::structure::levels::{LEVELS, Level};
use crate::structure::local_lists::BlockClass;
use crate::structure::{Bits, StructurePlace};

/// The lists of all orders.
type Lists<P> = [Level<P>; LEVELS];

/// The classes of all orders.
type Classes<P> = [BlockClass<P>; LEVELS];

/// A lock, and the lists that it guards. As in Linux 2.6.32, where each order has 88 bytes, only the list of order 0
/// is on the line of the lock: the two are at its end. The others are next to each other here, eight on a line. With
/// 88 bytes for each, the distance of two lists would depend on the system, and every access to a list of any system
/// would read it.
#[repr(C)]
struct LockWithLists<'a, P: Platform> {
    _before: [u64; 5],
    lock: ZoneLock<'a, P>,
    lists: Lists<P>,
}

/// The lock and the list of order 0 fill the rest of the first line.
const _: () = assert!(size_of::<ZoneLock<'_, Native>>() <= 16 && size_of::<Level<Native>>() <= 8);

/// The geometry of a zone layer.
#[derive(Clone, Copy)]
pub(crate) struct ZoneGeometry {
    /// Frames of the whole zone layer.
    pub(crate) frames: u32,
    /// Frames of each part, a multiple of the largest block. If there is one part, all frames.
    pub(crate) part: u32,
    /// The largest order.
    pub(crate) max_order: Order,
    /// Where the lock of one zone lies.
    pub(crate) line: Line,
    /// Whether the structure has the lists of its levels in itself: iBuddy's.
    pub(crate) has_lists: bool,
    /// Which bits the structure needs.
    pub(crate) bits: Bits,
    /// Whether the structure has classes of locally and globally free blocks.
    pub(crate) classes: bool,
    /// How many lists of an order the structure has besides the first.
    pub(crate) more_lists: usize,
}

/// A zone: its lock, and the memory of its structure.
pub(crate) type LockedPart<'a, P> = (&'a ZoneLock<'a, P>, StructurePlace<'a, P>);

impl ZoneGeometry {
    /// Returns the number of parts.
    #[inline]
    pub(crate) fn parts(&self) -> u32 {
        self.frames.div_ceil(self.part.max(1))
    }

    fn blocks_of_part(&self) -> u32 {
        self.part.div_ceil(self.max_order.frames())
    }

    #[inline]
    fn words_of_part(&self) -> usize {
        self.bits.words(self.blocks_of_part(), self.max_order)
    }

    /// Returns how many sets of lists all parts have.
    #[inline]
    fn sets_of_lists(&self) -> usize {
        if self.has_lists {
            1
        } else {
            self.parts() as usize
        }
    }

    /// Plans the memory of [`make_zone`](Self::make_zone).
    pub(crate) fn plan_zone<P: Platform>(&self, plan: ArenaPlan) -> ArenaPlan {
        let plan = self.plan_places::<P>(plan);
        match self.line {
            Line::Own => plan
                .slice::<CachePadded<ZoneLock<'_, P>>>(1)
                .slice::<CachePadded<Lists<P>>>(1),
            Line::Beside => plan.slice::<CachePadded<LockWithLists<'_, P>>>(1),
        }
    }

    /// Plans the memory of [`make_parts`](Self::make_parts).
    pub(crate) fn plan_parts<P: Platform>(&self, plan: ArenaPlan) -> ArenaPlan {
        self.plan_places::<P>(plan)
            .slice::<CachePadded<Lists<P>>>(self.sets_of_lists())
    }

    /// Plans everything but the locks and the first lists of each order.
    fn plan_places<P: Platform>(&self, plan: ArenaPlan) -> ArenaPlan {
        let parts = self.parts() as usize;
        let plan = plan.slices::<P::Cell<u64>>(self.words_of_part(), parts);
        let plan = plan.slice::<CachePadded<Classes<P>>>(if self.classes { parts } else { 0 });
        plan.slice::<CachePadded<Lists<P>>>(self.more_lists * parts)
    }

    /// Creates the one part of a zone, and its lock. O(frames / 32).
    pub(crate) fn make_zone<'a, P: Platform>(
        &self,
        arena: &mut Arena<'a>,
        table: FrameTable<'a, P>,
        locks: Locks<'a, P>,
    ) -> Result<LockedPart<'a, P>, BuildError> {
        let place = self.make_places(arena, table)?;
        let (lock, levels) = match self.line {
            Line::Own => {
                let lock = arena.one("zone lock", CachePadded::new(ZoneLock::new(locks)))?;
                let lists = arena.one("lists of a zone", CachePadded::new(lists()))?;
                (&**lock, &**lists)
            }
            Line::Beside => {
                let part = arena.one(
                    "zone lock with lists",
                    CachePadded::new(LockWithLists {
                        _before: [0; 5],
                        lock: ZoneLock::new(locks),
                        lists: lists(),
                    }),
                )?;
                (&part.lock, &part.lists)
            }
        };
        Ok((lock, place(0, levels)))
    }

    /// Creates all parts. O(frames / 32).
    pub(crate) fn make_parts<'a, P: Platform>(
        &self,
        arena: &mut Arena<'a>,
        table: FrameTable<'a, P>,
    ) -> Result<impl Fn(u32) -> StructurePlace<'a, P> + use<'a, P>, BuildError> {
        let place = self.make_places(arena, table)?;
        let all = arena.slice("lists of a space", self.sets_of_lists(), |_| {
            CachePadded::new(lists())
        })?;
        Ok(move |part: u32| place(part, &all[part as usize % all.len()]))
    }

    /// Creates everything but the locks and the first lists of each order, which the result takes.
    fn make_places<'a, P: Platform>(
        &self,
        arena: &mut Arena<'a>,
        table: FrameTable<'a, P>,
    ) -> Result<impl Fn(u32, &'a Lists<P>) -> StructurePlace<'a, P> + use<'a, P>, BuildError> {
        let parts = self.parts() as usize;
        let words = self.words_of_part();
        let bits = arena.zeros_of_all::<P, u64>("bits of free blocks", words, parts)?;
        let classes = arena.slice(
            "classes of a zone",
            if self.classes { parts } else { 0 },
            |_| CachePadded::<Classes<P>>::new(core::array::from_fn(|_| BlockClass::new())),
        )?;
        let more = self.more_lists;
        let more_levels = arena.slice("lists of further types", more * parts, |_| {
            CachePadded::<Lists<P>>::new(lists())
        })?;
        let (blocks, max_order) = (self.blocks_of_part(), self.max_order);
        Ok(move |part: u32, levels| {
            let at = part as usize;
            StructurePlace {
                table,
                levels,
                more_levels: &more_levels[at * more..][..more],
                classes: classes.get(at).map_or(&[], |classes| &classes[..]),
                bits: &bits[at * words..][..words],
                first: (part * blocks) << max_order.get(),
                blocks,
                max_order,
            }
        })
    }
}

/// Creates empty lists.
fn lists<P: Platform>() -> Lists<P> {
    core::array::from_fn(|_| Level::new())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::arena::Memory;
    use std::collections::BTreeSet;
    use std::mem::MaybeUninit;
    use std::ptr::from_ref;
    use std::vec;

    #[test]
    fn the_lock_is_on_the_line_of_order_0_alone() {
        let whole = CachePadded::<LockWithLists<'_, Native>>::new(LockWithLists {
            _before: [0; 5],
            lock: ZoneLock::new(Locks::Spin),
            lists: core::array::from_fn(|_| Level::new()),
        });
        let first = from_ref(&whole).addr() / crate::LINE;
        let lines = |start: usize, bytes: usize| {
            let end = start + bytes - 1;
            (start / crate::LINE - first, end / crate::LINE - first)
        };
        let lock = lines(from_ref(&whole.lock).addr(), size_of_val(&whole.lock));
        let of = |order: usize| {
            lines(
                from_ref(&whole.lists[order]).addr(),
                size_of::<Level<Native>>(),
            )
        };
        assert_eq!((lock, of(0)), ((0, 0), (0, 0)));
        assert_eq!((of(1), of(8)), ((1, 1), (1, 1)));
    }

    #[test]
    fn each_part_has_lists_of_its_own_unless_its_structure_has_them() {
        for has_lists in [false, true] {
            let geometry = ZoneGeometry {
                frames: 40,
                part: 16,
                max_order: Order::saturating(3),
                line: Line::Own,
                has_lists,
                bits: Bits::Typed,
                classes: false,
                more_lists: 2,
            };
            let plan = geometry.plan_parts::<Native>(ArenaPlan::default());
            let mut memory = vec![MaybeUninit::uninit(); plan.bytes().unwrap() + crate::LINE];
            let mut arena = Arena::new(Memory::new(&mut memory));
            let part = geometry
                .make_parts::<Native>(&mut arena, FrameTable::new(&[]))
                .unwrap();
            let mut lists = BTreeSet::new();
            for number in 0..3 {
                let place = part(number);
                lists.insert(from_ref(place.levels));
                lists.extend(place.more_levels.iter().map(|levels| from_ref(&**levels)));
                assert_eq!(place.first, 16 * number);
            }
            let own = if has_lists { 1 } else { 3 };
            assert_eq!(lists.len(), own + 3 * 2);
        }
    }
}
