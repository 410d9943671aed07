//! Verifies the missing features in the rows, as far as the peer's contract allows the attempt.
//!
//! A table of other people's shortcomings must be true.
//!
//! # Invariants
//! A claim about misuse holds for release builds; a debug build of a peer may panic instead.

mod support;

use std::collections::HashSet;
use std::panic::{AssertUnwindSafe, catch_unwind};

use everybuddy::{Block, Index, Order};
use everybuddy_peers::{PEERS, Peer, PeerRow, WithPeer, with_peer};
use support::{Shadow, frames};

const FRAMES: u32 = 4096;

fn order(order: u8) -> Order {
    Order::new(order).expect("within the limit")
}

/// Allocates single frames until a request fails. Returns `true` if a frame was handed out twice.
fn doubles<P: Peer>(peer: &P, local: &mut P::Local<'_>, held: &[Index]) -> bool {
    let mut seen: HashSet<Index> = held.iter().copied().collect();
    // At most one more than there are frames: a broken list may be circular.
    for _ in 0..=FRAMES {
        match peer.allocate(local, Order::ZERO) {
            Some(frame) if !seen.insert(frame) => return true,
            Some(_) => {}
            None => return false,
        }
    }
    true
}

/// Frees 64 single frames and the last of them again; the others stay held.
struct FreeTwice;

impl WithPeer for FreeTwice {
    type Output = bool;

    fn call<P: Peer>(self, _row: &'static PeerRow, peer: &P) -> bool {
        let mut local = peer.local(0);
        let mut all: Vec<Index> = (0..128)
            .map_while(|_| peer.allocate(&mut local, Order::ZERO))
            .collect();
        assert_eq!(all.len(), 128);
        let freed = all.split_off(64);
        for frame in freed.iter().chain(freed.last()) {
            peer.free(&mut local, Block::new(*frame, Order::ZERO));
        }
        doubles(peer, &mut local, &all)
    }
}

#[test]
fn double_frees_are_noticed_by_those_that_say_so() {
    for row in PEERS {
        let run = AssertUnwindSafe(|| with_peer(row.name, FRAMES, 1, FreeTwice));
        let wrong = match catch_unwind(run) {
            Ok(doubled) => doubled.expect("every peer is built"),
            // A debug assertion of the peer, which a release build does not contain.
            Err(_) => cfg!(debug_assertions),
        };
        let detects = !row.cannot.contains(&"detect a double free");
        assert_eq!(wrong, !detects, "{}", row.name);
    }
}

/// Frees a block again after part of it was allocated again.
struct FreeTwiceAround;

impl WithPeer for FreeTwiceAround {
    type Output = bool;

    fn call<P: Peer>(self, _row: &'static PeerRow, peer: &P) -> bool {
        let mut local = peer.local(0);
        let block = peer.allocate(&mut local, order(1)).expect("empty memory");
        peer.free(&mut local, Block::new(block, order(1)));
        let part = peer
            .allocate(&mut local, Order::ZERO)
            .expect("empty memory");
        assert_eq!(part, block);
        peer.free(&mut local, Block::new(block, order(1)));
        doubles(peer, &mut local, &[part])
    }
}

#[test]
fn rvm_memory_misses_a_double_free_around_a_held_frame() {
    assert_eq!(
        with_peer("rvm-memory", FRAMES, 1, FreeTwiceAround),
        Some(true)
    );
    assert_eq!(
        with_peer("bitmap-allocator", FRAMES, 1, FreeTwiceAround),
        Some(false)
    );
}

/// Allocates a block and frees it in halves; returns the number of free frames afterwards.
struct Halves;

impl WithPeer for Halves {
    type Output = u32;

    fn call<P: Peer>(self, row: &'static PeerRow, peer: &P) -> u32 {
        let mut local = peer.local(0);
        let start = peer.allocate(&mut local, order(5)).expect("empty memory");
        peer.free(&mut local, Block::new(start, order(4)));
        let rest = Shadow::new(FRAMES).drain(row, peer, &mut local);
        frames(&rest)
    }
}

#[test]
fn freeing_a_part_frees_it_or_is_listed() {
    assert_eq!(
        with_peer("bitmap-allocator", FRAMES, 1, Halves),
        Some(FRAMES - 16)
    );
    // The peer uses its own record of the block: it frees the whole block, although the other half is still in use.
    assert_eq!(
        with_peer("buddy-slab-allocator", FRAMES, 1, Halves),
        Some(FRAMES)
    );
}

/// Allocates everything in single frames, frees it, and asks for the largest order.
struct Merge;

impl WithPeer for Merge {
    type Output = bool;

    fn call<P: Peer>(self, row: &'static PeerRow, peer: &P) -> bool {
        let shadow = Shadow::new(FRAMES);
        let mut local = peer.local(0);
        let mut held = Vec::new();
        while let Some(block) = shadow.take(row, peer, &mut local, Order::ZERO) {
            held.push(block);
        }
        assert_eq!(frames(&held), FRAMES, "{}", row.name);
        for block in held {
            shadow.give(row, peer, &mut local, block);
        }
        shadow.take(row, peer, &mut local, row.max_order).is_some()
    }
}

#[test]
fn all_but_the_floor_merge() {
    for row in PEERS {
        let merged = with_peer(row.name, FRAMES, 1, Merge);
        assert_eq!(merged, Some(!row.cannot.contains(&"merge")), "{}", row.name);
        assert_eq!(row.is_floor, row.cannot.contains(&"merge"), "{}", row.name);
    }
}

#[test]
fn what_refuses_larger_orders_says_so() {
    for row in PEERS {
        let listed = row.cannot.contains(&"orders above 0");
        assert_eq!(listed, row.max_order == Order::ZERO, "{}", row.name);
    }
}
