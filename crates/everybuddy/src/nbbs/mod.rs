//! NBBS: a buddy system whose blocks are split and coalesced by single exchanges, without any lock.
//!
//! A buddy system under a lock lets one CPU at a time split and coalesce. Here the tree of all possible blocks exists
//! as status bits, and an allocated block is a bit in it. Splitting and coalescing need no work of their own: a block
//! is free if neither it, nor a block that contains it, nor a part of it is allocated. Several levels of the tree share
//! a word, so one exchange changes all of them.
//!
//! It is a system of its own and not a composition of layers: it has no list, no zone and no record of a frame. The
//! bits tell with which order a block was allocated.
//!
//! # Source
//! \[NBBS\]: the tree of status bits, several levels in one word, marks of parts that are occupied, the scattered
//! places where CPUs begin to search. The row in `systems` lists the differences.
//!
//! | file | contents |
//! |---|---|
//! | `word` | the bits of a word: blocks and units |
//! | `tree` | the words of all levels: blocks are taken and given back; large blocks are divided |
//! | `search` | how a request finds a block; when it is refused |
//! | `exact` | frees of parts; given frames, holes and reserved frames |
//! | `survey` | the state of memory, computed from the words; the checks |
//!
//! # Invariants
//! 1. Those of `word`, `tree`, `search` and `exact`.
//! 2. No operation waits for another CPU, so nested operations need no special case.

mod exact;
mod search;
mod survey;
#[cfg(test)]
mod tests;
mod tree;
mod word;

use core::fmt;

use crate::api::{FrameAllocator, describe};
use crate::arena::{Arena, ArenaPlan};
use crate::bit_runs::WORD;
use crate::cache_padded::CachePadded;
use crate::error::{AllocateError, BuildError, FreeError, RangeError, RegionError};
use crate::frame::{Index, Order};
use crate::free_bits::FreeBits;
use crate::platform::{AtomicWord, CpuId, CpuToken, Platform};
use crate::probe::{Event, Probe};
use crate::region::{FrameRange, Span};
use crate::request::{Release, Request, Size};
use crate::snapshot::{Census, FrameState, Snapshot, Violation};
use crate::withdrawn::{Withdrawn, WithdrawnFrames};
use search::{CallerState, CpuPlaces, Search};
use tree::Tree;
use word::{WITHDRAWN, WORD_LEVELS, WordLevel};

/// The numbers of a system.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Geometry {
    pub(crate) span: Span,
    pub(crate) cpus: u16,
    pub(crate) max_order: Order,
}

impl Geometry {
    /// Returns the number of words of a level.
    fn words(&self, level: u32) -> usize {
        if WordLevel(level) <= WordLevel::of(self.max_order) {
            self.span.frames().div_ceil(1 << WordLevel(level).shift()) as usize
        } else {
            0
        }
    }

    /// Returns the number of words of a bitmap.
    fn bitmap(&self) -> usize {
        self.span.frames().div_ceil(WORD) as usize
    }

    /// Returns the number of CPUs, and one for all nested requests.
    fn locals(&self) -> usize {
        usize::from(self.cpus) + 1
    }
}

/// A non-blocking buddy system.
pub struct Nbbs<'m, P: Platform> {
    search: Search<'m, P>,
    withdrawn: WithdrawnFrames<'m, P>,
    span: Span,
    max_order: Order,
    metadata_bytes: usize,
}

impl<P: Platform> fmt::Debug for Nbbs<'_, P> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        describe(self, "Nbbs", f)
    }
}

impl<'m, P: Platform> Nbbs<'m, P> {
    /// Plans the memory of [`new`](Self::new).
    pub(crate) fn plan(plan: ArenaPlan, geometry: &Geometry) -> ArenaPlan {
        let plan = (0..WORD_LEVELS as u32).fold(plan, |plan, level| match geometry.words(level) {
            0 => plan,
            words => plan.slice::<P::AtomicU64>(words),
        });
        WithdrawnFrames::<P>::plan(plan, geometry.bitmap())
            .slice::<CachePadded<CpuPlaces<P>>>(geometry.locals())
    }

    /// Creates the system without memory: all frames are holes.
    pub(crate) fn new(
        arena: &mut Arena<'m>,
        geometry: &Geometry,
        metadata_bytes: usize,
    ) -> Result<Self, BuildError> {
        let mut levels: [&'m [P::AtomicU64]; WORD_LEVELS] = [&[]; WORD_LEVELS];
        for (level, slice) in (0..).zip(&mut levels) {
            let words = geometry.words(level);
            if words == 0 {
                continue;
            }
            // All units are occupied; words beyond the span never become empty.
            let all = WordLevel(level).mask(WordLevel(level).whole());
            let (what, word) = match WordLevel(level) {
                WordLevel::BOTTOM => ("word of 32 frames", all | WITHDRAWN),
                _ => ("word of 16 words below", all),
            };
            *slice = arena.slice(what, words, |_| P::AtomicU64::new(word))?;
        }
        let withdrawn = WithdrawnFrames::new(arena, geometry.bitmap())?;
        // The CPUs start far from each other.
        let distance = geometry.span.frames() / geometry.locals() as u32;
        let locals = arena.slice("places of a CPU", geometry.locals(), |cpu| {
            CachePadded::new(CpuPlaces::new(cpu as u32 * distance))
        })?;
        let tree = Tree {
            levels,
            top: WordLevel::of(geometry.max_order),
        };
        Ok(Self {
            search: Search { tree, locals },
            withdrawn,
            span: geometry.span,
            max_order: geometry.max_order,
            metadata_bytes,
        })
    }

    /// Adds a range of frames as free, before the system is in use. O(frames / 32).
    pub(crate) fn seed(&self, start: Index, frames: u32) {
        let Some(caller) = self.caller(CpuId(0), true) else {
            return;
        };
        // Ranges do not overlap, so all these frames are holes.
        let _ = self.put_into_service(&caller, start.0, frames, Withdrawn::Hole);
    }

    /// Allocates a run before the system is in use.
    pub(crate) fn take_first(&self, start: Index, frames: u32) -> Result<(), RangeError> {
        let caller = self.caller(CpuId(0), true);
        let caller = caller.ok_or(RangeError::NoSuchCpu)?;
        self.take_range(&caller, start.0, frames)
    }

    fn caller(&self, cpu: CpuId, is_nested: bool) -> Option<CallerState<'_, P>> {
        let (nested, locals) = self.search.locals.split_last()?;
        let local = locals.get(cpu.index())?;
        Some(CallerState {
            local: if is_nested { nested } else { local },
            is_nested,
        })
    }

    /// Allocates for a CPU.
    #[inline(always)]
    fn allocate_for(
        &self,
        caller: Option<CallerState<'_, P>>,
        request: Request,
    ) -> Result<Index, AllocateError> {
        let caller = caller.ok_or(AllocateError::NoSuchCpu)?;
        let (frames, order) = request.size.checked(self.max_order)?;
        let start = self.search.allocate(&caller, frames, order)?;
        if frames < order.frames() && WordLevel::of(order) > WordLevel::BOTTOM {
            // The rest of the block, which no other CPU knows.
            let _ = self.free_run(&caller, start + frames, order.frames() - frames);
        }
        Ok(Index(start))
    }

    /// Frees for a CPU.
    #[inline(always)]
    fn free_for(
        &self,
        caller: Option<CallerState<'_, P>>,
        release: Release,
    ) -> Result<(), FreeError> {
        let caller = caller.ok_or(FreeError::NoSuchCpu)?;
        let start = release.start;
        match release.size {
            Size::Order(order) => self.free_block(&caller, start, order),
            Size::Frames(frames) => {
                let (span, frames) = (self.span.frames(), frames.0);
                if frames == 0 {
                    return Err(FreeError::ZeroFrames);
                }
                if start.0 >= span || frames > span - start.0 {
                    return Err(FreeError::Foreign);
                }
                self.free_run(&caller, start.0, frames)
            }
        }
    }

    fn withdraw(&self, cpu: CpuId, range: FrameRange, to: Withdrawn) -> Result<(), RegionError> {
        let caller = self.caller(cpu, false).ok_or(RegionError::NoSuchCpu)?;
        self.span.on(range, |start, frames| {
            self.take_out(&caller, start.0, frames, to)
        })
    }

    fn add_back(&self, cpu: CpuId, range: FrameRange, from: Withdrawn) -> Result<(), RegionError> {
        let caller = self.caller(cpu, false).ok_or(RegionError::NoSuchCpu)?;
        self.span.on(range, |start, frames| {
            self.put_into_service(&caller, start.0, frames, from)
        })
    }

    /// Does nothing: no CPU keeps frames for itself.
    fn nothing_to_drain(&self, cpu: CpuId) -> Result<(), AllocateError> {
        match self.caller(cpu, false) {
            Some(_) => Ok(()),
            None => Err(AllocateError::NoSuchCpu),
        }
    }
}

impl<P: Platform> FrameAllocator<P> for Nbbs<'_, P> {
    #[inline]
    fn allocate(&self, cpu: &mut P::Cpu, request: Request) -> Result<Index, AllocateError> {
        let allocated = self.allocate_for(self.caller(cpu.id(), false), request);
        if let Some(order) = Order::covering(request.size.extent().frames()) {
            P::probe(cpu).record(Event::Bypass(order));
        }
        allocated
    }

    #[inline]
    fn free(&self, cpu: &mut P::Cpu, release: Release) -> Result<(), FreeError> {
        self.free_for(self.caller(cpu.id(), false), release)?;
        // A refused free bypasses nothing.
        if let Some(order) = Order::covering(release.size.extent().frames()) {
            P::probe(cpu).record(Event::Bypass(order));
        }
        Ok(())
    }

    fn allocate_nested(&self, cpu: CpuId, request: Request) -> Result<Index, AllocateError> {
        self.allocate_for(self.caller(cpu, true), request)
    }

    fn free_nested(&self, cpu: CpuId, release: Release) -> Result<(), FreeError> {
        self.free_for(self.caller(cpu, true), release)
    }

    fn drain(&self, _: &mut P::Cpu) {}

    fn drain_parked(&self, cpu: &mut P::Cpu, other: CpuId) -> Result<(), AllocateError> {
        self.nothing_to_drain(cpu.id())?;
        self.nothing_to_drain(other)
    }

    fn quiesce(&self, cpu: &mut P::Cpu) -> Result<(), AllocateError> {
        self.nothing_to_drain(cpu.id())
    }

    fn park(&self, _: &mut P::Cpu) {}

    fn add(&self, cpu: &mut P::Cpu, range: FrameRange) -> Result<(), RegionError> {
        self.add_back(cpu.id(), range, Withdrawn::Hole)
    }

    fn remove(&self, cpu: &mut P::Cpu, range: FrameRange) -> Result<(), RegionError> {
        self.withdraw(cpu.id(), range, Withdrawn::Hole)
    }

    fn reserve(&self, cpu: &mut P::Cpu, range: FrameRange) -> Result<(), RegionError> {
        self.withdraw(cpu.id(), range, Withdrawn::Reserved)
    }

    fn unreserve(&self, cpu: &mut P::Cpu, range: FrameRange) -> Result<(), RegionError> {
        self.add_back(cpu.id(), range, Withdrawn::Reserved)
    }

    fn allocate_at(&self, cpu: &mut P::Cpu, range: FrameRange) -> Result<Index, RegionError> {
        let caller = self.caller(cpu.id(), false).ok_or(RegionError::NoSuchCpu)?;
        self.span.on(range, |start, frames| {
            self.take_range(&caller, start.0, frames)?;
            Ok(start)
        })
    }

    fn span(&self) -> &Span {
        &self.span
    }

    fn max_order(&self) -> Order {
        self.max_order
    }

    fn cpus(&self) -> u16 {
        self.search.locals.len().saturating_sub(1) as u16
    }

    fn metadata_bytes(&self) -> usize {
        self.metadata_bytes
    }

    /// O(frames / 32): the numbers are computed from the words.
    fn snapshot(&self, _: &mut P::Cpu) -> Snapshot {
        self.survey(self.max_order)
    }

    /// O(frames / 32): no number of free frames is stored.
    fn free_frames(&self) -> u64 {
        FreeBits::free_frames(self)
    }

    fn frame_state(&self, index: Index) -> Option<FrameState> {
        self.state_of(index)
    }

    fn check(&self, _: &mut P::Cpu) -> Result<Census, Violation> {
        self.check_all()
    }
}
