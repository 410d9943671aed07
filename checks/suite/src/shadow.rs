//! The state that a test keeps next to an allocator: the owner of each frame, and random numbers.

use alloc::vec::Vec;
use core::sync::atomic::{AtomicU32, Ordering};

use everybuddy::Index;

/// The owner of each frame. It catches a frame that is given twice the moment it is.
pub struct Shadow(Vec<AtomicU32>);

impl Shadow {
    /// Creates the shadow of free memory.
    pub fn new(frames: u32) -> Self {
        Self((0..frames).map(|_| AtomicU32::new(0)).collect())
    }

    /// Notes that `owner` got frames.
    ///
    /// # Panics
    /// If any of them has an owner.
    pub fn take(&self, start: Index, frames: u32, owner: u32) {
        for frame in start.0..start.0 + frames {
            let before = self.0[frame as usize].swap(owner + 1, Ordering::Relaxed);
            assert_eq!(
                before,
                0,
                "frame {frame:#x} was given to {owner}, but {} has it",
                before - 1
            );
        }
    }

    /// Notes that `owner` gives frames back.
    ///
    /// # Panics
    /// If `owner` has not all of them.
    pub fn give(&self, start: Index, frames: u32, owner: u32) {
        for frame in start.0..start.0 + frames {
            let before = self.0[frame as usize].swap(0, Ordering::Relaxed);
            assert_eq!(before, owner + 1, "frame {frame:#x} was not {owner}'s");
        }
    }

    /// Returns the number of frames that have an owner.
    pub fn taken(&self) -> usize {
        self.0
            .iter()
            .filter(|owner| owner.load(Ordering::Relaxed) != 0)
            .count()
    }
}

/// A small generator (splitmix64): tests need the same numbers everywhere.
#[derive(Clone)]
pub struct Random(pub u64);

impl Random {
    /// Returns the next number.
    #[expect(clippy::should_implement_trait, reason = "numbers have no end")]
    pub fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut z = self.0;
        z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        z ^ (z >> 31)
    }

    /// Returns a number below `limit`.
    pub fn below(&mut self, limit: u64) -> u64 {
        self.next() % limit
    }

    /// Returns `true` in `percent` of all cases.
    pub fn chance(&mut self, percent: u64) -> bool {
        self.below(100) < percent
    }
}
