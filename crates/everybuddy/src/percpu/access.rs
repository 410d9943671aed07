//! How a CPU gets at its own list, and others at it.
//!
//! Why it exists: whether a list has a lock is a type parameter, so that the list without one pays nothing
//! for the other's; and what others know of a CPU without locks is one word.
//!
//! Invariant: what is said of the states in [`Presence`]; the protocol that keeps it is in
//! [`buffered`](super::buffered).

use crate::lock::{RawLock, SpinLock};
use crate::platform::Platform;

/// How a CPU gets at its own list, and others at it.
pub(crate) trait Access<P: Platform>: Send + Sync + 'static {
    /// Whether the list's lock is taken, rather than the owner asked.
    const LOCKS: bool;

    /// What is held during an operation.
    type Held<'s>;

    /// Enters the list; nothing when somebody else is in it.
    fn enter(lock: &SpinLock<P>) -> Option<Self::Held<'_>>;
}

/// The token alone gives access: a hit takes no atomic operation.
pub struct Token;

impl<P: Platform> Access<P> for Token {
    const LOCKS: bool = false;
    type Held<'s> = ();

    #[inline(always)]
    fn enter(_: &SpinLock<P>) -> Option<()> {
        Some(())
    }
}

/// A lock for each list, tried by its owner: `percpu=locked`, what Linux 6 does.
pub struct Locked;

/// Holds the lock of a list.
pub(crate) struct HeldLock<'s, P: Platform>(&'s SpinLock<P>);

impl<P: Platform> Drop for HeldLock<'_, P> {
    #[inline(always)]
    fn drop(&mut self) {
        self.0.unlock(&());
    }
}

impl<P: Platform> Access<P> for Locked {
    const LOCKS: bool = true;
    type Held<'s> = HeldLock<'s, P>;

    #[inline(always)]
    fn enter(lock: &SpinLock<P>) -> Option<HeldLock<'_, P>> {
        lock.try_lock().map(|()| HeldLock(lock))
    }
}

/// A presence: the state in the two lowest bits, the last epoch answered above.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) struct CpuState(pub(crate) u32);

impl CpuState {
    /// Its CPU won't call for a while; anybody may fetch the list.
    pub(crate) const PARKED: u32 = 0;
    /// Its CPU calls; only it may touch the list.
    pub(crate) const RUNNING: u32 = 1;
    /// An asker drains the list.
    pub(crate) const DRAINING: u32 = 2;

    /// Makes a presence.
    pub(crate) const fn new(epoch: u32, state: u32) -> Self {
        Self(epoch << 2 | state)
    }

    /// Returns the state.
    pub(crate) const fn state(self) -> u32 {
        self.0 & 3
    }

    /// Tells whether `epoch`, or a later one, was answered. Epochs wrap at 30 bits.
    pub(crate) const fn acknowledged(self, epoch: u32) -> bool {
        ((self.0 >> 2).wrapping_sub(epoch) & EPOCHS) < EPOCHS / 2
    }

    /// Returns the last epoch answered.
    pub(crate) const fn epoch(self) -> u32 {
        self.0 >> 2
    }
}

/// Epochs are counted modulo one more than this.
pub(crate) const EPOCHS: u32 = u32::MAX >> 2;
