//! The traits of the crate x86_64: frames of 4 KiB, 2 MiB and 1 GiB for its page tables.
//!
//! `OffsetPageTable` and the other mappers of that crate take a frame allocator of these traits.
//!
//! # Invariants
//! A frame that was allocated is unused memory, and is not allocated again before it is freed.
#![allow(unsafe_code)]

use core::fmt;

use everybuddy::{Block, FrameAllocator, FreeError, Order, Pfn, Platform, Release, Request};
use x86_64::PhysAddr;
use x86_64::structures::paging::{self, PageSize, PhysFrame, Size1GiB, Size2MiB, Size4KiB};

use crate::{FRAME_BYTES, FRAME_SHIFT};

/// A system and the token of a CPU, as a frame allocator of the crate x86_64.
///
/// Frames of 2 MiB need a largest block of order 9 or more, which every system has by default; frames of 1 GiB need the
/// option `order=18`, which all systems except `llfree` take. Otherwise there are none.
pub struct PageFrames<'a, P: Platform, A: FrameAllocator<P> + ?Sized> {
    system: &'a A,
    cpu: &'a mut P::Cpu,
    refused: Option<FreeError>,
}

impl<P: Platform, A: FrameAllocator<P> + ?Sized> fmt::Debug for PageFrames<'_, P, A> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("PageFrames")
            .field("span", &self.system.span())
            .field("refused", &self.refused)
            .finish_non_exhaustive()
    }
}

impl<'a, P: Platform, A: FrameAllocator<P> + ?Sized> PageFrames<'a, P, A> {
    /// Joins a system with frames of 4 KiB and a token.
    ///
    /// # Safety
    /// The traits of x86_64 promise unused memory. So all frames that the system manages exist, no other code uses
    /// them, and every frame that is freed in the system is unused. At most one token of each number exists.
    pub unsafe fn new(system: &'a A, cpu: &'a mut P::Cpu) -> Self {
        Self {
            system,
            cpu,
            refused: None,
        }
    }

    /// Returns the error of the last free that failed since the last call, since the trait cannot return it. The free
    /// changed nothing.
    pub fn take_refused(&mut self) -> Option<FreeError> {
        self.refused.take()
    }

    fn allocate<S: PageSize>(&mut self) -> Option<PhysFrame<S>> {
        let order = order::<S>()?;
        let start = self.system.allocate(self.cpu, Request::order(order)).ok()?;
        let address = self.system.span().physical(start).address(FRAME_SHIFT);
        // Addresses of x86-64 have 52 bits.
        let address = address.and_then(|address| PhysAddr::try_new(address).ok());
        let frame = address.and_then(|address| PhysFrame::from_start_address(address).ok());
        if frame.is_none() {
            let release = Release::block(Block::new(start, order));
            // It was allocated just now, so only misuse can have freed it.
            let _ = self.system.free(self.cpu, release);
        }
        frame
    }

    fn free<S: PageSize>(&mut self, frame: PhysFrame<S>) {
        let physical = Pfn::containing(frame.start_address().as_u64(), FRAME_SHIFT);
        let freed = match (self.system.span().index(physical), order::<S>()) {
            (Some(start), Some(order)) => {
                let release = Release::block(Block::new(start, order));
                self.system.free(self.cpu, release)
            }
            _ => Err(FreeError::Foreign),
        };
        if let Err(error) = freed {
            self.refused = Some(error);
        }
    }
}

/// Returns the order of a frame of this size.
fn order<S: PageSize>() -> Option<Order> {
    Order::covering(u32::try_from(S::SIZE / FRAME_BYTES).ok()?)
}

/// Implements the traits for a size of frames.
macro_rules! sizes {
    ($($size:ty),*) => {$(
        // SAFETY: by the contract of `PageFrames::new`, what the system has as free is unused, and it allocates a frame
        // once until it is freed.
        unsafe impl<P: Platform, A: FrameAllocator<P> + ?Sized> paging::FrameAllocator<$size>
            for PageFrames<'_, P, A>
        {
            fn allocate_frame(&mut self) -> Option<PhysFrame<$size>> {
                self.allocate()
            }
        }

        impl<P: Platform, A: FrameAllocator<P> + ?Sized> paging::FrameDeallocator<$size>
            for PageFrames<'_, P, A>
        {
            unsafe fn deallocate_frame(&mut self, frame: PhysFrame<$size>) {
                self.free(frame);
            }
        }
    )*};
}
sizes!(Size4KiB, Size2MiB, Size1GiB);
