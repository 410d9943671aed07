//! A static for the boot of a kernel.
//!
//! Before a kernel has a heap, the memory for metadata lies in its image, and all CPUs must find the system that is
//! built there. Both take `unsafe`. Here it is written once.
//!
//! # Invariants
//! 1. The bytes are lent once, and they are zero until then.
//! 2. The system is written by the caller that was lent the bytes, before the state says that it is there, and never
//!    again.
#![allow(unsafe_code)]

use core::cell::UnsafeCell;
use core::fmt;
use core::mem::MaybeUninit;
use core::sync::atomic::{AtomicU8, Ordering};

use crate::arena::{LINE, Memory};
use crate::error::BuildError;
use crate::platform::Platform;
use crate::systems::{self, Options, Setup, System};

/// Nothing was built.
const UNUSED: u8 = 0;
/// The memory is lent, and the system is not built yet.
const LENT: u8 = 1;
/// The system is there.
const BUILT: u8 = 2;

/// Memory for the metadata of one system, and a place for the system: a static of a kernel, without `unsafe`.
///
/// It lies in `.bss`, and takes no space in the kernel's image. [`Everybuddy::room_for`](crate::Everybuddy::room_for)
/// is the size for `everybuddy`, [`System::room`] that for any system. `T` is the type of the
/// system, or `dyn FrameAllocator<P>`.
///
/// ```
/// use everybuddy::platform::{Bare, CpuToken};
/// use everybuddy::prelude::*;
///
/// /// Preemption is disabled while this exists.
/// struct Guard(CpuId);
///
/// impl CpuToken for Guard {
///     fn id(&self) -> CpuId {
///         self.0
///     }
/// }
///
/// type Machine = Bare<Guard>;
/// type Frames = <Everybuddy as System>::Built<'static, Machine>;
///
/// // At most 1 GiB of memory from the first frame to the last, and at most 8 CPUs.
/// static FRAMES: Boot<Frames, { Everybuddy::room_for(1 << 18, 8) }> = Boot::new();
///
/// let ranges = [FrameRange::new(Pfn(0x10_0000), 0x8000)];
/// let setup = Setup::new(&ranges, 2);
/// FRAMES.start::<Everybuddy, Machine>(&Options::NONE, &setup)?;
///
/// let frames = FRAMES.get().expect("it is built");
/// let frame = frames.allocate(&mut Guard(CpuId(0)), Request::FRAME)?;
/// # Ok::<(), Box<dyn core::error::Error>>(())
/// ```
///
/// [`build`](Self::build) also takes [`Nodes`](crate::Nodes), whose [`build`](crate::Nodes::build) puts all of its
/// parts into one memory.
pub struct Boot<T: ?Sized + 'static, const BYTES: usize> {
    state: AtomicU8,
    system: UnsafeCell<Option<&'static T>>,
    bytes: UnsafeCell<[MaybeUninit<u8>; BYTES]>,
}

/// The reason why a static got no system.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum BootError<E = BuildError> {
    /// The memory was lent before: a system was built, or is being built, or an earlier [`Boot::build`] failed.
    AlreadyBuilt,
    /// The system was not built.
    Build(E),
}

impl<E: fmt::Display> fmt::Display for BootError<E> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::AlreadyBuilt => write!(f, "the static was used for a system before"),
            Self::Build(error) => error.fmt(f),
        }
    }
}

impl<E: core::error::Error> core::error::Error for BootError<E> {}

// SAFETY: the bytes and the place of the system are written only by the one caller of `build` that finds the state
// unused. Others read the place only after the state says that it was written. What they read is a shared reference,
// which `T: Sync` allows.
unsafe impl<T: ?Sized + Sync + 'static, const BYTES: usize> Sync for Boot<T, BYTES> {}

impl<T: ?Sized + Sync + 'static, const BYTES: usize> Boot<T, BYTES> {
    /// Creates memory without a system.
    #[allow(clippy::new_without_default)] // A static needs a constant.
    pub const fn new() -> Self {
        Self {
            state: AtomicU8::new(UNUSED),
            system: UnsafeCell::new(None),
            bytes: UnsafeCell::new([MaybeUninit::zeroed(); BYTES]),
        }
    }

    /// Builds a system of a type in the memory. All CPUs find it there from then on. O(frames).
    ///
    /// After an error, the call can be repeated with another setup.
    ///
    /// # Errors
    /// [`AlreadyBuilt`](BootError::AlreadyBuilt), and any [`BuildError`].
    pub fn start<S, P: Platform>(
        &'static self,
        options: &Options,
        setup: &Setup<'_>,
    ) -> Result<&'static T, BootError>
    where
        S: System<Built<'static, P> = T>,
        T: Sized,
    {
        // All that can fail comes before the memory is lent.
        let layout = systems::layout::<S, P>(options, setup).map_err(BootError::Build)?;
        let skipped = self.bytes.get().cast::<u8>().align_offset(LINE);
        let (needed, given) = (layout.size(), BYTES.saturating_sub(skipped));
        if needed > given {
            let error = BuildError::MetadataTooSmall { needed, given };
            return Err(BootError::Build(error));
        }
        self.build(|memory| systems::build::<S, P>(options, setup, memory))
    }

    /// Lends the memory to `build`, and stores the system that it returns. All CPUs find it there from then on.
    ///
    /// The memory is lent once, whatever `build` returns: it may have kept a part.
    ///
    /// # Errors
    /// [`AlreadyBuilt`](BootError::AlreadyBuilt), before `build` is called, and what `build` returns.
    pub fn build<E>(
        &'static self,
        build: impl FnOnce(Memory<'static>) -> Result<&'static T, E>,
    ) -> Result<&'static T, BootError<E>> {
        let (before, after) = (Ordering::Relaxed, Ordering::Relaxed);
        if self
            .state
            .compare_exchange(UNUSED, LENT, before, after)
            .is_err()
        {
            return Err(BootError::AlreadyBuilt);
        }
        // SAFETY: the exchange above lets only one caller pass, so this is the only reference, for ever.
        let bytes = unsafe { &mut *self.bytes.get() };
        // SAFETY: `new` zeroed the bytes, and nothing was written there since.
        let system = build(unsafe { Memory::zeroed(bytes) }).map_err(BootError::Build)?;
        // SAFETY: only this caller writes, and no other one reads before the state is `BUILT`.
        unsafe { *self.system.get() = Some(system) };
        // Release: pairs with the acquire in `get`: another CPU sees the place, and what was built.
        self.state.store(BUILT, Ordering::Release);
        Ok(system)
    }

    /// Returns the system, or `None` before it is built. O(1), no lock.
    #[inline]
    pub fn get(&self) -> Option<&'static T> {
        // Acquire: pairs with the release in `build`.
        if self.state.load(Ordering::Acquire) != BUILT {
            return None;
        }
        // SAFETY: the place was written before the state became `BUILT`, and is never written again.
        unsafe { *self.system.get() }
    }
}

impl<T: ?Sized + 'static, const BYTES: usize> fmt::Debug for Boot<T, BYTES> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Boot")
            .field("bytes", &BYTES)
            .field("is_built", &(self.state.load(Ordering::Relaxed) == BUILT))
            .finish()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::systems::{self, Everybuddy, Lbs31, Options, System};
    use crate::{BuildError, FrameAllocator, FrameRange, Native, Pfn, Setup};
    use std::thread;

    const RANGES: [FrameRange; 1] = [FrameRange::new(Pfn(3), 5000)];

    #[test]
    fn a_system_is_built_once_and_found_by_all_threads() {
        type Frames = <Everybuddy as System>::Built<'static, Native>;
        static FRAMES: Boot<Frames, { Everybuddy::room_for(5000, 2) }> = Boot::new();
        let build = |_| {
            FRAMES.build(|memory| {
                let setup = Setup::new(&RANGES, 2);
                systems::build::<Everybuddy, Native>(&Options::NONE, &setup, memory)
            })
        };
        // A failure before the memory is lent does not use it up.
        let small = [FrameRange::new(Pfn(3), 1 << 20)];
        let started = FRAMES.start::<Everybuddy, Native>(&Options::NONE, &Setup::new(&small, 2));
        let Err(BootError::Build(BuildError::MetadataTooSmall { needed, given })) = started else {
            panic!("it has too little memory");
        };
        assert!(needed > given && given > 0, "{needed} {given}");
        assert!(FRAMES.get().is_none());
        let built = thread::scope(|scope| {
            let threads = [0, 1, 2].map(|thread| scope.spawn(move || build(thread)));
            threads.map(|thread| thread.join().unwrap())
        });
        let mut systems = built.iter().filter_map(|system| system.ok());
        let system = systems.next().unwrap();
        assert!(systems.next().is_none(), "the memory is lent once");
        for refused in built.iter().filter_map(|system| system.err()) {
            assert_eq!(refused, BootError::AlreadyBuilt);
        }
        assert!(core::ptr::eq(FRAMES.get().unwrap(), system));
    }

    #[test]
    fn a_static_that_is_too_small_stays_without_a_system() {
        static FRAMES: Boot<dyn FrameAllocator<Native>, 4096> = Boot::new();
        let built = FRAMES.build(|memory| {
            let built =
                systems::build::<Lbs31, Native>(&Options::NONE, &Setup::new(&RANGES, 2), memory)?;
            Ok(built as &dyn FrameAllocator<Native>)
        });
        let too_small =
            |error| matches!(error, BootError::Build(BuildError::MetadataTooSmall { .. }));
        assert!(built.is_err_and(too_small));
        assert!(FRAMES.get().is_none());
    }
}
