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

/// The instructions of a step next to loads: a rotation and an addition for each of as many values as fit into
/// registers.
const BESIDE: usize = 12;

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

/// Calls a function with a node of a chain through a buffer of this size, and the number of its nodes.
fn chained<T>(bytes: usize, call: impl for<'a> FnOnce(&'a Node<'a>, usize) -> T) -> T {
    let count = (bytes / 64).max(2);
    let nodes: Vec<Node<'_>> = std::iter::repeat_with(Node::default).take(count).collect();
    let order = order(count);
    for (at, own) in order.iter().enumerate() {
        let next = order[(at + 1) % count];
        nodes[*own as usize].next.set(Some(&nodes[next as usize]));
    }
    drop(order);
    call(&nodes[0], count)
}

/// Follows a chain from a node on, and computes [`BESIDE`] instructions `beside` times next to each load, which depend
/// on none.
fn walk<'a>(mut node: &'a Node<'a>, steps: usize, beside: u32) -> &'a Node<'a> {
    let mut values = black_box([1_u64; BESIDE / 2]);
    for _ in 0..steps {
        let Some(next) = node.next.get() else { break };
        node = next;
        for _ in 0..beside {
            for value in &mut values {
                *value = value.rotate_left(7).wrapping_add(99);
            }
        }
    }
    black_box(values);
    black_box(node)
}

/// Measures loads in a buffer of this size.
fn load(bytes: usize) -> Load {
    chained(bytes, |first, count| {
        let mut node = walk(first, count.min(1 << 20), 0);
        // A round takes about a millisecond at most; the next one continues where it ends.
        let steps = if bytes <= 1 << 20 { 1 << 16 } else { 1 << 13 };
        let rounds = Rounds::of(|| time(steps, || node = walk(node, steps, 0)));
        let bytes = count * 64;
        Load { bytes, rounds }
    })
}

/// Measures how many instructions a core executes past a load from a buffer of this size, which misses. Loads that wait
/// for each other, instructions, and both together are timed: what both take less than their sum is what overlaps.
pub(super) fn window(bytes: usize) -> Rounds {
    // More instructions than the window of any core has.
    const TIMES: u32 = 160;
    const STEPS: usize = 1 << 11;
    chained(4096, |near, _| {
        chained(bytes, |first, count| {
            let mut node = walk(first, count.min(1 << 20), 0);
            Rounds::of(|| {
                let instructions = time(STEPS, || _ = walk(near, STEPS, TIMES));
                let loads = time(STEPS, || node = walk(node, STEPS, 0));
                let both = time(STEPS, || node = walk(node, STEPS, TIMES));
                let share = ((instructions + loads - both) / instructions).clamp(0.0, 1.0);
                share * f64::from(TIMES) * BESIDE as f64
            })
        })
    })
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
