//! A run of frames that waits to be divided or linked.
//!
//! Why it exists: a remnant is no block, and is not to be cut into blocks by the caller who leaves it behind. So its
//! first frame's record says how many frames follow, and all others stay interior.
//!
//! Invariant: an area's last block is its largest: areas are what remains of a block whose first part was given away,
//! or blocks.

use crate::frame::Order;
use crate::frame_table::Frame;

/// A run of frames.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Area {
    /// The first.
    pub(crate) start: Frame,
    /// How many, at least one.
    pub(crate) frames: u32,
}

impl Area {
    /// A block.
    #[inline(always)]
    pub(crate) const fn block(start: Frame, order: Order) -> Self {
        Self {
            start,
            frames: order.frames(),
        }
    }

    /// Takes the last and largest block off; returns what remains, and that block. O(1).
    #[inline]
    pub(crate) const fn split_last(self) -> (Option<Area>, Frame, Order) {
        let order = Order::saturating(self.frames.ilog2());
        let frames = self.frames - order.frames();
        let head = self.start.offset(frames);
        let rest = Area { frames, ..self };
        (if frames > 0 { Some(rest) } else { None }, head, order)
    }
}
