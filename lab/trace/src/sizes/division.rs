//! The optimal division of memory for the first requests of a workload.
//!
//! A request that finds no block of its order splits a larger one, up to ten times. A system that starts with largest
//! blocks only does this for nearly every one of its first requests, while the machine is waiting to start.
//!
//! **Optimality.** Consider the maximum number of blocks of each order that are in use at the same time among the
//! first N requests. If memory contains this number of each, every one of these requests finds a free block of
//! exactly its order: fewer than all blocks of the order are in use when it arrives, and a freed block is still
//! whole, as long as the system does not coalesce it. Nothing is split, and fewer than zero splits are impossible.
//! With one block fewer of any order, the request that reaches that order's maximum would find none. No smaller
//! division achieves this, and all memory that is not needed stays in largest blocks for later requests.
//!
//! If memory is too small for all of them, larger orders have priority. A large block can serve small requests by
//! being split, but small blocks serve a large request only if they are coalesced again.
//!
//! # Invariants
//! A division never contains more frames than the memory.

use super::{ORDERS, Sizes};

/// Returns the number of blocks of each order, from 0 on, into which memory of `frames` frames should be divided so
/// that the first `requests` requests of the workload cause as few splits as possible. `max_order` is the largest
/// order of the system; larger requests are ignored. The remaining memory stays in largest blocks.
///
/// O(orders).
pub fn division(sizes: &Sizes, frames: u64, requests: u64, max_order: u8) -> [u32; ORDERS] {
    let need = sizes.need(requests).blocks;
    let mut left = frames;
    let mut blocks = [0; ORDERS];
    let orders = blocks.iter_mut().zip(need).enumerate();
    for (order, (own, need)) in orders.take(usize::from(max_order) + 1).rev() {
        let fitting = u32::try_from(left >> order).unwrap_or(u32::MAX);
        *own = need.min(fitting);
        left -= u64::from(*own) << order;
    }
    blocks
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::super::Need;
    use super::*;

    const MAX: usize = 3;

    /// A request of an order, or the free of one of the live blocks.
    #[derive(Clone, Copy, Debug)]
    enum Call {
        Allocate(usize),
        Free(usize),
    }

    /// Performs calls on memory with this division that is never coalesced; returns the numbers of failed requests
    /// and splits.
    fn perform(free: [u32; MAX + 1], calls: &[Call]) -> (u32, u32) {
        let (mut free, mut live) = (free, Vec::new());
        let (mut refused, mut splits) = (0, 0);
        for call in calls {
            match *call {
                Call::Free(at) if !live.is_empty() => {
                    let order: usize = live.swap_remove(at % live.len());
                    free[order] += 1;
                }
                Call::Free(_) => {}
                Call::Allocate(order) => match (order..=MAX).find(|from| free[*from] > 0) {
                    None => refused += 1,
                    Some(from) => {
                        free[from] -= 1;
                        for half in &mut free[order..from] {
                            *half += 1;
                            splits += 1;
                        }
                        live.push(order);
                    }
                },
            }
        }
        (refused, splits)
    }

    /// Returns the needs of the calls after each request, according to statistics gathered from them.
    fn gathered(calls: &[Call]) -> Sizes {
        let (mut live, mut now) = (Vec::new(), [0; ORDERS]);
        let mut sizes = Sizes::default();
        for call in calls {
            match *call {
                Call::Allocate(order) => {
                    live.push(order);
                    now[order] += 1;
                    sizes.peak[order] = sizes.peak[order].max(now[order]);
                    sizes.requests[order] += 1;
                    sizes.first.push(Need {
                        requests: sizes.total(),
                        blocks: sizes.peak,
                    });
                }
                Call::Free(at) if !live.is_empty() => now[live.swap_remove(at % live.len())] -= 1,
                Call::Free(_) => {}
            }
        }
        sizes
    }

    /// Returns all divisions of the given number of largest blocks; each can be reached by splitting blocks.
    fn all(largest: u32) -> Vec<[u32; MAX + 1]> {
        let mut known = vec![[0, 0, 0, largest]];
        let mut at = 0;
        while at < known.len() {
            for order in 1..=MAX {
                let mut next = known[at];
                if next[order] > 0 {
                    next[order] -= 1;
                    next[order - 1] += 2;
                    if !known.contains(&next) {
                        known.push(next);
                    }
                }
            }
            at += 1;
        }
        known
    }

    /// Returns memory that contains the requested blocks, with the rest in blocks as large as possible.
    fn made(asked: [u32; ORDERS], largest: u32) -> [u32; MAX + 1] {
        let (mut rest, mut made) = ([0, 0, 0, largest], [0; MAX + 1]);
        for order in (0..=MAX).rev() {
            for _ in 0..asked[order] {
                let from = (order..=MAX).find(|from| rest[*from] > 0);
                let from = from.expect("the request does not exceed the memory");
                rest[from] -= 1;
                for half in &mut rest[order..from] {
                    *half += 1;
                }
                made[order] += 1;
            }
        }
        std::array::from_fn(|order| made[order] + rest[order])
    }

    fn calls() -> impl Strategy<Value = Vec<Call>> {
        let call = prop_oneof![
            3 => prop_oneof![4 => 0..2usize, 1 => 2..=MAX].prop_map(Call::Allocate),
            2 => any::<usize>().prop_map(Call::Free),
        ];
        prop::collection::vec(call, 0..14)
    }

    /// Returns the calls up to the nth request.
    fn start(calls: &[Call], requests: u64) -> Vec<Call> {
        let mut seen = 0;
        let is_in = |call: &&Call| {
            seen += u64::from(matches!(call, Call::Allocate(_)));
            seen <= requests
        };
        calls.iter().take_while(is_in).copied().collect()
    }

    proptest! {
        /// The divisions that cause no split are those that contain at least the requested blocks.
        #[test]
        fn no_division_does_with_less(calls in calls(), requests in 0..10u64, largest in 1..4u32) {
            let sizes = gathered(&calls);
            let calls = start(&calls, requests);
            let frames = u64::from(largest) << MAX;
            let need = sizes.need(requests).blocks;
            let asked = division(&sizes, frames, requests, MAX as u8);
            for own in all(largest) {
                let is_enough = (0..=MAX).all(|order| own[order] >= need[order]);
                prop_assert_eq!(perform(own, &calls) == (0, 0), is_enough, "{:?}", own);
            }
            let needed = (0..=MAX).map(|order| u64::from(need[order]) << order).sum::<u64>();
            if needed <= frames {
                prop_assert_eq!(asked, need);
                prop_assert_eq!(perform(made(asked, largest), &calls), (0, 0));
            }
        }

        #[test]
        fn no_more_is_asked_for_than_there_is(
            calls in calls(),
            requests in 0..10u64,
            frames in 0..40u64,
            max_order in 0..=18u8,
        ) {
            let sizes = gathered(&calls);
            let asked = division(&sizes, frames, requests, max_order);
            let sum: u64 = (0..ORDERS).map(|order| u64::from(asked[order]) << order).sum();
            prop_assert!(sum <= frames);
            prop_assert!(asked[usize::from(max_order) + 1..].iter().all(|blocks| *blocks == 0));
            let need = sizes.need(requests).blocks;
            prop_assert!((0..ORDERS).all(|order| asked[order] <= need[order]));
        }
    }
}
