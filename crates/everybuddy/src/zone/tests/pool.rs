//! The pool of buddy spaces: which space is selected, and the shards.
//!
//! On one thread every state of the pool can be constructed. Models and the conformance suite test it on several.
//!
//! # Invariants
//! The pool's own check passes before each test begins.

use super::*;
use crate::arena::Memory;
use crate::platform::Native;
use crate::testing::order;
use core::mem::MaybeUninit;
use std::vec;

/// A pool of spaces that consist of their record.
type Pool<'a, P> = super::Pool<'a, P, SpaceRecord<P>>;

impl<P: Platform> AsRef<Self> for SpaceRecord<P> {
    fn as_ref(&self) -> &Self {
        self
    }
}

fn partly(largest: u8) -> State {
    State::Partly(order(largest))
}

/// The paper's pool.
const USED: PoolOptions = PoolOptions {
    select: Select::Used,
    exchange: Exchange::Any,
    shards: 1,
};
const FRESH: PoolOptions = PoolOptions {
    select: Select::Fresh,
    ..USED
};

/// Calls `test` with a pool in which the spaces 0, 1, 2, ... have these states.
fn with_pool(options: PoolOptions, states: &[State], test: impl FnOnce(&Pool<'_, Native>)) {
    with_cpus(2, options, states, test);
}

/// The same, with a number of CPUs.
fn with_cpus(
    cpus: u16,
    options: PoolOptions,
    states: &[State],
    test: impl FnOnce(&Pool<'_, Native>),
) {
    let spaces = states.len() as u32;
    let plan = ArenaPlan::default().slice::<SpaceRecord<Native>>(states.len());
    let plan = Pool::<Native>::plan(plan, spaces, cpus, options.shards);
    let mut memory = vec![MaybeUninit::uninit(); plan.bytes().unwrap() + crate::LINE];
    let mut arena = Arena::new(Memory::new(&mut memory));
    let records = arena.slice("space", states.len(), |space| {
        SpaceRecord::new(options.exchange, cpus, space, spaces)
    });
    let pool = Pool::new(&mut arena, records.unwrap(), cpus, Locks::Spin, options).unwrap();
    for (space, state) in (0..).zip(states) {
        pool.settle(space, *state);
    }
    assert_eq!(pool.check(|space| states[space as usize]), Ok(()));
    test(&pool);
}

/// Returns the space that is selected for an order.
fn selected(options: PoolOptions, states: &[State], wanted: u8) -> Option<u32> {
    let mut found = None;
    with_pool(options, states, |pool| {
        found = pool.candidate(0, order(wanted))
    });
    found
}

#[test]
fn partly_used_spaces_come_first_and_free_ones_with_select_fresh() {
    let states = [State::Free, partly(4), State::Used, State::Free];
    assert_eq!(selected(USED, &states, 0), Some(1));
    assert_eq!(selected(USED, &states, 4), Some(1));
    // The last free space that was listed.
    assert_eq!(selected(FRESH, &states, 0), Some(3));
    for options in [USED, FRESH] {
        // Only a free space has a block that is large enough; then only a used one is left; then none.
        assert_eq!(selected(options, &states, 5), Some(3));
        assert_eq!(selected(options, &[partly(4), State::Used], 4), Some(0));
        assert_eq!(selected(options, &[partly(4), State::Used], 5), None);
        assert_eq!(selected(options, &[State::Used], 0), None);
        assert_eq!(selected(options, &[State::Free], 18), Some(0));
    }
}

#[test]
fn the_last_of_the_partly_used_spaces_that_suffices_is_selected() {
    let states = [9, 5, 3, 2, 0].map(partly);
    for (wanted, space) in [
        (0, Some(4)),
        (1, Some(3)),
        (3, Some(2)),
        (6, Some(0)),
        (10, None),
    ] {
        assert_eq!(selected(USED, &states, wanted), space, "{wanted}");
    }
}

#[test]
fn a_large_block_comes_from_a_free_space_after_a_few_looks_and_without_one_from_any() {
    // The last in the list has the block.
    let mut states = vec![partly(0); LOOKS + 1];
    states[0] = partly(3);
    assert_eq!(selected(USED, &states, 3), Some(0), "no free space");
    states.push(State::Free);
    assert_eq!(selected(USED, &states, 3), Some(LOOKS as u32 + 1));
    states.swap(0, 1);
    assert_eq!(selected(USED, &states, 3), Some(1), "the last look");
}

#[test]
fn a_partly_used_space_whose_largest_block_changes_stays_in_its_list() {
    with_pool(USED, &[partly(0), partly(0)], |pool| {
        assert!(pool.stays(0, partly(4)));
        assert_eq!(pool.candidate(0, order(4)), Some(0));
        assert_eq!(
            pool.candidate(0, order(0)),
            Some(1),
            "their order is the same"
        );
        assert!(!pool.stays(0, State::Free) && !pool.stays(0, State::Used));
        assert!(pool.assign(0, 0));
        assert!(!pool.stays(0, partly(5)) && pool.is_assigned(0));
    });
}

#[test]
fn an_assigned_space_is_not_selected_until_its_last_user_releases_it() {
    with_pool(USED, &[partly(3), State::Free], |pool| {
        assert!(pool.assign(0, 0));
        assert!(pool.of(0) == 0 && pool.is_assigned(0));
        assert_eq!(pool.candidate(0, Order::ZERO), Some(1));
        assert!(!pool.assign(0, 1), "a CPU has one space");
        assert_eq!(pool.candidate(0, Order::ZERO), Some(1));
        assert!(pool.assign(1, 0));
        assert!(!pool.release(0, 0), "the other CPU has it");
        pool.settle(0, partly(3));
        assert_eq!(pool.candidate(0, Order::ZERO), Some(1));
        assert!(pool.release(1, 0));
        pool.settle(0, partly(3));
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
    let states = [State::Free, State::Used, partly(3), State::Used];
    let options = PoolOptions { shards: 2, ..USED };
    with_pool(options, &states, |pool| {
        assert_eq!(pool.candidate(0, Order::ZERO), Some(0));
        assert_eq!(pool.candidate(1, Order::ZERO), Some(2));
        assert_eq!(pool.candidate(1, order(4)), None);
        assert!(pool.may_serve(0) && pool.may_serve(1));
        assert_eq!(pool.shards_from(1).collect::<vec::Vec<_>>(), [1, 0]);
        let before = pool.moves();
        assert!(pool.assign(1, 2));
        assert_ne!(pool.moves(), before);
        assert_eq!(pool.candidate(1, Order::ZERO), None);
        assert!(!pool.may_serve(1));
        let before = pool.moves();
        assert!(pool.release(1, 2));
        assert_ne!(pool.moves(), before);
        pool.settle(2, partly(7));
        assert_eq!(pool.candidate(1, order(7)), Some(2));
    });
}

#[test]
fn neighbours_have_the_same_home_and_search_every_shard() {
    let homes = |cpus: u16, shards| {
        let mut homes = vec![];
        let options = PoolOptions { shards, ..USED };
        with_cpus(cpus, options, &[State::Free; 4], |pool| {
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
