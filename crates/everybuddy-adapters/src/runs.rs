//! Runs of pages by physical address, in bytes, without the trait of a kernel.
//!
//! A kernel has an interface of its own for memory: with sizes in bytes, alignments and address limits. [`PageRuns`] is
//! a static behind which such an interface is a few lines long. `examples/recipes.rs` has those of several kernels.
//!
//! # Invariants
//! 1. Frames are never lost: what an aligned request takes too much is freed again.
//! 2. A run of a power of two of frames is allocated and freed as a block, so that it can hit.

use core::fmt;

use everybuddy::{
    AllocateError, Block, Boot, BootError, FrameAllocator, FrameRange, FrameState, FreeError,
    Index, Memory, Order, Pfn, Place, Platform, RegionError, Release, Request, Setup, System,
    systems::Options,
};

use crate::{FRAME_BYTES, FRAME_SHIFT};

/// The reason why a call failed. Nothing has changed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum RunError {
    /// The system is not built yet.
    NotBuilt,
    /// An address or a size is not a multiple of a frame, or an alignment is not a power of two.
    Unaligned,
    /// Frames could not be allocated.
    Allocate(AllocateError),
    /// Frames could not be freed.
    Free(FreeError),
    /// A range could not be allocated, added or removed.
    Region(RegionError),
}

impl fmt::Display for RunError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::NotBuilt => write!(f, "the system is not built yet"),
            Self::Unaligned => write!(
                f,
                "not whole frames, or the alignment is not a power of two"
            ),
            Self::Allocate(error) => write!(f, "cannot allocate frames: {error}"),
            Self::Free(error) => write!(f, "cannot free frames: {error}"),
            Self::Region(error) => write!(f, "the range cannot be used: {error}"),
        }
    }
}

impl core::error::Error for RunError {}

/// A static with a system, called with addresses and sizes in bytes.
///
/// `A` is the type of the system, or `dyn FrameAllocator<P>`. `BYTES` of metadata lie in the static; without them, they
/// lie in memory that [`map::carve`](crate::map::carve) took out of the memory map.
///
/// The function that is passed to [`new`](Self::new) makes the token of the calling CPU. It is called once for each
/// call. While a kernel does not know its CPUs yet, it returns that of CPU 0.
///
/// ```
/// use everybuddy::platform::{Bare, Call, Calls, CpuToken};
/// use everybuddy::prelude::*;
/// use everybuddy_adapters::runs::PageRuns;
///
/// static CALLS: Calls<8> = Calls::new();
///
/// /// Preemption is disabled while this exists.
/// struct Guard(Call);
///
/// impl Guard {
///     fn new() -> Self {
///         let this_cpu = CpuId(0);
///         Guard(CALLS.begin(this_cpu))
///     }
/// }
///
/// impl CpuToken for Guard {
///     fn id(&self) -> CpuId {
///         self.0.cpu()
///     }
///
///     fn exclude(&self, cpu: CpuId) -> Option<Self> {
///         CALLS.try_begin(cpu).map(Self)
///     }
/// }
///
/// type Machine = Bare<Guard>;
/// type Frames = <Everybuddy as System>::Built<'static, Machine>;
/// static MEMORY: PageRuns<Machine, Frames, { Everybuddy::room_for(1 << 18, 8) }> = PageRuns::new(Guard::new);
///
/// let map = [FrameRange::new(Pfn(0x100), 0x4000)];
/// MEMORY.start::<Everybuddy>(&Options::NONE, &Setup::new(&map, 8))?;
/// let buffer = MEMORY.allocate(3 << 12, 1 << 16, Some(1 << 32))?;
/// assert_eq!(buffer % (1 << 16), 0);
/// MEMORY.free(buffer, 3 << 12)?;
/// assert_eq!(MEMORY.free_bytes(), 0x4000 << 12);
/// # Ok::<(), Box<dyn core::error::Error>>(())
/// ```
pub struct PageRuns<P: Platform, A: FrameAllocator<P> + ?Sized + 'static, const BYTES: usize = 0> {
    system: Boot<A, BYTES>,
    token: fn() -> P::Cpu,
}

impl<P: Platform, A: FrameAllocator<P> + ?Sized, const BYTES: usize> fmt::Debug
    for PageRuns<P, A, BYTES>
{
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("PageRuns").field(&self.system).finish()
    }
}

impl<P: Platform, A: FrameAllocator<P> + ?Sized, const BYTES: usize> PageRuns<P, A, BYTES> {
    /// Creates a static without a system. `token` makes the token of the calling CPU.
    pub const fn new(token: fn() -> P::Cpu) -> Self {
        Self {
            system: Boot::new(),
            token,
        }
    }

    /// Builds the system, as [`Boot::build`] does. A system in memory of its own ignores the memory that `build` gets.
    ///
    /// # Errors
    /// Those of [`Boot::build`].
    pub fn build<E>(
        &'static self,
        build: impl FnOnce(Memory<'static>) -> Result<&'static A, E>,
    ) -> Result<&'static A, BootError<E>> {
        self.system.build(build)
    }

    /// Builds a system of a type in the static, as [`Boot::start`] does.
    ///
    /// # Errors
    /// Those of [`Boot::start`].
    pub fn start<S>(
        &'static self,
        options: &Options,
        setup: &Setup<'_>,
    ) -> Result<&'static A, BootError>
    where
        S: System<Built<'static, P> = A>,
        A: Sized,
    {
        self.system.start::<S, P>(options, setup)
    }

    /// Returns the system, or `None` before it is built.
    pub fn system(&self) -> Option<&'static A> {
        self.system.get()
    }

    /// Calls `then` with the system and the token of this CPU.
    ///
    /// # Errors
    /// [`NotBuilt`](RunError::NotBuilt), and those of `then`.
    #[inline(always)]
    pub fn with<T>(
        &self,
        then: impl FnOnce(&'static A, &mut P::Cpu) -> Result<T, RunError>,
    ) -> Result<T, RunError> {
        let system = self.system.get().ok_or(RunError::NotBuilt)?;
        then(system, &mut (self.token)())
    }

    /// Allocates the frames of `bytes` bytes at a multiple of `align` bytes, a power of two. All of them lie below the
    /// address `below`, if there is one. Returns the address.
    ///
    /// Without a limit, a run that is at least as long as its alignment, and at most the largest block of the system,
    /// costs what the system's own request costs. A larger run is searched by address: O(free and used blocks, holes,
    /// and reserved frames).
    ///
    /// # Errors
    /// [`Allocate`](RunError::Allocate), [`Unaligned`](RunError::Unaligned), [`NotBuilt`](RunError::NotBuilt).
    #[inline]
    pub fn allocate(&self, bytes: u64, align: u64, below: Option<u64>) -> Result<u64, RunError> {
        self.with(|system, cpu| allocate(system, cpu, bytes, align, below))
    }

    /// Allocates exactly the frames of `bytes` bytes from an address on. O(range).
    ///
    /// # Errors
    /// [`Region`](RunError::Region), [`Unaligned`](RunError::Unaligned), [`NotBuilt`](RunError::NotBuilt).
    pub fn allocate_at(&self, start: u64, bytes: u64) -> Result<(), RunError> {
        self.on_range(start, bytes, |system, cpu, range| {
            system.allocate_at(cpu, range).map(|_| ())
        })
    }

    /// Frees frames: an allocation, or any part of allocations. Frames that the system did not allocate are refused:
    /// those of the kernel's image or of the firmware are holes. A kernel that used memory before the system was built
    /// passes it to [`add`](Self::add) when it needs it no more.
    ///
    /// # Errors
    /// [`Free`](RunError::Free), [`Unaligned`](RunError::Unaligned), [`NotBuilt`](RunError::NotBuilt).
    #[inline]
    pub fn free(&self, start: u64, bytes: u64) -> Result<(), RunError> {
        self.with(|system, cpu| free(system, cpu, start, bytes))
    }

    /// Adds memory within the reach of the system. O(range).
    ///
    /// # Errors
    /// Those of [`allocate_at`](Self::allocate_at).
    pub fn add(&self, start: u64, bytes: u64) -> Result<(), RunError> {
        self.on_range(start, bytes, |system, cpu, range| system.add(cpu, range))
    }

    /// Removes free memory. O(range), and all CPUs are drained.
    ///
    /// # Errors
    /// Those of [`allocate_at`](Self::allocate_at).
    pub fn remove(&self, start: u64, bytes: u64) -> Result<(), RunError> {
        self.on_range(start, bytes, |system, cpu, range| system.remove(cpu, range))
    }

    /// Returns the number of free bytes, at the cost of [`FrameAllocator::free_frames`]: no token, no lock. 0 before
    /// the system is built.
    pub fn free_bytes(&self) -> u64 {
        self.system()
            .map_or(0, |system| system.free_frames() * FRAME_BYTES)
    }

    fn on_range(
        &self,
        start: u64,
        bytes: u64,
        work: impl FnOnce(&A, &mut P::Cpu, FrameRange) -> Result<(), RegionError>,
    ) -> Result<(), RunError> {
        let range = whole_frames(start, bytes)?;
        self.with(|system, cpu| work(system, cpu, range).map_err(RunError::Region))
    }
}

/// Allocates from a system that is borrowed. See [`PageRuns::allocate`].
///
/// # Errors
/// Those of [`PageRuns::allocate`], except `NotBuilt`.
#[inline]
pub fn allocate<P: Platform, A: FrameAllocator<P> + ?Sized>(
    system: &A,
    cpu: &mut P::Cpu,
    bytes: u64,
    align: u64,
    below: Option<u64>,
) -> Result<u64, RunError> {
    if !align.is_power_of_two() {
        return Err(RunError::Unaligned);
    }
    let (frames, aligned) = (bytes.div_ceil(FRAME_BYTES), align.div_ceil(FRAME_BYTES));
    let start = match u32::try_from(frames) {
        // A run starts at a multiple of the next power of two.
        Ok(frames) if below.is_none() && u64::from(frames) >= aligned => {
            match system.allocate(cpu, request(frames)) {
                Err(AllocateError::TooLarge { .. }) => {
                    search(system, cpu, frames.into(), aligned, limit(below))
                }
                allocated => allocated,
            }
        }
        Ok(frames) if frames <= system.max_order().frames() => {
            allocate_aligned(system, cpu, frames, aligned, below)
        }
        _ => search(system, cpu, frames, aligned, limit(below)),
    };
    let start = start.map_err(RunError::Allocate)?;
    let address = system.span().physical(start).address(FRAME_SHIFT);
    address.ok_or_else(|| {
        // It was allocated just now, so only misuse can have freed it.
        let _ = system.free(cpu, Release::frames(start, frames as u32));
        RunError::Allocate(AllocateError::Exhausted)
    })
}

/// Frees frames of a system that is borrowed. See [`PageRuns::free`].
///
/// # Errors
/// Those of [`PageRuns::free`], except `NotBuilt`.
#[inline]
pub fn free<P: Platform, A: FrameAllocator<P> + ?Sized>(
    system: &A,
    cpu: &mut P::Cpu,
    start: u64,
    bytes: u64,
) -> Result<(), RunError> {
    let range = whole_frames(start, bytes)?;
    let outside = RunError::Free(FreeError::Foreign);
    let first = system.span().index(range.start).ok_or(outside)?;
    let frames = u32::try_from(range.frames).map_err(|_| outside)?;
    let mut freed = match Order::covering(frames) {
        Some(order) if is_block(frames) => {
            system.free(cpu, Release::block(Block::new(first, order)))
        }
        _ => system.free(cpu, Release::frames(first, frames)),
    };
    // A part of an allocation that has the size of a block.
    if let Err(FreeError::InsideBlock { .. } | FreeError::WrongOrder { .. }) = freed {
        freed = system.free(cpu, Release::frames(first, frames));
    }
    freed.map_err(RunError::Free)
}

/// Allocates at most a largest block, below a limit or with an alignment beyond its size.
#[cold]
fn allocate_aligned<P: Platform, A: FrameAllocator<P> + ?Sized>(
    system: &A,
    cpu: &mut P::Cpu,
    frames: u32,
    aligned: u64,
    below: Option<u64>,
) -> Result<Index, AllocateError> {
    let alignment = u32::try_from(aligned).ok().and_then(Order::covering);
    let Some(alignment) = alignment else {
        return search(system, cpu, frames.into(), aligned, limit(below));
    };
    let is_beyond = frames.next_power_of_two() < alignment.frames();
    if below.is_some() || is_beyond && alignment > system.max_order() {
        let place = Place::ANYWHERE.below(limit(below)).aligned(alignment);
        return system.allocate_in(cpu, request(frames), &place);
    }
    if !is_beyond || frames == 0 {
        return system.allocate(cpu, request(frames));
    }
    let start = system.allocate(cpu, Request::order(alignment))?;
    let rest = Release::frames(Index(start.0 + frames), alignment.frames() - frames);
    // It was allocated just now, so only misuse can have freed it.
    let _ = system.free(cpu, rest);
    Ok(start)
}

/// Allocates a run of any length where it is free, lowest addresses first.
#[cold]
fn search<P: Platform, A: FrameAllocator<P> + ?Sized>(
    system: &A,
    cpu: &mut P::Cpu,
    frames: u64,
    aligned: u64,
    limit: Pfn,
) -> Result<Index, AllocateError> {
    let mut failure = AllocateError::Exhausted;
    for is_settled in [false, true] {
        // What lists and CPUs keep is brought back only if nothing else is free.
        if is_settled && system.quiesce(cpu).is_err() {
            return Err(AllocateError::Busy);
        }
        let span = system.span();
        for part in span.parts() {
            let end = part.end().unwrap_or(limit).min(limit);
            let mut at = part.start.0.checked_next_multiple_of(aligned);
            while let Some(start) = at
                && start.checked_add(frames).is_some_and(|last| last <= end.0)
            {
                let range = FrameRange::new(Pfn(start), frames);
                // A look costs less than an attempt.
                let next = match span
                    .index(range.start)
                    .and_then(|at| system.frame_state(at))
                {
                    Some(FrameState::Allocated { head, order }) => {
                        span.physical(head).0.saturating_add(order.frames().into())
                    }
                    Some(FrameState::Hole | FrameState::Reserved) => start + 1,
                    _ => match system.try_allocate_at(cpu, range) {
                        Ok(index) => return Ok(index),
                        Err(RegionError::NotFree(frame)) => frame.0 + 1,
                        Err(RegionError::NoSuchCpu) => return Err(AllocateError::NoSuchCpu),
                        // Another CPU works there.
                        Err(_) => {
                            failure = AllocateError::Busy;
                            start.saturating_add(PASSED)
                        }
                    },
                };
                at = next.checked_next_multiple_of(aligned);
            }
        }
    }
    Err(failure)
}

/// The frames after which a search goes on where another CPU works.
const PASSED: u64 = 64;

/// Returns the frame before which all frames lie below an address.
fn limit(below: Option<u64>) -> Pfn {
    Pfn(below.map_or(u64::MAX, |address| address / FRAME_BYTES))
}

#[inline(always)]
const fn is_block(frames: u32) -> bool {
    frames.is_power_of_two()
}

/// Requests a block if the number of frames is that of one: such a request can hit.
#[inline(always)]
fn request(frames: u32) -> Request {
    match Order::covering(frames) {
        Some(order) if is_block(frames) => Request::order(order),
        _ => Request::frames(frames),
    }
}

#[inline(always)]
fn whole_frames(start: u64, bytes: u64) -> Result<FrameRange, RunError> {
    if !(start | bytes).is_multiple_of(FRAME_BYTES) {
        return Err(RunError::Unaligned);
    }
    Ok(FrameRange::new(
        Pfn(start / FRAME_BYTES),
        bytes / FRAME_BYTES,
    ))
}
