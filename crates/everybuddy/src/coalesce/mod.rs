//! Coalescing policies: when buddies are merged.
//!
//! The standard buddy merges buddies immediately; the policies of Barkley and Lee merge them later. The structure
//! underneath is the same.
//!
//! # Invariants
//! Called under the zone's lock. Whatever a policy delays, once all blocks are freed the zone's memory is coalesced
//! as it was initially.
//!
//! | policy | file | source |
//! |---|---|---|
//! | immediate | [`eager`] | \[iBuddy\] §3.1, \[BL89\] §3 |
//! | delayed: DELAY-2, watermarks | [`delay`] | \[BL89\] §3, §4 |
//! | delayed, with a bound for each call | [`debt`] | ours, after \[BL89\] §3.2 |
//! | none: frames ascend | [`ascend`] | \[iBuddy\] §3.1.1 to §3.1.3 |

pub mod ascend;
pub mod debt;
pub mod delay;
pub mod eager;
mod lazy_class;
pub mod mobility;
#[cfg(test)]
mod tests;

pub(crate) use ascend::Ascend;
pub(crate) use delay::Delay;
pub(crate) use eager::Eager;
pub(crate) use mobility::ByMobility;

use crate::frame::{Index, Order};
use crate::frame_table::Frame;
use crate::platform::Platform;
use crate::probe::{Event, Probe};
use crate::structure::Structure;

/// The coalescing policies. Each is the policy of some compositions, which it tells apart from all others.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum PolicyKind {
    /// A free coalesces immediately.
    Eager,
    /// A free makes frames ascend: iBuddy's groups.
    Ascend,
    /// A free may be local, and coalesces later.
    Delay,
    /// A free coalesces immediately, and a request is served by the mobility of what it asks for.
    ByMobility,
}

/// Records that a block was inserted into the structure or removed from it: in its list and in its map.
#[inline(always)]
pub(crate) fn record_move<P: Platform>(probe: &mut P::Probe) {
    probe.record(Event::Link);
    probe.record(Event::Mark);
}

/// Returns `true` if a block is free, and records the lookup.
#[inline(always)]
pub(crate) fn is_free<P: Platform, S: Structure<P>>(
    structure: &S,
    head: Frame,
    order: Order,
    probe: &mut P::Probe,
) -> bool {
    probe.record(Event::Mark);
    structure.contains(head, order)
}

/// A policy of splitting and coalescing over a structure.
pub(crate) trait Coalesce<P: Platform, S: Structure<P>>: Send + Sync {
    /// Whether blocks that could be coalesced may stay uncoalesced.
    const DELAYS: bool = false;

    /// Removes a block of `order`, and splits a larger one if necessary. The caller tags its head. O(orders).
    fn allocate(&self, structure: &S, order: Order, probe: &mut P::Probe) -> Option<Frame>;

    /// Removes another block for a batch. Without it the batch is shorter, but no request fails. O(orders).
    #[inline(always)]
    fn allocate_more(&self, structure: &S, order: Order, probe: &mut P::Probe) -> Option<Frame> {
        self.allocate(structure, order, probe)
    }

    /// Inserts a block, and coalesces as the policy requires. O(orders).
    fn free(&self, structure: &S, head: Frame, order: Order, probe: &mut P::Probe);

    /// Inserts a block that was not memory before, and that no split created. O(orders).
    fn adopt(&self, structure: &S, head: Frame, order: Order, probe: &mut P::Probe) {
        self.free(structure, head, order, probe);
    }

    /// Notes that the frames from `from` up to `upto` of an allocated block are about to be freed without the rest.
    /// Both are counted from its head.
    fn split_allocated(&self, _: &S, _: Order, _: u32, _: u32) {}

    /// Removes a piece of a free block, and keeps the rest as free blocks. The caller tags the piece's head. O(orders).
    fn carve(
        &self,
        structure: &S,
        (whole, mut order): (Frame, Order),
        (piece, least): (Frame, Order),
        probe: &mut P::Probe,
    ) {
        structure.remove(whole, order);
        record_move::<P>(probe);
        self.on_carve(structure, order);
        while order > least {
            probe.record(Event::Split(order));
            order = order.down();
            self.keep_half(structure, piece.aligned(order).buddy(order), order, probe);
        }
    }

    /// Notes that a free block of this order was removed, to be carved.
    fn on_carve(&self, _: &S, _: Order) {}

    /// Inserts the half of a carved block that was not asked for.
    fn keep_half(&self, structure: &S, head: Frame, order: Order, probe: &mut P::Probe) {
        structure.insert(head, order);
        record_move::<P>(probe);
    }

    /// Checks what the policy guarantees about a structure. O(orders).
    ///
    /// # Errors
    /// The first violation.
    fn check(&self, _: &S) -> Result<(), &'static str> {
        Ok(())
    }

    /// Performs all delayed coalescing. O(blocks × orders).
    fn settle(&self, _: &S, _: &mut P::Probe) {}

    /// Notes that a run of frames was added, whose blocks were adopted. O(frames × orders).
    fn on_added(&self, _: &S, _: Index, _: u32) {}

    /// Notes that a run of free frames will be removed, after everything is settled. O(frames × orders).
    fn on_withdraw(&self, _: &S, _: Index, _: u32) {}
}
