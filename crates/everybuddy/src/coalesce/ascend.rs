//! iBuddy's policy, which its structure implements: a freed frame ascends, and nothing is split.
//!
//! # Purpose
//!
//! The layers above call a policy.
//!
//! # Source
//!
//! \[iBuddy\] §3.1.1 to §3.1.3: a free splits and an allocation coalesces, and only blocks larger than a frame.
//!
//! # Invariants
//!
//! Those of [`inverse`](crate::structure::inverse).

use super::Coalesce;
use crate::frame::Order;
use crate::frame_table::Frame;
use crate::platform::Platform;
use crate::structure::Structure;

/// Leaves everything to the structure.
#[derive(Clone, Copy, Debug, Default)]
pub struct Ascend;

impl<P: Platform, S: Structure<P>> Coalesce<P, S> for Ascend {
    #[inline]
    fn allocate(&self, structure: &S, order: Order, _: &mut P::Probe) -> Option<Frame> {
        structure.take(order)
    }

    #[inline]
    fn free(&self, structure: &S, head: Frame, order: Order, _: &mut P::Probe) {
        structure.insert(head, order);
    }
}
