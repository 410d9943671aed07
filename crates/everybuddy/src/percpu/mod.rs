//! Per-CPU layers: what a CPU keeps for itself.
//!
//! Why it exists: most requests are for single frames, and a list that only its CPU touches serves them
//! without a lock. What is kept, how much, and when it is refilled and drained is where Linux's lists,
//! LiS and Spring's predictive layer differ.
//!
//! Invariants:
//! 1. A buffered block's head is tagged with the CPU whose list it is in. Two CPUs that free the same block at
//!    the same moment may both find it allocated, and both keep it; the later tag stands, and the block is
//!    dropped from the other list when it would leave it. (So hits need no atomic operation. What this can't
//!    mend: a free that was begun before the other and ends after the block was given out again. That is a
//!    free of a block that somebody else holds, which no allocator can tell from a right one.)
//! 2. A request fails only when every list was empty at its last try: see [`buffered`].
//!
//! | layer | file | source |
//! |---|---|---|
//! | nothing | [`none`] | iBuddy (000): `BS` |
//! | one list, batch and watermarks, or bypass | [`linux`] | iBuddy (000) 2.1, 2.4, 4 |
//! | one list, moves as much as a run is predicted to need | [`predictive`] | Spring Buddy (002) III-C |
//! | lists by order, a high mark that tunes itself | [`linux6`] | Linux 6.12 |

pub(crate) mod access;
pub mod buffered;

pub(crate) mod block_ring;
pub mod linux;
pub mod linux6;
pub mod none;
pub mod predictive;

pub(crate) use none::NoList;

use crate::error::{AllocateError, FreeError};
use crate::frame::Order;
use crate::frame_table::{Frame, FrameTable};
use crate::platform::{CpuId, Platform};
use crate::request::Hint;
use crate::zone::ZoneLayer;

/// What a CPU keeps for itself.
pub(crate) trait PerCpu<P: Platform>: Send + Sync {
    /// Whether anything is ever kept.
    const CACHES: bool;

    /// The number of CPUs that lists are kept for.
    fn cpus(&self) -> u16;

    /// Serves a request from what this CPU keeps, tagged as allocated. The hit path: no lock, no atomic
    /// read-modify-write unless the layer's access says so.
    fn pop(
        &self,
        cpu: &mut P::Cpu,
        table: FrameTable<'_, P>,
        order: Order,
        hint: Hint,
    ) -> Option<Frame>;

    /// Keeps a block, if it is tagged as allocated by that order, and if there is room. The hit path.
    fn push(
        &self,
        cpu: &mut P::Cpu,
        table: FrameTable<'_, P>,
        head: Frame,
        order: Order,
        hint: Hint,
    ) -> bool;

    /// Serves a request that [`take`](Self::take) could not: by a refill or past the lists.
    fn allocate<Z: ZoneLayer<P>>(
        &self,
        cpu: &mut P::Cpu,
        zone: &Z,
        order: Order,
        hint: Hint,
    ) -> Result<Frame, AllocateError>;

    /// Takes a block that [`put`](Self::put) did not: by a drain or past the lists, or with an error.
    fn free<Z: ZoneLayer<P>>(
        &self,
        cpu: &mut P::Cpu,
        zone: &Z,
        head: Frame,
        order: Order,
        hint: Hint,
    ) -> Result<(), FreeError>;

    /// Gives everything that this CPU keeps to the zone layer.
    fn drain<Z: ZoneLayer<P>>(&self, cpu: &mut P::Cpu, zone: &Z);

    /// Frees everything that another CPU keeps, if that CPU is parked, or if it is this one. Returns `false` if it is not
    /// parked.
    fn drain_parked<Z: ZoneLayer<P>>(&self, cpu: &mut P::Cpu, zone: &Z, other: CpuId) -> bool;

    /// Runs `then` once, while no CPU keeps anything and none may begin to. It is called indirectly: asking all CPUs
    /// is rare, and long beside a call; and so it is compiled once for all that is done then.
    ///
    /// `then` is told whether that is so: a CPU that is not parked and does not call in time may keep
    /// something still.
    fn with_all_drained<Z: ZoneLayer<P>>(
        &self,
        cpu: &mut P::Cpu,
        zone: &Z,
        then: &mut dyn FnMut(&mut P::Cpu, bool),
    );

    /// Says that this CPU won't call for a while.
    fn park(&self, cpu: &mut P::Cpu);

    /// Returns the frames that are kept. A hint while others work.
    fn buffered_frames(&self) -> u64;

    /// Returns the frames that one CPU keeps. A hint while others work; O(1).
    fn cached_frames_of(&self, cpu: CpuId) -> u64;

    /// Tells whether kept frames are tagged as such.
    fn tags_cached(&self) -> bool;
}
