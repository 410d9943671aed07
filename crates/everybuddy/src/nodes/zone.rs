//! A zone: memory of one node, and the count of its reserve.
//!
//! Devices that reach only low addresses need some of them to be free, although other requests may use them too.
//!
//! # Invariants
//! Those of [`nodes`](super), invariant 2.

use core::fmt;

use crate::api::FrameAllocator;
use crate::error::RegionError;
use crate::frame::Order;
use crate::platform::{AtomicWord, Ordering, Platform};
use crate::region::FrameRange;
use crate::request::Release;

use super::zeroed::Zeroed;

/// Memory of one node, in a system of its own.
pub struct Zone<'z, P: Platform, S: ?Sized> {
    pub(super) system: &'z S,
    pub(super) node: u8,
    /// Frames that are available only to requests that no higher zone can serve.
    pub(super) reserve: u64,
    /// Free frames; counted only if there is a reserve.
    pub(super) free: P::AtomicU64,
    /// Which blocks have only zeros in their free frames.
    pub(super) zeroed: Zeroed<'z, P>,
}

impl<'z, P: Platform, S: FrameAllocator<P> + ?Sized> Zone<'z, P, S> {
    /// Creates a zone of a system, whose frames all belong to `node`.
    pub fn new(node: u8, system: &'z S) -> Self {
        Self {
            system,
            node,
            reserve: 0,
            free: P::AtomicU64::new(0),
            zeroed: Zeroed::new(Order::ZERO, &[]),
        }
    }

    /// Records in `words` which blocks of `order` contain only zeros. [`free_zeroed`](FrameAllocator::free_zeroed)
    /// promises zeros, and [`is_zeroed`](FrameAllocator::is_zeroed) tells the next holder.
    ///
    /// All `words` must be zero, and belong to this zone alone. The zone needs [`zeroed_words`](Self::zeroed_words) of
    /// them; a block without bits is never known to contain only zeros. `order` is at most that of the system's
    /// largest block. While there is a zone, frames may be freed only through [`Nodes`](crate::Nodes). Each free reads
    /// the bits of the blocks that it touches, and a refused one may forget them.
    #[must_use]
    pub fn with_zeroed(self, order: Order, words: &'z [P::AtomicU64]) -> Self {
        Self {
            zeroed: Zeroed::new(order, words),
            ..self
        }
    }

    /// Returns the number of words that [`with_zeroed`](Self::with_zeroed) needs for a zone whose span has `frames`
    /// frames, holes included.
    pub const fn zeroed_words(order: Order, frames: u32) -> usize {
        Zeroed::<P>::words(order, frames)
    }

    /// Reserves `reserve` frames for requests that are limited to this zone and lower ones. `free` is the current
    /// number of free frames.
    #[must_use]
    pub fn with_reserve(self, reserve: u64, free: u64) -> Self {
        Self {
            reserve,
            free: P::AtomicU64::new(free),
            ..self
        }
    }

    /// Returns the number of free frames, as [`FrameAllocator::free_frames`] does. O(1) if the zone has a reserve.
    pub fn free_frames(&self) -> u64 {
        match self.reserve {
            0 => self.system.free_frames(),
            // An operation in progress can make the count negative.
            _ => (self.free.load(Ordering::Relaxed) as i64).max(0) as u64,
        }
    }

    /// Takes frames from the count. Returns `false`, and takes nothing, if they belong to the reserve.
    pub(super) fn charge(&self, frames: u32, may_use_reserve: bool) -> bool {
        if self.reserve == 0 {
            return true;
        }
        let kept = if may_use_reserve {
            0
        } else {
            i64::try_from(self.reserve).unwrap_or(i64::MAX)
        };
        let mut free = self.free.load(Ordering::Relaxed);
        loop {
            let left = free.wrapping_sub(u64::from(frames));
            if (left as i64) < kept {
                return false;
            }
            // Relaxed: the number guards nothing, and the frames themselves are handed over by the zone.
            let charged =
                self.free
                    .compare_exchange(free, left, Ordering::Relaxed, Ordering::Relaxed);
            match charged {
                Ok(_) => return true,
                Err(seen) => free = seen,
            }
        }
    }

    /// Gives frames back to the count.
    pub(super) fn refund(&self, frames: u64) {
        if self.reserve > 0 {
            self.free.fetch_add(frames, Ordering::Relaxed);
        }
    }

    /// Returns `true` if the frames of a release lie in the zone's span, so that it need not be refused.
    pub(super) fn contains(&self, release: Release) -> bool {
        let (span, frames) = (self.system.span().frames(), release.size.extent().frames());
        let start = release.start.0;
        start < span && (1..=span - start).contains(&frames)
    }

    /// Forgets which blocks of a release have only zeros, before its frames become free.
    pub(super) fn forget_zeros(&self, release: Release) {
        if self.contains(release) {
            let frames = release.size.extent().frames();
            self.zeroed.clear(release.start.0, frames);
        }
    }

    /// Does the same for a range.
    pub(super) fn forget_zeros_of(&self, range: FrameRange) {
        if let Ok((start, frames)) = self.system.span().relative(range) {
            self.zeroed.clear(start.0, frames);
        }
    }

    /// Takes free frames out of the zone by `work`, and out of the count.
    pub(super) fn withdraw<T>(
        &self,
        range: FrameRange,
        work: impl FnOnce() -> Result<T, RegionError>,
    ) -> Result<T, RegionError> {
        let result = work()?;
        if self.reserve > 0 {
            self.free.fetch_sub(range.frames, Ordering::Relaxed);
        }
        Ok(result)
    }
}

impl<P: Platform, S: FrameAllocator<P> + ?Sized> fmt::Debug for Zone<'_, P, S> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Zone")
            .field("node", &self.node)
            .field("span", &self.system.span())
            .field("reserve", &self.reserve)
            .finish_non_exhaustive()
    }
}
