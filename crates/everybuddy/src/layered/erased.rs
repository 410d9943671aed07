//! A system made of layers that call each other indirectly, for code that is not timed.
//!
//! Each layer is compiled once for a platform instead of once for each composition, and what joins them once for all.
//!
//! # Invariants
//! 1. The layers are those of the composition, in the same memory, and are called with the same arguments in the same
//!    order.
//! 2. [`Erased`] passes on every method that [`Layered`] implements. One that is missing here would silently be the
//!    trait's own.

use super::Layered;
use crate::api::{FrameAllocator, Progress, Service, Visit};
use crate::detail::Detail;
use crate::error::{AllocateError, BulkFreeError, FreeError, RegionError};
use crate::frame::{Block, Index, Order};
use crate::frame_table::{Frame, FrameTable, Tag};
use crate::percpu::{Missed, PerCpu};
use crate::place::Place;
use crate::platform::{CpuId, Platform};
use crate::region::{FrameRange, Span};
use crate::request::{Hint, Release, Request};
use crate::runs::Run;
use crate::shortage::{Kept, Shortage};
use crate::snapshot::{Census, FrameState, Snapshot, Violation};
use crate::zone::erased::ErasedZone;
use crate::zone::{Uninterrupted, ZoneLayer};

/// A zone layer of any type, as the layers above see it.
pub(crate) type BelowAny<'z, P> = Uninterrupted<ErasedZone<'z, P>>;

/// A per-CPU layer of any type.
struct ErasedFront<'f, P: Platform>(&'f dyn for<'z> PerCpu<P, BelowAny<'z, P>>);

/// A system of borrowed layers of any types.
type Untyped<'s, P> = Layered<P, ErasedFront<'s, P>, ErasedZone<'s, P>, &'s Span>;

/// Layers that call each other indirectly. It has the size and the parts of [`Layered`].
#[repr(transparent)]
pub struct Erased<P: Platform, F, Z>(pub(crate) Layered<P, F, Z>);

impl<P, F, Z> Erased<P, F, Z>
where
    P: Platform,
    F: for<'z> PerCpu<P, BelowAny<'z, P>>,
    Z: ZoneLayer<P>,
{
    /// Returns the system without the types of its layers.
    fn untyped(&self) -> Untyped<'_, P> {
        let Layered {
            front,
            zone: Uninterrupted(zone),
            max_order,
            span,
            metadata_bytes,
            platform,
        } = &self.0;
        Layered {
            front: ErasedFront(front),
            zone: Uninterrupted(ErasedZone(zone)),
            max_order: *max_order,
            span,
            metadata_bytes: *metadata_bytes,
            platform: *platform,
        }
    }
}

/// Implements [`FrameAllocator`]: each call is one of the system without types.
macro_rules! calls {
    ($(fn $name:ident($($argument:ident: $type:ty),*) $(-> $result:ty)?;)*) => {
        impl<P, F, Z> FrameAllocator<P> for Erased<P, F, Z>
        where
            P: Platform,
            F: for<'z> PerCpu<P, BelowAny<'z, P>>,
            Z: ZoneLayer<P>,
        {
            fn span(&self) -> &Span {
                &self.0.span
            }

            $(fn $name(&self, $($argument: $type),*) $(-> $result)? {
                self.untyped().$name($($argument),*)
            })*
        }
    };
}

calls! {
    fn allocate(cpu: &mut P::Cpu, request: Request) -> Result<Index, AllocateError>;
    fn free(cpu: &mut P::Cpu, release: Release) -> Result<(), FreeError>;
    fn free_zeroed(cpu: &mut P::Cpu, release: Release) -> Result<(), FreeError>;
    fn allocate_bulk(
        cpu: &mut P::Cpu, request: Request, out: &mut [Index]
    ) -> Result<usize, AllocateError>;
    fn free_bulk(cpu: &mut P::Cpu, releases: &[Release]) -> Result<(), BulkFreeError>;
    fn allocate_nested(cpu: CpuId, request: Request) -> Result<Index, AllocateError>;
    fn free_nested(cpu: CpuId, release: Release) -> Result<(), FreeError>;
    fn drain(cpu: &mut P::Cpu);
    fn drain_parked(cpu: &mut P::Cpu, other: CpuId) -> Result<(), AllocateError>;
    fn quiesce(cpu: &mut P::Cpu) -> Result<(), AllocateError>;
    fn park(cpu: &mut P::Cpu);
    fn add(cpu: &mut P::Cpu, range: FrameRange) -> Result<(), RegionError>;
    fn remove(cpu: &mut P::Cpu, range: FrameRange) -> Result<(), RegionError>;
    fn reserve(cpu: &mut P::Cpu, range: FrameRange) -> Result<(), RegionError>;
    fn unreserve(cpu: &mut P::Cpu, range: FrameRange) -> Result<(), RegionError>;
    fn allocate_at(cpu: &mut P::Cpu, range: FrameRange) -> Result<Index, RegionError>;
    fn try_allocate_at(cpu: &mut P::Cpu, range: FrameRange) -> Result<Index, RegionError>;
    fn allocate_in(
        cpu: &mut P::Cpu, request: Request, place: &Place
    ) -> Result<Index, AllocateError>;
    fn allocate_runs(
        cpu: &mut P::Cpu, frames: u32, least: Order, out: &mut [Run]
    ) -> Result<usize, AllocateError>;
    fn shortage(cpu: &mut P::Cpu, request: Request) -> Shortage;
    fn visit_free(cpu: &mut P::Cpu, order: Order, visit: &mut dyn FnMut(Block) -> Visit) -> u64;
    fn max_order() -> Order;
    fn cpus() -> u16;
    fn metadata_bytes() -> usize;
    fn snapshot(cpu: &mut P::Cpu) -> Snapshot;
    fn free_frames() -> u64;
    fn buffered_frames(cpu: CpuId) -> u64;
    fn kept_by_others(cpu: CpuId, order: Order) -> Option<Kept>;
    fn uses_hints() -> bool;
    fn frame_state(index: Index) -> Option<FrameState>;
    fn inspect(see: &mut dyn FnMut(Detail));
    fn check(cpu: &mut P::Cpu) -> Result<Census, Violation>;
    fn services() -> &'static [Service];
    fn serve(cpu: &mut P::Cpu, service: usize, budget: u32) -> Progress;
}

/// Implements the per-CPU layer: each call is one of the layer within.
macro_rules! front_calls {
    ($(fn $name:ident($($argument:ident: $type:ty),*) $(-> $result:ty)?;)*) => {
        impl<'z, P: Platform> PerCpu<P, BelowAny<'z, P>> for ErasedFront<'_, P> {
            $(fn $name(&self, $($argument: $type),*) $(-> $result)? {
                self.0.$name($($argument),*)
            })*
        }
    };
}

front_calls! {
    fn caches() -> bool;
    fn uses_hints() -> bool;
    fn cpus() -> u16;
    fn has_cpu(cpu: CpuId) -> bool;
    fn pop(
        cpu: &mut P::Cpu, table: FrameTable<'_, P>, order: Order, hint: Hint, missed: &mut Missed
    ) -> Option<Frame>;
    fn push(
        cpu: &mut P::Cpu, table: FrameTable<'_, P>, head: Frame, order: Order, hint: Hint,
        missed: &mut Missed
    ) -> bool;
    fn serve(
        cpu: &mut P::Cpu, zone: &BelowAny<'z, P>, order: Order, hint: Hint
    ) -> Option<Frame>;
    fn keep(
        cpu: &mut P::Cpu, zone: &BelowAny<'z, P>, head: Frame, order: Order, hint: Hint
    ) -> bool;
    fn claim(table: FrameTable<'_, P>, head: Frame, order: Order) -> Result<Tag, FreeError>;
    fn drain(cpu: &mut P::Cpu, zone: &BelowAny<'z, P>);
    fn drain_parked(cpu: &mut P::Cpu, zone: &BelowAny<'z, P>, other: CpuId) -> bool;
    fn with_all_drained(
        cpu: &mut P::Cpu, zone: &BelowAny<'z, P>, waits: bool,
        then: &mut dyn FnMut(&mut P::Cpu, bool)
    );
    fn is_alone(own: CpuId) -> bool;
    fn park(cpu: &mut P::Cpu);
    fn buffered_frames() -> u64;
    fn cached_frames_of(cpu: CpuId) -> u64;
}
