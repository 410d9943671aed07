//! Structures: how the free blocks of a zone are kept.
//!
//! Why it exists: the papers differ in the structure that holds free blocks; what is around it stays the
//! same. A structure knows nothing of policies: it inserts and removes, it does not split or coalesce.
//!
//! Invariant: called under the zone's lock, by one CPU at a time. Methods take `&self` and all state lies
//! in the platform's cells, so that no plain field escapes a simulator or a model checker.
//!
//! | structure | file | source |
//! |---|---|---|
//! | bitmap and doubly linked lists by level | [`free_list`] | iBuddy (000) 3.1, Barkley & Lee (003) 3 |

mod figures;
pub mod free_list;

#[cfg(test)]
pub(crate) use figures::with_free_lists;
pub(crate) use free_list::FreeLists;

use crate::frame::Order;
use crate::frame_table::{Frame, FrameTable};
use crate::platform::Platform;
use crate::snapshot::Violation;

/// A structure that keeps free blocks by order.
pub(crate) trait Structure<P: Platform>: Send + Sync {
    /// Returns the per-frame metadata.
    fn table(&self) -> FrameTable<'_, P>;

    /// Returns the largest order.
    fn max_order(&self) -> Order;

    /// Puts in a block that is not in.
    fn insert(&self, head: Frame, order: Order);

    /// Takes out a block that is in. Its head's record is left for the caller to tag.
    fn remove(&self, head: Frame, order: Order);

    /// Takes out the block of this order that the structure prefers.
    fn take(&self, order: Order) -> Option<Frame>;

    /// Tells whether this block is in. `head` may be any aligned number below the span rounded up to the
    /// largest block.
    fn contains(&self, head: Frame, order: Order) -> bool;

    /// Returns how many blocks of this order are in. O(1).
    fn blocks(&self, order: Order) -> u32;

    /// Checks the structure's own invariants. O(frames).
    fn check(&self) -> Result<(), Violation>;
}
