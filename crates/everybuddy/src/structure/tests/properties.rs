//! Every structure of blocks, compared with sets and stacks.
//!
//! An unbalanced tree or a stale summary still returns right answers for a while. The tests therefore check every
//! invariant after every step, and compare every answer with that of a plain model.

use std::vec::Vec;

use proptest::prelude::*;

use super::with_part;
use crate::Native;
use crate::frame::{Index, Order};
use crate::frame_table::{Frame, FrameTable, Tag};
use crate::platform::CpuId;
use crate::snapshot::FrameState;
use crate::structure::{BitScan, FreeLists, Ordered, Placed, RecordLists, Structure, Trees};

/// Frames of a structure: several words of summaries, and no multiple of the largest block.
const FRAMES: u32 = 9001;
const LARGEST: u8 = 5;
/// It is the second of two parts, so that its first frame isn't frame 0.
const PART: u32 = 9024;
const ALL: u32 = PART + FRAMES;

/// What is done: with an order, and a number that picks a block.
#[derive(Clone, Copy, Debug)]
enum Step {
    Insert(u8, u32),
    Remove(u8, u32),
    Take(u8),
}

fn steps() -> impl Strategy<Value = Vec<Step>> {
    // Half of the blocks lie close together, so that buddies meet; the others in all words.
    let place = prop_oneof![0u32..64, any::<u32>()];
    let order = || prop_oneof![3 => Just(0u8), 1 => 0..=LARGEST];
    let step = prop_oneof![
        6 => (order(), place).prop_map(|(order, place)| Step::Insert(order, place)),
        2 => (order(), any::<u32>()).prop_map(|(order, which)| Step::Remove(order, which)),
        2 => order().prop_map(Step::Take),
    ];
    proptest::collection::vec(step, 1..300)
}

/// Which block `take` prefers.
#[derive(Clone, Copy, PartialEq)]
enum Prefers {
    Youngest,
    Lowest,
}

/// The blocks of each order, the oldest first.
#[derive(Default)]
struct Model {
    blocks: [Vec<u32>; LARGEST as usize + 1],
}

impl Model {
    fn overlaps(&self, head: u32, frames: u32) -> bool {
        let orders = self.blocks.iter().enumerate();
        orders.into_iter().any(|(order, heads)| {
            let mut heads = heads.iter();
            heads.any(|other| *other < head + frames && head < *other + (1 << order))
        })
    }

    fn prefers(&self, order: Order, prefers: Prefers) -> Option<u32> {
        let heads = &self.blocks[order.index()];
        match prefers {
            Prefers::Youngest => heads.last().copied(),
            Prefers::Lowest => heads.iter().min().copied(),
        }
    }

    fn remove(&mut self, order: Order, head: u32) {
        self.blocks[order.index()].retain(|other| *other != head);
    }

    /// The lowest block at or above `from` whose upper buddy is in, too.
    fn pair(&self, order: Order, from: u32) -> Option<u32> {
        let heads = &self.blocks[order.index()];
        let lower = |head: &&u32| *head & order.frames() == 0 && **head >= from;
        let paired = |head: &&u32| heads.contains(&(*head | order.frames()));
        heads.iter().filter(lower).filter(paired).min().copied()
    }
}

type Pair<S> = fn(&S, Order, Index) -> Option<Frame>;

/// Does the steps, and compares after each.
fn compare<S: Structure<Native>>(
    structure: &S,
    prefers: Prefers,
    pair: Option<Pair<S>>,
    steps: &[Step],
) {
    let mut model = Model::default();
    let table = structure.table();
    let frame = |head| table.frame(Index(head)).unwrap();
    for step in steps {
        let seen = match *step {
            Step::Insert(order, place) => {
                let order = Order::new(order).unwrap();
                let head = PART + place % (FRAMES >> order.get()) * order.frames();
                if !model.overlaps(head, order.frames()) {
                    structure.insert(frame(head), order);
                    model.blocks[order.index()].push(head);
                    let state = table.tag(frame(head)).state(frame(head));
                    assert_eq!(state, Some(FrameState::Free { head: Index(head) }));
                }
                head
            }
            Step::Remove(order, which) => {
                let order = Order::new(order).unwrap();
                let heads = &model.blocks[order.index()];
                let Some(head) = heads.get(which as usize % heads.len().max(1)).copied() else {
                    continue;
                };
                structure.remove(frame(head), order);
                table.set_tag(frame(head), Tag::INTERIOR);
                model.remove(order, head);
                head
            }
            Step::Take(order) => {
                let order = Order::new(order).unwrap();
                let expected = model.prefers(order, prefers);
                let taken = structure.take(order).map(|head| head.index().0);
                assert_eq!(taken, expected);
                let Some(head) = taken else { continue };
                table.set_tag(frame(head), Tag::INTERIOR);
                model.remove(order, head);
                head
            }
        };
        structure.check().unwrap();
        for order in Order::up_to(structure.max_order()) {
            let heads = &model.blocks[order.index()];
            assert_eq!(structure.blocks(order) as usize, heads.len());
            let head = seen & !(order.frames() - 1);
            for head in [head, head ^ order.frames()] {
                if (PART..ALL).contains(&head) {
                    let is_in = structure.contains(frame(head), order);
                    assert_eq!(is_in, heads.contains(&head));
                }
            }
            if let Some(pair) = pair {
                for from in [0, PART, seen, seen + 1, ALL] {
                    let found = pair(structure, order, Index(from)).map(|head| head.index().0);
                    assert_eq!(found, model.pair(order, from), "{order:?} from {from}");
                }
            }
        }
        let largest = model.blocks.iter().rposition(|heads| !heads.is_empty());
        assert_eq!(structure.largest().map(Order::index), largest);
    }
}

/// Creates an empty structure.
fn with<R>(test: impl FnOnce(&Trees<'_, Native>) -> R, frames: u32, largest: u8) -> R {
    let kind = (
        Tag::INTERIOR,
        <Trees<'_, Native> as Placed<'_, Native>>::BITS,
    );
    with_part(frames, largest, kind, (frames, 0), |place| {
        test(&Trees::new(place))
    })
}

macro_rules! runs {
    ($structure:ident, $prefers:expr, $pair:expr, $steps:expr) => {{
        let kind = (
            Tag::INTERIOR,
            <$structure<'_, Native> as Placed<'_, Native>>::BITS,
        );
        with_part::<Native, _>(ALL, LARGEST, kind, (PART, 1), |place| {
            compare(&$structure::new(place), $prefers, $pair, $steps);
        });
    }};
}

proptest! {
    #[test]
    fn lists_give_the_youngest(steps in steps()) {
        runs!(FreeLists, Prefers::Youngest, None, &steps);
    }

    #[test]
    fn lists_without_bits_give_the_youngest(steps in steps()) {
        runs!(RecordLists, Prefers::Youngest, None, &steps);
    }

    #[test]
    fn trees_give_the_lowest_address(steps in steps()) {
        runs!(Trees, Prefers::Lowest, Some(Ordered::pair), &steps);
    }

    #[test]
    fn bits_give_the_lowest_address(steps in steps()) {
        runs!(BitScan, Prefers::Lowest, Some(Ordered::pair), &steps);
    }
}

#[test]
fn a_tree_of_blocks_in_any_sorted_order_is_balanced() {
    const BLOCKS: u32 = 600;
    let strides: [fn(u32) -> u32; 4] = [
        |n| n,
        |n| BLOCKS - 1 - n,
        // From both ends inwards, and from the middle outwards: each turns nodes twice.
        |n| {
            if n % 2 == 0 {
                n / 2
            } else {
                BLOCKS - 1 - n / 2
            }
        },
        |n| (BLOCKS / 2).wrapping_add_signed((n as i32 + 1) / 2 * if n % 2 == 0 { 1 } else { -1 }),
    ];
    for insertion in strides {
        for removal in strides {
            with(
                |tree| {
                    let table = tree.table();
                    let frame = |n| table.frame(Index(n)).unwrap();
                    for n in 0..BLOCKS {
                        tree.insert(frame(insertion(n)), Order::ZERO);
                        tree.check().unwrap();
                    }
                    for n in 0..BLOCKS {
                        tree.remove(frame(removal(n)), Order::ZERO);
                        table.set_tag(frame(removal(n)), Tag::INTERIOR);
                        tree.check().unwrap();
                    }
                    assert_eq!(tree.largest(), None);
                },
                BLOCKS,
                0,
            );
        }
    }
}

#[test]
fn a_scan_ends_with_the_words_of_its_order() {
    // 64 words of blocks and one summary, which is full: what follows is another level's, another order's.
    let kind = (
        Tag::INTERIOR,
        <BitScan<'_, Native> as Placed<'_, Native>>::BITS,
    );
    with_part::<Native, _>(8192, 1, kind, (4096, 0), |place| {
        let bits = BitScan::<Native>::new(place);
        let frame = |head| bits.table().frame(Index(head)).unwrap();
        for head in [0, 64] {
            bits.insert(frame(head), Order::ZERO);
        }
        assert_eq!(bits.pair(Order::ZERO, Index(4095)), None);
        bits.insert(frame(1), Order::ZERO);
        assert_eq!(bits.pair(Order::ZERO, Index(0)), Some(frame(0)));
        assert_eq!(bits.pair(Order::ZERO, Index(1)), None);
        bits.check().unwrap();
    });
}

/// Calls `test` with empty lists without a bitmap, of nine frames and blocks of up to eight.
fn with_records(test: impl FnOnce(&RecordLists<'_, Native>, &dyn Fn(u32) -> Frame)) {
    let kind = (Tag::INTERIOR, RecordLists::<Native>::BITS);
    with_part::<Native, _>(9, 3, kind, (9, 0), |place| {
        assert!(place.bits.is_empty());
        let lists = RecordLists::<Native>::new(place);
        let table = lists.table();
        test(&lists, &|n| table.frame(Index(n)).unwrap());
    });
}

#[test]
fn a_record_stores_the_order_of_a_free_block_only_while_it_is_free() {
    with_records(|lists, frame| {
        let table = lists.table();
        let orders = || Order::up_to(lists.max_order());
        let order_of = |n| orders().find(|order| lists.contains(frame(n), *order));
        for order in orders() {
            lists.insert(frame(0), order);
            assert_eq!(order_of(0), Some(order));
            assert_eq!(lists.take(order), Some(frame(0)));
            // Before its caller has tagged it, and after.
            assert_eq!(order_of(0), None);
            for tag in [Tag::allocated(order), Tag::buffered(order, CpuId(1))] {
                table.set_tag(frame(0), tag);
                // The list of a CPU may link it by the word that had the order.
                table.set_link(frame(0), Some(frame(order.frames() - 1)));
                assert_eq!(order_of(0), None);
                lists.check().unwrap();
            }
            table.set_tag(frame(0), Tag::INTERIOR);
        }
        // Its buddy lies behind the last frame.
        assert!(!lists.contains(frame(8).buddy(Order::ZERO), Order::ZERO));
    });
}

#[test]
fn a_block_that_is_in_is_not_inserted_again() {
    with_records(|lists, frame| {
        for n in [4, 6, 5] {
            lists.insert(frame(n), Order::ZERO);
        }
        lists.insert(frame(6), Order::ZERO);
        lists.insert(frame(6), Order::ZERO.up());
        lists.check().unwrap();
        let all: Vec<u32> = lists
            .heads(Order::ZERO)
            .map(|head| head.index().0)
            .collect();
        assert_eq!(all, [5, 6, 4]);
        assert_eq!(lists.blocks(Order::ZERO.up()), 0);
    });
}

#[test]
fn a_damaged_record_is_noticed() {
    // What damage is done to two blocks of order 1: first the one at 4, then the one at 2.
    type Damage = fn(FrameTable<'_, Native>, &dyn Fn(u32) -> Frame);
    let damages: [Damage; 5] = [
        |table, frame| table.clear_order(frame(2)),
        |table, frame| table.set_tag(frame(2), Tag::INTERIOR),
        // Another order, and another place in the list.
        |table, frame| table.set_ordered_previous(frame(4), None, Order::ZERO.up().up()),
        |table, frame| table.set_ordered_previous(frame(2), None, Order::ZERO.up()),
        // A frame that is in no list.
        |table, frame| {
            table.set_next(frame(8), None);
            table.set_ordered_previous(frame(8), None, Order::ZERO);
        },
    ];
    for damage in damages {
        with_records(|lists, frame| {
            for n in [2, 4] {
                lists.insert(frame(n), Order::ZERO.up());
            }
            lists.check().unwrap();
            damage(lists.table(), frame);
            assert!(lists.check().is_err());
        });
    }
}

#[test]
fn a_damaged_tree_is_noticed() {
    // What damage is done to a tree of frames 0 to 6, whose root is 3, with children 1 and 5.
    type Damage = fn(&Trees<'_, Native>, &dyn Fn(u32) -> Frame);
    let damages: [Damage; 5] = [
        |tree, frame| tree.table().set_next(frame(3), Some(frame(0))),
        |tree, frame| tree.table().set_right(frame(1), None, None),
        |tree, frame| {
            tree.table().set_right(
                frame(5),
                Some(frame(6)),
                Some(crate::frame_table::Side::Left),
            )
        },
        |tree, frame| tree.table().set_next(frame(5), Some(frame(2))),
        |tree, frame| {
            tree.table().set_right(
                frame(6),
                Some(frame(7)),
                Some(crate::frame_table::Side::Right),
            )
        },
    ];
    for damage in damages {
        with(
            |tree| {
                let table = tree.table();
                let frame = |n| table.frame(Index(n)).unwrap();
                (0..7).for_each(|n| tree.insert(frame(n), Order::ZERO));
                tree.check().unwrap();
                damage(tree, &frame);
                assert!(tree.check().is_err());
            },
            8,
            0,
        );
    }
}
