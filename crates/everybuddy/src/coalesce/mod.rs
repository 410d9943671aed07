//! Coalescing policies: when buddies are merged.
//!
//! Why it exists: the standard buddy merges at once; the policies of Barkley and Lee merge later. The
//! structure underneath is the same.
//!
//! Invariant: called under the zone's lock. Whatever a policy delays, when all blocks were freed the zone's
//! memory is coalesced as it was in the beginning.
//!
//! | policy | file | source |
//! |---|---|---|
//! | at once | [`eager`] | \[iBuddy\] 3.1, \[BL89\] 3 |
//! | delayed: DELAY-2, watermarks | [`delay`] | \[BL89\] 3, 4 |
//! | delayed, with a bound for each call | [`debt`] | ours, after \[BL89\] 3.2 |
//! | none: frames ascend | [`ascend`] | \[iBuddy\] 3.1.1 to 3.1.3 |

pub mod ascend;
pub mod debt;
pub mod delay;
pub mod eager;
#[cfg(test)]
mod tests;

pub(crate) use ascend::Ascend;
pub(crate) use delay::Delay;
pub(crate) use eager::Eager;

use crate::frame::{Order, Pfn};
use crate::frame_table::Frame;
use crate::platform::Platform;
use crate::probe::{Event, Probe};
use crate::structure::Structure;

/// Blocks of one order that follow each other in memory: what a list gives back is often that.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct AdjacentBlocks {
    /// The first block's head.
    pub(crate) head: Frame,
    /// The order of each.
    pub(crate) order: Order,
    /// How many.
    pub(crate) blocks: u32,
}

impl AdjacentBlocks {
    /// Returns the number of frames.
    #[inline]
    pub(crate) fn frames(&self) -> u32 {
        self.blocks << self.order.get()
    }

    /// Tells whether a block follows the last of the row.
    #[inline]
    pub(crate) fn is_followed_by(&self, head: Frame, order: Order) -> bool {
        self.order == order && head.pfn().0 == self.head.pfn().0 + self.frames()
    }

    /// Returns the heads, lowest address first.
    #[inline]
    pub(crate) fn heads(self) -> impl Iterator<Item = Frame> {
        (0..self.blocks).map(move |at| self.head.offset(at << self.order.get()))
    }
}

/// Tells that a block was put into the structure or taken out, in its list and in its map.
#[inline(always)]
pub(crate) fn record_move<P: Platform>(probe: &mut P::Probe) {
    probe.record(Event::Link);
    probe.record(Event::Mark);
}

/// Looks whether a block is free, and tells that.
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
    /// Whether blocks that could be coalesced may be left as they are.
    const DELAYS: bool = false;

    /// Takes a block of `order` out, splitting a larger one if need be. The caller tags its head. O(orders).
    fn allocate(&self, structure: &S, order: Order, probe: &mut P::Probe) -> Option<Frame>;

    /// Takes one more block out for a batch, which nobody is refused without. O(orders).
    #[inline(always)]
    fn allocate_more(&self, structure: &S, order: Order, probe: &mut P::Probe) -> Option<Frame> {
        self.allocate(structure, order, probe)
    }

    /// Puts a block in, coalescing as the policy says. O(orders).
    fn free(&self, structure: &S, head: Frame, order: Order, probe: &mut P::Probe);

    /// Takes up to `wanted` blocks of `order` out, each to `sink`, which tags its head; returns how many. The
    /// same blocks in the same order as one by one, and the same blocks stay. O(wanted x orders).
    fn allocate_bulk(
        &self,
        structure: &S,
        order: Order,
        wanted: u32,
        probe: &mut P::Probe,
        mut sink: impl FnMut(Frame),
    ) -> u32 {
        for given in 0..wanted {
            match self.allocate(structure, order, probe) {
                Some(head) => sink(head),
                None => return given,
            }
        }
        wanted
    }

    /// Puts a row of blocks in; what is in afterwards is the same as one by one. O(blocks x orders).
    fn free_adjacent(&self, structure: &S, row: AdjacentBlocks, probe: &mut P::Probe) {
        for head in row.heads() {
            self.free(structure, head, row.order, probe);
        }
    }

    /// Puts in a block that was no memory before: one that no split ever made. O(orders).
    fn adopt(&self, structure: &S, head: Frame, order: Order, probe: &mut P::Probe) {
        self.free(structure, head, order, probe);
    }

    /// Learns that the frames from `from` up to `upto` of an allocated block are about to be freed without the
    /// rest, all counted from its head.
    fn split_allocated(&self, _: &S, _: Order, _: u32, _: u32) {}

    /// Checks what the policy promises of a structure. O(orders).
    ///
    /// # Errors
    /// What is wrong.
    fn check(&self, _: &S) -> Result<(), &'static str> {
        Ok(())
    }

    /// Coalesces everything that was delayed. O(blocks x orders).
    fn settle(&self, _: &S, _: &mut P::Probe) {}

    /// Learns that a run of frames was added, whose blocks were adopted. O(frames x orders).
    fn on_added(&self, _: &S, _: Pfn, _: u32) {}

    /// Learns that a run of free frames will be taken out, when everything is settled. O(frames x orders).
    fn on_withdraw(&self, _: &S, _: Pfn, _: u32) {}
}
