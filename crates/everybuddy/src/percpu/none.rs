//! No per-CPU layer: every request goes to the zone layer.
//!
//! It shows what the lists are worth.
//!
//! # Source
//! \[iBuddy\] §2.4: `BS`, the buddy system without its lazy layer.
//!
//! # Invariants
//! No block is ever cached.

use super::{Missed, PerCpu};
use crate::frame::Order;
use crate::frame_table::{Frame, FrameTable};
use crate::platform::{CpuId, Platform};
use crate::request::Hint;

/// A layer that caches nothing.
pub struct NoList {
    /// The number of CPUs that the system was set up for.
    pub(crate) cpus: u16,
}

impl<P: Platform, Z> PerCpu<P, Z> for NoList {
    #[inline(always)]
    fn caches(&self) -> bool {
        false
    }

    fn uses_hints(&self) -> bool {
        false
    }

    fn cpus(&self) -> u16 {
        self.cpus
    }

    #[inline(always)]
    fn has_cpu(&self, cpu: CpuId) -> bool {
        cpu.0 < self.cpus
    }

    #[inline(always)]
    fn pop(
        &self,
        _: &mut P::Cpu,
        _: FrameTable<'_, P>,
        _: Order,
        _: Hint,
        missed: &mut Missed,
    ) -> Option<Frame> {
        missed.bypasses = true;
        None
    }

    #[inline(always)]
    fn push(
        &self,
        _: &mut P::Cpu,
        _: FrameTable<'_, P>,
        _: Frame,
        _: Order,
        _: Hint,
        missed: &mut Missed,
    ) -> bool {
        missed.bypasses = true;
        false
    }

    fn serve(&self, _: &mut P::Cpu, _: &Z, _: Order, _: Hint) -> Option<Frame> {
        None
    }

    fn keep(&self, _: &mut P::Cpu, _: &Z, _: Frame, _: Order, _: Hint) -> bool {
        false
    }

    fn drain(&self, _: &mut P::Cpu, _: &Z) {}

    fn drain_parked(&self, _: &mut P::Cpu, _: &Z, _: CpuId) -> bool {
        true
    }

    fn with_all_drained(
        &self,
        cpu: &mut P::Cpu,
        _: &Z,
        _: bool,
        then: &mut dyn FnMut(&mut P::Cpu, bool),
    ) {
        then(cpu, true);
    }

    fn is_alone(&self, _: CpuId) -> bool {
        true
    }

    fn park(&self, _: &mut P::Cpu) {}

    fn buffered_frames(&self) -> u64 {
        0
    }

    fn cached_frames_of(&self, _: CpuId) -> u64 {
        0
    }
}
