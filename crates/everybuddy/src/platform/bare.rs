//! The real machine, with CPU tokens and a pause of the user's choice.
//!
//! A kernel knows best what proves that code runs on a CPU (a guard that disables preemption), and what a waiting CPU
//! does. It implements these two. [`Bare`] provides atomics and cells that compile to plain instructions.
//! [`Native`] is this platform with the tokens of [`NativeCpus`](super::NativeCpus). `examples/kernel`
//! uses it in a kernel. Nothing is counted on [`Bare`], unless its third parameter says where a CPU's probe is.
//!
//! # Invariants
//! The platform costs nothing natively: every function here is inlined to the instruction that hand-written code would
//! use.

use core::marker::PhantomData;
use core::ptr::NonNull;

use super::native::{NativeAtomicU32, NativeAtomicU64, NativeCell, NativeCpu, Spin, Waiting};
use super::{CellValue, CpuToken, Platform};
use crate::probe::{NoProbe, Probe};

/// The real machine, for a kernel: the kernel provides the CPU token `C`, and the pause `W` of waiting CPUs. `B` says
/// where a CPU's probe is, if events are counted.
///
/// A token is the right to act as one CPU. The kernel creates at most one token of a number at a time, and only on
/// that CPU. If two tokens of the same number exist simultaneously, an allocator may allocate a frame twice; it stays
/// free of undefined behaviour.
///
/// ```
/// use everybuddy::platform::{Bare, Call, Calls, CpuToken, Waiting};
/// use everybuddy::prelude::*;
///
/// static CALLS: Calls<1> = Calls::new();
///
/// /// Holds off preemption while it exists.
/// struct PreemptionGuard(Call);
///
/// impl CpuToken for PreemptionGuard {
///     fn id(&self) -> CpuId {
///         self.0.cpu()
///     }
///
///     fn exclude(&self, cpu: CpuId) -> Option<Self> {
///         CALLS.try_begin(cpu).map(Self)
///     }
/// }
///
/// /// Waits as the kernel's own locks do.
/// struct Relax;
///
/// impl Waiting for Relax {
///     fn pause(_attempt: u32) {
///         core::hint::spin_loop();
///     }
/// }
///
/// type Kernel = Bare<PreemptionGuard, Relax>;
///
/// let ranges = [FrameRange::new(Pfn(0x100), 0x8000)];
/// let setup = Setup::new(&ranges, 1);
/// let room = Memory::room(layout::<Lbs31, Kernel>(&Options::NONE, &setup)?);
/// let mut memory = vec![core::mem::MaybeUninit::uninit(); room];
/// let system = build::<Lbs31, Kernel>(&Options::NONE, &setup, Memory::new(&mut memory))?;
///
/// let mut guard = PreemptionGuard(CALLS.begin(CpuId(0)));
/// let frame = system.allocate(&mut guard, Request::FRAME)?;
/// system.free(&mut guard, Release::frame(frame))?;
/// # Ok::<(), Box<dyn core::error::Error>>(())
/// ```
pub struct Bare<C: CpuToken + 'static, W: Waiting = Spin, B = NoProbe>(
    PhantomData<(fn() -> C, W)>,
    PhantomData<B>,
);

/// Where the probe of a CPU is, whose token is a `C`.
pub trait ProbeOf<C>: Send + Sync + 'static {
    /// The probe.
    type Probe: Probe;

    /// Returns the probe. O(1), no lock.
    fn probe(cpu: &mut C) -> &mut Self::Probe;
}

/// Nothing is counted, and a token has no probe.
#[allow(unsafe_code)]
impl<C> ProbeOf<C> for NoProbe {
    type Probe = NoProbe;

    #[inline(always)]
    fn probe(_: &mut C) -> &mut NoProbe {
        // SAFETY: a value without bytes lies at every aligned address, and references to it exclude no other one.
        unsafe { NonNull::dangling().as_mut() }
    }
}

/// The token has the probe: that of [`NativeCpu`].
#[derive(Clone, Copy, Debug)]
pub struct InToken;

impl<B: Probe> ProbeOf<NativeCpu<B>> for InToken {
    type Probe = B;

    #[inline(always)]
    fn probe(cpu: &mut NativeCpu<B>) -> &mut B {
        cpu.probe()
    }
}

// SAFETY: words and cells are `core`'s atomics, transparently, which are valid for any bytes.
#[allow(unsafe_code)]
unsafe impl<C: CpuToken + 'static, W: Waiting, B: ProbeOf<C>> Platform for Bare<C, W, B> {
    const ZERO_BYTES_ARE_ZERO_CELLS: bool = true;
    const MAX_WAIT: u64 = W::MAX_WAIT;
    const MAX_POLLS: u32 = W::MAX_POLLS;
    type AtomicU32 = NativeAtomicU32;
    type AtomicU64 = NativeAtomicU64;
    type Cell<T: CellValue> = NativeCell<T>;
    type Cpu = C;
    type Probe = B::Probe;

    #[inline(always)]
    fn probe(cpu: &mut C) -> &mut B::Probe {
        B::probe(cpu)
    }

    #[inline(always)]
    fn wait(_: &NativeAtomicU32, _: u32, attempt: u32) {
        W::pause(attempt);
    }

    #[inline(always)]
    fn wake(_: &NativeAtomicU32) {}

    #[inline(always)]
    fn now() -> Option<u64> {
        W::now()
    }
}

/// The real machine, whose CPUs are threads that claimed a token of [`NativeCpus`](super::NativeCpus).
///
/// `W` says how to wait, `B` what counts events. [`Spin`] has no clock, as the language has none without its library:
/// a CPU waits for [`Waiting::MAX_POLLS`] polls. Programs under an operating system, whose threads can be preempted
/// while they hold a lock, use a `W` that yields, has a clock and waits longer; see [`Hosted`].
pub type Native<W = Spin, B = NoProbe> = Bare<NativeCpu<B>, W, InToken>;

/// The real machine under an operating system: waits by `W`, counts with `B`.
///
/// `everybuddy` itself is `no_std`, can't yield and has no clock; the host brings its own [`Waiting`]:
///
/// ```
/// use everybuddy::platform::{Hosted, Spin, Waiting};
/// use std::{sync::LazyLock, time::Instant};
/// struct Yield;
/// impl Waiting for Yield {
///     // A thread can be stopped in a call.
///     const MAX_WAIT: u64 = 1_000_000_000;
///     const MAX_POLLS: u32 = 1 << 16;
///     fn pause(attempt: u32) {
///         if attempt < 32 { Spin::pause(attempt) } else { std::thread::yield_now() }
///     }
///     fn now() -> Option<u64> {
///         static START: LazyLock<Instant> = LazyLock::new(Instant::now);
///         u64::try_from(START.elapsed().as_nanos()).ok()
///     }
/// }
/// type Machine = Hosted<Yield>;
/// # fn main() { let _ = core::marker::PhantomData::<Machine>; }
/// ```
pub type Hosted<W, B = NoProbe> = Native<W, B>;
