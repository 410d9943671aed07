//! A system of any composition on the timed platform, behind a narrow interface.
//!
//! # Purpose
//! Only what is behind this interface is compiled for each composition: building, the calls of a timed loop, and the
//! loops themselves, each of which is entered by one indirect call.

use everybuddy::platform::{NativeCpu, NativeCpus};
use everybuddy::{
    AllocateError, FrameAllocator, FreeError, Index, NoProbe, Order, Progress, Release, Request,
    Service, SystemSpec, WithSystem,
};

use crate::Error;
use crate::bench::contender::{Caller, SystemCaller};
use crate::bench::perform::{Tools, Work, Worker};
use crate::replay::adapter::Adapter;
use crate::replay::host::{Arena, SystemAdapter};
use crate::replay::memory::Memory;
use crate::replay::platform::ReplayPlatform;
use crate::replay::script::Lane;
use crate::replay::watch::ReadableProbe;

/// The calls of [`FrameAllocator`] that a pass needs besides its loop.
pub trait Calls<B: ReadableProbe>: Sync {
    /// See [`FrameAllocator::allocate`].
    fn allocate(&self, cpu: &mut NativeCpu<B>, request: Request) -> Result<Index, AllocateError>;
    /// See [`FrameAllocator::free`].
    fn free(&self, cpu: &mut NativeCpu<B>, release: Release) -> Result<(), FreeError>;
    /// See [`FrameAllocator::quiesce`].
    fn quiesce(&self, cpu: &mut NativeCpu<B>) -> Result<(), AllocateError>;
    /// See [`FrameAllocator::park`].
    fn park(&self, cpu: &mut NativeCpu<B>);
    /// See [`FrameAllocator::services`].
    fn services(&self) -> &'static [Service];
    /// See [`FrameAllocator::serve`].
    fn serve(&self, cpu: &mut NativeCpu<B>, service: usize, budget: u32) -> Progress;
}

impl<A: FrameAllocator<ReplayPlatform<B>> + ?Sized, B: ReadableProbe> Calls<B> for A {
    fn allocate(&self, cpu: &mut NativeCpu<B>, request: Request) -> Result<Index, AllocateError> {
        FrameAllocator::allocate(self, cpu, request)
    }

    fn free(&self, cpu: &mut NativeCpu<B>, release: Release) -> Result<(), FreeError> {
        FrameAllocator::free(self, cpu, release)
    }

    fn quiesce(&self, cpu: &mut NativeCpu<B>) -> Result<(), AllocateError> {
        FrameAllocator::quiesce(self, cpu)
    }

    fn park(&self, cpu: &mut NativeCpu<B>) {
        FrameAllocator::park(self, cpu);
    }

    fn services(&self) -> &'static [Service] {
        FrameAllocator::services(self)
    }

    fn serve(&self, cpu: &mut NativeCpu<B>, service: usize, budget: u32) -> Progress {
        FrameAllocator::serve(self, cpu, service, budget)
    }
}

/// A system that is timed.
pub trait TimedSystem: Calls<NoProbe> {
    /// Returns a thread's access to the system, for a replay. Returns `None` if a token is taken.
    fn adapter<'s>(&'s self, cpus: &'s NativeCpus, lane: &Lane) -> Option<Box<dyn Adapter + 's>>;

    /// Returns a thread's access for single calls. Returns `None` if its token is taken.
    fn caller<'s>(&'s self, cpus: &'s NativeCpus, thread: u16) -> Option<Box<dyn Caller + 's>>;

    /// Returns a thread of the benchmark. Returns `None` if its token is taken.
    fn worker<'s>(
        &'s self,
        cpus: &'s NativeCpus,
        thread: u16,
        slots: u32,
        tools: Tools<'s>,
    ) -> Option<Box<dyn Work + 's>>;

    /// See [`FrameAllocator::max_order`].
    fn max_order(&self) -> Order;

    /// See [`FrameAllocator::metadata_bytes`].
    fn metadata_bytes(&self) -> usize;
}

impl<A: FrameAllocator<ReplayPlatform<NoProbe>>> TimedSystem for A {
    fn adapter<'s>(&'s self, cpus: &'s NativeCpus, lane: &Lane) -> Option<Box<dyn Adapter + 's>> {
        let adapter = SystemAdapter::claim(self, cpus, lane, &NoProbe::default)?;
        Some(Box::new(adapter))
    }

    fn caller<'s>(&'s self, cpus: &'s NativeCpus, thread: u16) -> Option<Box<dyn Caller + 's>> {
        Some(Box::new(SystemCaller::claim(self, cpus, thread)?))
    }

    fn worker<'s>(
        &'s self,
        cpus: &'s NativeCpus,
        thread: u16,
        slots: u32,
        tools: Tools<'s>,
    ) -> Option<Box<dyn Work + 's>> {
        let local = SystemCaller::claim(self, cpus, thread)?;
        Some(Worker::boxed(local, slots, tools))
    }

    fn max_order(&self) -> Order {
        FrameAllocator::max_order(self)
    }

    fn metadata_bytes(&self) -> usize {
        FrameAllocator::metadata_bytes(self)
    }
}

struct Visit<'v>(&'v mut dyn FnMut(&dyn TimedSystem));

impl WithSystem<ReplayPlatform<NoProbe>> for Visit<'_> {
    type Output = ();

    fn call<A: FrameAllocator<ReplayPlatform<NoProbe>>>(self, _: &'static str, system: &A) {
        (self.0)(system);
    }
}

/// Builds a system for timed calls, and passes it on. No other function compiles the compositions for this platform.
///
/// # Errors
/// Returns a usage error if the system cannot be built.
pub fn with(
    arena: &mut Arena,
    spec: &SystemSpec,
    memory: &Memory,
    cpus: u16,
    visit: &mut dyn FnMut(&dyn TimedSystem),
) -> Result<(), Error> {
    arena.build::<NoProbe, _>(spec, memory, cpus, Visit(visit))
}
