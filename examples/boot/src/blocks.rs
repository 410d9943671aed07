//! What the tests write into frames, to see whether another block has the same frame.
//!
//! # Invariants
//! The first word of a frame is not part of its content: a test may use it for a link.

use everybuddy::{Block, CpuId, Index, Order, Release};

use crate::frames::address;

/// Words of a frame.
const WORDS: u64 = 512;
/// One word of this many is written.
const STEP: usize = 64;

/// The content of an allocation: a number that no other allocation has at the same time.
#[derive(Clone, Copy)]
pub(crate) struct Content(u64);

impl Content {
    /// Returns the content of an allocation by a CPU.
    pub(crate) fn new(cpu: CpuId, number: u32) -> Self {
        Self(u64::from(cpu.0) << 32 | u64::from(number))
    }

    /// Returns the CPU that allocated it.
    pub(crate) fn cpu(self) -> CpuId {
        CpuId((self.0 >> 32) as u16)
    }

    /// Returns the content of the frame that the timer's handler of a CPU allocates.
    pub(crate) fn of_handler(cpu: CpuId) -> Self {
        Self(1 << 63 | u64::from(cpu.0))
    }

    /// Returns the words of a run of frames, and what each should contain.
    fn words(self, start: Index, frames: u32) -> impl Iterator<Item = (*mut u64, u64)> {
        (start.0..start.0 + frames).flat_map(move |frame| {
            let words = address(Index(frame)) as *mut u64;
            let value =
                self.0.rotate_left(17) ^ u64::from(frame).wrapping_mul(0x9e37_79b9_7f4a_7c15);
            (1..WORDS)
                .step_by(STEP)
                .map(move |word| (words.wrapping_add(word as usize), value ^ word))
        })
    }

    /// Writes the content into a run of frames, which the caller allocated.
    pub(crate) fn fill(self, start: Index, frames: u32) {
        for (place, value) in self.words(start, frames) {
            // SAFETY: the frame was allocated, and all memory is mapped to itself.
            unsafe { place.write_volatile(value) };
        }
    }

    /// Checks the content of a run of frames, which the caller allocated and filled.
    pub(crate) fn check(self, start: Index, frames: u32) {
        for (place, value) in self.words(start, frames) {
            // SAFETY: as in `fill`.
            let found = unsafe { place.read_volatile() };
            assert!(
                found == value,
                "another block has the memory at {place:p}: {found:#x} instead of {value:#x}, \
                 in {frames} frames from {start} on"
            );
        }
    }
}

/// An allocation that is held, with its content.
#[derive(Clone, Copy)]
pub(crate) struct Held {
    pub(crate) start: Index,
    pub(crate) frames: u32,
    /// Whether it was allocated by its order, and is freed so.
    pub(crate) order: Option<Order>,
    pub(crate) content: Content,
}

impl Held {
    /// Returns the free of all of it.
    pub(crate) fn release(&self) -> Release {
        match self.order {
            Some(order) => Release::block(Block::new(self.start, order)),
            None => Release::frames(self.start, self.frames),
        }
    }
}
