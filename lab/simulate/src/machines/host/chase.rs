//! Durations of loads.
//!
//! A load that yields the address of the next one cannot overlap with it. The time of such a chain, divided by its
//! length, is the latency of the level that holds the buffer.
//!
//! # Invariants
//! The chain visits every line of the buffer once before any line again, in random order: no prefetcher guesses it.

use std::cell::Cell;
use std::hint::black_box;

use everybuddy_measure::replay::random::Random;

use super::summary::{Rounds, time};

/// A line that points to the next one.
#[derive(Default)]
#[repr(align(64))]
struct Node<'a> {
    next: Cell<Option<&'a Node<'a>>>,
}

/// The duration of loads in a buffer of a size.
pub(super) struct Load {
    pub(super) bytes: usize,
    pub(super) rounds: Rounds,
}

/// The durations of loads from all levels.
pub(super) struct Loads {
    /// From the three caches.
    pub(super) caches: Vec<Load>,
    /// From memory.
    pub(super) memory: Load,
    /// In growing buffers.
    pub(super) steps: Vec<Load>,
}

/// Returns a random order of `count` places.
pub(super) fn order(count: usize) -> Vec<u32> {
    let mut order: Vec<u32> = (0..count as u32).collect();
    Random::new(count as u64).shuffle(&mut order);
    order
}

/// Measures loads in a buffer of this size.
fn load(bytes: usize) -> Load {
    let count = (bytes / 64).max(2);
    let nodes: Vec<Node<'_>> = std::iter::repeat_with(Node::default).take(count).collect();
    let order = order(count);
    for (at, own) in order.iter().enumerate() {
        let next = order[(at + 1) % count];
        nodes[*own as usize].next.set(Some(&nodes[next as usize]));
    }
    drop(order);
    let mut node = &nodes[0];
    let mut walk = |steps: usize| {
        for _ in 0..steps {
            let Some(next) = node.next.get() else { return };
            node = next;
        }
        black_box(&node.next);
    };
    walk(count.min(1 << 20));
    // A round takes about a millisecond at most; the next one continues where it ends.
    let steps = if bytes <= 1 << 20 { 1 << 16 } else { 1 << 13 };
    Load {
        bytes: count * 64,
        rounds: Rounds::of(|| time(steps, || walk(steps))),
    }
}

/// Measures loads from caches of these sizes, and from memory, of which `spare` bytes may be used.
pub(super) fn sweep(caches: &[usize; 3], spare: usize) -> Loads {
    // Far beyond the last cache, so that hits in it do not count.
    let most = (caches[2] * 8).clamp(64 << 20, 512 << 20).min(spare);
    let mut steps = Vec::new();
    let mut bytes = 8 << 10;
    while bytes < most {
        steps.push(load(bytes));
        bytes *= 4;
    }
    let [l1, l2, llc] = *caches;
    // Of the last cache a quarter: more pages would miss the TLB. Seven of eight lines are then not in the second cache
    // of current processors.
    let within = [l1 / 2, l2 / 2, (llc / 4).max(4 * l2).min(llc)];
    Loads {
        caches: within.map(load).into(),
        memory: load(most),
        steps,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_order_has_every_place_once() {
        let mut all = order(1000);
        assert_ne!(all[..3], [0, 1, 2]);
        all.sort_unstable();
        assert!(all.iter().enumerate().all(|(at, own)| at == *own as usize));
    }

    #[test]
    fn small_buffers_are_measured() {
        let own = load(4096);
        assert_eq!(own.bytes, 4096);
        assert!(own.rounds.min > 0.0 && own.rounds.min <= own.rounds.median);
    }
}
