//! Ranges of frames that the caller names: adding, withdrawing, allocating.
//!
//! Such a call needs frames that the lists of CPUs may cache. It is rare, so all lists are drained for it.
//!
//! # Invariants
//! The zone layer knows indexes only. Each error leaves this module with a physical frame.

use core::borrow::Borrow;

use super::Layered;
use crate::api::FrameAllocator;
use crate::error::{RangeError, RegionError};
use crate::frame::Index;
use crate::frame_table::Tag;
use crate::percpu::PerCpu;
use crate::platform::{CpuId, CpuToken, Platform};
use crate::region::{FrameRange, Span};
use crate::request::Class;
use crate::snapshot::FrameState;
use crate::zone::{Caller, Uninterrupted, ZoneLayer};

/// Work of the zone layer on a range of frames.
type RangeWork<'t, P, Z> =
    &'t dyn Fn(&Uninterrupted<Z>, &mut Caller<'_, P>) -> Result<(), RangeError>;

impl<P, F, Z, S> Layered<P, F, Z, S>
where
    P: Platform,
    F: PerCpu<P, Uninterrupted<Z>>,
    Z: ZoneLayer<P>,
    S: Borrow<Span> + Sync,
{
    /// Returns `true` if a CPU's list may hold this frame.
    fn may_be_cached(&self, index: Index) -> bool {
        matches!(self.frame_state(index), Some(FrameState::Buffered { .. }))
    }

    /// Takes a range of free frames out of service.
    pub(super) fn withdraw(
        &self,
        cpu: &mut P::Cpu,
        range: FrameRange,
        to: Tag,
    ) -> Result<(), RegionError> {
        self.on(cpu, range, |cpu, start, frames| {
            self.with_lists_drained(cpu, &|zone, caller| {
                zone.withdraw(caller, start, frames, to)
            })
        })
    }

    /// Puts a range into service that has the tag `from`.
    pub(super) fn restore(
        &self,
        cpu: &mut P::Cpu,
        range: FrameRange,
        from: Tag,
    ) -> Result<(), RegionError> {
        self.on(cpu, range, |cpu, start, frames| {
            self.zone.add(&mut Caller::of(cpu), start, frames, from)
        })
    }

    /// Does `work` on a range as a CPU for which there are lists.
    fn on<T>(
        &self,
        cpu: &mut P::Cpu,
        range: FrameRange,
        work: impl FnOnce(&mut P::Cpu, Index, u32) -> Result<T, RangeError>,
    ) -> Result<T, RegionError> {
        if !self.has_cpu(cpu.id()) {
            return Err(RegionError::NoSuchCpu);
        }
        self.span
            .borrow()
            .on(range, |start, frames| work(cpu, start, frames))
    }

    /// Allocates a range. If a list may cache a frame of it, `may_drain` lets all lists be drained.
    pub(super) fn allocate_range(
        &self,
        cpu: &mut P::Cpu,
        range: FrameRange,
        may_drain: bool,
    ) -> Result<Index, RegionError> {
        self.on(cpu, range, |cpu, start, frames| {
            let taken = self.zone.allocate_at(&mut Caller::of(cpu), start, frames);
            match taken.map(|_| ()) {
                Err(RangeError::NotFree(index)) if may_drain && self.may_be_cached(index) => {
                    self.with_lists_drained(cpu, &|zone, caller| {
                        zone.allocate_at(caller, start, frames).map(|_| ())
                    })?
                }
                taken => taken?,
            }
            Ok(start)
        })
    }

    /// Allocates a run before the system is in use.
    pub(crate) fn take_run(&self, start: Index, frames: u32) -> Result<(), RangeError> {
        let caller = &mut Caller {
            cpu: CpuId(0),
            probe: &mut P::Probe::default(),
            nested: false,
            found_held: false,
            class: Class::Unmovable,
        };
        self.zone.allocate_at(caller, start, frames).map(|_| ())
    }

    /// Calls `work`, which needs frames of a range, while no CPU caches any.
    fn with_lists_drained(
        &self,
        cpu: &mut P::Cpu,
        work: RangeWork<'_, P, Z>,
    ) -> Result<(), RangeError> {
        let mut worked = Err(RangeError::Busy);
        let then = &mut |cpu: &mut P::Cpu, all_drained: bool| {
            worked = match work(&self.zone, &mut Caller::of(cpu)) {
                // A frame that another CPU still caches may be free soon; one that is in use will not.
                Err(RangeError::NotFree(index)) if !all_drained && self.may_be_cached(index) => {
                    Err(RangeError::Busy)
                }
                result => result,
            };
        };
        self.front.with_all_drained(cpu, &self.zone, true, then);
        worked
    }
}
