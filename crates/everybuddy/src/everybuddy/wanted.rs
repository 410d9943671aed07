//! A checked request, and the numbers that stand for owners of trees.
//!
//! What nearly all files of the system name, and what depends on none of them.
//!
//! # Invariants
//! No CPU has the number of an owner that is defined here.

use crate::bit_runs::WORD_ORDER;
use crate::frame::Order;

use super::word::Kind;

/// The identity of a CPU that may not hit. No tree has this owner.
pub(crate) const CLOSED_ID: u32 = u32::MAX;
/// The owner of a tree that a nested request has claimed.
pub(crate) const NESTED: u32 = u32::MAX - 1;

/// A request, checked.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Wanted {
    pub(super) frames: u32,
    /// The run starts at a multiple of 2^order.
    pub(super) order: Order,
    /// The kind of tree that serves it first.
    pub(super) kind: Kind,
}

impl Wanted {
    /// A request for a block.
    #[inline(always)]
    pub(super) fn block(order: Order, kind: Kind) -> Self {
        let frames = order.frames();
        Self {
            frames,
            order,
            kind,
        }
    }

    /// Returns `true` if it is a block.
    #[inline(always)]
    pub(super) fn is_block(self) -> bool {
        self.frames == self.order.frames()
    }

    /// Returns `true` if it is served by the CPU's tree for large blocks.
    #[inline(always)]
    pub(super) fn is_large(self) -> bool {
        is_large(self.order)
    }

    /// Returns `true` for a block that lies in a word: then its fit can be seen in the planes.
    #[inline(always)]
    pub(super) fn is_part_of_word(self) -> bool {
        self.is_block() && !self.is_large()
    }
}

/// Returns `true` for blocks of more than half a word.
#[inline(always)]
pub(super) fn is_large(order: Order) -> bool {
    order.index() as u32 >= WORD_ORDER
}
