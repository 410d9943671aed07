//! Which huge blocks have only zeros in their free frames.
//!
//! A huge block takes long to fill with zeros. If it was filled while the machine was idle, or if a hypervisor handed
//! it out filled, the next holder need not do it again.
//!
//! # Mechanism
//! A block has two bits. A free that promises zeros for a whole block sets them to [`PENDING`], frees the frames, and
//! then changes `PENDING` to [`ZEROED`]. A promise for a part of a block does not change them. Every other call that
//! makes frames free first clears the bits. Allocations do not change them.
//!
//! # Invariants
//! If a block is `ZEROED`, all of its free frames have only zeros. So do its frames that were allocated since then,
//! until their holder writes to them. A block stays `ZEROED` while parts of it are allocated, and loses that with the
//! first part that is freed without a promise.
//!
//! # Design decisions
//! `PENDING` is needed since a free can fail, and since the frames can be allocated, written and freed by another CPU
//! before the free returns. That CPU clears the bits, and the change from `PENDING` then does not happen. Not noticed
//! are two simultaneous frees of one block that both promise zeros.

use crate::frame::Order;
use crate::marks::Marks;
use crate::platform::Platform;

/// A free that promises zeros is in progress.
const PENDING: u64 = 1;

/// All free frames have only zeros.
const ZEROED: u64 = 3;

/// The bits of a zone's blocks.
pub(super) struct Zeroed<'z, P: Platform>(Marks<'z, P, 2>);

impl<P: Platform> Clone for Zeroed<'_, P> {
    fn clone(&self) -> Self {
        *self
    }
}

impl<P: Platform> Copy for Zeroed<'_, P> {}

impl<'z, P: Platform> Zeroed<'z, P> {
    pub(super) const fn new(order: Order, words: &'z [P::AtomicU64]) -> Self {
        Self(Marks::new(order, words))
    }

    /// Returns the number of words for the blocks of `frames` frames.
    pub(super) const fn words(order: Order, frames: u32) -> usize {
        Marks::<P, 2>::words(order, frames)
    }

    /// Forgets what is known of the blocks of frames that become free.
    pub(super) fn clear(&self, start: u32, frames: u32) {
        self.0.clear(start, frames);
    }

    /// Frees frames that have only zeros, by `free`. A part of a block keeps the block's bits as they are.
    pub(super) fn freed<E>(
        &self,
        start: u32,
        frames: u32,
        free: impl FnOnce() -> Result<(), E>,
    ) -> Result<(), E> {
        let whole = self.0.covered(start, frames);
        for block in whole.clone() {
            self.0.change(block, |_| true, PENDING);
        }
        let freed = free();
        for block in whole {
            match freed {
                Ok(()) => self.0.change(block, |bits| bits == PENDING, ZEROED),
                Err(_) => self.0.change(block, |_| true, 0),
            };
        }
        freed
    }

    /// Returns the bytes of the bits.
    pub(super) const fn bytes(&self) -> usize {
        self.0.bytes()
    }

    /// Returns `true` if the frames of a run lie in blocks whose free frames have only zeros.
    pub(super) fn is_zeroed(&self, start: u32, frames: u32) -> bool {
        let order = self.0.order().get();
        let last = start.saturating_add(frames.max(1) - 1) >> order;
        (start >> order..=last).all(|block| self.0.get(block) == ZEROED)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::platform::Native;

    #[test]
    fn what_another_cpu_frees_in_between_counts() {
        let words = [<Native as Platform>::AtomicU64::new(0)];
        let zeroed = Zeroed::<Native>::new(Order::TEN, &words);
        let free = || Ok::<(), ()>(());
        zeroed.freed(0, 1024, free).unwrap();
        assert!(zeroed.is_zeroed(0, 1024));
        let between = || {
            // The frames are free now. Another CPU allocates some of them, writes, and frees them.
            zeroed.clear(5, 1);
            free()
        };
        zeroed.freed(0, 1024, between).unwrap();
        assert!(!zeroed.is_zeroed(0, 1024));
    }
}
