//! The operations of OSTD's trait `GlobalFrameAllocator`: layouts and addresses in bytes.
//!
//! OSTD forwards every allocation of frames to a static that implements its trait. OSTD needs a nightly compiler, so
//! this crate does not depend on it: the kernel's type implements [`ByteFrames`] in a line of its own, and
//! [`global_frame_allocator!`](crate::global_frame_allocator) implements the trait of OSTD with it. The tests use a
//! trait of the same shape, that of OSTD 0.19.
//!
//! # Invariants
//! Frames are never lost: what an aligned request takes too much is freed again.

use core::alloc::Layout;
use core::fmt;

use everybuddy::{
    FrameAllocator, FrameRange, FreeError, Index, Pfn, Platform, RegionError, Release, Request,
};

use crate::{FRAME_BYTES, FRAME_SHIFT};

/// A call of OSTD that failed, and that cannot return an error. Nothing has changed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Refused {
    /// Frames could not be freed.
    Free(FreeError),
    /// Memory could not be added.
    Add(RegionError),
    /// An address or a size is not a multiple of a frame.
    Unaligned {
        /// The address.
        address: usize,
        /// The size in bytes.
        bytes: usize,
    },
}

impl fmt::Display for Refused {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Free(error) => write!(f, "cannot free frames: {error}"),
            Self::Add(error) => write!(f, "cannot add memory: {error}"),
            Self::Unaligned { address, bytes } => {
                write!(f, "{bytes} bytes at {address:#x} are not whole frames")
            }
        }
    }
}

impl core::error::Error for Refused {}

/// A kernel's frame allocator, called with bytes.
pub trait ByteFrames {
    /// The platform of the system.
    type Platform: Platform;
    /// The system.
    type System: FrameAllocator<Self::Platform> + ?Sized;

    /// Calls `then` with the system and the token of this CPU, while interrupts are disabled.
    fn with_system<T>(
        &self,
        then: impl FnOnce(&Self::System, &mut <Self::Platform as Platform>::Cpu) -> T,
    ) -> T;

    /// Is told of calls that failed. Does nothing by default; a kernel may log or panic.
    fn refused(&self, refused: Refused) {
        let _ = refused;
    }

    /// Allocates frames for a layout, whose alignment the address has. Returns the physical address. Returns `None` if
    /// there are none, and for a layout of zero bytes.
    fn allocate_bytes(&self, layout: Layout) -> Option<usize> {
        let frames = u32::try_from((layout.size() as u64).div_ceil(FRAME_BYTES)).ok()?;
        let aligned = u32::try_from((layout.align() as u64).div_ceil(FRAME_BYTES)).ok()?;
        // A run starts at a multiple of the next power of two, so only a larger alignment needs a longer run.
        let asked = match frames.checked_next_power_of_two()? < aligned {
            _ if frames == 0 => return None,
            true => aligned,
            false => frames,
        };
        self.with_system(|system, cpu| {
            let start = system.allocate(cpu, Request::frames(asked)).ok()?;
            if asked > frames {
                let rest = Release::frames(Index(start.0 + frames), asked - frames);
                // It was allocated just now, so only misuse can have freed it.
                let _ = system.free(cpu, rest);
            }
            let address = system.span().physical(start).address(FRAME_SHIFT);
            let address = address.and_then(|address| usize::try_from(address).ok());
            if address.is_none() {
                // As above.
                let _ = system.free(cpu, Release::frames(start, frames));
            }
            address
        })
    }

    /// Frees frames: an allocation, or any part of one. Frames that are holes are added instead: OSTD allocates some
    /// before it adds memory, those of its first page tables, and frees them here.
    fn free_bytes(&self, address: usize, bytes: usize) {
        let Some(range) = whole_frames(address, bytes) else {
            return self.refused(Refused::Unaligned { address, bytes });
        };
        let freed = self.with_system(|system, cpu| {
            let start = system.span().index(range.start).ok_or(FreeError::Foreign)?;
            let frames = u32::try_from(range.frames).map_err(|_| FreeError::Foreign)?;
            match system.free(cpu, Release::frames(start, frames)) {
                // If only some of them are holes, nothing is added.
                Err(FreeError::Hole) => system.add(cpu, range).map_err(|_| FreeError::Hole),
                result => result,
            }
        });
        if let Err(error) = freed {
            self.refused(Refused::Free(error));
        }
    }

    /// Adds memory: frames that were holes until now. The system must have been set up with a reach that includes them.
    /// All memory of OSTD arrives here, so the ranges of the setup are empty.
    fn add_bytes(&self, address: usize, bytes: usize) {
        let Some(range) = whole_frames(address, bytes) else {
            return self.refused(Refused::Unaligned { address, bytes });
        };
        let added = self.with_system(|system, cpu| system.add(cpu, range));
        if let Err(error) = added {
            self.refused(Refused::Add(error));
        }
    }
}

fn whole_frames(address: usize, bytes: usize) -> Option<FrameRange> {
    let (address, bytes) = (address as u64, bytes as u64);
    let is_whole = address.is_multiple_of(FRAME_BYTES) && bytes.is_multiple_of(FRAME_BYTES);
    let start = Pfn::containing(address, FRAME_SHIFT);
    is_whole.then(|| FrameRange::new(start, bytes / FRAME_BYTES))
}

/// Implements OSTD's trait for a type that implements [`ByteFrames`]. The first argument is the trait,
/// `ostd::mm::frame::GlobalFrameAllocator`.
///
/// [`ByteFrames`]: crate::ostd::ByteFrames
///
/// ```
/// # mod kernel {
/// # use everybuddy::prelude::*;
/// # pub trait GlobalFrameAllocator: Sync {
/// #     fn alloc(&self, layout: core::alloc::Layout) -> Option<usize>;
/// #     fn dealloc(&self, addr: usize, size: usize);
/// #     fn add_free_memory(&self, addr: usize, size: usize);
/// # }
/// # pub struct Frames;
/// # impl everybuddy_adapters::ostd::ByteFrames for Frames {
/// #     type Platform = Native;
/// #     type System = <Everybuddy as System>::Built<'static, Native>;
/// #     fn with_system<T>(
/// #         &self,
/// #         _then: impl FnOnce(&Self::System, &mut <Native as Platform>::Cpu) -> T,
/// #     ) -> T {
/// #         unreachable!("this example is not called")
/// #     }
/// # }
/// everybuddy_adapters::global_frame_allocator!(GlobalFrameAllocator, Frames);
/// # }
/// ```
#[macro_export]
macro_rules! global_frame_allocator {
    ($trait:path, $type:ty) => {
        impl $trait for $type {
            fn alloc(&self, layout: ::core::alloc::Layout) -> Option<usize> {
                $crate::ostd::ByteFrames::allocate_bytes(self, layout)
            }

            fn dealloc(&self, addr: usize, size: usize) {
                $crate::ostd::ByteFrames::free_bytes(self, addr, size);
            }

            fn add_free_memory(&self, addr: usize, size: usize) {
                $crate::ostd::ByteFrames::add_bytes(self, addr, size);
            }
        }
    };
}
