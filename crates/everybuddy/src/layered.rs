//! A system made of layers: a per-CPU layer over a zone layer.
//!
//! Validation, exact requests, partial frees, bulk, nested requests and the search before a
//! failure are the same for every system of this kind, and are implemented here once.
//!
//! # Invariants
//! Nothing from outside reaches a layer unvalidated: frame numbers became frames, orders are at
//! most the largest, runs end within the span.

pub(crate) mod erased;
mod past;
mod range;

use core::borrow::Borrow;
use core::fmt;
use core::marker::PhantomData;

use crate::api::{Extent, FrameAllocator, Progress, Service, describe, one_by_one};
use crate::detail::Detail;
use crate::error::{AllocateError, BulkFreeError, FreeError, RegionError};
use crate::frame::{Frames, Index, Order};
use crate::frame_table::{Frame, Tag};
use crate::percpu::{Missed, PerCpu};
use crate::platform::{CpuId, CpuToken, Platform};
use crate::probe::{Event, Probe};
use crate::region::{FrameRange, Span};
use crate::request::{Class, Flags, Hint, Release, Request, Size};
use crate::snapshot::{Census, FrameState, Snapshot, Violation};
use crate::zone::{Caller, Uninterrupted, ZoneLayer};

/// A request, tried once more after all lists were drained.
type LastTry<'t, P, Z> =
    &'t dyn Fn(&Uninterrupted<Z>, &mut Caller<'_, P>) -> Result<Frame, AllocateError>;

/// A per-CPU layer over a zone layer, with its span or what lends it.
pub struct Layered<P: Platform, F, Z, S = Span> {
    front: F,
    zone: Uninterrupted<Z>,
    max_order: Order,
    span: S,
    metadata_bytes: usize,
    platform: PhantomData<fn() -> P>,
}

impl<P: Platform, F: PerCpu<P, Uninterrupted<Z>>, Z: ZoneLayer<P>> fmt::Debug for Layered<P, F, Z> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        describe(self, "Layered", f)
    }
}

impl<P: Platform, F, Z: ZoneLayer<P>> Layered<P, F, Z> {
    /// Joins the layers.
    pub(crate) fn new(front: F, zone: Z, span: Span, metadata_bytes: usize) -> Self {
        let max_order = zone.max_order();
        Self {
            front,
            zone: Uninterrupted(zone),
            max_order,
            span,
            metadata_bytes,
            platform: PhantomData,
        }
    }
}

impl<P, F, Z, S> Layered<P, F, Z, S>
where
    P: Platform,
    F: PerCpu<P, Uninterrupted<Z>>,
    Z: ZoneLayer<P>,
    S: Borrow<Span> + Sync,
{
    /// Returns `true` if the system was set up for this CPU. The layers below index by its number.
    #[inline(always)]
    fn has_cpu(&self, cpu: CpuId) -> bool {
        self.front.has_cpu(cpu)
    }

    /// Returns `true` if a CPU's list was looked at, so that the system was set up for that CPU.
    #[inline(always)]
    fn missed_own(&self, missed: Missed) -> bool {
        self.front.caches() && missed.bypasses
    }

    /// Returns the class of a request, if the zone distinguishes classes. Otherwise it is a constant, which costs
    /// nothing.
    #[inline(always)]
    fn class(flags: Flags) -> Class {
        if Z::HAS_CLASSES {
            flags.class()
        } else {
            Class::Unmovable
        }
    }

    fn too_large(&self) -> AllocateError {
        AllocateError::TooLarge {
            largest: self.max_order,
        }
    }

    /// Serves a run that is not a block.
    #[cold]
    #[inline(never)]
    fn allocate_run(
        &self,
        cpu: &mut P::Cpu,
        frames: u32,
        flags: Flags,
    ) -> Result<Index, AllocateError> {
        if !self.has_cpu(cpu.id()) {
            return Err(AllocateError::NoSuchCpu);
        }
        if frames == 0 {
            return Err(AllocateError::ZeroFrames);
        }
        if frames > self.max_order.frames() {
            return Err(self.too_large());
        }
        if let Some(order) = Order::covering(frames) {
            P::probe(cpu).record(Event::Bypass(order));
        }
        match self
            .zone
            .allocate_run(&mut Caller::asking(cpu, Self::class(flags)), frames)
        {
            Err(AllocateError::Exhausted) => self.search(cpu, flags, &|zone, caller| {
                zone.allocate_run(caller, frames)
            }),
            result => result.map(Frame::index),
        }
    }

    /// Serves a request for a block that a list may have to refill itself for, or that is larger than a frame.
    #[inline(never)]
    fn allocate_block(
        &self,
        cpu: &mut P::Cpu,
        order: Order,
        (origin, left): (u64, u32),
        flags: Flags,
        missed: Missed,
    ) -> Result<Index, AllocateError> {
        if order > self.max_order {
            return Err(self.too_large());
        }
        let hint = Hint::of(origin, left);
        if !missed.bypasses
            && let Some(head) = self.front.serve(cpu, &self.zone, order, hint)
        {
            return Ok(head.index());
        }
        if !Z::UNKNOWN_CPUS_ARE_BUSY && !self.missed_own(missed) && !self.has_cpu(cpu.id()) {
            return Err(AllocateError::NoSuchCpu);
        }
        P::probe(cpu).record(Event::Bypass(order));
        let caller = &mut Caller::asking(cpu, Self::class(flags));
        match self.zone.allocate(caller, order) {
            Ok(head) => Ok(head.index()),
            Err(error) => self.allocate_failed(cpu, order, flags, error),
        }
    }

    /// Searches what all CPUs cache for a block that the zone could not serve, or says why it could not.
    #[cold]
    #[inline(never)]
    fn allocate_failed(
        &self,
        cpu: &mut P::Cpu,
        order: Order,
        flags: Flags,
        error: AllocateError,
    ) -> Result<Index, AllocateError> {
        match error {
            AllocateError::Exhausted => {
                self.search(cpu, flags, &|zone, caller| zone.allocate(caller, order))
            }
            // See `ZoneLayer::UNKNOWN_CPUS_ARE_BUSY`.
            AllocateError::Busy if !self.has_cpu(cpu.id()) => Err(AllocateError::NoSuchCpu),
            error => Err(error),
        }
    }

    /// Brings home what all CPUs keep, and tries a last time.
    #[cold]
    #[inline(never)]
    fn search(
        &self,
        cpu: &mut P::Cpu,
        flags: Flags,
        last_try: LastTry<'_, P, Z>,
    ) -> Result<Index, AllocateError> {
        let waits = !flags.contains(Flags::NO_WAIT);
        // Lists that cache something stay as they are.
        let may_drain = || self.front.buffered_frames() == 0 && self.front.is_alone(cpu.id());
        if !(waits || self.front.caches() && may_drain()) {
            let caller = &mut Caller::asking(cpu, Self::class(flags));
            return self.try_beside_lists(|| last_try(&self.zone, caller));
        }
        let mut tried = Err(AllocateError::Exhausted);
        let last_try = &mut |cpu: &mut P::Cpu, all_drained: bool| {
            tried = match last_try(&self.zone, &mut Caller::asking(cpu, Self::class(flags))) {
                Err(AllocateError::Exhausted) if !all_drained => Err(AllocateError::Busy),
                result => result.map(Frame::index),
            };
        };
        self.front
            .with_all_drained(cpu, &self.zone, waits, last_try);
        tried
    }

    /// Answers a request that the zone refused, and that drains no list.
    #[cold]
    #[inline(never)]
    fn try_beside_lists(
        &self,
        last_try: impl FnOnce() -> Result<Frame, AllocateError>,
    ) -> Result<Index, AllocateError> {
        if !self.front.caches() {
            return Err(AllocateError::Exhausted);
        }
        if self.front.buffered_frames() > 0 {
            return Err(AllocateError::Busy);
        }
        // A list may have been drained since the zone refused. Or a frame is on its way to or from a list, or was in
        // another one when that list was looked at.
        match last_try() {
            Err(AllocateError::Exhausted) => Err(AllocateError::Busy),
            result => result.map(Frame::index),
        }
    }

    /// Frees a block that missed the list; in pieces, as above.
    #[inline(never)]
    fn free_block(
        &self,
        cpu: &mut P::Cpu,
        start: Index,
        order: Order,
        (origin, left): (u64, u32),
        missed: Missed,
    ) -> Result<(), FreeError> {
        let table = self.zone.table();
        let head = table.frame(start).ok_or(FreeError::Foreign)?;
        let hint = Hint::of(origin, left);
        if !missed.bypasses && self.front.keep(cpu, &self.zone, head, order, hint) {
            return Ok(());
        }
        if !self.missed_own(missed) && !self.has_cpu(cpu.id()) {
            return Err(FreeError::NoSuchCpu);
        }
        let tag = self.front.claim(table, head, order)?;
        self.zone.free(&mut Caller::of(cpu), head, order, tag)?;
        // A refused free bypasses nothing.
        P::probe(cpu).record(Event::Bypass(order));
        Ok(())
    }

    /// Frees by a count. Out of line, so that a free by order, whose caller may pass either, saves no registers.
    #[inline(never)]
    fn free_count(
        &self,
        cpu: &mut P::Cpu,
        start: Index,
        frames: u32,
        (origin, left): (u64, u32),
    ) -> Result<(), FreeError> {
        let table = self.zone.table();
        let bypasses = !self.front.caches();
        let missed = &mut Missed { bypasses };
        // A list takes only a block that was allocated as such, and no part of one.
        if self.front.caches()
            && let Extent::Block(order) = Size::Frames(Frames(frames)).extent()
            && let Some(head) = table.frame(start)
            && let hint = Hint::of(origin, left)
            && self.front.push(cpu, table, head, order, hint, missed)
        {
            return Ok(());
        }
        self.free_run(cpu, start, frames, (origin, left), *missed)
    }

    /// Frees a run that missed the list and may be a block, several, or a part of one; in pieces, as above.
    #[inline(never)]
    fn free_run(
        &self,
        cpu: &mut P::Cpu,
        start: Index,
        frames: u32,
        hint: (u64, u32),
        missed: Missed,
    ) -> Result<(), FreeError> {
        let head = self.run(start, frames)?;
        if let Extent::Block(order) = Size::Frames(Frames(frames)).extent()
            && self.zone.table().tag(head) == Tag::allocated(order)
        {
            return self.free_block(cpu, start, order, hint, missed);
        }
        if !self.has_cpu(cpu.id()) {
            return Err(FreeError::NoSuchCpu);
        }
        if let Some(order) = Order::covering(frames) {
            P::probe(cpu).record(Event::Bypass(order));
        }
        self.zone.free_run(&mut Caller::of(cpu), head, frames)
    }

    /// Goes on with a bulk request after `given`, until memory is exhausted.
    fn allocate_one_by_one(
        &self,
        cpu: &mut P::Cpu,
        request: Request,
        out: &mut [Index],
        given: usize,
    ) -> Result<usize, AllocateError> {
        one_by_one(out, given, || self.allocate(cpu, request))
    }

    /// Validates a run of frames.
    fn run(&self, start: Index, frames: u32) -> Result<Frame, FreeError> {
        if frames == 0 {
            return Err(FreeError::ZeroFrames);
        }
        let last = start.0.checked_add(frames - 1).ok_or(FreeError::Foreign)?;
        self.zone
            .table()
            .frame(Index(last))
            .ok_or(FreeError::Foreign)?;
        self.zone.table().frame(start).ok_or(FreeError::Foreign)
    }
}

impl<P, F, Z, S> FrameAllocator<P> for Layered<P, F, Z, S>
where
    P: Platform,
    F: PerCpu<P, Uninterrupted<Z>>,
    Z: ZoneLayer<P>,
    S: Borrow<Span> + Sync,
{
    // Always: as `free`.
    #[inline(always)]
    fn allocate(&self, cpu: &mut P::Cpu, request: Request) -> Result<Index, AllocateError> {
        match request.size.extent() {
            Extent::Block(order) => {
                let hint = request.hint;
                let missed = &mut Missed::default();
                match self.front.pop(cpu, self.zone.table(), order, hint, missed) {
                    Some(head) => Ok(head.index()),
                    None if Z::TRIES && !self.front.caches() && order == Order::ZERO => {
                        self.allocate_frame(cpu, request.flags)
                    }
                    None => {
                        let hint = (hint.origin(), hint.left);
                        self.allocate_missed(cpu, order, hint, request.flags, *missed)
                    }
                }
            }
            Extent::Run(frames) => self.allocate_run(cpu, frames, request.flags),
        }
    }

    // Always: out of line, a release travels through memory, which costs a hit as much again.
    #[inline(always)]
    fn free(&self, cpu: &mut P::Cpu, release: Release) -> Result<(), FreeError> {
        match release.size {
            Size::Order(order) => {
                let (table, hint) = (self.zone.table(), release.hint);
                let bypasses = !self.front.caches();
                let missed = &mut Missed { bypasses };
                if self.front.caches()
                    && let Some(head) = table.frame(release.start)
                    && self.front.push(cpu, table, head, order, hint, missed)
                {
                    return Ok(());
                }
                if Z::TRIES && !self.front.caches() && order == Order::ZERO {
                    return self.free_frame(cpu, release.start);
                }
                let hint = (hint.origin(), hint.left);
                self.free_missed(cpu, release.start, order, hint, *missed)
            }
            Size::Frames(Frames(frames)) => {
                let hint = (release.hint.origin(), release.hint.left);
                self.free_count(cpu, release.start, frames, hint)
            }
        }
    }

    fn allocate_bulk(
        &self,
        cpu: &mut P::Cpu,
        request: Request,
        out: &mut [Index],
    ) -> Result<usize, AllocateError> {
        let mut given = 0;
        let Extent::Block(order) = request.size.extent() else {
            return self.allocate_one_by_one(cpu, request, out, 0);
        };
        if order > self.max_order {
            return self.allocate_one_by_one(cpu, request, out, 0);
        }
        let table = self.zone.table();
        while let Some(place) = out.get_mut(given) {
            let missed = &mut Missed::default();
            let Some(head) = self.front.pop(cpu, table, order, request.hint, missed) else {
                break;
            };
            *place = head.index();
            given += 1;
        }
        let (_, rest) = out.split_at_mut(given);
        let mut places = rest.iter_mut();
        if places.len() > 0 {
            if !self.has_cpu(cpu.id()) {
                return Err(AllocateError::NoSuchCpu);
            }
            let wanted = places.len() as u32;
            P::probe(cpu).record(Event::Bypass(order));
            let tag = Tag::allocated(order);
            given += self.zone.allocate_bulk(
                &mut Caller::asking(cpu, Self::class(request.flags)),
                order,
                wanted,
                tag,
                |head| {
                    if let Some(place) = places.next() {
                        *place = head.index();
                    }
                },
            ) as usize;
        }
        self.allocate_one_by_one(cpu, request, out, given)
    }

    fn free_bulk(&self, cpu: &mut P::Cpu, releases: &[Release]) -> Result<(), BulkFreeError> {
        let mut index = 0;
        while let Some(release) = releases.get(index) {
            let fail = |error| BulkFreeError { index, error };
            // Without lists, blocks go to the zone under one lock, as many as follow each other.
            let block = |release: &Release| match release.size {
                Size::Order(order) => self.zone.table().frame(release.start).map(|at| (at, order)),
                Size::Frames(_) => None,
            };
            if self.front.caches() || block(release).is_none() {
                self.free(cpu, *release).map_err(fail)?;
                index += 1;
                continue;
            }
            if !self.has_cpu(cpu.id()) {
                return Err(fail(FreeError::NoSuchCpu));
            }
            let mut blocks = releases[index..].iter().map_while(block);
            let mut taken = 0;
            let result = self.zone.free_each(&mut Caller::of(cpu), || {
                let (head, order) = blocks.next()?;
                taken += 1;
                Some((head, order))
            });
            // The one that failed was taken from the iterator, but not freed.
            result.map_err(|error| BulkFreeError {
                index: index + taken - 1,
                error,
            })?;
            index += taken;
        }
        Ok(())
    }

    fn allocate_nested(&self, cpu: CpuId, request: Request) -> Result<Index, AllocateError> {
        if !self.has_cpu(cpu) {
            return Err(AllocateError::NoSuchCpu);
        }
        let mut probe = P::Probe::default();
        let caller = &mut Caller {
            cpu,
            probe: &mut probe,
            nested: true,
            found_held: false,
            class: Self::class(request.flags),
        };
        request.size.checked(self.max_order)?;
        let mut ask = || match request.size.extent() {
            Extent::Block(order) => self.zone.allocate(caller, order),
            Extent::Run(frames) => self.zone.allocate_run(caller, frames),
        };
        match ask() {
            Err(AllocateError::Exhausted) => self.try_beside_lists(ask),
            result => result.map(Frame::index),
        }
    }

    fn free_nested(&self, cpu: CpuId, release: Release) -> Result<(), FreeError> {
        if !self.has_cpu(cpu) {
            return Err(FreeError::NoSuchCpu);
        }
        let mut probe = P::Probe::default();
        let caller = &mut Caller {
            cpu,
            probe: &mut probe,
            nested: true,
            found_held: false,
            class: Class::Unmovable,
        };
        match release.size {
            Size::Order(order) => {
                let head = self
                    .zone
                    .table()
                    .frame(release.start)
                    .ok_or(FreeError::Foreign)?;
                self.zone.free(caller, head, order, Tag::allocated(order))
            }
            Size::Frames(frames) => {
                let head = self.run(release.start, frames.0)?;
                self.zone.free_run(caller, head, frames.0)
            }
        }
    }

    fn drain(&self, cpu: &mut P::Cpu) {
        self.front.drain(cpu, &self.zone);
    }

    fn drain_parked(&self, cpu: &mut P::Cpu, other: CpuId) -> Result<(), AllocateError> {
        if !self.has_cpu(cpu.id()) || !self.has_cpu(other) {
            return Err(AllocateError::NoSuchCpu);
        }
        if self.front.drain_parked(cpu, &self.zone, other) {
            Ok(())
        } else {
            Err(AllocateError::Busy)
        }
    }

    fn quiesce(&self, cpu: &mut P::Cpu) -> Result<(), AllocateError> {
        if !self.has_cpu(cpu.id()) {
            return Err(AllocateError::NoSuchCpu);
        }
        let mut settled = Err(AllocateError::Busy);
        let settle = &mut |cpu: &mut P::Cpu, all_drained: bool| {
            if all_drained && self.zone.settle(&mut Caller::of(cpu)) {
                settled = Ok(());
            }
        };
        self.front.with_all_drained(cpu, &self.zone, true, settle);
        settled
    }

    fn park(&self, cpu: &mut P::Cpu) {
        self.front.park(cpu);
    }

    fn add(&self, cpu: &mut P::Cpu, range: FrameRange) -> Result<(), RegionError> {
        self.restore(cpu, range, Tag::HOLE)
    }

    fn remove(&self, cpu: &mut P::Cpu, range: FrameRange) -> Result<(), RegionError> {
        self.withdraw(cpu, range, Tag::HOLE)
    }

    fn reserve(&self, cpu: &mut P::Cpu, range: FrameRange) -> Result<(), RegionError> {
        self.withdraw(cpu, range, Tag::RESERVED)
    }

    fn unreserve(&self, cpu: &mut P::Cpu, range: FrameRange) -> Result<(), RegionError> {
        self.restore(cpu, range, Tag::RESERVED)
    }

    fn allocate_at(&self, cpu: &mut P::Cpu, range: FrameRange) -> Result<Index, RegionError> {
        self.allocate_range(cpu, range, self.front.caches())
    }

    fn try_allocate_at(&self, cpu: &mut P::Cpu, range: FrameRange) -> Result<Index, RegionError> {
        self.allocate_range(cpu, range, false)
    }

    fn services(&self) -> &'static [Service] {
        self.zone.services()
    }

    fn serve(&self, cpu: &mut P::Cpu, service: usize, budget: u32) -> Progress {
        self.zone.serve(&mut Caller::of(cpu), service, budget)
    }

    fn span(&self) -> &Span {
        self.span.borrow()
    }

    fn max_order(&self) -> Order {
        self.max_order
    }

    fn cpus(&self) -> u16 {
        self.front.cpus()
    }

    fn metadata_bytes(&self) -> usize {
        self.metadata_bytes
    }

    fn snapshot(&self, cpu: &mut P::Cpu) -> Snapshot {
        let snapshot = self.zone.snapshot(&mut Caller::of(cpu));
        Snapshot {
            buffered_frames: self.front.buffered_frames() + snapshot.buffered_frames,
            ..snapshot
        }
    }

    fn free_frames(&self) -> u64 {
        self.zone.free_frames() + self.front.buffered_frames()
    }

    fn buffered_frames(&self, cpu: CpuId) -> u64 {
        self.front.cached_frames_of(cpu)
    }

    fn uses_hints(&self) -> bool {
        self.front.uses_hints()
    }

    fn frame_state(&self, index: Index) -> Option<FrameState> {
        let frame = self.zone.table().frame(index)?;
        self.zone.table().holder(frame).map(|(_, state)| state)
    }

    fn inspect(&self, see: &mut dyn FnMut(Detail)) {
        self.zone.inspect(see);
    }

    fn check(&self, cpu: &mut P::Cpu) -> Result<Census, Violation> {
        let census = self.zone.check(&mut Caller::of(cpu))?;
        if census.buffered != self.front.buffered_frames() {
            return Err(Violation::overall(
                "the lists don't hold the frames that are tagged as buffered",
            ));
        }
        Ok(census)
    }
}
