//! What every system offers.
//!
//! Why it exists: one interface for every buddy system makes them comparable, lets a conformance suite
//! run over all of them, and is what the adapters for kernels' own traits stand on.
//!
//! Invariant: after an error the allocator is as it was before the call (frames that moved from a CPU's
//! list to the zone on the way excepted: that changes no frame's owner).

use crate::error::{AllocateError, BulkFreeError, FreeError, RegionError};
use crate::frame::{Frames, Order, Pfn};
use crate::platform::{CpuId, Platform};
use crate::region::{FrameRange, Span};
use crate::request::{Release, Request, Size};
use crate::snapshot::{Census, FrameState, Snapshot, Violation};

/// Work that a system wants done beside the requests, on threads or idle CPUs that the host provides.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Service {
    /// A name for reports.
    pub name: &'static str,
    /// Whether it wants a thread of its own, beside the requests. If not, it is enough that a CPU with nothing to do
    /// runs it; and so it is for the others, if there are no threads.
    pub own_thread: bool,
}

/// What a step of a [`Service`] did.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Progress {
    /// Nothing is left to do for now.
    Idle,
    /// The budget was used up; more is to be done.
    More,
}

/// A buddy system for page frames.
///
/// The operations of one CPU take its token, `&mut P::Cpu`; different CPUs call at the same time. See
/// [`systems`](crate::systems) for the implementations.
///
/// # Example
///
/// ```
/// use everybuddy::prelude::*;
///
/// // 64 MiB of memory at physical frame 0x100, with a hole; one CPU.
/// let ranges = [FrameRange::new(0x100, 8192), FrameRange::new(0x4000, 8192)];
/// let setup = Setup::new(&ranges, 1);
/// let spec: SystemSpec = "lbs-31".parse().unwrap();
///
/// // The caller provides the memory for metadata; here from the heap, in a kernel from anywhere.
/// let layout = metadata_layout::<Native>(&spec, &setup).unwrap();
/// let mut memory = vec![core::mem::MaybeUninit::uninit(); layout.size() + layout.align()];
///
/// struct Demo;
/// impl WithSystem<Native> for Demo {
///     type Output = ();
///     fn call<A: FrameAllocator<Native>>(self, _name: &str, system: &A) {
///         let cpus = NativeCpus::new(1);
///         let mut cpu = cpus.claim(CpuId(0)).unwrap();
///
///         let frame = system.allocate(&mut cpu, Request::FRAME).unwrap();
///         println!("physical frame {:#x}", system.span().physical(frame));
///         system.free(&mut cpu, Release::frame(frame)).unwrap();
///         assert_eq!(system.free(&mut cpu, Release::frame(frame)), Err(FreeError::NotAllocated));
///
///         // Exactly 260 frames, given back in two parts.
///         let run = system.allocate(&mut cpu, Request::frames(260)).unwrap();
///         system.free(&mut cpu, Release::frames(run, 100)).unwrap();
///         system.free(&mut cpu, Release::frames(Pfn(run.0 + 100), 160)).unwrap();
///     }
/// }
/// with_system::<Native, _>(&spec, &setup, &mut memory, Demo).unwrap();
/// ```
#[diagnostic::on_unimplemented(
    message = "`{Self}` is not a frame allocator on this platform",
    note = "systems are built by name with `with_system`, or by type from `everybuddy::systems`"
)]
pub trait FrameAllocator<P: Platform>: Sync {
    /// Allocates a block of 2^order frames, or a run of exactly so many frames.
    ///
    /// Frames that lie free in other CPUs' lists are found before the request fails (unless
    /// [`NO_WAIT`](crate::Flags::NO_WAIT)).
    ///
    /// # Errors
    /// [`Exhausted`](AllocateError::Exhausted), [`TooLarge`](AllocateError::TooLarge),
    /// [`ZeroFrames`](AllocateError::ZeroFrames), [`NoSuchCpu`](AllocateError::NoSuchCpu),
    /// [`Busy`](AllocateError::Busy).
    fn allocate(&self, cpu: &mut P::Cpu, request: Request) -> Result<Pfn, AllocateError>;

    /// Frees a block, an exact allocation, or any part of allocations.
    ///
    /// # Errors
    /// Every [`FreeError`] but `Busy`; the state is then as before.
    fn free(&self, cpu: &mut P::Cpu, release: Release) -> Result<(), FreeError>;

    /// Allocates up to `out.len()` blocks of the same order; returns how many were given, which is less
    /// only when memory is exhausted. Takes a lock once for many blocks where the system can.
    ///
    /// # Errors
    /// As [`allocate`](Self::allocate), when not a single block could be given. Sizes in frames that are
    /// no power of two are served one by one.
    fn allocate_bulk(
        &self,
        cpu: &mut P::Cpu,
        request: Request,
        out: &mut [Pfn],
    ) -> Result<usize, AllocateError>;

    /// Frees many, under one lock where the system can. Stops at the first misuse.
    ///
    /// # Errors
    /// The position of the release that failed; the ones before it were done.
    fn free_bulk(&self, cpu: &mut P::Cpu, releases: &[Release]) -> Result<(), BulkFreeError> {
        for (index, release) in releases.iter().enumerate() {
            self.free(cpu, *release)
                .map_err(|error| BulkFreeError { index, error })?;
        }
        Ok(())
    }

    /// Allocates from code that interrupted an operation on the same CPU, and so has no token: goes
    /// straight to the zone layer, takes locks only if they are free, never waits.
    ///
    /// # Errors
    /// As [`allocate`](Self::allocate); [`Busy`](AllocateError::Busy) when a lock is taken.
    fn allocate_nested(&self, cpu: CpuId, request: Request) -> Result<Pfn, AllocateError>;

    /// Frees from code that interrupted an operation on the same CPU. See
    /// [`allocate_nested`](Self::allocate_nested).
    ///
    /// # Errors
    /// Every [`FreeError`].
    fn free_nested(&self, cpu: CpuId, release: Release) -> Result<(), FreeError>;

    /// Gives everything that this CPU buffers back to the zone layer.
    fn drain(&self, cpu: &mut P::Cpu);

    /// Frees everything that another CPU buffers, if that CPU is [parked](Self::park): it went offline, or is idle.
    ///
    /// # Errors
    /// [`Busy`](AllocateError::Busy) when that CPU is not parked, or another CPU drains it right now;
    /// [`NoSuchCpu`](AllocateError::NoSuchCpu) when there is no such CPU.
    fn drain_parked(&self, cpu: &mut P::Cpu, other: CpuId) -> Result<(), AllocateError>;

    /// Gives everything that any CPU buffers back to the zone layer, and finishes deferred work.
    ///
    /// # Errors
    /// [`Busy`](AllocateError::Busy) when a CPU neither parked nor called in time.
    fn quiesce(&self, cpu: &mut P::Cpu) -> Result<(), AllocateError>;

    /// Says that this CPU won't call for a while (idle, or its thread ends): others may then take what it
    /// buffers without asking. The next operation with the token ends that by itself.
    fn park(&self, cpu: &mut P::Cpu);

    /// Adds memory: a range of holes within the span becomes free. O(range).
    ///
    /// # Errors
    /// [`RegionError`]; nothing is added then.
    fn add(&self, cpu: &mut P::Cpu, range: FrameRange) -> Result<(), RegionError>;

    /// Removes memory: a range of free frames becomes a hole. Drains all CPUs first. O(range).
    ///
    /// # Errors
    /// [`RegionError`]; nothing is removed then.
    fn remove(&self, cpu: &mut P::Cpu, range: FrameRange) -> Result<(), RegionError>;

    /// Reserves a range of free frames: they won't be given to anybody. Drains all CPUs first. O(range).
    ///
    /// # Errors
    /// [`RegionError`]; nothing is reserved then.
    fn reserve(&self, cpu: &mut P::Cpu, range: FrameRange) -> Result<(), RegionError>;

    /// Ends the reservation of a range: its frames become free. O(range).
    ///
    /// # Errors
    /// [`RegionError`]; nothing changes then.
    fn unreserve(&self, cpu: &mut P::Cpu, range: FrameRange) -> Result<(), RegionError>;

    /// Returns the span that relative frame numbers refer to. O(1).
    fn span(&self) -> Span;

    /// Returns the order of the largest block that this system gives. O(1).
    fn max_order(&self) -> Order;

    /// Returns the number of CPUs that the system keeps lists for. O(1).
    fn cpus(&self) -> u16;

    /// Returns the bytes of metadata that the system uses. O(1).
    fn metadata_bytes(&self) -> usize;

    /// Returns what free memory looks like now. Takes the zone's lock; O(orders + CPUs).
    fn snapshot(&self, cpu: &mut P::Cpu) -> Snapshot;

    /// Returns the frames that one CPU's list keeps; 0 without lists, and for a CPU that there is none of.
    /// A hint while that CPU works. O(1), no lock.
    fn buffered_frames(&self, cpu: CpuId) -> u64;

    /// Returns what a frame is used for now, or nothing outside the span. A hint while others work.
    /// O(orders), no lock.
    fn frame_state(&self, pfn: Pfn) -> Option<FrameState>;

    /// Walks all metadata and checks every invariant; for tests, while no other CPU works. O(frames).
    ///
    /// # Errors
    /// The first thing that is wrong.
    fn check(&self, cpu: &mut P::Cpu) -> Result<Census, Violation>;

    /// Returns the services that the host should run. O(1).
    fn services(&self) -> &'static [Service] {
        &[]
    }

    /// Runs a step of a service, by its position in [`services`](Self::services), of at most `budget` units of work.
    ///
    /// The token may be that of a CPU beyond those that the system keeps lists for.
    fn serve(&self, cpu: &mut P::Cpu, service: usize, budget: u32) -> Progress {
        let _ = (cpu, service, budget);
        Progress::Idle
    }
}

/// A size, brought to its simplest form.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Extent {
    /// A block.
    Block(Order),
    /// A run that is no single block.
    Run(u32),
}

impl Size {
    /// Returns a block where a run of frames is one.
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
}
