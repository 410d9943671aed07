//! LLFree: bit fields and counters that are changed by single exchanges, without any lock.
//!
//! A lock serializes CPUs, and a CPU that stops while it holds one stops the others. Here each step of an operation is
//! one exchange or one addition on one word, and after each of them the state is valid, even if its CPU stops there. A
//! CPU reserves a part of memory for its own requests, so CPUs seldom write the same cache line. The metadata are
//! small: a bit for each frame, an entry for each 512, and two more bits that only holes and reserved frames need.
//!
//! It is a system of its own and not a composition of layers: it has no list, no zone and no record of a frame.
//!
//! # Source
//! \[LLFree\]: the two levels, the children of 512 frames with a counter each, the pair of entries in a word, the trees
//! and the reservations of CPUs.
//!
//! | file | contents |
//! |---|---|
//! | `field` | the bits: runs of free frames are found, taken, freed |
//! | `entry` | the entry of a child: the number of its free frames; huge frames |
//! | `lower` | the lower level: bits and entries together; holes and reserved frames |
//! | `upper` | the upper level: trees of children, and which CPU has reserved which |
//! | `request` | how a request finds frames, and what a free does with them |
//! | `survey` | the state of memory, computed from the bits; the checks |
//!
//! # Invariants
//! 1. Those of `field`, `entry`, `lower` and `upper`.
//! 2. No operation waits for another CPU. An operation retries only after another CPU has changed a word, and the
//!    number of retries is bounded. Nested operations therefore need no special case.
//! 3. A request for a single frame is refused as exhausted only if at some moment no frame was free at all.
//!
//! # Design decisions
//! Where the paper is silent or another interface is needed: see the row in `systems`.

mod entry;
pub(crate) mod field;
mod lower;
mod request;
pub(crate) mod survey;
#[cfg(test)]
mod tests;
mod upper;

use core::fmt;

use crate::api::{FrameAllocator, describe, one_by_one};
use crate::arena::{Arena, ArenaPlan};
use crate::bit_runs::WORD;
use crate::cache_padded::CachePadded;
use crate::detail::Detail;
use crate::error::{AllocateError, BuildError, FreeError, RangeError, RegionError};
use crate::frame::{Index, Order};
use crate::free_bits::FreeBits;
use crate::platform::{AtomicWord, CpuId, CpuToken, Platform};
use crate::probe::{Event, Probe};
use crate::region::{FrameRange, Span};
use crate::request::{Release, Request, Size};
use crate::snapshot::{Census, FrameState, Snapshot, Violation};
use crate::withdrawn::{Withdrawn, WithdrawnFrames};
use entry::{ABSENT_PAIR, Entries};
use field::{CHILD, Fields};
use lower::Lower;
use upper::{EMPTY_TREE, LocalTree, Upper};

/// The frames of a tree by default: 16 MiB, as in the authors' programs.
pub(crate) const TREE: u32 = 8 * CHILD;
/// The frames of the smallest tree: one pair of children.
pub(crate) const SMALLEST_TREE: u32 = 2 * CHILD;
/// The frames of the largest tree: 1 GiB.
pub(crate) const LARGEST_TREE: u32 = 1 << 18;
/// The largest order: two huge frames.
pub(crate) const LARGEST_BLOCK: Order = Order::TEN;

/// The numbers of a system.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Geometry {
    pub(crate) span: Span,
    pub(crate) cpus: u16,
    pub(crate) max_order: Order,
    /// The frames of a tree, a power of two.
    pub(crate) tree: u32,
}

impl Geometry {
    /// Returns the number of words of a bitmap with a bit for each frame of whole pairs of children.
    fn words(&self) -> usize {
        self.pairs() * (SMALLEST_TREE / WORD) as usize
    }

    fn pairs(&self) -> usize {
        self.span.frames().div_ceil(SMALLEST_TREE) as usize
    }

    fn trees(&self) -> usize {
        self.span.frames().div_ceil(self.tree) as usize
    }
}

/// LLFree.
pub struct LlFree<'m, P: Platform> {
    lower: Lower<'m, P>,
    upper: Upper<'m, P>,
    span: Span,
    max_order: Order,
    metadata_bytes: usize,
}

impl<P: Platform> fmt::Debug for LlFree<'_, P> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        describe(self, "LlFree", f)
    }
}

impl<'m, P: Platform> LlFree<'m, P> {
    /// Plans the memory of [`new`](Self::new).
    pub(crate) fn plan(plan: ArenaPlan, geometry: &Geometry) -> ArenaPlan {
        let plan = plan
            .slice::<P::AtomicU64>(geometry.words())
            .slice::<P::AtomicU64>(geometry.pairs());
        WithdrawnFrames::<P>::plan(plan, geometry.words())
            .slice::<P::AtomicU64>(geometry.trees())
            .slice::<CachePadded<LocalTree<P>>>(geometry.cpus.into())
    }

    /// Creates the system without memory: all frames are holes.
    pub(crate) fn new(
        arena: &mut Arena<'m>,
        geometry: &Geometry,
        metadata_bytes: usize,
    ) -> Result<Self, BuildError> {
        let words = geometry.words();
        let new = P::AtomicU64::new;
        let fields = Fields {
            words: arena.slice("word of frames' bits", words, |_| new(u64::MAX))?,
        };
        let entries = Entries {
            pairs: arena.slice("entries of two children", geometry.pairs(), |_| {
                new(ABSENT_PAIR)
            })?,
        };
        let withdrawn = WithdrawnFrames::new(arena, words)?;
        let trees = arena.slice("word of a tree", geometry.trees(), |_| new(EMPTY_TREE))?;
        // The CPUs start far from each other: the entries of adjacent trees share a cache line.
        let distance = geometry.span.frames() / u32::from(geometry.cpus).max(1);
        let locals = arena.slice("reservation of a CPU", geometry.cpus.into(), |cpu| {
            CachePadded::new(LocalTree::new(cpu as u32 * distance))
        })?;
        Ok(Self {
            lower: Lower {
                fields,
                entries,
                withdrawn,
            },
            upper: Upper {
                trees,
                locals,
                shift: geometry.tree.trailing_zeros(),
            },
            span: geometry.span,
            max_order: geometry.max_order,
            metadata_bytes,
        })
    }

    /// Adds a range of frames as free, before the system is in use. O(frames / 64).
    pub(crate) fn seed(&self, start: Index, frames: u32) {
        // Ranges do not overlap, so all these frames are holes.
        let _ = self.restore(start.0, frames, Withdrawn::Hole);
    }

    /// Allocates a run, before the system is in use or in a call.
    pub(crate) fn take_first(&self, start: Index, frames: u32) -> Result<(), RangeError> {
        self.lower.allocate_at(start.0, frames)?;
        self.each_tree(start.0, frames, |tree, frames| {
            self.upper.take(tree, frames);
        });
        Ok(())
    }

    fn local(&self, cpu: CpuId) -> Option<&LocalTree<P>> {
        self.upper.locals.get(cpu.index()).map(|local| &**local)
    }

    /// Allocates for a CPU.
    #[inline(always)]
    fn allocate_on(
        &self,
        cpu: CpuId,
        probe: &mut P::Probe,
        request: Request,
    ) -> Result<Index, AllocateError> {
        let local = self.local(cpu).ok_or(AllocateError::NoSuchCpu)?;
        let (frames, order) = request.size.checked(self.max_order)?;
        self.find(local, probe, frames, order).map(Index)
    }

    /// Frees for a CPU.
    #[inline(always)]
    fn free_on(&self, cpu: CpuId, probe: &mut P::Probe, release: Release) -> Result<(), FreeError> {
        let local = self.local(cpu).ok_or(FreeError::NoSuchCpu)?;
        let start = release.start;
        let frames = match release.size {
            Size::Order(order) if start.is_aligned(order) => order.frames(),
            Size::Order(_) => return self.unaligned(start),
            Size::Frames(frames) => frames.0,
        };
        if frames == 0 {
            return Err(FreeError::ZeroFrames);
        }
        let span = self.span.frames();
        if start.0 >= span || frames > span - start.0 {
            return Err(FreeError::Foreign);
        }
        self.put(local, probe, start.0, frames)
    }

    /// Says what is wrong with a free by an order of which no block can start there.
    #[cold]
    fn unaligned(&self, start: Index) -> Result<(), FreeError> {
        Err(match self.state_of(start) {
            None => FreeError::Foreign,
            Some(FrameState::Hole) => FreeError::Hole,
            Some(FrameState::Reserved) => FreeError::Reserved,
            Some(FrameState::Allocated { order, .. }) => FreeError::WrongOrder { allocated: order },
            Some(_) => FreeError::NotAllocated,
        })
    }

    /// Puts frames into service, at both levels.
    fn restore(&self, start: u32, frames: u32, from: Withdrawn) -> Result<(), RangeError> {
        self.lower.restore(start, frames, from)?;
        self.each_tree(start, frames, |tree, frames| {
            self.upper.add_free(tree, frames)
        });
        Ok(())
    }

    /// Calls `work` with each tree of a run, and the number of frames of the run in it.
    fn each_tree(&self, start: u32, frames: u32, mut work: impl FnMut(u32, u32)) {
        let (mut at, mut left) = (start, frames);
        while left > 0 {
            let size = 1 << self.upper.shift;
            let length = left.min(size - (at & (size - 1)));
            work(self.upper.tree_of(at), length);
            at = at.wrapping_add(length);
            left -= length;
        }
    }

    fn withdraw(&self, cpu: CpuId, range: FrameRange, to: Withdrawn) -> Result<(), RegionError> {
        self.local(cpu).ok_or(RegionError::NoSuchCpu)?;
        self.span.on(range, |start, frames| {
            self.upper.release_all();
            self.lower.withdraw(start.0, frames, to)?;
            self.each_tree(start.0, frames, |tree, frames| {
                self.upper.take(tree, frames);
            });
            Ok(())
        })
    }

    fn add_back(&self, cpu: CpuId, range: FrameRange, from: Withdrawn) -> Result<(), RegionError> {
        self.local(cpu).ok_or(RegionError::NoSuchCpu)?;
        self.span
            .on(range, |start, frames| self.restore(start.0, frames, from))
    }
}

impl<P: Platform> FrameAllocator<P> for LlFree<'_, P> {
    #[inline]
    fn allocate(&self, cpu: &mut P::Cpu, request: Request) -> Result<Index, AllocateError> {
        self.allocate_on(cpu.id(), P::probe(cpu), request)
    }

    #[inline]
    fn free(&self, cpu: &mut P::Cpu, release: Release) -> Result<(), FreeError> {
        self.free_on(cpu.id(), P::probe(cpu), release)
    }

    // Repeats the default method, since the compiler does not inline `allocate` there (32 more instructions per frame).
    fn allocate_bulk(
        &self,
        cpu: &mut P::Cpu,
        request: Request,
        out: &mut [Index],
    ) -> Result<usize, AllocateError> {
        one_by_one(out, 0, || self.allocate(cpu, request))
    }

    fn allocate_nested(&self, cpu: CpuId, request: Request) -> Result<Index, AllocateError> {
        self.allocate_on(cpu, &mut P::Probe::default(), request)
    }

    fn free_nested(&self, cpu: CpuId, release: Release) -> Result<(), FreeError> {
        self.free_on(cpu, &mut P::Probe::default(), release)
    }

    fn drain(&self, cpu: &mut P::Cpu) {
        if let Some(local) = self.local(cpu.id())
            && local.reserved().is_some()
        {
            let frames = self.upper.adopt(local, None);
            P::probe(cpu).record(Event::Drain { frames });
        }
    }

    fn drain_parked(&self, cpu: &mut P::Cpu, other: CpuId) -> Result<(), AllocateError> {
        match (self.local(cpu.id()), self.local(other)) {
            (Some(_), Some(other)) => {
                self.upper.adopt(other, None);
                Ok(())
            }
            _ => Err(AllocateError::NoSuchCpu),
        }
    }

    fn quiesce(&self, cpu: &mut P::Cpu) -> Result<(), AllocateError> {
        self.local(cpu.id()).ok_or(AllocateError::NoSuchCpu)?;
        self.upper.release_all();
        Ok(())
    }

    fn park(&self, cpu: &mut P::Cpu) {
        self.drain(cpu);
    }

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
        self.local(cpu.id()).ok_or(RegionError::NoSuchCpu)?;
        self.span.on(range, |start, frames| {
            self.take_first(start, frames).map(|()| start)
        })
    }

    fn span(&self) -> &Span {
        &self.span
    }

    fn max_order(&self) -> Order {
        self.max_order
    }

    fn cpus(&self) -> u16 {
        self.upper.locals.len() as u16
    }

    fn metadata_bytes(&self) -> usize {
        self.metadata_bytes
    }

    /// O(frames / 64): the numbers are computed from the bits.
    fn snapshot(&self, _: &mut P::Cpu) -> Snapshot {
        self.survey(self.max_order)
    }

    /// O(CPUs + trees): the sum of their counters.
    fn free_frames(&self) -> u64 {
        let trees = (0..self.upper.trees.len() as u32).map(|tree| self.upper.state(tree).0);
        let reserved = self
            .upper
            .locals
            .iter()
            .filter_map(|local| local.reserved());
        let free = trees.sum::<i64>() + reserved.map(|own| i64::from(own.free)).sum::<i64>();
        free.max(0) as u64
    }

    fn frame_state(&self, index: Index) -> Option<FrameState> {
        self.state_of(index)
    }

    fn inspect(&self, see: &mut dyn FnMut(Detail)) {
        self.inspect_trees(see);
    }

    fn check(&self, _: &mut P::Cpu) -> Result<Census, Violation> {
        self.check_all()
    }
}
