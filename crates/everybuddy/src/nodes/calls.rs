//! The interface of all systems, for zones.
//!
//! Each call goes to the zones that it concerns, with frame numbers translated.
//!
//! # Invariants
//! Those of [`nodes`](super).

use super::{Nodes, Zone};
use crate::api::{FrameAllocator, Progress, Service, one_by_one};
use crate::error::{AllocateError, FreeError, RegionError};
use crate::frame::{Index, Order};
use crate::isolation::{Isolation, settled};
use crate::place::Place;
use crate::platform::{AtomicWord, CpuId, CpuToken, Ordering, Platform};
use crate::region::{FrameRange, Span};
use crate::request::{Flags, Release, Request, Size};
use crate::shortage::{Kept, Reason, Shortage};
use crate::snapshot::{Census, FrameState, Snapshot, Violation};

/// Returns the number of frames that a release names; 0 if there are none.
#[inline]
fn frames_of(size: Size) -> u64 {
    u64::from(size.extent().frames())
}

impl<P: Platform, S: FrameAllocator<P> + ?Sized> FrameAllocator<P> for Nodes<'_, P, S> {
    fn allocate(&self, cpu: &mut P::Cpu, request: Request) -> Result<Index, AllocateError> {
        self.allocate_from(cpu, request, &Place::ANYWHERE)
    }

    fn allocate_in(
        &self,
        cpu: &mut P::Cpu,
        request: Request,
        place: &Place,
    ) -> Result<Index, AllocateError> {
        self.allocate_from(cpu, request, place)
    }

    fn free(&self, cpu: &mut P::Cpu, release: Release) -> Result<(), FreeError> {
        let (zone, inner) = self.release_in(cpu.id(), release)?;
        zone.forget_zeros(inner);
        zone.system.free(cpu, inner)?;
        zone.refund(frames_of(release.size));
        Ok(())
    }

    fn free_zeroed(&self, cpu: &mut P::Cpu, release: Release) -> Result<(), FreeError> {
        let (zone, inner) = self.release_in(cpu.id(), release)?;
        if !zone.contains(inner) {
            return zone.system.free(cpu, inner);
        }
        let frames = inner.size.extent().frames();
        let free = || zone.system.free(cpu, inner);
        zone.zeroed.freed(inner.start.0, frames, free)?;
        zone.refund(u64::from(frames));
        Ok(())
    }

    fn is_zeroed(&self, start: Index, frames: u32) -> bool {
        let zone = self.zone_of(start);
        zone.is_some_and(|(zone, start)| zone.zeroed.is_zeroed(start.0, frames))
    }

    fn allocate_bulk(
        &self,
        cpu: &mut P::Cpu,
        request: Request,
        out: &mut [Index],
    ) -> Result<usize, AllocateError> {
        if out.is_empty() {
            return Ok(0);
        }
        if cpu.id().0 >= self.cpus {
            return Err(AllocateError::NoSuchCpu);
        }
        let mut given = 0;
        // The nearest zone serves as much as it can in one call, unless it has a reserve.
        let home = (self.home(cpu.id()), &Place::ANYWHERE);
        self.check_size(request)?;
        if let Some((_, zone)) = self.next_zone(home, None)
            && zone.reserve == 0
        {
            let quick = request.with_flags(Flags::NO_WAIT);
            given = match zone.system.allocate_bulk(cpu, quick, out) {
                Ok(given) => given,
                Err(AllocateError::Exhausted | AllocateError::Busy) => 0,
                Err(error) => return Err(error),
            };
            for index in out.iter_mut().take(given) {
                *index = self.here(zone, *index);
            }
        }
        one_by_one(out, given, || self.allocate(cpu, request))
    }

    fn allocate_nested(&self, cpu: CpuId, request: Request) -> Result<Index, AllocateError> {
        if cpu.0 >= self.cpus {
            return Err(AllocateError::NoSuchCpu);
        }
        let frames = self.check_size(request)?;
        self.try_zones(cpu, frames, &Place::ANYWHERE, &mut |system| {
            system.allocate_nested(cpu, request)
        })
    }

    fn free_nested(&self, cpu: CpuId, release: Release) -> Result<(), FreeError> {
        let (zone, inner) = self.release_in(cpu, release)?;
        zone.forget_zeros(inner);
        zone.system.free_nested(cpu, inner)?;
        zone.refund(frames_of(release.size));
        Ok(())
    }

    fn drain(&self, cpu: &mut P::Cpu) {
        self.zones.iter().for_each(|zone| zone.system.drain(cpu));
    }

    fn drain_parked(&self, cpu: &mut P::Cpu, other: CpuId) -> Result<(), AllocateError> {
        let mut drained = Ok(());
        for zone in self.zones {
            drained = drained.and(zone.system.drain_parked(cpu, other));
        }
        drained
    }

    fn quiesce(&self, cpu: &mut P::Cpu) -> Result<(), AllocateError> {
        let mut settled = Ok(());
        for zone in self.zones {
            settled = settled.and(zone.system.quiesce(cpu));
        }
        settled
    }

    fn park(&self, cpu: &mut P::Cpu) {
        self.zones.iter().for_each(|zone| zone.system.park(cpu));
    }

    fn add(&self, cpu: &mut P::Cpu, range: FrameRange) -> Result<(), RegionError> {
        self.in_zone(cpu.id(), range, |zone| {
            zone.forget_zeros_of(range);
            zone.system.add(cpu, range)?;
            zone.refund(range.frames);
            Ok(())
        })
    }

    fn remove(&self, cpu: &mut P::Cpu, range: FrameRange) -> Result<(), RegionError> {
        self.in_zone(cpu.id(), range, |zone| {
            zone.withdraw(range, || zone.system.remove(cpu, range))
        })
    }

    fn reserve(&self, cpu: &mut P::Cpu, range: FrameRange) -> Result<(), RegionError> {
        self.in_zone(cpu.id(), range, |zone| {
            zone.withdraw(range, || zone.system.reserve(cpu, range))
        })
    }

    fn unreserve(&self, cpu: &mut P::Cpu, range: FrameRange) -> Result<(), RegionError> {
        self.in_zone(cpu.id(), range, |zone| {
            zone.forget_zeros_of(range);
            zone.system.unreserve(cpu, range)?;
            zone.refund(range.frames);
            Ok(())
        })
    }

    /// Within a zone, as the calls that it makes.
    fn isolate(&self, cpu: &mut P::Cpu, range: FrameRange) -> Result<u64, RegionError> {
        self.in_zone(cpu.id(), range, |zone| {
            settled(zone.system.quiesce(cpu))?;
            Isolation {
                span: &self.span,
                state: &|index| self.frame_state(index),
                reserve: &mut |free| self.reserve(cpu, free),
            }
            .run(range)
        })
    }

    fn allocate_at(&self, cpu: &mut P::Cpu, range: FrameRange) -> Result<Index, RegionError> {
        self.in_zone(cpu.id(), range, |zone| {
            let start = zone.withdraw(range, || zone.system.allocate_at(cpu, range))?;
            Ok(self.here(zone, start))
        })
    }

    fn try_allocate_at(&self, cpu: &mut P::Cpu, range: FrameRange) -> Result<Index, RegionError> {
        self.in_zone(cpu.id(), range, |zone| {
            let start = zone.withdraw(range, || zone.system.try_allocate_at(cpu, range))?;
            Ok(self.here(zone, start))
        })
    }

    fn span(&self) -> &Span {
        &self.span
    }

    fn max_order(&self) -> Order {
        self.max_order
    }

    fn cpus(&self) -> u16 {
        self.cpus
    }

    fn metadata_bytes(&self) -> usize {
        let systems = self.zones.iter().map(|zone| zone.system.metadata_bytes());
        let zeroed = self.zones.iter().map(|zone| zone.zeroed.bytes());
        systems.sum::<usize>() + zeroed.sum::<usize>() + size_of_val(self.zones)
    }

    fn snapshot(&self, cpu: &mut P::Cpu) -> Snapshot {
        let mut all = Snapshot::NONE;
        for zone in self.zones {
            all.add(&zone.system.snapshot(cpu));
        }
        all
    }

    /// What is free on the CPU's own node, and how much elsewhere.
    fn shortage(&self, cpu: &mut P::Cpu, request: Request) -> Shortage {
        let home = self.home(cpu.id());
        let mut near = Snapshot::NONE;
        let (mut far, mut own_list) = (near, 0);
        let (mut kept, mut is_free) = (None, false);
        for zone in self.zones {
            if zone.node != home {
                far.add(&zone.system.snapshot(cpu));
                continue;
            }
            let own = zone.system.shortage(cpu, request);
            near.add(&own.free);
            own_list += own.own_list;
            is_free |= own.reason() == Reason::None;
            kept = [kept, own.kept]
                .into_iter()
                .flatten()
                .max_by_key(|kept| kept.frames);
        }
        Shortage {
            size: request.size,
            free: near,
            own_list,
            kept: kept.filter(|_| !is_free),
            elsewhere: far.free_frames() + far.buffered_frames,
            max_order: self.max_order,
        }
    }

    fn kept_by_others(&self, cpu: CpuId, order: Order) -> Option<Kept> {
        let kept = self
            .zones
            .iter()
            .filter_map(|zone| zone.system.kept_by_others(cpu, order));
        kept.max_by_key(|kept| kept.frames)
    }

    fn free_frames(&self) -> u64 {
        self.zones.iter().map(Zone::free_frames).sum()
    }

    fn buffered_frames(&self, cpu: CpuId) -> u64 {
        let zones = self.zones.iter();
        zones.map(|zone| zone.system.buffered_frames(cpu)).sum()
    }

    fn frame_state(&self, index: Index) -> Option<FrameState> {
        if index.0 >= self.span.frames() {
            return None;
        }
        let Some((zone, inner)) = self.zone_of(index) else {
            return Some(FrameState::Hole);
        };
        let here = |head| self.here(zone, head);
        Some(match zone.system.frame_state(inner)? {
            FrameState::Allocated { head, order } => FrameState::Allocated {
                head: here(head),
                order,
            },
            FrameState::Free { head } => FrameState::Free { head: here(head) },
            state => state,
        })
    }

    fn check(&self, cpu: &mut P::Cpu) -> Result<Census, Violation> {
        let mut all = Census::default();
        let mut frames = 0;
        for zone in self.zones {
            let own = zone.system.check(cpu).map_err(|violation| Violation {
                index: self.here(zone, violation.index),
                ..violation
            })?;
            let free = own.free + own.buffered + own.queued;
            if zone.reserve > 0 && zone.free.load(Ordering::Relaxed) != free {
                return Err(Violation {
                    index: self.here(zone, Index(0)),
                    what: "the free frames of a zone with a reserve are miscounted",
                });
            }
            all.add(&own);
            frames += u64::from(zone.system.span().frames());
        }
        // The frames between zones are holes.
        all.holes += u64::from(self.span.frames()) - frames;
        Ok(all)
    }

    fn services(&self) -> &'static [Service] {
        let services = self.zones.iter().map(|zone| zone.system.services());
        services
            .max_by_key(|services| services.len())
            .unwrap_or(&[])
    }

    fn serve(&self, cpu: &mut P::Cpu, service: usize, budget: u32) -> Progress {
        let mut progress = Progress::Idle;
        for zone in self.zones {
            if service < zone.system.services().len()
                && zone.system.serve(cpu, service, budget) == Progress::More
            {
                progress = Progress::More;
            }
        }
        progress
    }
}
