//! How memory is divided initially.
//!
//! A system that starts with memory in largest blocks splits a block for almost each of its first requests.
//!
//! # Source
//! \[Serewa\] §2.2.3: the number of blocks of each size that memory is first divided into may follow the sizes that
//! are requested most, according to earlier statistics.
//!
//! # Invariants
//! A presplit requests blocks; it does not guarantee their number. What memory cannot provide is left out, and the
//! rest stays in largest blocks.

use crate::frame::Order;

/// The number of orders.
const ORDERS: usize = Order::LIMIT.index() + 1;

/// The number of blocks of each order that memory is divided into. The rest stays as large as possible.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Presplit {
    blocks: [u32; Order::LIMIT.index() + 1],
}

impl Presplit {
    /// Requests the given number of blocks of each order, from order 0.
    pub const fn new(blocks: [u32; Order::LIMIT.index() + 1]) -> Self {
        Self { blocks }
    }

    /// Returns the requested number of blocks of each order, from order 0. O(1).
    pub const fn blocks(&self) -> &[u32; Order::LIMIT.index() + 1] {
        &self.blocks
    }

    /// Returns `true` if no block is requested. O(orders).
    #[inline]
    pub fn is_none(&self) -> bool {
        self.blocks.iter().all(|blocks| *blocks == 0)
    }

    /// Removes a block of this order from the requested ones. Returns `false` if none is left.
    pub(crate) fn take(&mut self, order: Order) -> bool {
        let Some(left) = self.blocks.get_mut(order.index()) else {
            return false;
        };
        let wanted = *left > 0;
        *left -= u32::from(wanted);
        wanted
    }

    /// Returns `true` if a smaller block is requested.
    #[inline]
    pub(crate) fn wants_below(&self, order: Order) -> bool {
        self.blocks
            .iter()
            .take(order.index())
            .any(|blocks| *blocks > 0)
    }
}

/// Statistics of the first requests of a run, which the host of a system gathers. The next start can be divided by
/// them.
///
/// The maximum number of blocks of each order that are live at the same time is what the requests need if freed blocks
/// are reused. A kernel calls [`allocated`](Self::allocated) and [`freed`](Self::freed) next to its calls of the system
/// until [`is_complete`](Self::is_complete), stores the blocks of [`presplit`](Self::presplit) and passes them to
/// [`Presplit::new`] at its next start.
///
/// ```
/// use everybuddy::Order;
/// use everybuddy::systems::StartStatistics;
///
/// let mut start = StartStatistics::new(3);
/// start.allocated(Order::ZERO);
/// start.allocated(Order::ZERO);
/// start.freed(Order::ZERO);
/// start.allocated(Order::ZERO);
/// assert!(start.is_complete());
/// // A fourth request does not count.
/// start.allocated(Order::ZERO);
/// assert_eq!(start.presplit().blocks()[0], 2);
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct StartStatistics {
    left: u64,
    live: [u32; ORDERS],
    most: [u32; ORDERS],
}

impl StartStatistics {
    /// Starts gathering, for the given number of requests.
    pub const fn new(requests: u64) -> Self {
        Self {
            left: requests,
            live: [0; ORDERS],
            most: [0; ORDERS],
        }
    }

    /// Records that a block was allocated. O(1).
    pub fn allocated(&mut self, order: Order) {
        if self.left == 0 {
            return;
        }
        self.left -= 1;
        let live = &mut self.live[order.index()];
        *live += 1;
        let most = &mut self.most[order.index()];
        *most = (*live).max(*most);
    }

    /// Records that a whole block was freed, or the last part of it; `order` is that of the block. O(1).
    pub fn freed(&mut self, order: Order) {
        let live = &mut self.live[order.index()];
        *live = live.saturating_sub(1);
    }

    /// Returns `true` if all requests are recorded.
    pub const fn is_complete(&self) -> bool {
        self.left == 0
    }

    /// Returns the division of memory with which every recorded request would have found a block of its order.
    pub const fn presplit(&self) -> Presplit {
        Presplit::new(self.most)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;
    use std::vec::Vec;

    proptest! {
        /// Of each order, as many blocks are requested as lived at the same time while requests were recorded.
        #[test]
        fn the_division_has_the_most_blocks_that_lived_together(
            requests in 0u32..40,
            steps in prop::collection::vec((any::<bool>(), 0u8..3), 0..100),
        ) {
            let mut statistics = StartStatistics::new(requests.into());
            let (mut live, mut most, mut recorded) = ([0u32; 3], [0u32; 3], 0);
            for (allocates, order) in steps {
                let (order, own) = (Order::new(order).unwrap(), usize::from(order));
                if allocates && recorded < requests {
                    statistics.allocated(order);
                    recorded += 1;
                    live[own] += 1;
                    most[own] = most[own].max(live[own]);
                } else if allocates {
                    statistics.allocated(order);
                } else if live[own] > 0 {
                    statistics.freed(order);
                    live[own] -= 1;
                }
                prop_assert_eq!(statistics.is_complete(), recorded == requests);
            }
            let presplit = statistics.presplit();
            let blocks: Vec<u32> = presplit.blocks().iter().copied().take(3).collect();
            prop_assert_eq!(&blocks[..], &most[..]);
            prop_assert_eq!(presplit.is_none(), most == [0; 3]);
        }
    }
}
