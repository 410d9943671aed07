//! Figure 2 of \[BL89\]: the transitions of a class of six blocks, as a table.
//!
//! # Source
//! \[BL89\] §3.3, figure 2, and §3.4, (I) and (II). As in the figure, transitions into other lazy spaces are left out.

use std::collections::BTreeSet;
use std::vec::Vec;

use super::delay::SLACK;
use super::{Counting, Delays, Lists};
use crate::coalesce::Coalesce;
use crate::coalesce::lazy_class;
use crate::frame::{Index, Order};
use crate::frame_table::{Frame, Tag};
use crate::platform::SharedCell;
use crate::structure::{LocalStructure, Placed, Structure, with_structure};
use crate::zone::range;

/// The blocks of the class.
const BLOCKS: u32 = 6;

/// Locally and globally free blocks.
type State = (u32, u32);

/// The states of the lazy space: at most half of the blocks globally free, and no more than the slack allows.
const STATES: [State; 12] = [
    (0, 0),
    (1, 0),
    (2, 0),
    (3, 0),
    (0, 1),
    (1, 1),
    (2, 1),
    (0, 2),
    (1, 2),
    (2, 2),
    (0, 3),
    (1, 3),
];

/// Requests: a locally free block first. From (0, 0) a larger block is split, which leads into the space of eight.
const REQUESTS: [(State, State); 11] = [
    ((1, 0), (0, 0)),
    ((2, 0), (1, 0)),
    ((3, 0), (2, 0)),
    ((0, 1), (0, 0)),
    ((1, 1), (0, 1)),
    ((2, 1), (1, 1)),
    ((0, 2), (0, 1)),
    ((1, 2), (0, 2)),
    ((2, 2), (1, 2)),
    ((0, 3), (0, 2)),
    ((1, 3), (0, 3)),
];

/// Frees: locally while that stays in the space; then globally; from (3, 0) two blocks are freed globally. From (2, 2)
/// and (1, 3) every free coalesces, which leads into a smaller space.
const FREES: [(State, State); 10] = [
    ((0, 0), (1, 0)),
    ((1, 0), (2, 0)),
    ((2, 0), (3, 0)),
    ((3, 0), (2, 2)),
    ((0, 1), (1, 1)),
    ((1, 1), (2, 1)),
    ((2, 1), (2, 2)),
    ((0, 2), (1, 2)),
    ((1, 2), (2, 2)),
    ((0, 3), (1, 3)),
];

/// The use of a block.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Use {
    Allocated,
    Local,
    Global,
}

/// All uses of six blocks that are a state of the space: no two buddies are globally free.
fn placements() -> Vec<[Use; BLOCKS as usize]> {
    let all = (0..3u32.pow(BLOCKS)).map(|number| {
        core::array::from_fn(|at| match number / 3u32.pow(at as u32) % 3 {
            0 => Use::Allocated,
            1 => Use::Local,
            _ => Use::Global,
        })
    });
    all.filter(|uses: &[Use; BLOCKS as usize]| {
        let count = |what| uses.iter().filter(|one| **one == what).count() as u32;
        let is_apart = uses.chunks(2).all(|pair| pair != [Use::Global; 2]);
        is_apart && STATES.contains(&(count(Use::Local), count(Use::Global)))
    })
    .collect()
}

/// Puts a class into a state, calls `step` on it, and returns the state before and after, unless blocks were split or
/// coalesced.
fn transition(
    uses: &[Use],
    descending: bool,
    step: impl FnOnce(&Lists<'_>, &[Frame]) -> bool,
) -> Option<(State, State)> {
    with_structure::<Counting, _>(BLOCKS, 1, Tag::INTERIOR, |place| {
        let structure = &Lists::new(place);
        let probe = &mut Delays::default();
        let first = structure.table().frame(Index(0)).unwrap();
        range::adopt_pieces(structure, &SLACK, first, BLOCKS, probe);
        let mut heads: Vec<Frame> = (0..BLOCKS)
            .map(|_| {
                let head = SLACK.allocate(structure, Order::ZERO, probe).unwrap();
                structure.table().set_tag(head, Tag::allocated(Order::ZERO));
                head
            })
            .collect();
        heads.sort();
        let mut order: Vec<_> = heads.iter().zip(uses).collect();
        if descending {
            order.reverse();
        }
        for (head, used) in order {
            match used {
                Use::Allocated => {}
                Use::Local => lazy_class::free_locally(structure, *head, Order::ZERO, probe),
                Use::Global => {
                    let merged = lazy_class::mark(structure, *head, Order::ZERO, probe);
                    assert!(merged.is_none(), "its buddy is not globally free");
                }
            }
        }
        let class = structure.class(Order::ZERO);
        let state = || (class.local.get(), class.global.get());
        let from = state();
        assert_eq!(class.total.get(), BLOCKS);
        let is_done = step(structure, &heads);
        structure.check().unwrap();
        (is_done && class.total.get() == BLOCKS).then(|| (from, state()))
    })
}

#[test]
fn the_transitions_are_those_of_the_figure() {
    let (mut states, mut requests, mut frees) = (BTreeSet::new(), BTreeSet::new(), BTreeSet::new());
    for uses in placements() {
        let count = |what| uses.iter().filter(|one| **one == what).count() as u32;
        states.insert((count(Use::Local), count(Use::Global)));
        for descending in [false, true] {
            requests.extend(transition(&uses, descending, |structure, _| {
                let probe = &mut Delays::default();
                let head = SLACK.allocate(structure, Order::ZERO, probe);
                head.map(|head| structure.table().set_tag(head, Tag::allocated(Order::ZERO)))
                    .is_some()
            }));
            for at in (0..uses.len()).filter(|at| uses[*at] == Use::Allocated) {
                frees.extend(transition(&uses, descending, |structure, heads| {
                    SLACK.free(structure, heads[at], Order::ZERO, &mut Delays::default());
                    true
                }));
            }
        }
    }
    assert_eq!(states, BTreeSet::from(STATES));
    assert_eq!(requests, BTreeSet::from(REQUESTS));
    assert_eq!(frees, BTreeSet::from(FREES));
}
