//! The standard buddy's side of iBuddy's (000) figures 5 to 7, bit for bit and list for list.
#![cfg(test)]

use std::mem::MaybeUninit;
use std::vec;
use std::vec::Vec;

use super::{FreeLists, Structure};
use crate::arena::{Arena, ArenaPlan};
use crate::coalesce::{Coalesce, Eager};
use crate::frame::{Order, Pfn};
use crate::frame_table::{FrameTable, Record, Tag};
use crate::platform::Platform;
use crate::{Native, NoProbe};

/// Does something with empty free lists of so many frames, all tagged alike.
pub(crate) fn with_free_lists<P: Platform, R>(
    frames: u32,
    largest: u8,
    tag: Tag,
    test: impl FnOnce(&FreeLists<'_, P>) -> R,
) -> R {
    let largest = Order::new(largest).unwrap();
    let plan = ArenaPlan::default().slice::<Record<P>>(frames as usize);
    let plan = FreeLists::<P>::plan(plan, frames, largest);
    let mut memory = vec![MaybeUninit::uninit(); plan.bytes() + crate::LINE];
    let mut arena = Arena::new(&mut memory);
    let records = arena.slice(frames as usize, |_| Record::new(tag)).unwrap();
    test(&FreeLists::new(&mut arena, FrameTable::new(records), largest).unwrap())
}

/// The bits that are 1 and the frames in the list, for each level from 2^0 to 2^3.
type Picture = [(Vec<u32>, Vec<u32>); 4];

/// The 16 frames of figure 5: 0 to 7, 8, 9 and 11 are free.
struct Walk<'a> {
    lists: &'a FreeLists<'a, Native>,
}

impl Walk<'_> {
    fn with<R>(test: impl FnOnce(&Walk<'_>) -> R) -> R {
        with_free_lists(16, 3, Tag::allocated(Order::ZERO), |lists| {
            let walk = Walk { lists };
            // Released one by one, in an order that leaves the blocks of the figure.
            for frame in [0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 11] {
                walk.free(frame);
            }
            test(&walk)
        })
    }

    fn free(&self, frame: u32) {
        let head = self.lists.table().frame(Pfn(frame)).unwrap();
        Eager.free(self.lists, head, Order::ZERO, &mut NoProbe);
    }

    fn allocate(&self) -> u32 {
        let head = Eager
            .allocate(self.lists, Order::ZERO, &mut NoProbe)
            .unwrap();
        self.lists
            .table()
            .set_tag(head, Tag::allocated(Order::ZERO));
        head.pfn().0
    }

    fn picture(&self) -> Picture {
        self.lists.check().unwrap();
        let mut levels = Order::up_to(Order::new(3).unwrap());
        std::array::from_fn(|_| {
            let order = levels.next().unwrap();
            let frame = |n| self.lists.table().frame(Pfn(n)).unwrap();
            let bits = (0..16 >> order.get())
                .filter(|group| self.lists.contains(frame(group << order.get()), order))
                .collect();
            (
                bits,
                self.lists.heads(order).map(|head| head.pfn().0).collect(),
            )
        })
    }
}

#[test]
fn figure_5b_three_free_groups() {
    Walk::with(|walk| {
        assert_eq!(
            walk.picture(),
            [
                (vec![11], vec![11]),
                (vec![4], vec![8]), // the group of frames 8 and 9
                (vec![], vec![]),
                (vec![0], vec![0]), // frames 0 to 7
            ]
        );
    });
}

#[test]
fn figure_6a_two_single_frames_are_allocated() {
    Walk::with(|walk| {
        assert_eq!(walk.allocate(), 11, "found at level 0, no split");
        assert_eq!(walk.allocate(), 8, "the group of 8 and 9 is split");
        assert_eq!(
            walk.picture(),
            [
                (vec![9], vec![9]),
                (vec![], vec![]),
                (vec![], vec![]),
                (vec![0], vec![0])
            ]
        );
    });
}

#[test]
fn figure_7a_frame_10_is_released() {
    Walk::with(|walk| {
        walk.free(10);
        assert_eq!(
            walk.picture(),
            [
                (vec![], vec![]),
                (vec![], vec![]),
                (vec![2], vec![8]), // 10 with 11, then with 8 and 9
                (vec![0], vec![0]),
            ]
        );
    });
}
