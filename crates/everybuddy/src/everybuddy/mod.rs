//! Everybuddy: trees of frames that CPUs own, two bits and a byte per frame, and no lock on the path of a request.
//!
//! This project's own system. A hit is plain reads and writes of small metadata, which detect nearly all misuse; memory
//! that is all zero is a system that is all free, and free frames collect at high addresses, so that large blocks
//! become whole again.
//!
//! It is a system of its own and not a composition of layers: it has no list of free blocks.
//!
//! # Source
//! None. The trees resemble those of \[LLFree\], and the protocol between CPUs is that of the per-CPU lists.
//! docs/systems.md has the design and the alternatives.
//!
//! In the order of reading. Each file uses only files above it:
//!
//! | file | contents |
//! |---|---|
//! | `word` | the planes of a word, and the header of a tree |
//! | `wanted` | a checked request |
//! | `tree` | trees, and what the owner of a tree does with its words |
//! | `heads` | a byte per frame: what was allocated there, or that it is reserved |
//! | `foreign` | trees that a CPU does not own: claims, frees into them, searches |
//! | `geometry` | how many trees there are, and what else the machine decides |
//! | `fitting` | whether memory is short, and the smallest block of a tree |
//! | `filling` | which words a CPU fills with movable frames |
//! | `slots` | which trees a CPU owns |
//! | `local` | what a CPU keeps, and where it allocates |
//! | `put_back` | frames that go back to their tree |
//! | `list` | the blocks that it freed last; the hits |
//! | `free` | frees, into a list or elsewhere |
//! | `refused` | what was refused, until something is freed |
//! | `drain` | how a CPU gets the trees of the others |
//! | `fit` | how a request finds the smallest block |
//! | `fragments` | movable frames in the fragments between frames that stay |
//! | `request` | how a request that did not hit finds frames, and where a free that did not hit goes |
//! | `bulk` | many single frames by one call |
//! | `range` | ranges of frames: allocated where they are, added, removed, reserved |
//! | `survey` | the state of memory, computed from the planes; the checks |
//!
//! # Invariants
//! 1. Those of the files in the table.
//! 2. At every moment, each frame is in exactly one state, which the two planes and the header of its tree determine,
//!    and for an absent frame its byte.
//! 3. A free waits for no other CPU. The exception is the free of a part of an allocation, while another CPU frees a
//!    part of one.

mod bulk;
mod drain;
mod filling;
mod fit;
mod fitting;
mod foreign;
mod fragments;
mod free;
mod geometry;
mod heads;
mod list;
mod local;
mod put_back;
mod range;
mod refused;
mod request;
mod slots;
mod survey;
#[cfg(test)]
mod tests;
mod tree;
mod wanted;
mod word;

use core::fmt;

use crate::api::{Extent, FrameAllocator, describe, one_by_one};
use crate::arena::{Arena, ArenaPlan, LINE};
use crate::detail::Detail;
use crate::error::{AllocateError, BuildError, BulkFreeError, FreeError, RegionError};
use crate::frame::{Frames, Index, Order};
use crate::free_bits::FreeBits;
use crate::percpu::drain::Drains;
use crate::platform::{AtomicWord, CpuId, CpuToken, Platform};
use crate::region::{FrameRange, Span};
use crate::request::{Flags, Release, Request, Size};
use crate::shortage::Kept;
use crate::snapshot::{Census, FrameState, Snapshot, Violation};
use drain::Requests;
use filling::Filling;
use fitting::Fitting;
use foreign::{GROUP, Shared};
use geometry::{Dimensions, HEADS_WITH_LIST, TREES_PER_CPU};
pub(crate) use geometry::{Geometry, LARGEST_TREE, SMALLEST_TREE};
use heads::Heads;
use local::Local;
use range::Absent;
use tree::AllTrees;
use wanted::Wanted;
use word::{Header, Kind, Word};

/// Trees of frames that CPUs own.
pub struct OwnedTrees<'m, P: Platform> {
    shared: Shared<'m, P>,
    locals: &'m [Local<'m, P>],
    requests: &'m Requests<P>,
    /// 1 while a CPU divides pieces of allocations.
    divides: P::AtomicU32,
    span: Span,
    max_order: Order,
    /// The largest order of which a block lies in one tree.
    largest_hit: Order,
    metadata_bytes: usize,
}

impl<P: Platform> fmt::Debug for OwnedTrees<'_, P> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        describe(self, "OwnedTrees", f)
    }
}

impl<'m, P: Platform> OwnedTrees<'m, P> {
    /// Plans the memory of a system, which is the last part.
    pub(crate) fn plan(geometry: &Geometry) -> ArenaPlan {
        Self::plan_of(&geometry.dimensions())
    }

    const fn plan_of(of: &Dimensions) -> ArenaPlan {
        let cpus = of.cpus as usize;
        ArenaPlan::EMPTY
            .slice::<Word<P>>(of.words())
            .slice::<P::AtomicU64>(of.windows().words())
            .slice::<Header<P>>(of.trees() as usize)
            .slice::<P::Cell<u8>>(of.frames as usize)
            .slices::<P::Cell<u32>>(of.entries_below(HEADS_WITH_LIST), cpus)
            .slices::<P::Cell<u32>>(of.owned(), cpus)
            .slice::<Local<'m, P>>(cpus)
            .slice::<Requests<P>>(1)
            .slice::<Self>(1)
    }

    /// Returns the bytes that suffice for every span of up to `frames` frames and every number of CPUs up to `cpus`.
    /// `usize::MAX` if no memory has as many. Trees have a given size, or one that the memory and the CPUs decide.
    /// O(1).
    pub(crate) const fn bytes_up_to(frames: u32, cpus: u16, given: Option<u32>) -> usize {
        // Less memory may take more, since its trees are smaller. So this is the most of all sizes of trees.
        let mut most = 0;
        let mut tree = match given {
            Some(tree) => tree,
            None => SMALLEST_TREE,
        };
        loop {
            // The last span whose trees have this size.
            let last = 2 * tree as u64 * TREES_PER_CPU as u64 * cpus as u64 - 1;
            let is_last = given.is_some() || tree >= LARGEST_TREE || last >= frames as u64;
            let of = Dimensions {
                frames: if is_last { frames } else { last as u32 },
                cpus,
                tree: Some(tree),
            };
            let Ok(bytes) = Self::plan_of(&of).bytes() else {
                return usize::MAX;
            };
            if bytes > most {
                most = bytes;
            }
            if is_last {
                break;
            }
            tree *= 2;
        }
        // Fewer CPUs may own more trees together, and have more entries of lists: up to two of a list of large blocks,
        // and less than one of each other list, for each CPU. Few of these numbers differ at the same time.
        let entries = (1 + HEADS_WITH_LIST) * cpus as usize * size_of::<P::Cell<u32>>();
        most.saturating_add(entries.next_multiple_of(LINE))
    }

    /// Creates the system with all memory free.
    pub(crate) fn new(
        arena: &mut Arena<'m>,
        geometry: &Geometry,
        metadata_bytes: usize,
    ) -> Result<Self, BuildError> {
        let cpus = usize::from(geometry.cpus);
        let of = geometry.dimensions();
        let (trees, entries, owned) = (of.trees(), of.entries_below(HEADS_WITH_LIST), of.owned());
        let words = arena.zeroed("planes of a word", of.words())?;
        let windows = of.windows();
        // Between words and headers: otherwise the header of the first tree and its first word have addresses with the
        // same low bits, and a processor takes a read of one for a read of what was written to the other.
        let spent = arena.slice("marks of spent trees", windows.words(), |_| {
            P::AtomicU64::new(0)
        })?;
        let headers = arena.zeroed("header of a tree", trees as usize)?;
        let heads = arena.zeros::<P, u8>("byte of a frame", geometry.span.frames() as usize)?;
        let freed = arena.zeros_of_all::<P, u32>("freed block", entries, cpus)?;
        let slots = arena.zeros_of_all::<P, u32>("own tree", owned, cpus)?;
        let part = |all: &'m [P::Cell<u32>], cpu: usize, length: usize| {
            all.get(cpu * length..(cpu + 1) * length)
                .unwrap_or_default()
        };
        let locals = arena.slice("state of a CPU", cpus, |cpu| {
            let (freed, slots) = (part(freed, cpu, entries), part(slots, cpu, owned));
            let home = windows.home(cpu as u32);
            let first_tree = windows.groups(home).start * GROUP;
            let fitting = Fitting::new(first_tree, geometry.span.frames());
            let filling = Filling::new(first_tree);
            Local::new(cpu as u32, home, (fitting, filling), (&of, freed), slots)
        })?;
        let requests = arena.one("drain requests", Requests::new())?;
        let system = Self {
            shared: Shared {
                trees: AllTrees::new(headers, words, of.tree().trailing_zeros()),
                spent,
                heads: Heads::new(heads, geometry.max_order),
                windows,
            },
            locals,
            requests,
            divides: P::AtomicU32::new(0),
            span: geometry.span,
            max_order: geometry.max_order,
            largest_hit: geometry
                .max_order
                .min(Order::saturating(of.tree().trailing_zeros())),
            metadata_bytes,
        };
        Ok(system)
    }

    /// Turns frames into holes, before the system is in use.
    pub(crate) fn remove_before_use(&self, from: u32, to: u32) {
        let frames = to.saturating_sub(from);
        self.withdraw_run((Index(from), frames), Absent::Hole);
    }

    /// Returns the number of frames of all trees, which may be more than those of the span.
    pub(crate) fn frames_of_trees(&self) -> u32 {
        self.shared.trees.count() << self.shared.trees.shift
    }

    #[inline(always)]
    fn local(&self, cpu: CpuId) -> Option<&Local<'m, P>> {
        self.locals.get(cpu.index())
    }

    /// Checks the size of a request.
    #[inline(always)]
    fn wanted(&self, size: Size, flags: Flags) -> Result<Wanted, AllocateError> {
        let (frames, order) = size.checked(self.max_order)?;
        Ok(Wanted {
            frames,
            order,
            kind: Kind::of(flags.class()),
        })
    }

    /// Checks the place and the size of a free. Returns the first frame and the number of frames.
    #[inline(always)]
    fn named(&self, start: Index, size: Size) -> Result<(u32, u32), FreeError> {
        let span = self.span.frames();
        let frames = match size {
            Size::Frames(Frames(0)) => return Err(FreeError::ZeroFrames),
            _ if start.0 >= span => return Err(FreeError::Foreign),
            Size::Order(order) if start.is_aligned(order) => order.frames(),
            Size::Order(_) => return Err(self.unaligned(start)),
            Size::Frames(frames) => frames.0,
        };
        if frames <= span - start.0 {
            Ok((start.0, frames))
        } else {
            Err(FreeError::Foreign)
        }
    }

    /// Returns the order by which a block is freed. If it is freed by its count, it must have been allocated as such. A
    /// part of a block is none: another CPU may divide that block meanwhile, so the head is a hint.
    #[inline(always)]
    fn order_of(&self, start: Index, size: Size) -> Option<Order> {
        match size.extent() {
            Extent::Block(order) => {
                let is_block =
                    matches!(size, Size::Order(_)) || self.shared.heads.is_piece(start.0, order);
                is_block.then_some(order)
            }
            Extent::Run(_) => None,
        }
    }

    /// Says what is wrong with a free by an order of which no block can start there.
    #[cold]
    fn unaligned(&self, start: Index) -> FreeError {
        match self.state_of(start) {
            Some(FrameState::Allocated { order, .. }) => FreeError::WrongOrder { allocated: order },
            _ => self.diagnose(start.0, 1),
        }
    }

    /// Notes what was allocated.
    #[inline]
    fn note(&self, start: u32, frames: u32) {
        let header = self.shared.trees.header(self.shared.trees.tree_of(start));
        let kind = header.map_or(Kind::Staying, Header::kind_hint);
        self.shared.heads.set_run(start, frames, kind);
    }

    /// Serves a request that did not hit. The request is passed in pieces, so that a hit does
    /// not write it to memory for a call that it does not make.
    #[inline(never)]
    fn allocate_missed(
        &self,
        cpu: &mut P::Cpu,
        size: Size,
        flags: Flags,
    ) -> Result<Index, AllocateError> {
        let Some(local) = self.local(cpu.id()) else {
            return Err(AllocateError::NoSuchCpu);
        };
        let wanted = self.wanted(size, flags)?;
        let Wanted { order, kind, .. } = wanted;
        let is_small = !wanted.is_large();
        if wanted.is_block() {
            let refilled_hit = || {
                // By address: in a shortage, fit decides.
                if kind == Kind::Movable && order == Order::ZERO && !local.fitting.is_on() {
                    self.choose_fragments(local);
                }
                local.refill(&self.shared, order, kind);
                local.hit(&self.shared, order, kind)
            };
            if let Some(start) = is_small.then(refilled_hit).flatten() {
                return Ok(Index(start));
            }
        }
        let found = if order <= self.largest_hit {
            local.take_current(&self.shared, wanted)
        } else {
            None
        };
        let start = match found {
            // Its tree is for this kind.
            Some(start) if wanted.is_large() && wanted.is_block() => {
                self.shared.heads.set(start, order, kind);
                return Ok(Index(start));
            }
            Some(start) => start,
            None => self.allocate_slow(cpu, local, wanted, flags)?,
        };
        self.note(start, wanted.frames);
        Ok(Index(start))
    }
}

impl<P: Platform> FrameAllocator<P> for OwnedTrees<'_, P> {
    #[inline(always)]
    fn allocate(&self, cpu: &mut P::Cpu, request: Request) -> Result<Index, AllocateError> {
        if let Extent::Block(order) = request.size.extent()
            && let Some(local) = self.local(cpu.id())
            && let Some(start) = local.hit(&self.shared, order, Kind::of(request.flags.class()))
        {
            return Ok(Index(start));
        }
        self.allocate_missed(cpu, request.size, request.flags)
    }

    #[inline(always)]
    fn free(&self, cpu: &mut P::Cpu, release: Release) -> Result<(), FreeError> {
        if let Some(order) = self.order_of(release.start, release.size)
            && let Some(local) = self.local(cpu.id())
            && let Some(list) = local.take_head(&self.shared, release.start.0, order)
        {
            return self.free_of_list(cpu, local, list, (release.start.0, order));
        }
        self.free_other(cpu, release.start, release.size)
    }

    /// Blocks are taken word by word, or of whole words tree by tree. Runs, and what is larger than a tree, are
    /// allocated one by one.
    fn allocate_bulk(
        &self,
        cpu: &mut P::Cpu,
        request: Request,
        out: &mut [Index],
    ) -> Result<usize, AllocateError> {
        match request.size.extent() {
            Extent::Block(order) if order <= self.largest_hit => {
                self.allocate_many(cpu, order, request.flags, out)
            }
            _ => one_by_one(out, 0, || self.allocate(cpu, request)),
        }
    }

    fn free_bulk(&self, cpu: &mut P::Cpu, releases: &[Release]) -> Result<(), BulkFreeError> {
        self.free_all(cpu, releases)
    }

    fn allocate_nested(&self, cpu: CpuId, request: Request) -> Result<Index, AllocateError> {
        let local = self.local(cpu).ok_or(AllocateError::NoSuchCpu)?;
        let wanted = self.wanted(request.size, request.flags)?;
        let start = self.allocate_unowned(local.home, wanted)?;
        self.note(start, wanted.frames);
        Ok(Index(start))
    }

    fn free_nested(&self, cpu: CpuId, release: Release) -> Result<(), FreeError> {
        let local = self.local(cpu).ok_or(FreeError::NoSuchCpu)?;
        let (start, frames) = self.checked(release.start, release.size, true)?;
        self.with_nested_free(local, (start, frames), || self.free_foreign(start, frames))
    }

    fn drain(&self, cpu: &mut P::Cpu) {
        if let Some(local) = self.local(cpu.id()) {
            self.begin(local);
            local.release_all(&self.shared);
        }
    }

    /// A parked CPU owns no tree.
    fn drain_parked(&self, cpu: &mut P::Cpu, other: CpuId) -> Result<(), AllocateError> {
        let (Some(own), Some(other)) = (self.local(cpu.id()), self.local(other)) else {
            return Err(AllocateError::NoSuchCpu);
        };
        if other.id == own.id {
            self.drain(cpu);
            return Ok(());
        }
        if self.empty_parked(cpu, other.cpu(), other) {
            Ok(())
        } else {
            Err(AllocateError::Busy)
        }
    }

    fn quiesce(&self, cpu: &mut P::Cpu) -> Result<(), AllocateError> {
        let local = self.local(cpu.id()).ok_or(AllocateError::NoSuchCpu)?;
        if self.with_all_drained(cpu, local, true, |all_drained| all_drained) {
            Ok(())
        } else {
            Err(AllocateError::Busy)
        }
    }

    fn park(&self, cpu: &mut P::Cpu) {
        if let Some(local) = self.local(cpu.id()) {
            self.park_local(local);
        }
    }

    fn add(&self, cpu: &mut P::Cpu, range: FrameRange) -> Result<(), RegionError> {
        self.restore(cpu, range, Absent::Hole)
    }

    fn remove(&self, cpu: &mut P::Cpu, range: FrameRange) -> Result<(), RegionError> {
        self.withdraw(cpu, range, Absent::Hole)
    }

    fn reserve(&self, cpu: &mut P::Cpu, range: FrameRange) -> Result<(), RegionError> {
        self.withdraw(cpu, range, Absent::Reserved)
    }

    fn unreserve(&self, cpu: &mut P::Cpu, range: FrameRange) -> Result<(), RegionError> {
        self.restore(cpu, range, Absent::Reserved)
    }

    fn allocate_at(&self, cpu: &mut P::Cpu, range: FrameRange) -> Result<Index, RegionError> {
        self.allocate_range(cpu, range, true)
    }

    fn try_allocate_at(&self, cpu: &mut P::Cpu, range: FrameRange) -> Result<Index, RegionError> {
        self.allocate_range(cpu, range, false)
    }

    fn span(&self) -> &Span {
        &self.span
    }

    fn max_order(&self) -> Order {
        self.max_order
    }

    fn cpus(&self) -> u16 {
        self.locals.len() as u16
    }

    fn metadata_bytes(&self) -> usize {
        self.metadata_bytes
    }

    /// O(frames / 64): the numbers are computed from the planes.
    fn snapshot(&self, _: &mut P::Cpu) -> Snapshot {
        Snapshot {
            buffered_frames: self.locals.iter().map(Local::listed_frames).sum(),
            ..self.survey(self.max_order)
        }
    }

    fn free_frames(&self) -> u64 {
        self.count_free()
    }

    fn buffered_frames(&self, cpu: CpuId) -> u64 {
        self.local(cpu).map_or(0, Local::listed_frames)
    }

    fn owns_frames(&self) -> bool {
        true
    }

    fn kept_by_others(&self, cpu: CpuId, order: Order) -> Option<Kept> {
        self.keeper(cpu, order)
    }

    fn frame_state(&self, pfn: Index) -> Option<FrameState> {
        self.state_of(pfn)
    }

    fn inspect(&self, see: &mut dyn FnMut(Detail)) {
        self.inspect_trees(see);
    }

    fn check(&self, _: &mut P::Cpu) -> Result<Census, Violation> {
        self.check_all()
    }
}
