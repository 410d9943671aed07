//! \[iBuddy\]'s figures 5 to 7, bit for bit and list for list, for the standard buddy and for iBuddy.

use std::vec;
use std::vec::Vec;

use super::{with_part, with_structure};
use crate::coalesce::{Ascend, Coalesce, Eager};
use crate::frame::{Index, Order};
use crate::frame_table::{Frame, Tag};
use crate::structure::{FreeLists, Inverse, Placed, RecordLists, Structure, StructurePlace};
use crate::{Native, NoProbe};

/// The bits that are 1 and the frames in the list, for each level from 2^0 to 2^3.
type Picture = [(Vec<u32>, Vec<u32>); 4];

/// What the figures show of a structure.
trait Shown {
    fn bit(&self, head: Frame, order: Order) -> bool;
    fn list(&self, order: Order) -> Vec<u32>;
}

impl Shown for FreeLists<'_, Native> {
    fn bit(&self, head: Frame, order: Order) -> bool {
        self.contains(head, order)
    }
    fn list(&self, order: Order) -> Vec<u32> {
        self.heads(order).map(|head| head.index().0).collect()
    }
}

impl Shown for RecordLists<'_, Native> {
    fn bit(&self, head: Frame, order: Order) -> bool {
        self.contains(head, order)
    }
    fn list(&self, order: Order) -> Vec<u32> {
        self.heads(order).map(|head| head.index().0).collect()
    }
}

impl Shown for Inverse<'_, Native> {
    fn bit(&self, head: Frame, order: Order) -> bool {
        Inverse::bit(self, head, order)
    }
    fn list(&self, order: Order) -> Vec<u32> {
        self.heads(order).map(|head| head.index().0).collect()
    }
}

/// The 16 frames of figure 5: 0 to 7, 8, 9 and 11 are free.
struct Walk<S, C> {
    structure: S,
    policy: C,
}

/// What is done in the figures.
trait Steps {
    fn free(&self, frame: u32);
    fn allocate(&self, order: u8) -> u32;
    fn picture(&self) -> Picture;
}

impl<S: Structure<Native> + Shown, C: Coalesce<Native, S>> Walk<S, C> {
    fn with<'a>(place: StructurePlace<'a, Native>, policy: C, frames: &[u32]) -> Self
    where
        S: Placed<'a, Native>,
    {
        let walk = Walk {
            structure: S::new(place),
            policy,
        };
        frames.iter().for_each(|frame| walk.free(*frame));
        walk
    }
}

impl<S: Structure<Native> + Shown, C: Coalesce<Native, S>> Steps for Walk<S, C> {
    fn free(&self, frame: u32) {
        let head = self.structure.table().frame(Index(frame)).unwrap();
        self.policy
            .free(&self.structure, head, Order::ZERO, &mut NoProbe);
    }

    fn allocate(&self, order: u8) -> u32 {
        let order = Order::new(order).unwrap();
        let head = self
            .policy
            .allocate(&self.structure, order, &mut NoProbe)
            .unwrap();
        self.structure.table().set_tag(head, Tag::allocated(order));
        head.index().0
    }

    fn picture(&self) -> Picture {
        self.structure.check().unwrap();
        let mut levels = Order::up_to(Order::new(3).unwrap());
        std::array::from_fn(|_| {
            let order = levels.next().unwrap();
            let frame = |n| self.structure.table().frame(Index(n)).unwrap();
            let bits = (0..16 >> order.get())
                .filter(|group| self.structure.bit(frame(group << order.get()), order))
                .collect();
            (bits, self.structure.list(order))
        })
    }
}

/// Frees the frames of figure 5 one by one, in an order that leaves its lists. The bits are those of the bitmap, and
/// then what the records say.
fn standard(test: impl Fn(&dyn Steps)) {
    let frames = [0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 11];
    with_structure(16, 3, Tag::allocated(Order::ZERO), |place| {
        test(&Walk::<FreeLists<'_, Native>, _>::with(
            place, Eager, &frames,
        ));
    });
    let kind = (Tag::allocated(Order::ZERO), RecordLists::<Native>::BITS);
    with_part(16, 3, kind, (16, 0), |place| {
        test(&Walk::<RecordLists<'_, Native>, _>::with(
            place, Eager, &frames,
        ));
    });
}

/// The same for iBuddy: from the last to the first, so that the first of a group represents it.
fn inverse<R>(test: impl FnOnce(&Walk<Inverse<'_, Native>, Ascend>) -> R) -> R {
    let kind = (Tag::allocated(Order::ZERO), Inverse::<Native>::BITS);
    with_part(16, 3, kind, (16, 0), |place| {
        let frames = [11, 9, 8, 7, 6, 5, 4, 3, 2, 1, 0];
        test(&Walk::with(place, Ascend, &frames))
    })
}

#[test]
fn figure_5b_three_free_groups() {
    standard(|walk| {
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
fn figure_5c_every_free_frame_on_its_own() {
    inverse(|walk| {
        assert_eq!(
            walk.picture(),
            [
                (vec![1, 3, 5, 7, 9, 11], vec![1, 3, 5, 7, 9, 11]),
                (vec![1, 3, 4], vec![2, 6, 8]),
                (vec![1], vec![4]),
                (vec![0], vec![0]),
            ]
        );
        // Three groups, as in figure 5b.
        let blocks: Vec<u32> = (0..4)
            .map(|order| walk.structure.blocks(Order::new(order).unwrap()))
            .collect();
        assert_eq!(blocks, [1, 1, 0, 1]);
    });
}

#[test]
fn figure_6a_two_single_frames_are_allocated() {
    standard(|walk| {
        assert_eq!(walk.allocate(0), 11, "found at level 0, no split");
        assert_eq!(walk.allocate(0), 8, "the group of 8 and 9 is split");
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
fn figure_6b_the_highest_levels_serve_and_nothing_is_split() {
    inverse(|walk| {
        assert_eq!(walk.allocate(0), 0, "found at level 3");
        assert_eq!(walk.allocate(0), 4, "the highest level is 2 now");
        assert_eq!(
            walk.picture(),
            [
                (vec![1, 3, 5, 7, 9, 11], vec![1, 3, 5, 7, 9, 11]),
                (vec![1, 3, 4], vec![2, 6, 8]),
                (vec![], vec![]),
                (vec![], vec![]),
            ]
        );
        // "The buddy system has two buddy groups while iBuddy has six" (3.2).
        let groups = |order| walk.structure.blocks(Order::new(order).unwrap());
        assert_eq!((groups(0), groups(1)), (3, 3));
    });
}

#[test]
fn figure_7a_frame_10_is_released() {
    standard(|walk| {
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

#[test]
fn figure_7b_frame_10_ascends_to_level_2() {
    inverse(|walk| {
        let before = walk.picture();
        walk.free(10);
        let after = walk.picture();
        // "The only change that has occurred is at level 2": 10 is in its list, and its third bit is set.
        assert_eq!(after[2], (vec![1, 2], vec![10, 4]));
        assert_eq!((&after[..2], &after[3]), (&before[..2], &before[3]));
    });
}

#[test]
fn a_request_for_eight_frames_takes_each_from_its_list() {
    inverse(|walk| {
        assert_eq!(walk.allocate(3), 0);
        assert_eq!(
            walk.picture(),
            [
                (vec![9, 11], vec![9, 11]),
                (vec![4], vec![8]),
                (vec![], vec![]),
                (vec![], vec![]),
            ]
        );
    });
}
