//! The real machine, and threads as its CPUs.
//!
//! Natively the seam must cost nothing, so every type here is a transparent wrapper and every function is inlined to
//! the instruction that hand-written code would use.
//!
//! # Invariants
//! A [`NativeCpus`] hands out a [`NativeCpu`] of a given number once until it is returned, and it cannot leave its
//! thread. A set takes back only tokens that it handed out.

use core::fmt;
use core::marker::PhantomData;
use core::sync::atomic::{AtomicU8, AtomicU16, AtomicU32, AtomicU64, Ordering};

use super::{CellValue, CpuId, CpuToken, SharedCell};
use crate::probe::{NoProbe, Probe};

/// Storage whose relaxed loads and stores are plain moves.
pub trait RelaxedStorage<T>: Send + Sync {
    /// Makes storage that holds `value`.
    fn new(value: T) -> Self;
    /// Reads without ordering.
    fn get(&self) -> T;
    /// Writes without ordering.
    fn set(&self, value: T);
    /// Writes `new` if the value is `current`, without ordering. Returns `true` if it was.
    fn exchange(&self, current: T, new: T) -> bool;
}

macro_rules! cell_values {
    ($($value:ty => $storage:ty),*) => {$(
        impl CellValue for $value {
            type NativeStorage = $storage;
        }
        impl RelaxedStorage<$value> for $storage {
            #[inline(always)]
            fn new(value: $value) -> Self {
                <$storage>::new(value)
            }
            #[inline(always)]
            fn get(&self) -> $value {
                self.load(Ordering::Relaxed)
            }
            #[inline(always)]
            fn set(&self, value: $value) {
                self.store(value, Ordering::Relaxed);
            }
            #[inline(always)]
            fn exchange(&self, current: $value, new: $value) -> bool {
                let (success, failure) = (Ordering::Relaxed, Ordering::Relaxed);
                self.compare_exchange(current, new, success, failure).is_ok()
            }
        }
    )*};
}
cell_values!(u8 => AtomicU8, u16 => AtomicU16, u32 => AtomicU32, u64 => AtomicU64);

/// Plain shared memory, natively.
#[repr(transparent)]
pub struct NativeCell<T: CellValue>(T::NativeStorage);

impl<T: CellValue> SharedCell<T> for NativeCell<T> {
    #[inline(always)]
    fn new(value: T) -> Self {
        Self(T::NativeStorage::new(value))
    }
    #[inline(always)]
    fn get(&self) -> T {
        self.0.get()
    }
    #[inline(always)]
    fn set(&self, value: T) {
        self.0.set(value);
    }
    #[inline(always)]
    fn exchange(&self, current: T, new: T) -> bool {
        self.0.exchange(current, new)
    }
}

/// Implements [`AtomicWord`] for an atomic that has the methods of `core`'s: natively, under loom, under shuttle.
#[doc(hidden)]
#[macro_export]
macro_rules! atomic_word {
    ($(#[$doc:meta])* $name:ident, $value:ty, $atomic:ty) => {
        $(#[$doc])*
        #[repr(transparent)]
        #[derive(Debug)]
        pub struct $name($atomic);

        impl $crate::platform::AtomicWord<$value> for $name {
            #[inline(always)]
            fn new(value: $value) -> Self {
                Self(<$atomic>::new(value))
            }
            #[inline(always)]
            fn load(&self, ordering: $crate::platform::Ordering) -> $value {
                self.0.load(ordering)
            }
            #[inline(always)]
            fn store(&self, value: $value, ordering: $crate::platform::Ordering) {
                self.0.store(value, ordering);
            }
            #[inline(always)]
            fn swap(&self, value: $value, ordering: $crate::platform::Ordering) -> $value {
                self.0.swap(value, ordering)
            }
            #[inline(always)]
            fn compare_exchange(
                &self,
                current: $value,
                new: $value,
                success: $crate::platform::Ordering,
                failure: $crate::platform::Ordering,
            ) -> Result<$value, $value> {
                self.0.compare_exchange(current, new, success, failure)
            }
            #[inline(always)]
            fn fetch_add(&self, value: $value, ordering: $crate::platform::Ordering) -> $value {
                self.0.fetch_add(value, ordering)
            }
            #[inline(always)]
            fn fetch_sub(&self, value: $value, ordering: $crate::platform::Ordering) -> $value {
                self.0.fetch_sub(value, ordering)
            }
        }
    };
}
atomic_word!(
    /// A 32-bit atomic word, natively.
    NativeAtomicU32,
    u32,
    AtomicU32
);
atomic_word!(
    /// A 64-bit atomic word, natively.
    NativeAtomicU64,
    u64,
    AtomicU64
);

impl NativeAtomicU64 {
    /// Creates a word that holds `value`. Unlike the method of the trait, a constant can call it.
    pub const fn new(value: u64) -> Self {
        Self(AtomicU64::new(value))
    }
}

/// What a native CPU does while it waits.
pub trait Waiting: Send + Sync + 'static {
    /// How many nanoseconds a request waits for other CPUs: see [`Platform::MAX_WAIT`](super::Platform::MAX_WAIT).
    /// Two milliseconds, which a kernel bears with preemption disabled. Where threads can be stopped in a call, as
    /// under an operating system, a second.
    const MAX_WAIT: u64 = 2_000_000;

    /// How often a request polls for other CPUs at most, without a [clock](Self::now). 512 polls of [`Spin`] take about
    /// a millisecond.
    const MAX_POLLS: u32 = 1 << 9;

    /// Waits a moment; `attempt` counts the calls of one wait from zero.
    fn pause(attempt: u32);

    /// Returns the time in nanoseconds, from any moment on, or `None` without a clock: see
    /// [`Platform::now`](super::Platform::now).
    #[inline(always)]
    fn now() -> Option<u64> {
        None
    }
}

/// Waits by spinning: what a kernel does with preemption disabled.
#[derive(Clone, Copy, Debug, Default)]
pub struct Spin;

impl Waiting for Spin {
    #[inline(always)]
    fn pause(attempt: u32) {
        // Exponential backoff up to 64 pauses keeps the waiters' reads off the holder's cache line.
        for _ in 0..(1 << attempt.min(6)) {
            core::hint::spin_loop();
        }
    }
}

/// The token of a native CPU: one thread's right to act as that CPU.
// C: the number comes first, at the address of the token. Behind `set`, it costs a hit a register, which is three
// instructions.
#[must_use]
#[repr(C)]
pub struct NativeCpu<B: Probe = NoProbe> {
    id: CpuId,
    /// The number of the set that handed it out.
    set: u32,
    probe: B,
    // A raw pointer is neither Send nor Sync: the token stays in the thread that claimed it.
    not_send: PhantomData<*mut ()>,
}

impl<B: Probe> NativeCpu<B> {
    /// Returns what counts events on this CPU. O(1).
    #[inline(always)]
    pub fn probe(&mut self) -> &mut B {
        &mut self.probe
    }
}

impl<B: Probe> CpuToken for NativeCpu<B> {
    #[inline(always)]
    fn id(&self) -> CpuId {
        self.id
    }
}

/// The reason why a token was not handed out.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ClaimError {
    /// Another holder has the token.
    InUse,
    /// No CPU has this number.
    NoSuchCpu,
}

impl fmt::Display for ClaimError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::InUse => "the token of this CPU is in use",
            Self::NoSuchCpu => "no CPU has this number",
        })
    }
}

impl core::error::Error for ClaimError {}

/// The CPUs of the machine: hands out each token once.
///
/// A machine has one such set, and every system on the machine is used with tokens of that set. (Tokens
/// of two sets with the same number would both count as the owner of that CPU's lists. That can't cause
/// undefined behaviour, but frames could be given twice.) It takes 8 KiB.
///
/// ```
/// use everybuddy::platform::{ClaimError, CpuId, NativeCpus};
/// let cpus = NativeCpus::new(2);
/// let token = cpus.claim(CpuId(0))?;
/// assert_eq!(cpus.claim(CpuId(0)).err(), Some(ClaimError::InUse));
/// assert!(cpus.release(token));
/// assert!(cpus.claim(CpuId(0)).is_ok());
/// # Ok::<(), ClaimError>(())
/// ```
pub struct NativeCpus {
    count: u16,
    /// The number of the set; 0 before the first claim.
    number: AtomicU32,
    claimed: [AtomicU64; NativeCpus::MAX.div_ceil(64)],
}

impl NativeCpus {
    /// The largest number of CPUs of a set: that of a [`Setup`](crate::Setup).
    pub const MAX: usize = 65_534;

    /// Creates the set of CPUs 0 to `count - 1`; at most [`MAX`](Self::MAX) of them.
    pub const fn new(count: u16) -> Self {
        let count = if count as usize > Self::MAX {
            Self::MAX as u16
        } else {
            count
        };
        Self {
            count,
            number: AtomicU32::new(0),
            claimed: [const { AtomicU64::new(0) }; Self::MAX.div_ceil(64)],
        }
    }

    /// Returns the number of CPUs.
    pub fn count(&self) -> u16 {
        self.count
    }

    /// Returns the token of a CPU, which counts nothing. O(1).
    ///
    /// # Errors
    /// [`ClaimError`]: another holder has the token, or no CPU has this number.
    pub fn claim(&self, id: CpuId) -> Result<NativeCpu, ClaimError> {
        self.claim_probed(id)
    }

    /// Returns the token of a CPU, on which a `B` counts events. O(1).
    ///
    /// # Errors
    /// Those of [`claim`](Self::claim).
    pub fn claim_probed<B: Probe>(&self, id: CpuId) -> Result<NativeCpu<B>, ClaimError> {
        if id.0 >= self.count {
            return Err(ClaimError::NoSuchCpu);
        }
        let bit = 1u64 << (id.index() % 64);
        // Acquire: pairs with the release in `take_back`: what the last holder did on this CPU is seen.
        let before = self.claimed[id.index() / 64].fetch_or(bit, Ordering::Acquire);
        if before & bit != 0 {
            return Err(ClaimError::InUse);
        }
        Ok(NativeCpu {
            id,
            set: self.number(),
            probe: B::default(),
            not_send: PhantomData,
        })
    }

    /// Returns the number of the set, different from that of all others. (2^32 sets later they repeat.)
    fn number(&self) -> u32 {
        static LAST: AtomicU32 = AtomicU32::new(0);
        match self.number.load(Ordering::Relaxed) {
            0 => {
                // Another thread may claim another CPU meanwhile: the number that comes first stays.
                let new = LAST.fetch_add(1, Ordering::Relaxed).wrapping_add(1).max(1);
                let set =
                    self.number
                        .compare_exchange(0, new, Ordering::Relaxed, Ordering::Relaxed);
                set.map_or_else(|first| first, |_| new)
            }
            number => number,
        }
    }

    /// Takes a token back, so that another thread can claim it. O(1).
    ///
    /// Returns `false`, and nothing changes, if another set handed the token out.
    ///
    /// [`park`](crate::FrameAllocator::park) the CPU in every system first: others can then fetch what its lists hold.
    pub fn release<B: Probe>(&self, token: NativeCpu<B>) -> bool {
        self.take_back(&token)
    }

    /// Does what [`release`](Self::release) does, for a caller that drops the token next.
    pub(crate) fn take_back<B: Probe>(&self, token: &NativeCpu<B>) -> bool {
        if token.set != self.number.load(Ordering::Relaxed) {
            return false;
        }
        let bit = 1u64 << (token.id.index() % 64);
        // Release: pairs with the acquire in `claim_probed`.
        self.claimed[token.id.index() / 64].fetch_and(!bit, Ordering::Release);
        true
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_set_takes_back_its_own_tokens_only() {
        let (a, b) = (NativeCpus::new(2), NativeCpus::new(2));
        let of_a = a.claim(CpuId(0)).unwrap();
        let of_b = b.claim(CpuId(0)).unwrap();
        assert!(!a.release(of_b), "the token of another set");
        assert!(a.claim(CpuId(0)).is_err(), "its token is in use");
        assert!(a.release(of_a));
        assert!(a.claim(CpuId(0)).is_ok());
        // A set that never handed out a token, and one that was moved after it did.
        let of_b = b.claim(CpuId(1)).unwrap();
        assert!(!NativeCpus::new(2).release(of_b));
        let of_a = a.claim(CpuId(1)).unwrap();
        let moved = std::boxed::Box::new(a);
        assert!(moved.release(of_a));
    }

    #[test]
    fn every_cpu_of_a_setup_can_be_claimed() {
        let cpus = NativeCpus::new(u16::MAX);
        assert_eq!(usize::from(cpus.count()), NativeCpus::MAX);
        for id in [0, 4095, 4096, 65_533] {
            assert!(cpus.claim(CpuId(id)).is_ok(), "{id}");
            assert!(cpus.claim(CpuId(id)).is_err(), "{id}");
        }
        assert!(cpus.claim(CpuId(65_534)).is_err());
        let ranges = [crate::FrameRange::new(crate::Pfn(0), 1)];
        let bs = crate::SystemSpec::of(<crate::systems::Bs as crate::systems::System>::ROW);
        let is_set_up = |cpus| bs.parameters(&crate::Setup::new(&ranges, cpus)).is_ok();
        assert!(is_set_up(65_534) && !is_set_up(65_535));
    }
}
