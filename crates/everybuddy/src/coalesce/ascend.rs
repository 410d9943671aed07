//! iBuddy's policy, which its structure implements: a freed frame ascends, and nothing is split.
//!
//! The layers above call a policy.
//!
//! # Source
//! \[iBuddy\] §3.1.1 to §3.1.3: a free splits and an allocation coalesces, and only blocks larger than a frame.
//!
//! # Invariants
//! Those of [`inverse`](crate::structure::inverse). Operations on lists and map are recorded there: how many frames
//! move, and how far they ascend, depends on what is free.

use super::Coalesce;
use crate::frame::Order;
use crate::frame_table::Frame;
use crate::platform::Platform;
use crate::structure::Structure;

/// Leaves everything to the structure.
#[derive(Clone, Copy, Debug, Default)]
pub struct Ascend;

impl<P: Platform, S: Structure<P>> Coalesce<P, S> for Ascend {
    #[inline(always)]
    fn allocate(&self, structure: &S, order: Order, probe: &mut P::Probe) -> Option<Frame> {
        structure.take_recorded(order, probe)
    }

    #[inline(always)]
    fn free(&self, structure: &S, head: Frame, order: Order, probe: &mut P::Probe) {
        structure.insert_recorded(head, order, probe);
    }
}
