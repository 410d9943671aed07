//! iBuddy's policy, which is its structure's: a frame ascends when it is freed, and nothing is split.
//!
//! Source: \[iBuddy\] sections 3.1.1 to 3.1.3: splitting is done on release, coalescing on allocation, of
//! blocks larger than a frame only.
//!
//! Why it exists: the layers above call a policy.
//!
//! Invariant: that of [`inverse`](crate::structure::inverse).

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
