//! Which huge blocks have only zeros in their free frames.
//!
//! # Purpose
//!
//! A huge block takes long to fill with zeros. If it was filled while the machine was idle, or if a hypervisor handed
//! it out filled, the next holder need not do it again.
//!
//! # Mechanism
//!
//! A block has two bits. A free that promises zeros for a whole block sets them to [`PENDING`], frees the frames, and
//! then changes `PENDING` to [`ZEROED`]. A promise for a part of a block does not change them. Every other call that
//! makes frames free first clears the bits. Allocations do not change them.
//!
//! # Invariants
//!
//! If a block is `ZEROED`, all of its free frames have only zeros. So do its frames that were allocated since then,
//! until their holder writes to them. A block stays `ZEROED` while parts of it are allocated, and loses that with the
//! first part that is freed without a promise.
//!
//! # Design decisions
//!
//! `PENDING` is needed since a free can fail, and since the frames can be allocated, written and freed by another CPU
//! before the free returns. That CPU clears the bits, and the change from `PENDING` then does not happen. Not noticed
//! are two simultaneous frees of one block that both promise zeros.

use crate::frame::Order;
use crate::platform::{AtomicWord, Ordering, Platform};

/// A free that promises zeros is in progress.
const PENDING: u64 = 1;

/// All free frames have only zeros.
const ZEROED: u64 = 3;

/// Blocks whose bits share a word.
const PER_WORD: u32 = 32;

/// The bits of a zone's blocks.
pub(super) struct Zeroed<'z, P: Platform> {
    order: Order,
    words: &'z [P::AtomicU64],
}

impl<P: Platform> Clone for Zeroed<'_, P> {
    fn clone(&self) -> Self {
        *self
    }
}

impl<P: Platform> Copy for Zeroed<'_, P> {}

impl<'z, P: Platform> Zeroed<'z, P> {
    pub(super) const fn new(order: Order, words: &'z [P::AtomicU64]) -> Self {
        Self { order, words }
    }

    /// Returns the number of words for the blocks of `frames` frames.
    pub(super) const fn words(order: Order, frames: u32) -> usize {
        frames.div_ceil(order.frames()).div_ceil(PER_WORD) as usize
    }

    /// Returns the word of a block, and the place of its bits. `None` if the caller gave no memory for it.
    fn locate(&self, block: u32) -> Option<(&'z P::AtomicU64, u32)> {
        let word = self.words.get((block / PER_WORD) as usize)?;
        Some((word, block % PER_WORD * 2))
    }

    fn bits(&self, block: u32) -> u64 {
        self.locate(block)
            .map_or(0, |(word, shift)| word.load(Ordering::Relaxed) >> shift & 3)
    }

    /// Changes the bits of a block, if `applies` to them.
    fn change(&self, block: u32, applies: impl Fn(u64) -> bool, to: u64) {
        let Some((word, shift)) = self.locate(block) else {
            return;
        };
        // Relaxed, here and above: the bits are about frames. The frames themselves carry what was written to them to
        // their next holder.
        let mut seen = word.load(Ordering::Relaxed);
        while applies(seen >> shift & 3) {
            let new = seen & !(3 << shift) | to << shift;
            match word.compare_exchange(seen, new, Ordering::Relaxed, Ordering::Relaxed) {
                Ok(_) => return,
                Err(now) => seen = now,
            }
        }
    }

    /// Forgets what is known of the blocks of frames that become free.
    pub(super) fn clear(&self, start: u32, frames: u32) {
        let end = u64::from(start) + u64::from(frames);
        let end = end.div_ceil(u64::from(self.order.frames()));
        for block in start >> self.order.get()..self.known(end) {
            self.change(block, |bits| bits != 0, 0);
        }
    }

    /// Returns the number of blocks below a block that have bits.
    fn known(&self, end: u64) -> u32 {
        end.min(self.words.len() as u64 * u64::from(PER_WORD)) as u32
    }

    /// Frees frames that have only zeros, by `free`. A part of a block keeps the block's bits as they are.
    pub(super) fn freed<E>(
        &self,
        start: u32,
        frames: u32,
        free: impl FnOnce() -> Result<(), E>,
    ) -> Result<(), E> {
        let size = self.order.frames();
        let end = (u64::from(start) + u64::from(frames)) / u64::from(size);
        let whole = start.div_ceil(size)..self.known(end);
        for block in whole.clone() {
            self.change(block, |_| true, PENDING);
        }
        let freed = free();
        for block in whole {
            match freed {
                Ok(()) => self.change(block, |bits| bits == PENDING, ZEROED),
                Err(_) => self.change(block, |_| true, 0),
            }
        }
        freed
    }

    /// Returns the bytes of the bits.
    pub(super) const fn bytes(&self) -> usize {
        size_of_val(self.words)
    }

    /// Returns `true` if the frames of a run lie in blocks whose free frames have only zeros.
    pub(super) fn is_zeroed(&self, start: u32, frames: u32) -> bool {
        let last = start.saturating_add(frames.max(1) - 1) >> self.order.get();
        (start >> self.order.get()..=last).all(|block| self.bits(block) == ZEROED)
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
