//! A token that cannot be lost.
//!
//! A token that is only dropped can never be claimed again, and what its CPU keeps is lost to all others. That happens
//! when a thread returns early or panics. A guard has the token, and returns it in these cases too.
//!
//! # Invariants
//! A CPU parks in the system of its guard before its token can be claimed again.

use core::fmt;
use core::ops::{Deref, DerefMut};

use crate::api::FrameAllocator;
use crate::platform::{ClaimError, CpuId, CpuToken, Native, NativeCpu, NativeCpus, Spin, Waiting};

/// The token of a native CPU, for one system. When the guard is dropped, also by a panic, the CPU parks in that system,
/// and the token returns to its set.
///
/// It serves wherever a token does. A CPU that uses other systems too must park there itself.
#[must_use = "dropped immediately, the CPU parks, and its token returns"]
pub struct CpuGuard<'s, A: FrameAllocator<Native<W>> + ?Sized, W: Waiting = Spin> {
    cpu: NativeCpu,
    cpus: &'s NativeCpus,
    system: &'s A,
    waiting: core::marker::PhantomData<W>,
}

impl NativeCpus {
    /// Claims the token of a CPU for a system, until the guard is dropped. O(1).
    ///
    /// ```
    /// # use core::mem::MaybeUninit;
    /// use everybuddy::prelude::*;
    ///
    /// # let ranges = [FrameRange::new(Pfn(0), 4096)];
    /// # let setup = Setup::new(&ranges, 2);
    /// # let mut memory = vec![MaybeUninit::uninit(); Everybuddy::room(&setup)?];
    /// let system = Everybuddy::build(&setup, &mut memory[..])?;
    /// let cpus = NativeCpus::new(2);
    /// std::thread::scope(|scope| {
    ///     scope.spawn(|| {
    ///         let mut cpu = cpus.enter(system, CpuId(1)).unwrap();
    ///         let frame = system.allocate(&mut cpu, Request::FRAME).unwrap();
    ///         system.free(&mut cpu, Release::frame(frame)).unwrap();
    ///     });
    /// });
    /// assert!(cpus.enter(system, CpuId(1)).is_ok());
    /// # Ok::<(), Box<dyn core::error::Error>>(())
    /// ```
    ///
    /// # Errors
    /// Those of [`claim`](Self::claim); [`NoSuchCpu`](ClaimError::NoSuchCpu) also if the system was not set up for that
    /// CPU.
    pub fn enter<'s, W: Waiting, A: FrameAllocator<Native<W>> + ?Sized>(
        &'s self,
        system: &'s A,
        id: CpuId,
    ) -> Result<CpuGuard<'s, A, W>, ClaimError> {
        if id.0 >= system.cpus() {
            return Err(ClaimError::NoSuchCpu);
        }
        Ok(CpuGuard {
            cpu: self.claim(id)?,
            cpus: self,
            system,
            waiting: core::marker::PhantomData,
        })
    }
}

impl<A: FrameAllocator<Native<W>> + ?Sized, W: Waiting> Deref for CpuGuard<'_, A, W> {
    type Target = NativeCpu;

    #[inline(always)]
    fn deref(&self) -> &NativeCpu {
        &self.cpu
    }
}

impl<A: FrameAllocator<Native<W>> + ?Sized, W: Waiting> DerefMut for CpuGuard<'_, A, W> {
    #[inline(always)]
    fn deref_mut(&mut self) -> &mut NativeCpu {
        &mut self.cpu
    }
}

impl<A: FrameAllocator<Native<W>> + ?Sized, W: Waiting> Drop for CpuGuard<'_, A, W> {
    fn drop(&mut self) {
        self.system.park(&mut self.cpu);
        self.cpus.take_back(&self.cpu);
    }
}

impl<A: FrameAllocator<Native<W>> + ?Sized, W: Waiting> fmt::Debug for CpuGuard<'_, A, W> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("CpuGuard").field(&self.cpu.id()).finish()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::systems::{Everybuddy, Lbs31, System};
    use crate::{AllocateError, FrameRange, Pfn, Reason, Release, Request, Setup};
    use std::mem::MaybeUninit;
    use std::{thread, vec, vec::Vec};

    const FRAMES: u64 = 2048;

    /// Runs `body` with a system and CPU 1 on a thread of its own, which ends as `body` does. Returns the number of
    /// frames that CPU 0 has then, and the error after the last one.
    fn left_by<S: System>(
        body: fn(&S::Built<'_, Native>, &NativeCpus),
    ) -> (u64, AllocateError, Option<u16>) {
        let ranges = [FrameRange::new(Pfn(0), FRAMES)];
        let setup = Setup::new(&ranges, 2);
        let mut memory = vec![MaybeUninit::uninit(); S::room(&setup).unwrap()];
        let system = S::build(&setup, &mut memory[..]).unwrap();
        let cpus = NativeCpus::new(2);
        let _ = thread::scope(|scope| scope.spawn(|| body(system, &cpus)).join());
        let mut cpu = cpus.enter(system, CpuId(0)).unwrap();
        let mut frames = Vec::new();
        let error = loop {
            match system.allocate(&mut cpu, Request::FRAME) {
                Ok(frame) => frames.push(frame),
                Err(error) => break error,
            }
        };
        let shortage = system.shortage(&mut cpu, Request::FRAME);
        if let Some(kept) = shortage.kept {
            assert_eq!(shortage.reason(), Reason::Lists, "{shortage}");
            assert_eq!(kept.frames, FRAMES - frames.len() as u64, "{shortage}");
        }
        (
            frames.len() as u64,
            error,
            shortage.kept.map(|kept| kept.cpu.0),
        )
    }

    /// Allocates frames and frees them, so that the CPU keeps some.
    fn work<A: FrameAllocator<Native>>(system: &A, cpu: &mut NativeCpu) {
        let frames = [(); 20].map(|()| system.allocate(cpu, Request::FRAME).unwrap());
        for frame in frames {
            system.free(cpu, Release::frame(frame)).unwrap();
        }
    }

    fn returns<S: System>() {
        let left = left_by::<S>(|system, cpus| {
            let mut cpu = cpus.enter(system, CpuId(1)).unwrap();
            work(system, &mut cpu);
            assert_eq!(cpus.enter(system, CpuId(1)).err(), Some(ClaimError::InUse));
        });
        assert_eq!(left, (FRAMES, AllocateError::Exhausted, None));
    }

    fn panics<S: System>() {
        let left = left_by::<S>(|system, cpus| {
            let mut cpu = cpus.enter(system, CpuId(1)).unwrap();
            work(system, &mut cpu);
            std::panic::resume_unwind(std::boxed::Box::new("as a panic, without its message"));
        });
        assert_eq!(left, (FRAMES, AllocateError::Exhausted, None));
    }

    /// A token that is only dropped keeps its frames, and the shortage names its CPU.
    fn loses<S: System>() {
        let (frames, error, keeper) = left_by::<S>(|system, cpus| {
            work(system, &mut cpus.claim(CpuId(1)).unwrap());
        });
        assert!(frames < FRAMES);
        assert_eq!((error, keeper), (AllocateError::Busy, Some(1)));
    }

    #[test]
    fn a_guard_gives_back_what_its_cpu_keeps() {
        returns::<Everybuddy>();
        returns::<Lbs31>();
        panics::<Everybuddy>();
        panics::<Lbs31>();
    }

    #[test]
    fn a_shortage_names_the_cpu_whose_token_was_lost() {
        loses::<Everybuddy>();
        loses::<Lbs31>();
    }

    #[test]
    fn a_guard_is_refused_for_a_cpu_that_the_set_or_the_system_lacks() {
        let ranges = [FrameRange::new(Pfn(0), FRAMES)];
        let setup = Setup::new(&ranges, 2);
        let mut memory = vec![MaybeUninit::uninit(); Lbs31::room(&setup).unwrap()];
        let system = Lbs31::build(&setup, &mut memory[..]).unwrap();
        for (count, id) in [(1, 1), (3, 2)] {
            let cpus = NativeCpus::new(count);
            let refused = cpus.enter(system, CpuId(id)).err();
            assert_eq!(refused, Some(ClaimError::NoSuchCpu));
        }
    }
}
