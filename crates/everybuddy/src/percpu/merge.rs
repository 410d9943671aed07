//! A batch of single frames becomes larger blocks before it returns to the zone: `drain=merged`.
//!
//! A drain frees its frames one by one under the zone's lock, and most of that time merges buddies. If the frames of
//! a batch are neighbours, a CPU can merge them outside the lock, and the zone receives a few large blocks.
//!
//! # Source
//! Zi Yan's question on linux-mm of 2026-04-03, in reply to the RFC "mm: page_alloc: pcp buddy allocator": let the
//! per-CPU list merge pages before it holds the zone's lock. The reply contains no code; the algorithm is our own.
//!
//! # Invariants
//! A frame is merged only if its record says that it is in the list of the CPU that owns the batch. Any other frame
//! stays in the batch unmerged, and the zone drops it under the zone's lock. The batch covers the same frames before
//! and after a merge. After it, the heads of the merged blocks are at the start of the batch, in ascending order.
//!
//! # Design decisions
//! The batch is sorted where it is, in the list's entries, since a drain must not allocate. Shell's sort needs no
//! other memory, and is fast for what is sorted in long parts, as a batch often is. The order of a merged block is
//! read from the record of its head.
//!
//! # Complexity
//! About n to the power of 1.3 accesses to the entries of n frames, and two accesses to the record of each.

use crate::frame::{Index, Order};
use crate::frame_table::{FrameTable, Tag};
use crate::platform::{CpuId, Platform, SharedCell};
use crate::probe::{Event, Probe};
use crate::wrapping_slice::WrappingSlice;

/// The distances of Shell's sort: Ciura's, continued by a factor of 2.25.
const GAPS: [u32; 16] = [
    510_774, 227_011, 100_894, 44_842, 19_930, 8858, 3937, 1750, 701, 301, 132, 57, 23, 10, 4, 1,
];

/// Sorts `length` entries by number, from the position `start`.
pub(super) fn sort<P: Platform>(entries: WrappingSlice<'_, P::Cell<u32>>, start: u32, length: u32) {
    for gap in GAPS {
        for index in gap..length {
            let value = entries.at(start + index).get();
            let mut place = index;
            while place >= gap {
                let other = entries.at(start + place - gap).get();
                if other <= value {
                    break;
                }
                entries.at(start + place).set(other);
                place -= gap;
            }
            if place < index {
                entries.at(start + place).set(value);
            }
        }
    }
}

/// Merges the sorted single frames of a batch into blocks of at most `largest`, bottom-up. Returns the number of
/// blocks. Their heads are at the start of the batch, each tagged as buffered by `owner` with its order.
pub(super) fn merge<P: Platform>(
    entries: WrappingSlice<'_, P::Cell<u32>>,
    start: u32,
    length: u32,
    (table, largest): (FrameTable<'_, P>, Order),
    owner: CpuId,
    probe: &mut P::Probe,
) -> u32 {
    // The entries below `start + kept` are a stack of blocks. Only its top can be the lower buddy of what comes next.
    let mut kept = 0;
    for index in 0..length {
        let Some(frame) = table.frame(Index(entries.at(start + index).get())) else {
            continue;
        };
        let (mut head, mut order) = (frame, Order::ZERO);
        if table.tag(head) == Tag::buffered(order, owner) {
            while kept > 0 && order < largest {
                let buddy = head.buddy(order);
                // A lower buddy: an upper one comes later, as all numbers ascend.
                if buddy > head
                    || entries.at(start + kept - 1).get() != buddy.index().0
                    || table.tag(buddy) != Tag::buffered(order, owner)
                {
                    break;
                }
                kept -= 1;
                table.set_tag(head, Tag::INTERIOR);
                probe.record(Event::Coalesce(order));
                (head, order) = (buddy, order.up());
                table.set_tag(head, Tag::buffered(order, owner));
            }
        }
        entries.at(start + kept).set(head.index().0);
        kept += 1;
    }
    kept
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Native;
    use crate::frame_table::Record;
    use crate::platform::NativeCell;
    use crate::probe::NoProbe;
    use crate::testing::order;
    use proptest::prelude::*;
    use std::vec::Vec;

    const OWNER: CpuId = CpuId(3);
    const OTHER: CpuId = CpuId(4);
    const FRAMES: u32 = 128;

    /// Merges a batch that starts at `start` in a ring of 128 entries. The frames of `foreign` are in another list.
    fn merged(
        batch: &[u32],
        foreign: &[u32],
        start: u32,
        largest: u8,
    ) -> (Vec<(u32, Tag)>, Vec<Record<Native>>) {
        let records: Vec<Record<Native>> = (0..FRAMES)
            .map(|frame| {
                Record::new(if foreign.contains(&frame) {
                    Tag::buffered(Order::ZERO, OTHER)
                } else if batch.contains(&frame) {
                    Tag::buffered(Order::ZERO, OWNER)
                } else {
                    Tag::allocated(Order::ZERO)
                })
            })
            .collect();
        let cells: Vec<NativeCell<u32>> = (0..FRAMES).map(|_| NativeCell::new(0)).collect();
        let entries = WrappingSlice::new(&cells);
        for (index, frame) in (0..).zip(batch) {
            entries.at(start + index).set(*frame);
        }
        let length = batch.len() as u32;
        let table = FrameTable::new(&records);
        sort::<Native>(entries, start, length);
        let largest = (table, order(largest));
        let blocks = merge::<Native>(entries, start, length, largest, OWNER, &mut NoProbe);
        let heads = (0..blocks).map(|index| {
            let head = table.frame(Index(entries.at(start + index).get())).unwrap();
            (head.index().0, table.tag(head))
        });
        (heads.collect(), records)
    }

    #[test]
    fn neighbours_become_blocks_and_others_stay_single() {
        // Frames 8 to 13 are a block of four and one of two; 15 has no buddy, and 2 and 3 are in another list.
        let (blocks, records) = merged(&[13, 2, 8, 15, 10, 9, 3, 12, 11], &[2, 3], 125, 10);
        let own = |number, size| (number, Tag::buffered(order(size), OWNER));
        let foreign = |number| (number, Tag::buffered(Order::ZERO, OTHER));
        let expected = [foreign(2), foreign(3), own(8, 2), own(12, 1), own(15, 0)];
        assert_eq!(blocks, expected);
        let table = FrameTable::new(&records);
        for inside in [9, 10, 11, 13] {
            assert_eq!(
                table.tag(table.frame(Index(inside)).unwrap()),
                Tag::INTERIOR
            );
        }
    }

    #[test]
    fn a_frame_of_another_list_is_not_merged_with_its_buddies() {
        let (blocks, _) = merged(&[4, 5, 6, 7], &[5], 0, 10);
        let own = |number, size| (number, Tag::buffered(order(size), OWNER));
        let foreign = (5, Tag::buffered(Order::ZERO, OTHER));
        assert_eq!(blocks, [own(4, 0), foreign, own(6, 1)]);
    }

    #[test]
    fn no_block_is_larger_than_the_largest() {
        let (blocks, _) = merged(&[0, 1, 2, 3, 4, 5, 6, 7], &[], 0, 1);
        assert_eq!(blocks.len(), 4);
    }

    proptest! {
        #[test]
        fn every_frame_stays_in_the_batch_once(
            batch in prop::collection::hash_set(0u32..FRAMES, 0..100),
            start in 0u32..FRAMES,
        ) {
            let batch: Vec<u32> = batch.into_iter().collect();
            let (blocks, _) = merged(&batch, &[], start, 6);
            let mut covered = Vec::new();
            for (head, tag) in &blocks {
                let size = Order::up_to(order(6)).find(|size| Tag::buffered(*size, OWNER) == *tag);
                let size = size.expect("a block of the owner");
                prop_assert!(Index(*head).is_aligned(size));
                covered.extend(*head..*head + size.frames());
            }
            let mut frames = batch.clone();
            frames.sort_unstable();
            prop_assert_eq!(&covered, &frames);
            // Nothing that could be merged is left.
            for pair in blocks.windows(2) {
                let [(low, low_tag), (high, high_tag)] = pair else { unreachable!() };
                let size = Order::up_to(order(5)).find(|size| Tag::buffered(*size, OWNER) == *low_tag);
                if let Some(size) = size && low_tag == high_tag {
                    prop_assert!(low ^ size.frames() != *high);
                }
            }
        }
    }
}
