//! Every peer checked against a shadow bitmap.
//!
//! A measurement of an allocator that loses or duplicates frames is worthless. The same holds for a faulty adapter.
//!
//! # Invariants
//! Every feature that `PeerRow::cannot` does not list is tested for each peer.

mod support;

use std::sync::{Barrier, mpsc};
use std::thread;

use everybuddy::{Block, Order};
use everybuddy_peers::{FLOOR_TABLE, PEERS, Peer, PeerRow, WithPeer, with_peer, with_row};
use everybuddy_suite::shadow::Random;
use support::{Shadow, frames};

/// Not a power of two: 32 blocks of order 10 and a tail of 1,234 frames.
const FRAMES: u32 = 32 * 1024 + 1234;

/// Returns an order; small orders are more likely.
fn random_order(random: &mut Random, max: Order) -> Order {
    let order = random.below(u64::from(max.get()) + 1).min(random.below(11));
    Order::new(order as u8).expect("within the limit")
}

/// Runs a visitor on each peer.
fn each<V: WithPeer>(frames: u32, threads: u16, visitor: impl Fn() -> V) {
    for row in PEERS {
        let ran = with_peer(row.name, frames, threads, visitor());
        assert!(ran.is_some(), "{} was not built", row.name);
    }
    assert!(with_row(&FLOOR_TABLE, frames, threads, visitor()).is_some());
}

fn merges(row: &PeerRow) -> bool {
    !row.cannot.contains(&"merge")
}

/// The most blocks of the peer's largest order that `FRAMES` can hold.
fn largest_blocks(row: &PeerRow) -> usize {
    (FRAMES / row.max_order.frames()) as usize
}

/// Checks that a peer that merges has as many blocks of its largest order as memory can hold.
fn is_whole(row: &PeerRow, blocks: &[Block]) {
    if merges(row) {
        let largest = blocks.iter().filter(|block| block.order == row.max_order);
        assert_eq!(largest.count(), largest_blocks(row), "{}", row.name);
    }
}

struct OneThread;

impl WithPeer for OneThread {
    type Output = ();

    fn call<P: Peer>(self, row: &'static PeerRow, peer: &P) {
        let shadow = Shadow::new(FRAMES);
        let mut random = Random(0x9e37_79b9_7f4a_7c15);
        let mut local = peer.local(0);
        let mut held = Vec::new();
        for _ in 0..60_000 {
            let full = frames(&held) > FRAMES / 10 * 7;
            if !held.is_empty() && (full || random.below(3) == 0) {
                let block = held.swap_remove(random.below(held.len() as u64) as usize);
                shadow.give(row, peer, &mut local, block);
            } else {
                let order = random_order(&mut random, row.max_order);
                held.extend(shadow.take(row, peer, &mut local, order));
            }
        }
        let rest = shadow.drain(row, peer, &mut local);
        assert_eq!(frames(&held) + frames(&rest), FRAMES, "{}", row.name);
        for block in held.into_iter().chain(rest) {
            shadow.give(row, peer, &mut local, block);
        }
        let all = shadow.drain(row, peer, &mut local);
        assert_eq!(frames(&all), FRAMES, "{}: lost frames", row.name);
        is_whole(row, &all);
    }
}

#[test]
fn one_thread_gets_each_frame_once_and_all_of_them_back() {
    each(FRAMES, 1, || OneThread);
}

struct TwoThreads;

impl WithPeer for TwoThreads {
    type Output = ();

    fn call<P: Peer>(self, row: &'static PeerRow, peer: &P) {
        let shadow = Shadow::new(FRAMES);
        let barrier = Barrier::new(2);
        let (to_first, first) = mpsc::channel();
        let (to_second, second) = mpsc::channel();
        thread::scope(|scope| {
            let ways = [(0, first, to_second), (1, second, to_first)];
            for (thread, inbox, outbox) in ways {
                let (shadow, barrier) = (&shadow, &barrier);
                scope.spawn(move || work(row, peer, shadow, thread, barrier, &inbox, &outbox));
            }
        });
        // One thread's handle after the other: only the floor keeps a cache private to its thread.
        let mut all = shadow.drain(row, peer, &mut peer.local(0));
        all.extend(shadow.drain(row, peer, &mut peer.local(1)));
        assert_eq!(frames(&all), FRAMES, "{}: lost frames", row.name);
        is_whole(row, &all);
    }
}

/// Runs one of two threads: random replacement, in which the other thread frees every second block.
fn work<P: Peer>(
    row: &PeerRow,
    peer: &P,
    shadow: &Shadow,
    thread: u16,
    barrier: &Barrier,
    inbox: &mpsc::Receiver<Block>,
    outbox: &mpsc::Sender<Block>,
) {
    let mut random = Random(0x1234_5678_9abc_def1 + u64::from(thread));
    let mut local = peer.local(thread);
    let mut held = Vec::new();
    barrier.wait();
    for _ in 0..40_000 {
        for block in inbox.try_iter() {
            shadow.give(row, peer, &mut local, block);
        }
        let full = frames(&held) > FRAMES / 10 * 4;
        if !held.is_empty() && (full || random.below(3) == 0) {
            let block = held.swap_remove(random.below(held.len() as u64) as usize);
            if random.below(2) == 0 {
                shadow.give(row, peer, &mut local, block);
            } else {
                outbox.send(block).expect("the other thread receives");
            }
        } else {
            let order = random_order(&mut random, row.max_order);
            held.extend(shadow.take(row, peer, &mut local, order));
        }
    }
    barrier.wait();
    for block in held.into_iter().chain(inbox.try_iter()) {
        shadow.give(row, peer, &mut local, block);
    }
}

#[test]
fn two_threads_share_without_a_frame_lost_or_doubled() {
    each(FRAMES, 2, || TwoThreads);
}

struct Handover;

impl WithPeer for Handover {
    type Output = ();

    fn call<P: Peer>(self, row: &'static PeerRow, peer: &P) {
        let shadow = Shadow::new(FRAMES);
        let mut giver = peer.local(0);
        let mut taker = peer.local(1);
        // Three times the memory, so that no thread can live on its own share alone.
        for _ in 0..3 * FRAMES {
            let block = shadow.take(row, peer, &mut giver, Order::ZERO);
            let block = block.unwrap_or_else(|| panic!("{} ran out of memory", row.name));
            shadow.give(row, peer, &mut taker, block);
        }
        let mut all = shadow.drain(row, peer, &mut giver);
        all.extend(shadow.drain(row, peer, &mut taker));
        assert_eq!(frames(&all), FRAMES, "{}: lost frames", row.name);
    }
}

#[test]
fn one_allocates_and_another_frees_for_ever() {
    each(FRAMES, 2, || Handover);
}

struct Starts(u32);

impl WithPeer for Starts {
    type Output = ();

    fn call<P: Peer>(self, row: &'static PeerRow, peer: &P) {
        let mut local = peer.local(0);
        let start = peer.allocate(&mut local, row.max_order);
        let start = start.unwrap_or_else(|| panic!("{} fails with {} frames", row.name, self.0));
        peer.free(&mut local, Block::new(start, row.max_order));
        if let Some(bytes) = peer.metadata_bytes() {
            println!("{}: {} frames, {bytes} bytes", row.name, self.0);
            assert!(bytes < 32 * self.0 as usize + (1 << 22), "{}", row.name);
        }
    }
}

#[test]
fn every_size_that_is_promised_is_built() {
    for row in PEERS {
        for frames in [1024, 1 << 18, 1 << 20] {
            assert!(with_peer(row.name, frames, 2, Starts(frames)).is_some());
        }
    }
    let large = 1 << 24;
    assert!(with_peer("bitmap-allocator", large, 2, Starts(large)).is_some());
    assert!(with_peer("bitmap-allocator", large + 1, 2, Starts(large)).is_none());
    assert!(with_peer("rvm-memory", (1 << 20) + 1, 2, Starts(large)).is_none());
    assert!(with_peer("unknown", 1024, 1, Starts(1024)).is_none());
    assert!(with_peer("floor", 0, 1, Starts(0)).is_none());
    assert!(with_peer("floor", 1024, 0, Starts(0)).is_none());
    assert!(with_row(&FLOOR_TABLE, 0, 1, Starts(0)).is_none());
}
