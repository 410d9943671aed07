//! The standard buddy's policy: coalesce whenever a buddy is free.
//!
//! # Purpose
//!
//! It keeps blocks as large as possible, and pays a split and a coalescing for alternating requests. Every other
//! policy tries to avoid that cost.
//!
//! # Source
//!
//! \[iBuddy\] §2.1, §3.1.1 and §3.1.2; \[BL89\] §3.
//!
//! # Invariants
//!
//! No two buddies of an order below the largest are both free.
//!
//! # Design decisions
//!
//! A split allocates the lower half and keeps the upper.

use super::{AdjacentBlocks, Coalesce, is_free, record_move};
use crate::frame::Order;
use crate::frame_table::{Frame, Tag, pieces};
use crate::platform::Platform;
use crate::probe::{Event, Probe};
use crate::structure::Structure;

/// Coalesces immediately.
#[derive(Clone, Copy, Debug, Default)]
pub struct Eager;

impl<P: Platform, S: Structure<P>> Coalesce<P, S> for Eager {
    #[inline(always)]
    fn allocate(&self, structure: &S, order: Order, probe: &mut P::Probe) -> Option<Frame> {
        let mut found = order;
        let head = loop {
            if let Some(head) = structure.take(found) {
                record_move::<P>(probe);
                break head;
            }
            if found >= structure.max_order() {
                return None;
            }
            found = found.up();
        };
        while found > order {
            probe.record(Event::Split(found));
            found = found.down();
            structure.insert(head.offset(found.frames()), found);
            record_move::<P>(probe);
        }
        Some(head)
    }

    #[inline]
    fn free(&self, structure: &S, head: Frame, order: Order, probe: &mut P::Probe) {
        let (mut head, mut order) = (head, order);
        while order < structure.max_order() && is_free(structure, head.buddy(order), order, probe) {
            let buddy = head.buddy(order);
            structure.remove(buddy, order);
            record_move::<P>(probe);
            probe.record(Event::Coalesce(order));
            let (lower, upper) = head.merged(order);
            structure.table().set_tag(upper, Tag::INTERIOR);
            head = lower;
            order = order.up();
        }
        structure.insert(head, order);
        record_move::<P>(probe);
    }

    /// Returns pieces of a free block in address order, as splitting it for each request would. It omits the halves
    /// that would enter lists only to be removed again.
    #[inline]
    fn allocate_bulk(
        &self,
        structure: &S,
        order: Order,
        wanted: u32,
        probe: &mut P::Probe,
        mut sink: impl FnMut(Frame),
    ) -> u32 {
        let (mut given, mut found) = (0, order);
        while given < wanted {
            let Some(head) = structure.take(found) else {
                if found >= structure.max_order() {
                    break;
                }
                // No smaller block becomes free: the rest of a larger block ends the loop.
                found = found.up();
                continue;
            };
            record_move::<P>(probe);
            let row = AdjacentBlocks {
                head,
                order,
                blocks: (wanted - given).min(1 << (found.get() - order.get())),
            };
            row.heads().for_each(&mut sink);
            given += row.blocks;
            record_splits::<P>(probe, found, row);
            // The rest is one block of each of some orders in between, whose lists are empty.
            let rest = head.offset(row.frames());
            for (head, order) in pieces(rest, found.frames() - row.frames(), found) {
                structure.insert(head, order);
                record_move::<P>(probe);
            }
        }
        given
    }

    /// Merges the adjacent blocks first, then with the buddies outside.
    fn free_adjacent(&self, structure: &S, row: AdjacentBlocks, probe: &mut P::Probe) {
        let table = structure.table();
        for (head, order) in pieces(row.head, row.frames(), structure.max_order()) {
            let inner = AdjacentBlocks {
                head,
                blocks: 1 << (order.get() - row.order.get()),
                ..row
            };
            for head in inner.heads().skip(1) {
                table.set_tag(head, Tag::INTERIOR);
            }
            let mut merged = row.order;
            while merged < order {
                for _ in 0..order.frames() >> merged.up().get() {
                    probe.record(Event::Coalesce(merged));
                }
                merged = merged.up();
            }
            self.free(structure, head, order, probe);
        }
    }
}

/// Counts the splits of a block of order `found` whose first blocks are allocated: one for each block of a larger
/// order that contains one of them.
#[inline]
fn record_splits<P: Platform>(probe: &mut P::Probe, found: Order, given: AdjacentBlocks) {
    let mut order = found;
    while order > given.order {
        for _ in 0..given.frames().div_ceil(order.frames()) {
            probe.record(Event::Split(order));
        }
        order = order.down();
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Native;
    use crate::frame::Index;
    use crate::platform::Spin;
    use crate::probe::Counts;
    use crate::structure::{FreeLists, Placed, with_structure};
    use proptest::prelude::*;
    use std::vec::Vec;

    type Counting = Native<Spin, Counts>;

    const FRAMES: u32 = 64;
    const LARGEST: u8 = 4;

    /// The policy without its own bulk operations.
    struct OneByOne;

    impl<P: Platform, S: Structure<P>> Coalesce<P, S> for OneByOne {
        fn allocate(&self, structure: &S, order: Order, probe: &mut P::Probe) -> Option<Frame> {
            Eager.allocate(structure, order, probe)
        }

        fn free(&self, structure: &S, head: Frame, order: Order, probe: &mut P::Probe) {
            Coalesce::<P, S>::free(&Eager, structure, head, order, probe);
        }
    }

    /// Allocates and frees in bulk. Returns what was allocated, what stayed free, and what was counted.
    fn history<C: for<'a> Coalesce<Counting, FreeLists<'a, Counting>>>(
        policy: C,
        steps: &[(u8, u32, u32)],
    ) -> (Vec<Vec<u32>>, Counts) {
        with_structure::<Counting, _>(FRAMES, LARGEST, Tag::INTERIOR, |place| {
            let lists = &FreeLists::new(place);
            let mut probe = Counts::default();
            let mut seen = Vec::new();
            let mut held: Vec<AdjacentBlocks> = Vec::new();
            let whole = Order::new(LARGEST).unwrap();
            for start in (0..FRAMES).step_by(whole.frames() as usize) {
                lists.insert(lists.table().frame(Index(start)).unwrap(), whole);
            }
            for (order, count, pick) in steps {
                let order = Order::new(*order).unwrap();
                let mut given = Vec::new();
                if *count > 0 {
                    policy.allocate_bulk(lists, order, *count, &mut probe, |head| {
                        lists.table().set_tag(head, Tag::allocated(order));
                        given.push(head.index().0);
                        match held.last_mut() {
                            Some(row) if row.is_followed_by(head, order) => row.blocks += 1,
                            _ => held.push(AdjacentBlocks {
                                head,
                                order,
                                blocks: 1,
                            }),
                        }
                    });
                } else if !held.is_empty() {
                    let row = held.swap_remove(*pick as usize % held.len());
                    policy.free_adjacent(lists, row, &mut probe);
                }
                seen.push(given);
                for order in Order::up_to(whole) {
                    seen.push(lists.heads(order).map(|head| head.index().0).collect());
                }
                lists.check().unwrap();
            }
            (seen, probe)
        })
    }

    proptest! {
        #[test]
        fn many_at_once_is_the_same_as_one_by_one(
            steps in prop::collection::vec((0u8..=2, 0u32..9, 0u32..100), 1..40)
        ) {
            // About half of the steps free.
            let steps: Vec<_> = steps
                .into_iter()
                .map(|(order, count, pick)| (order, count.saturating_sub(4), pick))
                .collect();
            let (seen, counts) = history(Eager, &steps);
            let (expected, singly) = history(OneByOne, &steps);
            prop_assert_eq!(seen, expected);
            // Only the operations on lists and map may be fewer.
            prop_assert!(counts.links <= singly.links && counts.marks <= singly.marks);
            let (links, marks) = (singly.links, singly.marks);
            prop_assert_eq!(Counts { links, marks, ..counts }, singly);
        }
    }
}
