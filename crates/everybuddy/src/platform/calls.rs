//! Which CPUs are in a call, for tokens that exist during single calls and can be lent.
//!
//! A CPU keeps free frames between its calls, and in a kernel it may call no more for long. A request that needs these
//! frames [excludes](super::CpuToken::exclude) that CPU: it takes the flag that the CPU itself takes for each call.
//!
//! # Invariants
//! At most one [`Call`] of a CPU exists at a time, whichever CPU has it.

use core::hint::spin_loop;
use core::marker::PhantomData;
use core::sync::atomic::{AtomicBool, Ordering};

use super::CpuId;

/// The flags of a kernel's CPUs, for the type of its token. A call costs one exchange of a word that is in the cache of
/// its CPU.
///
/// ```
/// use everybuddy::platform::{Call, Calls, CpuId, CpuToken};
///
/// static CALLS: Calls<2> = Calls::new();
///
/// /// Preemption is disabled while this exists.
/// struct Guard(Call);
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
/// let own = Guard(CALLS.begin(CpuId(0)));
/// let other = Guard(CALLS.begin(CpuId(1)));
/// assert!(own.exclude(CpuId(1)).is_none(), "it is in a call");
/// drop(other);
/// assert!(own.exclude(CpuId(1)).is_some());
/// ```
#[derive(Debug)]
pub struct Calls<const CPUS: usize>([Flag; CPUS]);

/// A flag on a cache line of its own.
#[derive(Debug)]
#[repr(align(64))]
struct Flag(AtomicBool);

/// The right to act as a CPU, until it is dropped.
#[derive(Debug)]
#[must_use]
pub struct Call {
    cpu: CpuId,
    /// `None` beyond the number of CPUs: a system refuses such a call.
    flag: Option<&'static AtomicBool>,
    // A raw pointer is neither Send nor Sync: a call stays where it began.
    not_send: PhantomData<*mut ()>,
}

impl<const CPUS: usize> Calls<CPUS> {
    /// Creates the flags of CPUs that are in no call.
    #[expect(clippy::new_without_default, reason = "it is the value of a static")]
    pub const fn new() -> Self {
        Self([const { Flag(AtomicBool::new(false)) }; CPUS])
    }

    /// Begins a call of this CPU, on which preemption is disabled. If another CPU has excluded this one, waits for
    /// the end, which is near. A handler that interrupted a call would wait for ever: it uses
    /// [`try_begin`](Self::try_begin).
    pub fn begin(&'static self, cpu: CpuId) -> Call {
        loop {
            if let Some(call) = self.try_begin(cpu) {
                return call;
            }
            if cpu.index() >= CPUS {
                return Call {
                    cpu,
                    flag: None,
                    not_send: PhantomData,
                };
            }
            spin_loop();
        }
    }

    /// The same, or `None` if the CPU is in a call or excluded, or if there is none of this number.
    pub fn try_begin(&'static self, cpu: CpuId) -> Option<Call> {
        let Flag(flag) = self.0.get(cpu.index())?;
        // Acquire: pairs with the release in `drop`: what the last holder did as this CPU is seen.
        let is_taken = flag.swap(true, Ordering::Acquire);
        // Not `then_some`: a call that does not exist must not end.
        (!is_taken).then(|| Call {
            cpu,
            flag: Some(flag),
            not_send: PhantomData,
        })
    }
}

impl Call {
    /// Returns the number of the CPU.
    #[inline(always)]
    pub const fn cpu(&self) -> CpuId {
        self.cpu
    }
}

impl Drop for Call {
    fn drop(&mut self) {
        if let Some(flag) = self.flag {
            // Release: pairs with the acquire in `try_begin`.
            flag.store(false, Ordering::Release);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_cpu_is_in_one_call_at_a_time() {
        static CALLS: Calls<2> = Calls::new();
        let own = CALLS.begin(CpuId(1));
        assert_eq!(own.cpu(), CpuId(1));
        assert!(CALLS.try_begin(CpuId(1)).is_none());
        let other = CALLS.begin(CpuId(0));
        drop((own, other));
        assert!(CALLS.try_begin(CpuId(1)).is_some());
        assert!(CALLS.try_begin(CpuId(1)).is_some(), "it ended");
        // A system refuses the calls of a CPU that does not exist.
        assert_eq!(CALLS.begin(CpuId(2)).cpu(), CpuId(2));
        assert!(CALLS.try_begin(CpuId(2)).is_none());
    }
}
