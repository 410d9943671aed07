//! How memory is divided initially.
//!
//! # Purpose
//!
//! A system that starts with memory in largest blocks splits a block for almost each of its first requests.
//!
//! # Source
//!
//! \[Serewa\] §2.2.3: the number of blocks of each size that memory is first divided into may follow the sizes that
//! are requested most, according to earlier statistics.
//!
//! # Invariants
//!
//! A presplit requests blocks; it does not guarantee their number. What memory cannot provide is left out, and the
//! rest stays in largest blocks.

use crate::frame::Order;

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
    pub(crate) fn wants_below(&self, order: Order) -> bool {
        self.blocks
            .iter()
            .take(order.index())
            .any(|blocks| *blocks > 0)
    }
}
