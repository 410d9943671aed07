//! What a kind of per-CPU list decides, and what [`Buffered`](super::buffered::Buffered) does the same for all of them.
//!
//! # Invariants
//! A list never touches the words by which other CPUs reach it. It is called by the CPU that may touch it at that time.

use super::Missed;
use crate::frame::Order;
use crate::frame_table::{Frame, FrameTable};
use crate::platform::{CpuId, Platform};
use crate::request::Hint;
use crate::zone::{Caller, ZoneLayer};

/// The list of one CPU: which blocks it caches, how many, and when they move.
pub(crate) trait CpuList<P: Platform>: Send + Sync {
    /// Whether a freed block may belong to the list of another CPU. Such lists need a lock, and claim the blocks that
    /// they accept by an atomic exchange of the tag.
    const ROUTES: bool = false;

    /// Whether requests and frees with hints are treated otherwise than those without.
    const USES_HINTS: bool = false;

    /// Returns the CPU whose list a freed block belongs to, or `None` if that is the list of the freeing CPU.
    #[inline(always)]
    fn home(&self, head: Frame) -> Option<CpuId> {
        let _ = head;
        None
    }

    /// Returns `true` if the list caches blocks of this order.
    fn caches(&self, order: Order) -> bool;

    /// The hit of a request: removes a block and tags it as allocated. It may set `missed` only if the list is open,
    /// and [`refill`](Self::refill) would do nothing for the request.
    fn pop(
        &self,
        table: FrameTable<'_, P>,
        cpu: CpuId,
        order: Order,
        hint: Hint,
        missed: &mut Missed,
    ) -> Option<Frame>;

    /// The hit of a free: caches a block that is tagged as allocated, if there is room. Returns `true` if it did. It
    /// may set `missed` only if the list is open, and [`overflow`](Self::overflow) would refuse the block.
    fn push(
        &self,
        table: FrameTable<'_, P>,
        cpu: CpuId,
        head: Frame,
        order: Order,
        hint: Hint,
        missed: &mut Missed,
    ) -> bool;

    /// Serves a request that missed, by a refill. Returns `None` if the request should bypass the list.
    fn refill<Z: ZoneLayer<P>>(
        &self,
        caller: &mut Caller<'_, P>,
        zone: &Z,
        order: Order,
        hint: Hint,
    ) -> Option<Frame>;

    /// Caches a block whose free missed, and may drain others. Returns `false` if the list does not accept the block:
    /// it goes to the zone layer, or the free is a misuse.
    fn overflow<Z: ZoneLayer<P>>(
        &self,
        caller: &mut Caller<'_, P>,
        zone: &Z,
        head: Frame,
        order: Order,
        hint: Hint,
    ) -> bool;

    /// Frees all blocks into the zone layer. `owner` is the CPU that owns the list.
    fn drain<Z: ZoneLayer<P>>(&self, caller: &mut Caller<'_, P>, owner: CpuId, zone: &Z);

    /// Lets operations hit, by watermarks for the present content. An exchange that acquires.
    fn open(&self);

    /// Lets no operation hit. An exchange that acquires and releases, so that an owner that closes its list sees the
    /// writes of a requester that closed it before.
    fn close(&self);

    /// Returns `true` if no operation can hit. A hint: relaxed.
    fn is_closed(&self) -> bool;

    /// Returns the number of cached frames. A hint while other CPUs work.
    fn frames(&self) -> u64;

    /// Returns the number of frames that the lists of all CPUs cache together, besides their own. Whatever drains a
    /// list drains these, too. A hint while other CPUs work.
    fn shared_frames(&self) -> u64 {
        0
    }
}
