//! The interface of every system.
//!
//! One interface makes systems comparable. The conformance suite runs over it, and adapters for kernels' own traits
//! are built on it.
//!
//! # Invariants
//! After an error the allocator is as it was before the call. Frames may have moved from a CPU's list to the zone,
//! delayed coalescing may have been done, and what a call tried was given back: this changes the state of no allocated
//! frame, but later requests may be given other blocks.

use core::fmt;

use crate::detail::Detail;
use crate::error::{AllocateError, BulkFreeError, FreeError, RegionError};
use crate::frame::{Block, Frames, Index, Order};
use crate::isolation::{Isolation, settled};
use crate::place::{Node, Place, RunSearch};
use crate::platform::{CpuId, CpuToken, Platform};
use crate::region::{FrameRange, Span};
use crate::request::{Flags, Release, Request, Size};
use crate::runs::{Run, RunCall, Runs};
use crate::shortage::{Kept, Shortage};
use crate::snapshot::{Census, FrameState, Snapshot, Violation};

/// Work that a system needs done apart from requests, on threads or idle CPUs that the host provides.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Service {
    /// A name for reports.
    pub name: &'static str,
    /// Whether it needs a thread of its own. Otherwise an idle CPU can run it. Without threads, idle CPUs can run the
    /// others too.
    pub own_thread: bool,
}

/// The outcome of a step of a [`Service`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Progress {
    /// There is no work now.
    Idle,
    /// The budget was used up, and there is more work.
    More,
}

/// What happens to a free block that was visited.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Visit {
    /// It stays allocated, and the visit goes on.
    Keep,
    /// It stays allocated, and the visit ends.
    KeepAndStop,
    /// It is freed, and the visit goes on.
    Return,
    /// It contains only zeros now. It is freed as [`free_zeroed`](FrameAllocator::free_zeroed) does, and the visit goes
    /// on.
    ReturnZeroed,
}

/// A buddy system for page frames.
///
/// The operations of a CPU take its token, `&mut P::Cpu`. Different CPUs may call simultaneously. The implementations
/// are in [`systems`](crate::systems).
///
/// # Example
///
/// ```
/// use core::mem::MaybeUninit;
/// use everybuddy::prelude::*;
///
/// # fn main() -> Result<(), Box<dyn std::error::Error>> {
/// // 64 MiB of memory at physical frame 0x100, with a hole; one CPU.
/// let ranges = [FrameRange::new(Pfn(0x100), 8192), FrameRange::new(Pfn(0x4000), 8192)];
/// let setup = Setup::new(&ranges, 1);
/// let mut memory = vec![MaybeUninit::uninit(); Lbs31::room(&setup)?];
/// let system = Lbs31::build(&setup, &mut memory[..])?;
///
/// let cpus = NativeCpus::new(1);
/// let mut cpu = cpus.enter(system, CpuId(0))?;
/// let frame = system.allocate(&mut cpu, Request::FRAME)?;
/// system.free(&mut cpu, Release::frame(frame))?;
/// assert_eq!(system.free(&mut cpu, Release::frame(frame)), Err(FreeError::NotAllocated));
///
/// // Exactly 260 frames, freed in two parts.
/// let run = system.allocate(&mut cpu, Request::frames(260))?;
/// system.free(&mut cpu, Release::frames(run, 100))?;
/// system.free(&mut cpu, Release::frames(Index(run.0 + 100), 160))?;
/// # Ok(())
/// # }
/// ```
#[diagnostic::on_unimplemented(
    message = "`{Self}` is not a frame allocator on this platform",
    note = "`build` builds a system by its type, `build_any` by its name"
)]
pub trait FrameAllocator<P: Platform>: Sync {
    /// Allocates a block of 2^order frames, or a run of exactly the requested number of frames.
    ///
    /// Free frames in other CPUs' lists are found before the request fails, unless it has
    /// [`NO_WAIT`](crate::Flags::NO_WAIT).
    ///
    /// # Errors
    /// [`Exhausted`](AllocateError::Exhausted), [`TooLarge`](AllocateError::TooLarge),
    /// [`ZeroFrames`](AllocateError::ZeroFrames), [`NoSuchCpu`](AllocateError::NoSuchCpu),
    /// [`Busy`](AllocateError::Busy).
    fn allocate(&self, cpu: &mut P::Cpu, request: Request) -> Result<Index, AllocateError>;

    /// Frees a block, an exact allocation, or any part of allocations.
    ///
    /// # Errors
    /// Every [`FreeError`]; the state is as before. [`Busy`](FreeError::Busy) only for a part of an allocation of
    /// `everybuddy`, if a CPU stopped while it freed a part of one.
    fn free(&self, cpu: &mut P::Cpu, release: Release) -> Result<(), FreeError>;

    /// Frees frames like [`free`](Self::free), and promises that they contain only zeros. [`Nodes`](crate::Nodes)
    /// stores this promise for whole blocks of the order that [`Zone::with_zeroed`](crate::Zone::with_zeroed) names.
    /// Other systems ignore it.
    ///
    /// # Errors
    /// As [`free`](Self::free). After an error nothing is known of the content any more.
    fn free_zeroed(&self, cpu: &mut P::Cpu, release: Release) -> Result<(), FreeError> {
        self.free(cpu, release)
    }

    /// Returns `true` if these frames, which the caller allocated and did not write to, are known to contain only
    /// zeros. A refused free of some of them can end that knowledge. O(frames / frames of a huge block).
    fn is_zeroed(&self, start: Index, frames: u32) -> bool {
        let _ = (start, frames);
        false
    }

    /// Allocates up to `out.len()` blocks of the same size, and returns their number: 0 if `out` is empty, whatever the
    /// size and the CPU.
    ///
    /// The number is smaller than `out.len()` only if the next block could not be allocated; a further request tells
    /// whether memory is exhausted or another CPU is busy. A lock is acquired once for many blocks where the system
    /// supports it. Otherwise, and in sizes that are not a power of two, blocks are allocated one by one.
    ///
    /// # Errors
    /// Those of [`allocate`](Self::allocate), if not a single block could be allocated.
    fn allocate_bulk(
        &self,
        cpu: &mut P::Cpu,
        request: Request,
        out: &mut [Index],
    ) -> Result<usize, AllocateError> {
        one_by_one(out, 0, || self.allocate(cpu, request))
    }

    /// Frees many blocks, under one lock where the system supports it. Stops at the first misuse.
    ///
    /// # Errors
    /// The position of the release that failed; those before it succeeded.
    fn free_bulk(&self, cpu: &mut P::Cpu, releases: &[Release]) -> Result<(), BulkFreeError> {
        for (index, release) in releases.iter().enumerate() {
            self.free(cpu, *release)
                .map_err(|error| BulkFreeError { index, error })?;
        }
        Ok(())
    }

    /// Allocates from code that interrupted an operation on the same CPU, and therefore has no token.
    ///
    /// The request bypasses the list, only tries locks, and never waits. Frames that the interrupted operation moves
    /// between its list and the zone are not free meanwhile.
    ///
    /// # Errors
    /// Those of [`allocate`](Self::allocate); [`Busy`](AllocateError::Busy) if a lock is held, or if the zone has no
    /// such block and a CPU may keep frames.
    fn allocate_nested(&self, cpu: CpuId, request: Request) -> Result<Index, AllocateError>;

    /// Frees from code that interrupted an operation on the same CPU. See [`allocate_nested`](Self::allocate_nested).
    ///
    /// # Errors
    /// Every [`FreeError`].
    fn free_nested(&self, cpu: CpuId, release: Release) -> Result<(), FreeError>;

    /// Returns all frames of this CPU's list to the zone layer.
    fn drain(&self, cpu: &mut P::Cpu);

    /// Returns all frames of another CPU's list to the zone layer, if that CPU is [parked](Self::park): it is offline
    /// or idle. A list with a lock (`percpu=locked`) is drained in any case; without lists nothing happens.
    ///
    /// # Errors
    /// [`Busy`](AllocateError::Busy) if that CPU is not parked, or if another CPU is draining it;
    /// [`NoSuchCpu`](AllocateError::NoSuchCpu) if the system was not set up for it.
    fn drain_parked(&self, cpu: &mut P::Cpu, other: CpuId) -> Result<(), AllocateError>;

    /// Returns the frames of all lists to the zone layer, and finishes deferred work.
    ///
    /// # Errors
    /// [`Busy`](AllocateError::Busy) if a CPU neither parked nor called in time:
    /// [`kept_by_others`](Self::kept_by_others) names the one that keeps most.
    fn quiesce(&self, cpu: &mut P::Cpu) -> Result<(), AllocateError>;

    /// Announces that this CPU will not call for a while, because it is idle or its thread ends.
    ///
    /// Other CPUs may then drain its list without a request. The next operation with the token ends this state.
    fn park(&self, cpu: &mut P::Cpu);

    /// Adds memory: a range of holes within the span becomes free. O(range).
    ///
    /// # Errors
    /// [`RegionError`]; nothing is added.
    fn add(&self, cpu: &mut P::Cpu, range: FrameRange) -> Result<(), RegionError>;

    /// Removes memory: a range of free frames becomes a hole. Drains all CPUs first. O(range).
    ///
    /// # Errors
    /// [`RegionError`]; nothing is removed.
    fn remove(&self, cpu: &mut P::Cpu, range: FrameRange) -> Result<(), RegionError>;

    /// Reserves a range of free frames: they are never allocated. Drains all CPUs first. O(range).
    ///
    /// # Errors
    /// [`RegionError`]; nothing is reserved.
    fn reserve(&self, cpu: &mut P::Cpu, range: FrameRange) -> Result<(), RegionError>;

    /// Ends the reservation of a range: its frames become free. O(range).
    ///
    /// # Errors
    /// [`RegionError`]; nothing changes.
    fn unreserve(&self, cpu: &mut P::Cpu, range: FrameRange) -> Result<(), RegionError>;

    /// Isolates a range before it is removed: reserves what is free of it, and returns how many of its frames are
    /// neither reserved nor holes. The kernel moves what these contain, frees them and calls again. At 0, all of the
    /// range but its holes is reserved: it can be switched off, and [`unreserve`](Self::unreserve) brings it back.
    ///
    /// Between two calls, frames of the range that were freed can be allocated. Drains all CPUs, once for each free run
    /// of the range; O(range × orders). If a CPU does not answer after a run was reserved, its frames count as those
    /// that are not reserved.
    ///
    /// # Errors
    /// [`RegionError`]; [`Busy`](RegionError::Busy) as for [`reserve`](Self::reserve). Nothing is reserved.
    #[cold]
    fn isolate(&self, cpu: &mut P::Cpu, range: FrameRange) -> Result<u64, RegionError> {
        self.span().relative(range)?;
        settled(self.quiesce(cpu))?;
        Isolation {
            span: self.span(),
            state: &|index| self.frame_state(index),
            reserve: &mut |free| self.reserve(cpu, free),
        }
        .run(range)
    }

    /// Allocates exactly the frames of a range, in aligned blocks. If a CPU's list caches any of them, all lists are
    /// drained first. O(range); a system that delays coalescing coalesces all of it, and elastic domains are merged.
    ///
    /// Returns the first frame. The frames are freed as any others; [`Release::frames`] frees them together.
    ///
    /// A frame that another CPU moves between its list and the zone at this moment counts as used, and so does one that
    /// another call of this kind holds before it is refused.
    ///
    /// # Errors
    /// [`RegionError`]; nothing is allocated. [`NotFree`](RegionError::NotFree) names the first frame that is not free.
    fn allocate_at(&self, cpu: &mut P::Cpu, range: FrameRange) -> Result<Index, RegionError>;

    /// Does what [`allocate_at`](Self::allocate_at) does, but drains no list: a frame that a list caches is not free.
    ///
    /// # Errors
    /// Those of [`allocate_at`](Self::allocate_at).
    fn try_allocate_at(&self, cpu: &mut P::Cpu, range: FrameRange) -> Result<Index, RegionError> {
        self.allocate_at(cpu, range)
    }

    /// Allocates where a [`Place`] allows: on a node, below a limit, aligned beyond the size, in some colours.
    ///
    /// An ordinary request comes first. If its frames do not lie in the place, they are freed again, and the candidates
    /// are searched by address, each that is free by an [`allocate_at`](Self::allocate_at). That is slow, which is why
    /// such a request has a call of its own.
    ///
    /// A system without nodes is node 0: it ignores a preference, and has nothing for [`Node::Only`] of another one.
    ///
    /// ```
    /// use everybuddy::prelude::*;
    /// use everybuddy::{Colours, Place};
    /// # use core::mem::MaybeUninit;
    /// # let ranges = [FrameRange::new(Pfn(0), 4096)];
    /// # let setup = Setup::new(&ranges, 1);
    /// # let mut memory = vec![MaybeUninit::uninit(); Bs::room(&setup)?];
    /// # let system = Bs::build(&setup, &mut memory[..])?;
    /// # let cpus = NativeCpus::new(1);
    /// # let mut cpu = cpus.claim(CpuId(0))?;
    /// // Below frame 1024, and of the odd one of two colours by bit 4 of the frame number.
    /// let place = Place::ANYWHERE.below(Pfn(1024)).coloured(Colours::new(1 << 4, 0b10).unwrap());
    /// let frame = system.allocate_in(&mut cpu, Request::FRAME, &place)?;
    /// assert!(frame.0 < 1024 && frame.0 >> 4 & 1 == 1);
    /// # Ok::<(), Box<dyn core::error::Error>>(())
    /// ```
    ///
    /// # Errors
    /// Those of [`allocate`](Self::allocate). [`Exhausted`](AllocateError::Exhausted), too, if another CPU frees and
    /// allocates meanwhile, so that suitable frames come free behind the search.
    #[cold]
    fn allocate_in(
        &self,
        cpu: &mut P::Cpu,
        request: Request,
        place: &Place,
    ) -> Result<Index, AllocateError> {
        let start = self.allocate(cpu, request)?;
        let frames = request.size.extent().frames();
        let is_here = !matches!(place.node, Node::Only(1..));
        if is_here && place.holds(self.span().physical(start), frames) {
            return Ok(start);
        }
        // The search or another CPU can drain lists and queues into what the search has passed. So it found everything
        // only if they were empty before it, and still are.
        let search = |cpu: &mut P::Cpu, is_settled: bool| {
            let buffers = |cpu: &mut P::Cpu| !is_settled && self.snapshot(cpu).buffered_frames > 0;
            let buffered = buffers(cpu);
            let found = RunSearch {
                span: self.span(),
                state: &|index| self.frame_state(index),
                take: &mut |range| self.try_allocate_at(cpu, range),
            }
            .run(frames, place);
            match found {
                Err(_) if buffered || buffers(cpu) => Err(AllocateError::Busy),
                found => found,
            }
        };
        let may_wait = !request.flags.contains(Flags::NO_WAIT);
        let found = if is_here {
            match search(cpu, may_wait) {
                // What lists and queues hold is brought back only if nothing else is free.
                Err(_) if may_wait => {
                    let is_settled = self.quiesce(cpu).is_ok();
                    search(cpu, is_settled)
                }
                found => found,
            }
        } else {
            Err(AllocateError::Exhausted)
        };
        let release = Release {
            start,
            size: request.size,
            hint: request.hint,
        };
        // It was allocated just now, so only misuse can have freed it.
        let _ = self.free(cpu, release);
        found
    }

    /// Allocates `frames` frames as one run if a single request can provide it, otherwise in as few aligned blocks as
    /// possible. No block is smaller than `least`, except that the last one is cut to length. Writes the runs to `out`
    /// and returns their number.
    ///
    /// Larger blocks come first. Smaller ones serve instead of those that are busy. After a request that waited for
    /// other CPUs in vain, the call does not wait again. It allocates at most `out.len()` blocks.
    ///
    /// # Errors
    /// Those of [`allocate`](Self::allocate); [`Exhausted`](AllocateError::Exhausted) also if `out` is too short.
    /// [`Busy`](AllocateError::Busy) if one of the blocks that were tried was busy. Then nothing is allocated.
    #[cold]
    fn allocate_runs(
        &self,
        cpu: &mut P::Cpu,
        frames: u32,
        least: Order,
        out: &mut [Run],
    ) -> Result<usize, AllocateError> {
        Runs {
            max_order: self.max_order(),
            call: &mut |call| match call {
                RunCall::Allocate(request) => self.allocate(cpu, request),
                RunCall::Free(run) => {
                    // It was allocated just now, so only misuse can have freed it.
                    let _ = self.free(cpu, run.release());
                    Ok(run.start)
                }
            },
        }
        .allocate(frames, least, out)
    }

    /// Returns what is free and which CPU keeps it, to explain why a request failed. As costly as a
    /// [`snapshot`](Self::snapshot), and O(CPUs).
    #[cold]
    fn shortage(&self, cpu: &mut P::Cpu, request: Request) -> Shortage {
        let free = self.snapshot(cpu);
        let order = Order::covering(request.size.extent().frames());
        // Otherwise free blocks may be those of other CPUs.
        let is_free = |order: &Order| !self.owns_frames() && free.available_blocks(*order) > 0;
        Shortage {
            size: request.size,
            free,
            own_list: self.buffered_frames(cpu.id()),
            elsewhere: 0,
            kept: order
                .filter(|order| !is_free(order))
                .and_then(|order| self.kept_by_others(cpu.id(), order)),
            max_order: self.max_order(),
        }
    }

    /// Allocates free blocks of `order` one after another, by address, and passes each to `visit`, which decides
    /// whether it is kept. Returns how many were kept; they are freed as any others.
    ///
    /// No other CPU is stopped: a block that another CPU takes first is passed over, and so are what lists cache and
    /// blocks in trees of `everybuddy` that other CPUs own. A balloon or a hypervisor finds in this way the memory that
    /// can be withdrawn from a guest. One [`allocate_at`](Self::allocate_at) for each free block.
    #[cold]
    fn visit_free(
        &self,
        cpu: &mut P::Cpu,
        order: Order,
        visit: &mut dyn FnMut(Block) -> Visit,
    ) -> u64 {
        let (span, frames) = (self.span(), order.frames());
        let (mut kept, mut at) = (0, Index(0));
        while at.0 < span.frames() && span.frames() - at.0 >= frames {
            let block = Block::new(at, order);
            let range = FrameRange::new(span.physical(at), u64::from(frames));
            let is_free = matches!(self.frame_state(at), Some(FrameState::Free { .. }));
            if order <= self.max_order() && is_free && self.try_allocate_at(cpu, range).is_ok() {
                let release = Release::block(block);
                // It was allocated just now, so only misuse can have freed it.
                let _ = match visit(block) {
                    Visit::Return => self.free(cpu, release),
                    Visit::ReturnZeroed => self.free_zeroed(cpu, release),
                    Visit::Keep => {
                        kept += 1;
                        Ok(())
                    }
                    Visit::KeepAndStop => return kept + 1,
                };
            }
            at = Index(at.0 + frames);
        }
        kept
    }

    /// Returns the span that relative frame numbers refer to. O(1).
    fn span(&self) -> &Span;

    /// Returns the order of the largest block of this system. O(1).
    fn max_order(&self) -> Order;

    /// Returns the number of CPUs for which the system was set up. O(1).
    fn cpus(&self) -> u16;

    /// Returns the bytes of metadata that the system uses. O(1).
    fn metadata_bytes(&self) -> usize;

    /// Returns the number of free frames, those in lists and queues included. No token, no lock, and nothing is
    /// written: a kernel can ask at any time. Exact while no CPU works, and a hint otherwise.
    ///
    /// O(orders + CPUs) with one zone, and as often as memory has parts with spaces and domains. `everybuddy` and
    /// `llfree` read a counter or a mask for each 16 MiB, which `everybuddy` need not read where nothing is free, and
    /// `everybuddy` also 16 bytes for each 64 frames of which some are free. `nbbs` reads all metadata.
    fn free_frames(&self) -> u64;

    /// Returns the present state of free memory: the free blocks by order. Acquires the zone's lock; O(orders + CPUs),
    /// as often as memory has parts with spaces and domains, and O(page blocks) if they have types. iBuddy's structure
    /// counts bits, O(frames / 32), with one zone all of them under its lock. `everybuddy`, `llfree` and `nbbs` count
    /// the blocks in all metadata: O(frames / 64).
    fn snapshot(&self, cpu: &mut P::Cpu) -> Snapshot;

    /// Returns the number of frames in a CPU's list; 0 if the system has no lists, or was not set up for that CPU.
    ///
    /// A hint while that CPU works. O(1), no lock.
    fn buffered_frames(&self, cpu: CpuId) -> u64 {
        let _ = cpu;
        0
    }

    /// Returns the CPU, other than `cpu`, that keeps most of what a request for a block of `order` misses. `None` if no
    /// CPU keeps any, or if other CPUs own trees and a block is free outside of them.
    ///
    /// A hint while other CPUs work. O(CPUs), and O(frames / 64) if CPUs own trees; no lock.
    #[cold]
    fn kept_by_others(&self, cpu: CpuId, order: Order) -> Option<Kept> {
        let _ = order;
        let others = (0..self.cpus()).map(CpuId).filter(|other| *other != cpu);
        let kept = others.map(|cpu| Kept {
            cpu,
            frames: self.buffered_frames(cpu),
        });
        kept.max_by_key(|kept| kept.frames)
            .filter(|kept| kept.frames > 0)
    }

    /// Returns `true` if a CPU may own free frames that [`buffered_frames`](Self::buffered_frames) does not count.
    /// Other CPUs cannot allocate these before their owner drains or parks. O(1).
    fn owns_frames(&self) -> bool {
        false
    }

    /// Returns `true` if the system reads the hints of requests. A caller may omit them otherwise. O(1).
    fn uses_hints(&self) -> bool {
        false
    }

    /// Returns the present use of a frame, or `None` outside the span.
    ///
    /// A hint while other CPUs work. O(orders), no lock.
    fn frame_state(&self, index: Index) -> Option<FrameState>;

    /// Passes what only this system stores to `see`: parts of memory and who has them, lists, queues. For pictures,
    /// while no other CPU works. A system without any passes nothing. O(frames × orders), no lock.
    #[cold]
    fn inspect(&self, see: &mut dyn FnMut(Detail)) {
        let _ = see;
    }

    /// Checks every invariant of all metadata; for tests, while no other CPU works. O(frames).
    ///
    /// # Errors
    /// The first violation.
    fn check(&self, cpu: &mut P::Cpu) -> Result<Census, Violation>;

    /// Returns the services that the host should run. O(1).
    fn services(&self) -> &'static [Service] {
        &[]
    }

    /// Runs a step of a service, by its position in [`services`](Self::services), of at most `budget` units of work.
    ///
    /// The token may be that of a CPU for which the system was not set up.
    fn serve(&self, cpu: &mut P::Cpu, service: usize, budget: u32) -> Progress {
        let _ = (cpu, service, budget);
        Progress::Idle
    }
}

/// The properties of a system that never change. Free memory changes, and reading it needs a CPU's token: see
/// [`snapshot`](FrameAllocator::snapshot).
impl<P: Platform> fmt::Debug for dyn FrameAllocator<P> + '_ {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        describe(self, "FrameAllocator", f)
    }
}

/// Writes the properties of a system that never change.
pub(crate) fn describe<P: Platform>(
    system: &(impl FrameAllocator<P> + ?Sized),
    name: &str,
    f: &mut fmt::Formatter<'_>,
) -> fmt::Result {
    f.debug_struct(name)
        .field("span", &system.span())
        .field("max_order", &system.max_order())
        .field("cpus", &system.cpus())
        .field("metadata_bytes", &system.metadata_bytes())
        .finish_non_exhaustive()
}

/// Goes on with a bulk request after `given` blocks, one by one, until a block cannot be allocated.
#[inline]
pub(crate) fn one_by_one(
    out: &mut [Index],
    mut given: usize,
    mut allocate: impl FnMut() -> Result<Index, AllocateError>,
) -> Result<usize, AllocateError> {
    while let Some(place) = out.get_mut(given) {
        match allocate() {
            Ok(index) => *place = index,
            Err(error) if given == 0 => return Err(error),
            Err(_) => break,
        }
        given += 1;
    }
    Ok(given)
}

/// A size in its simplest form.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Extent {
    /// A block.
    Block(Order),
    /// A run that is not a single block.
    Run(u32),
}

impl Extent {
    /// Returns the number of frames.
    pub(crate) fn frames(self) -> u32 {
        match self {
            Extent::Block(order) => order.frames(),
            Extent::Run(frames) => frames,
        }
    }
}

impl Size {
    /// Returns the simplest form: a block, if a run of frames is one.
    #[inline]
    pub(crate) fn extent(self) -> Extent {
        match self {
            Size::Order(order) => Extent::Block(order),
            Size::Frames(Frames(frames)) => match Order::covering(frames) {
                Some(order) if order.frames() == frames => Extent::Block(order),
                _ => Extent::Run(frames),
            },
        }
    }

    /// Returns the number of frames, and the order of the block that covers them. Refuses what no block of a system
    /// covers.
    #[inline(always)]
    pub(crate) fn checked(self, largest: Order) -> Result<(u32, Order), AllocateError> {
        let (frames, order) = match self.extent() {
            Extent::Block(order) => (order.frames(), Some(order)),
            Extent::Run(frames) => (frames, Order::covering(frames)),
        };
        match order {
            Some(order) if order <= largest => Ok((frames, order)),
            None if frames == 0 => Err(AllocateError::ZeroFrames),
            _ => Err(AllocateError::TooLarge { largest }),
        }
    }
}
