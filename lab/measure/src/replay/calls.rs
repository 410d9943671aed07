//! The calls of a system that a pass needs besides its loop.
//!
//! A narrow interface: only what is behind it is compiled for each composition on the timed platform.

use everybuddy::platform::NativeCpu;
use everybuddy::{
    AllocateError, FrameAllocator, FreeError, Index, Progress, Release, Request, Service,
};

use crate::replay::platform::ReplayPlatform;
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
