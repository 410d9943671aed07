//! The pool of buddy spaces: which space is selected, and the shards.
//!
//! # Purpose
//!
//! On one thread every state of the pool can be constructed. Models and the conformance suite test it on several.
//!
//! # Invariants
//!
//! The pool's own check passes before each test begins.

use super::*;
use crate::arena::Memory;
use crate::platform::Native;
use core::mem::MaybeUninit;
use std::vec;

fn order(order: u8) -> Order {
    Order::new(order).unwrap()
}

/// Calls `test` with a pool in which the spaces 0, 1, 2, ... have these states.
fn with_pool(select: Select, states: &[State], test: impl FnOnce(&Pool<'_, Native>)) {
    with_shards(select, (2, 1), states, test);
}

/// The same, with a number of CPUs and one of shards.
fn with_shards(
    select: Select,
    (cpus, shards): (u16, u32),
    states: &[State],
    test: impl FnOnce(&Pool<'_, Native>),
) {
    let spaces = states.len() as u32;
    let plan = Pool::<Native>::plan(ArenaPlan::default(), spaces, cpus, shards);
    let mut memory = vec![MaybeUninit::uninit(); plan.bytes().unwrap() + crate::LINE];
    let mut arena = Arena::new(Memory::new(&mut memory));
    let choice = (select, Exchange::Any, shards);
    let pool = Pool::new(&mut arena, spaces, cpus, Locks::Spin, choice).unwrap();
    for (space, state) in (0..).zip(states) {
        pool.settle(space, *state);
    }
    assert_eq!(pool.check(|space| states[space as usize]), Ok(()));
    test(&pool);
}

/// Returns the space that is selected for an order.
fn selected(select: Select, states: &[State], wanted: u8) -> Option<u32> {
    let mut found = None;
    with_pool(select, states, |pool| {
        found = pool.candidate(0, order(wanted))
    });
    found
}

#[test]
fn partly_used_spaces_come_first_and_free_ones_with_select_fresh() {
    let states = [ALL_FREE, 4, FULL, ALL_FREE];
    assert_eq!(selected(Select::Used, &states, 0), Some(1));
    assert_eq!(selected(Select::Used, &states, 4), Some(1));
    // The last free space that was listed.
    assert_eq!(selected(Select::Fresh, &states, 0), Some(3));
    for select in [Select::Used, Select::Fresh] {
        // Only a free space has a block that is large enough; then only a used one is left; then none.
        assert_eq!(selected(select, &states, 5), Some(3));
        assert_eq!(selected(select, &[4, FULL], 4), Some(0));
        assert_eq!(selected(select, &[4, FULL], 5), None);
        assert_eq!(selected(select, &[FULL], 0), None);
        assert_eq!(selected(select, &[ALL_FREE], 18), Some(0));
    }
}

#[test]
fn among_partly_used_spaces_the_smallest_block_of_eight_frames_or_more_is_used_up_first() {
    let used = |states: &[State], wanted| selected(Select::Used, states, wanted);
    assert_eq!(used(&[9, 5, 3, 2, 0], 0), Some(2));
    assert_eq!(used(&[9, 5, 3, 2, 0], 4), Some(1));
    assert_eq!(used(&[9, 5, 3, 2, 0], 6), Some(0));
    // Below eight frames, the largest.
    assert_eq!(used(&[0, 2, 1], 0), Some(1));
    assert_eq!(used(&[0, 1, ALL_FREE], 0), Some(1));
    assert_eq!(used(&[0, 1, ALL_FREE], 2), Some(2));
    // Last in, first out.
    assert_eq!(used(&[3, 3, 3], 0), Some(2));
}

#[test]
fn an_assigned_space_is_not_selected_until_its_last_user_releases_it() {
    with_pool(Select::Used, &[3, ALL_FREE], |pool| {
        pool.assign(0, 0);
        assert_eq!((pool.of(0), pool.state(0)), (0, ASSIGNED));
        assert_eq!(pool.candidate(0, Order::ZERO), Some(1));
        pool.assign(1, 0);
        assert!(!pool.release(0, 0), "the other CPU has it");
        pool.settle(0, 3);
        assert_eq!(pool.candidate(0, Order::ZERO), Some(1));
        assert!(pool.release(1, 0));
        pool.settle(0, 3);
        assert_eq!(pool.candidate(0, Order::ZERO), Some(0));
    });
}

#[test]
fn spaces_are_divided_among_shards() {
    let shards = |spaces: u32, wanted| {
        let Shards { count, shift } = Shards::new(spaces, wanted);
        assert!(u64::from(count) << shift >= u64::from(spaces));
        assert!(
            spaces == 0 || (count - 1) << shift < spaces,
            "the last shard has a space"
        );
        count
    };
    assert_eq!(shards(2048, 1), 1);
    assert_eq!(shards(2048, 8), 8);
    assert_eq!(shards(0, 8), 1);
    // 1,100 spaces in five shards of 256.
    assert_eq!(shards(1100, 8), 5);
    assert_eq!(shards(3, 3), 3);
    assert_eq!(shards(3, 1000), 3);
    assert_eq!(shards(3, 0), 1);
    assert_eq!(shards(u32::MAX, 1), 2);
}

#[test]
fn a_space_is_in_the_lists_of_its_shard() {
    let states = [ALL_FREE, FULL, 3, FULL];
    with_shards(Select::Used, (2, 2), &states, |pool| {
        assert_eq!(pool.candidate(0, Order::ZERO), Some(0));
        assert_eq!(pool.candidate(1, Order::ZERO), Some(2));
        assert_eq!(pool.candidate(1, order(4)), None);
        assert!(pool.may_serve(1, order(3)) && !pool.may_serve(1, order(4)));
        assert!(pool.may_serve(0, order(4)), "by the free space");
        assert_eq!(pool.shards_from(1).collect::<vec::Vec<_>>(), [1, 0]);
        let before = pool.moves();
        pool.assign(1, 2);
        assert_ne!(pool.moves(), before);
        assert_eq!(pool.candidate(1, Order::ZERO), None);
        assert!(!pool.may_serve(1, Order::ZERO));
        let before = pool.moves();
        assert!(pool.release(1, 2));
        assert_ne!(pool.moves(), before);
        pool.settle(2, 7);
        assert_eq!(pool.candidate(1, order(7)), Some(2));
    });
}

#[test]
fn neighbours_have_the_same_home_and_search_every_shard() {
    let homes = |cpus: u16, shards| {
        let mut homes = vec![];
        with_shards(Select::Used, (cpus, shards), &[ALL_FREE; 4], |pool| {
            for cpu in 0..usize::from(cpus) {
                let mut all: vec::Vec<usize> = pool.shards_from(cpu).collect();
                homes.push(all[0]);
                all.sort_unstable();
                assert!(all.into_iter().eq(0..shards as usize), "each shard once");
            }
        });
        homes
    };
    assert_eq!(homes(8, 2), [0, 0, 0, 0, 1, 1, 1, 1]);
    assert_eq!(homes(6, 4), [0, 0, 1, 2, 2, 3]);
    // More shards than CPUs.
    assert_eq!(homes(2, 4), [0, 2]);
    assert_eq!(homes(1, 4), [0]);
}
