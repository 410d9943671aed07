//! How a CPU enters its own list, and how other CPUs reach it.
//!
//! Whether a list has a lock is a type parameter, so that a list without a lock does not pay for the other variant.
//! Without locks, one word holds everything that other CPUs know about a CPU.
//!
//! # Invariants
//! The meaning of the states of [`CpuState`]. The protocol that maintains it is described in
//! [`buffered`](super::buffered).

use crate::lock::{RawLock, Section, SpinLock};
use crate::platform::Platform;

/// How a CPU enters its own list, and how other CPUs reach it.
pub(crate) trait Access<P: Platform>: Send + Sync + 'static {
    /// Whether other CPUs acquire the list's lock, rather than ask its owner.
    const LOCKS: bool;

    /// The guard that exists during an operation.
    type Held<'s>;

    /// Enters the list. Returns `None` if another CPU is in it.
    fn enter(lock: &SpinLock<P>) -> Option<Self::Held<'_>>;
}

/// Access by the token alone: a hit needs no atomic operation.
pub struct Token;

impl<P: Platform> Access<P> for Token {
    const LOCKS: bool = false;
    type Held<'s> = ();

    #[inline(always)]
    fn enter(_: &SpinLock<P>) -> Option<()> {
        Some(())
    }
}

/// One lock per list, which its owner tries: `percpu=locked`, as in Linux 6.
pub struct Locked;

/// Guard of a list's lock. Interrupts are disabled meanwhile: other CPUs wait for the lock without a bound.
pub(crate) struct ListGuard<'s, P: Platform> {
    lock: &'s SpinLock<P>,
    // Dropped after the lock was released.
    _section: Section<P>,
}

impl<P: Platform> Drop for ListGuard<'_, P> {
    #[inline(always)]
    fn drop(&mut self) {
        self.lock.unlock(&());
    }
}

impl<P: Platform> Access<P> for Locked {
    const LOCKS: bool = true;
    type Held<'s> = ListGuard<'s, P>;

    #[inline(always)]
    fn enter(lock: &SpinLock<P>) -> Option<ListGuard<'_, P>> {
        let _section = Section::begin();
        lock.try_lock().map(|()| ListGuard { lock, _section })
    }
}

/// The state of a CPU: the state proper in the two lowest bits, the last acknowledged epoch above them.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) struct CpuState(pub(crate) u32);

impl CpuState {
    /// The CPU will not call for a while; any CPU may drain its list.
    pub(crate) const PARKED: u32 = 0;
    /// The CPU calls; only the CPU itself may touch the list.
    pub(crate) const RUNNING: u32 = 1;
    /// Another CPU drains the list.
    pub(crate) const DRAINING: u32 = 2;

    /// Creates a state.
    pub(crate) const fn new(epoch: u32, state: u32) -> Self {
        Self(epoch << 2 | state)
    }

    /// Returns the state proper.
    pub(crate) const fn state(self) -> u32 {
        self.0 & 3
    }

    /// Returns `true` if `epoch` or a later one was acknowledged. Epochs wrap at 30 bits.
    pub(crate) const fn acknowledged(self, epoch: u32) -> bool {
        ((self.0 >> 2).wrapping_sub(epoch) & EPOCHS) < EPOCHS / 2
    }

    /// Returns the last acknowledged epoch.
    pub(crate) const fn epoch(self) -> u32 {
        self.0 >> 2
    }
}

/// Epochs are counted modulo this number plus one.
pub(crate) const EPOCHS: u32 = u32::MAX >> 2;
