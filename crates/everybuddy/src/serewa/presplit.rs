//! How memory is divided in the beginning.
//!
//! Source: \[Serewa\] section 2.2.3: the number of blocks of each size that memory is divided into first may follow
//! the sizes that are asked for most, as statistics gathered earlier say.
//!
//! Why it exists: a system that starts with memory in largest blocks splits one for almost each of its first requests.
//!
//! Invariant: a division asks for blocks; it never decides how many there are: what memory can't give is left out, what
//! is left over stays in largest blocks.

use crate::frame::Order;

/// How many blocks of each order memory is to be divided into; the rest stays as large as it can be.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Presplit {
    blocks: [u32; Order::LIMIT.index() + 1],
}

impl Presplit {
    /// Asks for so many blocks of each order, from 0 on.
    pub const fn new(blocks: [u32; Order::LIMIT.index() + 1]) -> Self {
        Self { blocks }
    }

    /// Returns how many blocks of each order are asked for, from 0 on. O(1).
    pub const fn blocks(&self) -> &[u32; Order::LIMIT.index() + 1] {
        &self.blocks
    }

    /// Tells whether nothing is asked for. O(orders).
    pub fn is_none(&self) -> bool {
        self.blocks.iter().all(|blocks| *blocks == 0)
    }

    /// Takes a block of this order off the list; false if none is asked for.
    pub(crate) fn take(&mut self, order: Order) -> bool {
        let Some(left) = self.blocks.get_mut(order.index()) else {
            return false;
        };
        let wanted = *left > 0;
        *left -= u32::from(wanted);
        wanted
    }

    /// Tells whether a smaller block is asked for.
    pub(crate) fn wants_below(&self, order: Order) -> bool {
        self.blocks
            .iter()
            .take(order.index())
            .any(|blocks| *blocks > 0)
    }
}
