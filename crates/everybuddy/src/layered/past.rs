//! Single frames past the lists.
//!
//! Where a list is bypassed, or there is none, most requests come here. The zone layer's attempt is inlined, so a
//! function saves no registers for the calls that it seldom makes at its end.
//!
//! # Invariants
//! Those of [`layered`](super). What an attempt could not serve is served by the zone layer's own operation.

use core::borrow::Borrow;

use super::Layered;
use crate::error::{AllocateError, FreeError};
use crate::frame::{Index, Order};
use crate::frame_table::{Frame, Tag};
use crate::lock::Unserved;
use crate::percpu::{Missed, PerCpu};
use crate::platform::{CpuToken, Platform};
use crate::probe::{Event, Probe};
use crate::region::Span;
use crate::request::Flags;
use crate::zone::{Caller, Uninterrupted, ZoneLayer};

impl<P, F, Z, S> Layered<P, F, Z, S>
where
    P: Platform,
    F: PerCpu<P, Uninterrupted<Z>>,
    Z: ZoneLayer<P>,
    S: Borrow<Span> + Sync,
{
    /// Serves a request for a block that missed the list. Out of line, so that a hit saves no registers. The request is
    /// passed in pieces, so that a hit does not write it to memory. With two calls, a hit would set up a stack frame.
    #[inline(never)]
    pub(super) fn allocate_missed(
        &self,
        cpu: &mut P::Cpu,
        order: Order,
        hint: (u64, u32),
        flags: Flags,
        missed: Missed,
    ) -> Result<Index, AllocateError> {
        if Z::TRIES && order == Order::ZERO && missed.bypasses {
            self.allocate_past(cpu, flags)
        } else {
            self.allocate_block(cpu, order, hint, flags, missed)
        }
    }

    /// Serves a request for one frame in a system without lists: it needs fewer arguments.
    #[inline(never)]
    pub(super) fn allocate_frame(
        &self,
        cpu: &mut P::Cpu,
        flags: Flags,
    ) -> Result<Index, AllocateError> {
        self.allocate_past(cpu, flags)
    }

    /// Serves a request for one frame that goes past the list. It calls another function at its end at most, so it
    /// saves no registers; and what the zone layer needs otherwise is not written to memory.
    #[inline(always)]
    pub(super) fn allocate_past(
        &self,
        cpu: &mut P::Cpu,
        flags: Flags,
    ) -> Result<Index, AllocateError> {
        if !Z::UNKNOWN_CPUS_ARE_BUSY && !self.front.caches() && !self.has_cpu(cpu.id()) {
            return Err(AllocateError::NoSuchCpu);
        }
        let caller = &mut Caller::asking(cpu, Self::class(flags));
        match self.zone.try_allocate(caller) {
            Ok(frame) => {
                P::probe(cpu).record(Event::Bypass(Order::ZERO));
                Ok(frame.index())
            }
            Err(unserved) => self.allocate_from_zone(cpu, flags, unserved),
        }
    }

    /// Serves the request after the attempt failed.
    #[inline(never)]
    fn allocate_from_zone(
        &self,
        cpu: &mut P::Cpu,
        flags: Flags,
        unserved: Unserved,
    ) -> Result<Index, AllocateError> {
        let caller = &mut Caller::asking(cpu, Self::class(flags)).after(unserved);
        let served = self.zone.allocate(caller, Order::ZERO);
        // See `ZoneLayer::UNKNOWN_CPUS_ARE_BUSY`. The request of an unknown CPU bypasses nothing.
        if served == Err(AllocateError::Busy) && !self.has_cpu(cpu.id()) {
            return Err(AllocateError::NoSuchCpu);
        }
        P::probe(cpu).record(Event::Bypass(Order::ZERO));
        match served {
            Ok(head) => Ok(head.index()),
            Err(error) => self.allocate_failed(cpu, Order::ZERO, flags, error),
        }
    }

    /// Frees a block that missed the list, as [`allocate_missed`](Self::allocate_missed) allocates one.
    #[inline(never)]
    pub(super) fn free_missed(
        &self,
        cpu: &mut P::Cpu,
        start: Index,
        order: Order,
        hint: (u64, u32),
        missed: Missed,
    ) -> Result<(), FreeError> {
        if Z::TRIES && order == Order::ZERO && missed.bypasses {
            self.free_past(cpu, start)
        } else {
            self.free_block(cpu, start, order, hint, missed)
        }
    }

    /// Frees one frame in a system without lists.
    #[inline(never)]
    pub(super) fn free_frame(&self, cpu: &mut P::Cpu, start: Index) -> Result<(), FreeError> {
        self.free_past(cpu, start)
    }

    /// Frees one frame past the list, as [`allocate_past`](Self::allocate_past) allocates one.
    #[inline(always)]
    pub(super) fn free_past(&self, cpu: &mut P::Cpu, start: Index) -> Result<(), FreeError> {
        let table = self.zone.table();
        let head = table.frame(start).ok_or(FreeError::Foreign)?;
        if !self.front.caches() && !self.has_cpu(cpu.id()) {
            return Err(FreeError::NoSuchCpu);
        }
        let tag = self.front.claim(table, head, Order::ZERO)?;
        match self.zone.try_free(&mut Caller::of(cpu), head, tag) {
            Ok(()) => {
                P::probe(cpu).record(Event::Bypass(Order::ZERO));
                Ok(())
            }
            Err(unserved) => self.free_into_zone(cpu, head, tag, unserved),
        }
    }

    /// Frees the frame after the attempt failed.
    #[inline(never)]
    fn free_into_zone(
        &self,
        cpu: &mut P::Cpu,
        head: Frame,
        tag: Tag,
        unserved: Unserved,
    ) -> Result<(), FreeError> {
        let caller = &mut Caller::of(cpu).after(unserved);
        self.zone.free(caller, head, Order::ZERO, tag)?;
        // A refused free bypasses nothing.
        P::probe(cpu).record(Event::Bypass(Order::ZERO));
        Ok(())
    }
}
