//! No per-CPU layer: every request goes to the zone layer.
//!
//! # Purpose
//!
//! It shows what the lists are worth.
//!
//! # Source
//!
//! \[iBuddy\] §2.4: `BS`, the buddy system without its lazy layer.
//!
//! # Invariants
//!
//! No block is ever cached.

use super::PerCpu;
use crate::error::{AllocateError, FreeError};
use crate::frame::Order;
use crate::frame_table::{Frame, FrameTable, Tag};
use crate::platform::{CpuId, CpuToken, Platform};
use crate::probe::{Event, Probe};
use crate::request::{Class, Hint};
use crate::zone::{Caller, ZoneLayer};

/// A layer that caches nothing.
pub struct NoList {
    /// The number of CPUs that the system was set up for.
    pub(crate) cpus: u16,
}

impl<P: Platform> PerCpu<P> for NoList {
    const CACHES: bool = false;

    fn cpus(&self) -> u16 {
        self.cpus
    }

    #[inline(always)]
    fn pop(&self, _: &mut P::Cpu, _: FrameTable<'_, P>, _: Order, _: Hint) -> Option<Frame> {
        None
    }

    #[inline(always)]
    fn push(&self, _: &mut P::Cpu, _: FrameTable<'_, P>, _: Frame, _: Order, _: Hint) -> bool {
        false
    }

    #[inline]
    fn allocate<Z: ZoneLayer<P>>(
        &self,
        cpu: &mut P::Cpu,
        zone: &Z,
        order: Order,
        hint: Hint,
    ) -> Result<Frame, AllocateError> {
        self.allocate_for(cpu, zone, order, hint, Class::Unmovable)
    }

    #[inline]
    fn allocate_for<Z: ZoneLayer<P>>(
        &self,
        cpu: &mut P::Cpu,
        zone: &Z,
        order: Order,
        _: Hint,
        class: Class,
    ) -> Result<Frame, AllocateError> {
        if !Z::UNKNOWN_CPUS_ARE_BUSY && cpu.id().0 >= self.cpus {
            return Err(AllocateError::NoSuchCpu);
        }
        cpu.probe().record(Event::Bypass(order));
        zone.allocate(&mut Caller::asking(cpu, class), order)
    }

    #[inline]
    fn free<Z: ZoneLayer<P>>(
        &self,
        cpu: &mut P::Cpu,
        zone: &Z,
        head: Frame,
        order: Order,
        _: Hint,
    ) -> Result<(), FreeError> {
        if cpu.id().0 >= self.cpus {
            return Err(FreeError::NoSuchCpu);
        }
        zone.free(&mut Caller::of(cpu), head, order, Tag::allocated(order))?;
        // A refused free bypasses nothing.
        cpu.probe().record(Event::Bypass(order));
        Ok(())
    }

    fn drain<Z: ZoneLayer<P>>(&self, _: &mut P::Cpu, _: &Z) {}

    fn drain_parked<Z: ZoneLayer<P>>(&self, _: &mut P::Cpu, _: &Z, _: CpuId) -> bool {
        true
    }

    fn with_all_drained<Z: ZoneLayer<P>>(
        &self,
        cpu: &mut P::Cpu,
        _: &Z,
        then: &mut dyn FnMut(&mut P::Cpu, bool),
    ) {
        then(cpu, true);
    }

    fn park(&self, _: &mut P::Cpu) {}

    fn buffered_frames(&self) -> u64 {
        0
    }

    fn cached_frames_of(&self, _: CpuId) -> u64 {
        0
    }

    fn tags_cached(&self) -> bool {
        true
    }
}
