//! A zone layer in which no interrupt arrives.
//!
//! # Purpose
//!
//! An interrupt handler may wait for a lock that another CPU holds while that CPU allocates. If the handler interrupted
//! an operation that holds the lock of a zone, or a domain, both CPUs would wait for ever. So the whole operation of a
//! zone layer is a [`Section`]: natively nothing.
//!
//! # Invariants
//!
//! Whatever a CPU of a zone layer waits for without a bound is held only within such a section. Sections are nested
//! properly, which guards of locks are not.

use super::supply::{Demand, Supplied};
use super::{Caller, ZoneLayer};
use crate::api::{Progress, Service};
use crate::error::{AllocateError, FreeError, RegionError};
use crate::frame::{Order, Pfn};
use crate::frame_table::{Frame, FrameTable, Tag};
use crate::lock::Section;
use crate::platform::Platform;
use crate::snapshot::{Census, Snapshot, Violation};

/// A zone layer whose operations no interrupt interrupts.
pub(crate) struct Uninterrupted<Z>(pub(crate) Z);

impl<P: Platform, Z: ZoneLayer<P>> ZoneLayer<P> for Uninterrupted<Z> {
    const UNKNOWN_CPUS_ARE_BUSY: bool = Z::UNKNOWN_CPUS_ARE_BUSY;
    const HAS_CLASSES: bool = Z::HAS_CLASSES;

    #[inline(always)]
    fn table(&self) -> FrameTable<'_, P> {
        self.0.table()
    }

    #[inline(always)]
    fn max_order(&self) -> Order {
        self.0.max_order()
    }

    #[inline(always)]
    fn allocate(&self, caller: &mut Caller<'_, P>, order: Order) -> Result<Frame, AllocateError> {
        let _section = Section::<P>::begin();
        self.0.allocate(caller, order)
    }

    #[inline(always)]
    fn allocate_run(
        &self,
        caller: &mut Caller<'_, P>,
        frames: u32,
    ) -> Result<Frame, AllocateError> {
        let _section = Section::<P>::begin();
        self.0.allocate_run(caller, frames)
    }

    #[inline(always)]
    fn allocate_bulk(
        &self,
        caller: &mut Caller<'_, P>,
        order: Order,
        wanted: u32,
        tag: Tag,
        sink: impl FnMut(Frame),
    ) -> u32 {
        let _section = Section::<P>::begin();
        self.0.allocate_bulk(caller, order, wanted, tag, sink)
    }

    #[inline(always)]
    fn free(
        &self,
        caller: &mut Caller<'_, P>,
        head: Frame,
        order: Order,
        tag: Tag,
    ) -> Result<(), FreeError> {
        let _section = Section::<P>::begin();
        self.0.free(caller, head, order, tag)
    }

    #[inline(always)]
    fn free_bulk(
        &self,
        caller: &mut Caller<'_, P>,
        source: impl FnMut() -> Option<(Frame, Order, Tag)>,
    ) {
        let _section = Section::<P>::begin();
        self.0.free_bulk(caller, source);
    }

    #[inline(always)]
    fn free_each(
        &self,
        caller: &mut Caller<'_, P>,
        source: impl FnMut() -> Option<(Frame, Order)>,
    ) -> Result<(), FreeError> {
        let _section = Section::<P>::begin();
        self.0.free_each(caller, source)
    }

    #[inline(always)]
    fn free_run(
        &self,
        caller: &mut Caller<'_, P>,
        start: Frame,
        frames: u32,
    ) -> Result<(), FreeError> {
        let _section = Section::<P>::begin();
        self.0.free_run(caller, start, frames)
    }

    #[inline(always)]
    fn supply(
        &self,
        caller: &mut Caller<'_, P>,
        demand: Demand,
        owned: impl FnMut() -> Option<Frame>,
        sink: impl FnMut(Frame, Order, Supplied),
    ) -> u32 {
        let _section = Section::<P>::begin();
        self.0.supply(caller, demand, owned, sink)
    }

    fn add(
        &self,
        caller: &mut Caller<'_, P>,
        start: Pfn,
        frames: u32,
        from: Tag,
    ) -> Result<(), RegionError> {
        let _section = Section::<P>::begin();
        self.0.add(caller, start, frames, from)
    }

    fn withdraw(
        &self,
        caller: &mut Caller<'_, P>,
        start: Pfn,
        frames: u32,
        to: Tag,
    ) -> Result<(), RegionError> {
        let _section = Section::<P>::begin();
        self.0.withdraw(caller, start, frames, to)
    }

    fn allocate_at(
        &self,
        caller: &mut Caller<'_, P>,
        start: Pfn,
        frames: u32,
    ) -> Result<Frame, RegionError> {
        let _section = Section::<P>::begin();
        self.0.allocate_at(caller, start, frames)
    }

    fn settle(&self, caller: &mut Caller<'_, P>) -> bool {
        let _section = Section::<P>::begin();
        self.0.settle(caller)
    }

    fn services(&self) -> &'static [Service] {
        self.0.services()
    }

    fn serve(&self, caller: &mut Caller<'_, P>, service: usize, budget: u32) -> Progress {
        let _section = Section::<P>::begin();
        self.0.serve(caller, service, budget)
    }

    fn snapshot(&self, caller: &mut Caller<'_, P>) -> Snapshot {
        let _section = Section::<P>::begin();
        self.0.snapshot(caller)
    }

    fn check(&self, caller: &mut Caller<'_, P>) -> Result<Census, Violation> {
        let _section = Section::<P>::begin();
        self.0.check(caller)
    }
}
