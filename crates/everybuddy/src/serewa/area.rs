//! A run of frames that waits to be divided or linked.
//!
//! A remnant is not a block, and the caller who leaves it should not have to split it into blocks. The record of its
//! first frame therefore stores its length, and all other frames stay interior.
//!
//! # Invariants
//! An area's last block is its largest: an area is a block, or what remains of a block whose first part was allocated.

use crate::frame::Order;
use crate::frame_table::Frame;

/// A run of frames.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Area {
    /// The first frame.
    pub(crate) start: Frame,
    /// The number of frames, at least one.
    pub(crate) frames: u32,
}

impl Area {
    /// Creates an area that is a block.
    #[inline(always)]
    pub(crate) const fn block(start: Frame, order: Order) -> Self {
        Self {
            start,
            frames: order.frames(),
        }
    }

    /// Removes the last and largest block. Returns what remains, and that block. O(1).
    #[inline]
    pub(crate) const fn split_last(self) -> (Option<Area>, Frame, Order) {
        let order = Order::saturating(self.frames.ilog2());
        let frames = self.frames - order.frames();
        let head = self.start.offset(frames);
        let rest = Area { frames, ..self };
        (if frames > 0 { Some(rest) } else { None }, head, order)
    }
}
