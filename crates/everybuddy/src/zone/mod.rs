//! Zone layers: who owns which free frames, under which lock.
//!
//! Why it exists: the standard buddy guards all frames by one lock; iBuddy divides them into spaces, Spring
//! into domains. What a zone layer offers is the same: blocks out, blocks in, one by one or many under one
//! lock, and the operations on ranges.
//!
//! Invariant: a block leaves with its head tagged as the caller asked, and comes in only if its head is
//! tagged as the caller says. That test, under the lock, finds every misuse of a block that is not in a
//! per-CPU list's hands at the same moment (see [`percpu`](crate::percpu), invariant 1).
//!
//! | zone layer | file | source |
//! |---|---|---|
//! | one zone, one lock | [`one`] | iBuddy (000) 2.1 and figure 8a |
//! | many spaces, a lock each | [`spaces`] | iBuddy (000) 3.2, 5 and figure 8b |
//! | elastic domains, held without a lock | [`domains`] | Spring Buddy (002) III-B |

pub(crate) mod bulk;
mod collect;
pub(crate) mod domain;
pub mod domains;
pub(crate) mod memory;
pub mod one;
pub(crate) mod pool;
pub(crate) mod range;
mod search;
mod space;
pub mod spaces;
pub(crate) mod spring;

pub use bulk::Bulk;
pub(crate) use domains::{Domains, Extent};
pub(crate) use one::OneZone;
pub use pool::Select;
pub(crate) use spaces::Spaces;
pub(crate) use spring::PATIENCE;

use crate::api::{Progress, Service};
use crate::error::{AllocateError, FreeError, RegionError};
use crate::frame::{Order, Pfn};
use crate::frame_table::{Frame, FrameTable, Tag};
use crate::platform::{CpuId, CpuToken, Platform};
use crate::snapshot::{Census, Snapshot, Violation};

/// Who calls the zone layer.
pub(crate) struct Caller<'c, P: Platform> {
    /// The CPU.
    pub(crate) cpu: CpuId,
    /// Counts what happens.
    pub(crate) probe: &'c mut P::Probe,
    /// Whether an operation on this CPU was interrupted: locks are then only tried.
    pub(crate) nested: bool,
}

impl<'c, P: Platform> Caller<'c, P> {
    /// The holder of a token.
    #[inline]
    pub(crate) fn of(cpu: &'c mut P::Cpu) -> Self {
        Self {
            cpu: cpu.id(),
            probe: cpu.probe(),
            nested: false,
        }
    }
}

/// Who owns free frames, under which lock.
pub(crate) trait ZoneLayer<P: Platform>: Send + Sync {
    /// Returns the per-frame metadata.
    fn table(&self) -> FrameTable<'_, P>;

    /// Returns the largest order.
    fn max_order(&self) -> Order;

    /// Gives a block, its head tagged as allocated. One lock, O(orders).
    ///
    /// Fails as exhausted, or as busy when the caller is nested and the lock is taken. The order is at most
    /// the largest.
    fn allocate(&self, caller: &mut Caller<'_, P>, order: Order) -> Result<Frame, AllocateError>;

    /// Gives a run of exactly `frames` frames, at most a largest block, its pieces tagged as allocated. One
    /// lock, O(orders).
    fn allocate_run(&self, caller: &mut Caller<'_, P>, frames: u32)
    -> Result<Frame, AllocateError>;

    /// Gives up to `wanted` blocks, their heads tagged as `tag`, each to `sink`; returns how many. One lock,
    /// O(wanted x orders).
    fn allocate_bulk(
        &self,
        caller: &mut Caller<'_, P>,
        order: Order,
        wanted: u32,
        tag: Tag,
        sink: impl FnMut(Frame),
    ) -> u32;

    /// Takes a block whose head is tagged as `tag`. One lock, O(orders).
    fn free(
        &self,
        caller: &mut Caller<'_, P>,
        head: Frame,
        order: Order,
        tag: Tag,
    ) -> Result<(), FreeError>;

    /// Takes the blocks that `source` yields, each if its head is tagged as yielded; the others are
    /// dropped and counted by the probe as raced double frees. One lock.
    fn free_bulk(
        &self,
        caller: &mut Caller<'_, P>,
        source: impl FnMut() -> Option<(Frame, Order, Tag)>,
    );

    /// Takes allocated blocks until `source` ends or one can't be freed; returns why. One lock.
    fn free_each(
        &self,
        caller: &mut Caller<'_, P>,
        source: impl FnMut() -> Option<(Frame, Order)>,
    ) -> Result<(), FreeError>;

    /// Takes any run of allocated frames, of one or more allocations, whole or in part; what remains of
    /// them stays allocated. One lock, O(frames).
    fn free_run(
        &self,
        caller: &mut Caller<'_, P>,
        start: Frame,
        frames: u32,
    ) -> Result<(), FreeError>;

    /// Turns a run of frames tagged `from` (all of them holes, or all reserved) into free ones. O(frames).
    fn add(
        &self,
        caller: &mut Caller<'_, P>,
        start: Pfn,
        frames: u32,
        from: Tag,
    ) -> Result<(), RegionError>;

    /// Turns a run of free frames into ones tagged `to`. O(frames).
    fn withdraw(
        &self,
        caller: &mut Caller<'_, P>,
        start: Pfn,
        frames: u32,
        to: Tag,
    ) -> Result<(), RegionError>;

    /// Coalesces everything whose coalescing was delayed, and files what waits in queues; returns false if somebody
    /// else works on something that did not come in time. O(blocks x orders) where it is, else nothing.
    fn settle(&self, caller: &mut Caller<'_, P>) -> bool;

    /// Returns the services that the host should run.
    fn services(&self) -> &'static [Service] {
        &[]
    }

    /// Runs a step of a service of at most `budget` units of work.
    fn serve(&self, _: &mut Caller<'_, P>, _: usize, _: u32) -> Progress {
        Progress::Idle
    }

    /// Returns the free blocks by order; nothing is buffered here.
    fn snapshot(&self, caller: &mut Caller<'_, P>) -> Snapshot;

    /// Checks every invariant while no other CPU works. O(frames).
    fn check(&self, caller: &mut Caller<'_, P>) -> Result<Census, Violation>;
}
