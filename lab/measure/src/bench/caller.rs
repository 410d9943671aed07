//! A thread's calls of an allocator.
//!
//! # Invariants
//! A [`Caller`] is used only by the thread that created it.

use everybuddy::Order;

/// A thread's access to an allocator.
pub trait Caller {
    /// Allocates a block. Returns its first frame, or [`REFUSED`](crate::replay::adapter::REFUSED).
    fn allocate(&mut self, order: Order) -> u32;

    /// Frees a block that was allocated.
    fn free(&mut self, place: u32, order: Order);

    /// Parks the thread: it makes no calls for a while.
    fn park(&mut self) {}

    /// Sets whether the following operations count: preparation and cleanup do not.
    #[inline(always)]
    fn watch(&mut self, counts: bool) {
        let _ = counts;
    }

    /// Ends the use. Returns the number of failed frees, which is 0 unless the allocator is broken.
    fn finish(self: Box<Self>) -> u64;
}
