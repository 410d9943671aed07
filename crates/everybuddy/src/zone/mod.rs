//! Zone layers: which part of free memory is guarded by which lock.
//!
//! The standard buddy guards all frames by one lock, iBuddy divides them into spaces, and Spring Buddy divides them
//! into domains. Every zone layer offers the same operations: allocating and freeing blocks, one by one or many under
//! one lock, and operations on ranges.
//!
//! # Invariants
//! An allocated block's head has the tag that the caller asked for, and a block is freed only if its head has the tag
//! that the caller names. That test, under the lock, detects every misuse of a block that a per-CPU list does not
//! move at the same moment (see [`percpu`](crate::percpu), invariant 1).
//!
//! | zone layer | file | source |
//! |---|---|---|
//! | one zone, one lock | [`one`] | \[iBuddy\] §2.1 and figure 8a |
//! | many spaces, one lock per space | [`spaces`] | \[iBuddy\] §3.2, §5 and figure 8b |
//! | elastic domains, held without a lock | [`domains`] | \[Spring\] §III-B |

/// Passes all operations of [`ZoneLayer`] that take a caller to a macro: arguments; closures.
macro_rules! operations {
    ($with:ident) => {
        $with! {
            fn try_allocate(;) -> Result<Frame, Unserved>;
            fn allocate(order: Order;) -> Result<Frame, AllocateError>;
            fn allocate_run(frames: u32;) -> Result<Frame, AllocateError>;
            fn allocate_bulk(order: Order, wanted: u32, tag: Tag; sink: [FnMut(Frame)]) -> u32;
            fn try_free(frame: Frame, tag: Tag;) -> Result<(), Unserved>;
            fn free(head: Frame, order: Order, tag: Tag;) -> Result<(), FreeError>;
            fn free_bulk(; source: [FnMut() -> Option<(Frame, Order, Tag)>]);
            fn free_each(; source: [FnMut() -> Option<(Frame, Order)>]) -> Result<(), FreeError>;
            fn free_run(start: Frame, frames: u32;) -> Result<(), FreeError>;
            fn supply(
                demand: Demand;
                owned: [FnMut() -> Option<Frame>],
                sink: [FnMut(Frame, Order, Supplied)]
            ) -> u32;
            fn add(start: Index, frames: u32, from: Tag;) -> Result<(), RangeError>;
            fn withdraw(start: Index, frames: u32, to: Tag;) -> Result<(), RangeError>;
            fn allocate_at(start: Index, frames: u32;) -> Result<Frame, RangeError>;
            fn settle(;) -> bool;
            fn serve(service: usize, budget: u32;) -> Progress;
            fn snapshot(;) -> Snapshot;
            fn check(;) -> Result<Census, Violation>;
        }
    };
}

pub(crate) mod bulk;
mod collect;
mod compress;
pub(crate) mod domain;
pub mod domains;
pub(crate) mod erased;
mod ghosts;
mod homes;
mod locked;
pub(crate) mod memory;
pub mod one;
pub(crate) mod pool;
pub(crate) mod range;
mod search;
mod shelf;
mod space;
pub mod spaces;
pub(crate) mod spring;
mod spring_records;
pub(crate) mod supply;
mod uninterrupted;

pub(crate) use domains::{DomainGeometry, Domains};
pub(crate) use one::OneZone;
pub use pool::{Exchange, Select};
pub(crate) use spaces::Spaces;
pub(crate) use spring::BLOCKS_PER_LOOK;
pub use spring_records::SpringKind;
pub(crate) use uninterrupted::Uninterrupted;

use crate::api::{Progress, Service};
use crate::detail::Detail;
use crate::error::{AllocateError, FreeError, RangeError};
use crate::frame::{Index, Order};
use crate::frame_table::{Frame, FrameTable, Tag};
use crate::lock::{Guard, Unserved, ZoneLock};
use crate::platform::{CpuId, CpuToken, Platform};
use crate::request::Class;
use crate::snapshot::{Census, Snapshot, Violation};
use supply::{Demand, Supplied};

/// The caller of the zone layer.
pub(crate) struct Caller<'c, P: Platform> {
    /// The CPU.
    pub(crate) cpu: CpuId,
    /// The caller's probe, which counts events.
    pub(crate) probe: &'c mut P::Probe,
    /// Whether the call interrupted an operation of this CPU. Such a caller only tries locks.
    pub(crate) nested: bool,
    /// Whether the call tried to do without a wait, and found a lock held. It is tied to no lock: the next one that is
    /// entered counts as contended, also if it is another one, as after an exchange of the CPU's space.
    pub(crate) found_held: bool,
    /// The class of the request.
    pub(crate) class: Class,
}

impl<'c, P: Platform> Caller<'c, P> {
    /// Creates the caller that holds a token.
    #[inline]
    pub(crate) fn of(cpu: &'c mut P::Cpu) -> Self {
        Self {
            cpu: cpu.id(),
            probe: P::probe(cpu),
            nested: false,
            found_held: false,
            class: Class::Unmovable,
        }
    }

    /// Notes why a call without a wait, which was tried first, did not serve the caller.
    #[inline]
    pub(crate) fn after(self, unserved: Unserved) -> Self {
        Self {
            found_held: unserved == Unserved::LockHeld,
            ..self
        }
    }

    /// Acquires a lock; a nested caller only tries.
    #[inline(always)]
    pub(crate) fn enter<'g>(&'g mut self, lock: &'g ZoneLock<'g, P>) -> Option<Guard<'g, P>> {
        if self.nested {
            Guard::try_lock(lock, self.probe)
        } else if core::mem::take(&mut self.found_held) {
            Some(Guard::lock_held(lock, self.probe))
        } else {
            Some(Guard::lock(lock, self.probe))
        }
    }

    /// Creates the caller that holds a token and requests frames of a class.
    #[inline]
    pub(crate) fn asking(cpu: &'c mut P::Cpu, class: Class) -> Self {
        Self {
            class,
            ..Self::of(cpu)
        }
    }
}

/// A zone layer: free frames, and the locks that guard them.
pub(crate) trait ZoneLayer<P: Platform>: Send + Sync {
    /// Whether [`allocate`](Self::allocate) fails as busy, and changes nothing, for a CPU that the system was not set
    /// up for, because it looks up something of that CPU anyway. Otherwise the layer above checks first.
    const UNKNOWN_CPUS_ARE_BUSY: bool = false;

    /// Whether the class of a request decides which block serves it.
    const HAS_CLASSES: bool = false;

    /// Whether [`try_allocate`](Self::try_allocate) and [`try_free`](Self::try_free) ever serve a caller.
    const TRIES: bool = false;

    /// Returns the per-frame metadata.
    fn table(&self) -> FrameTable<'_, P>;

    /// Returns the largest order.
    fn max_order(&self) -> Order;

    /// Allocates one frame like [`allocate`](Self::allocate), which is not nested and does it if this fails. It is
    /// inlined, and fails rather than wait, or call a function except at its end. A caller that calls `allocate` at its
    /// end saves no registers.
    #[inline(always)]
    fn try_allocate(&self, _: &mut Caller<'_, P>) -> Result<Frame, Unserved> {
        Err(Unserved::Other)
    }

    /// Frees one frame like [`free`](Self::free), as [`try_allocate`](Self::try_allocate) allocates one. It also fails
    /// for a frame that does not have the tag `tag`. It may wait after the frame is free: a space that changes its
    /// list acquires the pool's lock, in a function that is called at the end.
    #[inline(always)]
    fn try_free(&self, _: &mut Caller<'_, P>, frame: Frame, tag: Tag) -> Result<(), Unserved> {
        let _ = (frame, tag);
        Err(Unserved::Other)
    }

    /// Allocates a block, and tags its head as allocated. One lock, O(orders). The order is at most the largest.
    ///
    /// Fails as exhausted, or as busy if the caller is nested and the lock is held.
    fn allocate(&self, caller: &mut Caller<'_, P>, order: Order) -> Result<Frame, AllocateError>;

    /// Allocates a run of exactly `frames` frames, at most a largest block, and tags its pieces as allocated. One
    /// lock, O(orders).
    fn allocate_run(&self, caller: &mut Caller<'_, P>, frames: u32)
    -> Result<Frame, AllocateError>;

    /// Allocates up to `wanted` blocks, tags their heads with `tag`, and passes each to `sink`. Returns how many. One
    /// lock, O(wanted × orders).
    fn allocate_bulk(
        &self,
        caller: &mut Caller<'_, P>,
        order: Order,
        wanted: u32,
        tag: Tag,
        sink: impl FnMut(Frame),
    ) -> u32;

    /// Frees a block whose head has the tag `tag`. One lock, O(orders).
    fn free(
        &self,
        caller: &mut Caller<'_, P>,
        head: Frame,
        order: Order,
        tag: Tag,
    ) -> Result<(), FreeError>;

    /// Frees the blocks that `source` yields, each if its head has the yielded tag. The others are dropped, and the
    /// probe counts them as raced double frees. One lock.
    fn free_bulk(
        &self,
        caller: &mut Caller<'_, P>,
        source: impl FnMut() -> Option<(Frame, Order, Tag)>,
    );

    /// Frees allocated blocks until `source` ends or a block cannot be freed, and returns the reason. One lock.
    fn free_each(
        &self,
        caller: &mut Caller<'_, P>,
        source: impl FnMut() -> Option<(Frame, Order)>,
    ) -> Result<(), FreeError>;

    /// Frees any run of allocated frames, of one or more allocations, whole or in part. The rest of these allocations
    /// stays allocated. One lock, O(frames).
    fn free_run(
        &self,
        caller: &mut Caller<'_, P>,
        start: Frame,
        frames: u32,
    ) -> Result<(), FreeError>;

    /// Takes free blocks for a list that splits and merges by itself, and passes them to `sink`, which tags their
    /// heads. `owned` yields the first frames of page blocks whose free parts are wanted. Returns the number of frames,
    /// which is zero in a zone layer that does not offer this. One lock.
    fn supply(
        &self,
        caller: &mut Caller<'_, P>,
        demand: Demand,
        owned: impl FnMut() -> Option<Frame>,
        sink: impl FnMut(Frame, Order, Supplied),
    ) -> u32 {
        let _ = (caller, demand, owned, sink);
        0
    }

    /// Frees a run whose frames all have the tag `from` (holes, or reserved frames). O(frames).
    fn add(
        &self,
        caller: &mut Caller<'_, P>,
        start: Index,
        frames: u32,
        from: Tag,
    ) -> Result<(), RangeError>;

    /// Removes a run of free frames and tags them with `to`. O(frames).
    fn withdraw(
        &self,
        caller: &mut Caller<'_, P>,
        start: Index,
        frames: u32,
        to: Tag,
    ) -> Result<(), RangeError>;

    /// Allocates exactly this run of free frames, in aligned blocks. O(frames).
    fn allocate_at(
        &self,
        caller: &mut Caller<'_, P>,
        start: Index,
        frames: u32,
    ) -> Result<Frame, RangeError>;

    /// Performs all delayed coalescing, and files everything that waits in queues. Returns `false` if another thread
    /// works on an area and did not finish in time. O(blocks × orders) where something was delayed, otherwise O(1).
    fn settle(&self, caller: &mut Caller<'_, P>) -> bool;

    /// Returns the services that the host should run.
    fn services(&self) -> &'static [Service] {
        &[]
    }

    /// Runs a step of a service of at most `budget` units of work.
    fn serve(&self, _: &mut Caller<'_, P>, _: usize, _: u32) -> Progress {
        Progress::Idle
    }

    /// Returns the number of free blocks by order; a zone layer without queues buffers nothing.
    fn snapshot(&self, caller: &mut Caller<'_, P>) -> Snapshot;

    /// Returns the number of free frames, without a lock: a hint while other CPUs work. O(orders), and as often as the
    /// layer has parts.
    fn free_frames(&self) -> u64;

    /// Passes the parts of memory, and the lists of free blocks, to `see`, while no other CPU works. O(frames ×
    /// orders).
    fn inspect(&self, see: &mut dyn FnMut(Detail));

    /// Checks every invariant while no other CPU works. O(frames).
    fn check(&self, caller: &mut Caller<'_, P>) -> Result<Census, Violation>;
}
