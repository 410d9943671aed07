//! Per-CPU layers: blocks that a CPU caches for itself.
//!
//! Most requests are for single frames, and a list that only its own CPU touches serves them without a lock. Linux's
//! lists, LiS and Spring's predictive layer differ in what they cache, how much, and when they refill and drain.
//!
//! # Invariants
//! 1. The head of a buffered block is tagged with the CPU whose list the block is in ([`magazines`]: with the number
//!    of the magazine). If two CPUs free the same block at the same moment, both may find it allocated and both may
//!    cache it. The later tag wins, and the block is dropped when it would leave the other list. Hits therefore need
//!    no atomic operation. One case remains undetected: a free that began before the other free and ends after the
//!    block was allocated again. That is a free of another owner's block, which no allocator can distinguish from a
//!    correct one. A list that links blocks through their records could not drop one, so [`pcp_buddy`] claims a block
//!    by an atomic exchange of its tag.
//! 2. A request fails only if every list was empty at its last attempt: see [`drain`].
//!
//! | layer | file | source |
//! |---|---|---|
//! | no list | [`none`] | \[iBuddy\]: `BS` |
//! | one list, batch and watermarks, or bypass | [`linux`] | \[iBuddy\] §2.1, §2.4, §4 |
//! | the same, each batch merged before it drains | `merge` | linux-mm, 2026-04-03 |
//! | one list, moves as many frames as a run is predicted to need | [`predictive`] | \[Spring\] §III-C |
//! | one list per order, with a self-tuning high watermark | [`linux6`] | Linux 6.12 |
//! | the zone from which Linux computes the lengths of lists | [`linux_zone`] | Linux 6.12 |
//! | two magazines, and a depot of full and empty ones | [`magazines`] | Bonwick and Adams 2001 |
//! | a buddy allocator of owned page blocks | [`pcp_buddy`] | linux-mm, 2026-04-03 |

pub(crate) mod access;
pub mod buffered;

pub(crate) mod block_ring;
mod cpu_list;
pub(crate) mod drain;
pub mod linux;
pub mod linux6;
pub mod linux_zone;
pub mod magazines;
mod merge;
pub mod none;
pub(crate) mod page_blocks;
pub mod pcp_buddy;
pub mod predictive;

pub(crate) use none::NoList;

use crate::error::FreeError;
use crate::frame::Order;
use crate::frame_table::{Frame, FrameTable, Tag};
use crate::platform::{CpuId, Platform};
use crate::request::Hint;

/// What a list says of a request or a free that misses it. An argument, since a hit would pay for a larger result.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Missed {
    /// It goes straight to the zone layer, since the list has nothing to do for it: the list is open, and empty or full
    /// with bypass. Otherwise the slow path of the list is next, which may refill or drain it.
    pub(crate) bypasses: bool,
}

/// A per-CPU layer over zone layers of one type: the blocks that each CPU caches for itself.
pub(crate) trait PerCpu<P: Platform, Z>: Send + Sync {
    /// Returns `true` if the layer ever caches a block.
    fn caches(&self) -> bool;

    /// Returns `true` if the layer reads hints.
    fn uses_hints(&self) -> bool;

    /// Returns the number of CPUs that have lists.
    fn cpus(&self) -> u16;

    /// Returns `true` if this is one of the CPUs that have lists.
    fn has_cpu(&self, cpu: CpuId) -> bool;

    /// Serves a request from this CPU's list, and tags the block as allocated. This is the hit path: no lock, and no
    /// atomic read-modify-write unless the layer's access requires one.
    fn pop(
        &self,
        cpu: &mut P::Cpu,
        table: FrameTable<'_, P>,
        order: Order,
        hint: Hint,
        missed: &mut Missed,
    ) -> Option<Frame>;

    /// Caches a block if it is tagged as allocated with that order and the list has room. Returns `true` if it did.
    /// This is the hit path.
    fn push(
        &self,
        cpu: &mut P::Cpu,
        table: FrameTable<'_, P>,
        head: Frame,
        order: Order,
        hint: Hint,
        missed: &mut Missed,
    ) -> bool;

    /// Serves a request that [`pop`](Self::pop) could not serve, by a refill. Returns `None` if it goes to the zone
    /// layer.
    fn serve(&self, cpu: &mut P::Cpu, zone: &Z, order: Order, hint: Hint) -> Option<Frame>;

    /// Caches a block that [`push`](Self::push) did not cache, and may drain others. Returns `false` if the block goes
    /// to the zone layer, or the free is a misuse.
    fn keep(&self, cpu: &mut P::Cpu, zone: &Z, head: Frame, order: Order, hint: Hint) -> bool;

    /// Returns the tag of a block that is about to be freed into the zone layer, which checks it. Fails if another CPU
    /// may free the block, too, and was first.
    #[inline(always)]
    fn claim(&self, table: FrameTable<'_, P>, head: Frame, order: Order) -> Result<Tag, FreeError> {
        let _ = (table, head);
        Ok(Tag::allocated(order))
    }

    /// Frees all blocks of this CPU's list into the zone layer.
    fn drain(&self, cpu: &mut P::Cpu, zone: &Z);

    /// Frees all blocks of another CPU's list into the zone layer, if that CPU is parked, or is this one. Returns
    /// `false` if it is not parked.
    fn drain_parked(&self, cpu: &mut P::Cpu, zone: &Z, other: CpuId) -> bool;

    /// Calls `then` once while all lists are empty and closed. The call is dynamic: draining all CPUs is rare and
    /// takes long compared with a call, and so this method is compiled only once for all uses.
    ///
    /// The argument of `then` is `true` if all lists are empty. A CPU that is not parked and does not call in time
    /// may still cache blocks. Without `waits`, this is each CPU that is not parked, and it is not asked.
    fn with_all_drained(
        &self,
        cpu: &mut P::Cpu,
        zone: &Z,
        waits: bool,
        then: &mut dyn FnMut(&mut P::Cpu, bool),
    );

    /// Returns `true` if [`with_all_drained`](Self::with_all_drained) needs to wait for no other CPU. A hint. O(CPUs).
    fn is_alone(&self, own: CpuId) -> bool;

    /// Announces that this CPU will not call for a while.
    fn park(&self, cpu: &mut P::Cpu);

    /// Returns the number of frames in all lists. A hint while other CPUs work.
    fn buffered_frames(&self) -> u64;

    /// Returns the number of frames in the list of one CPU. A hint while other CPUs work. O(1).
    fn cached_frames_of(&self, cpu: CpuId) -> u64;
}
