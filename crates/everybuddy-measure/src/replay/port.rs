//! What the replay asks of a system.
//!
//! Exists so that the loop is compiled for each system, and once for the floor: the same loop over
//! something that serves requests for nothing shows what the loop itself costs.
//!
//! Invariant: a port is used by one thread, with that thread's CPU tokens.

use everybuddy::{Counts, Snapshot};

use crate::replay::script::Move;

/// The place of a block that no system gave.
pub const REFUSED: u32 = u32::MAX;
/// The place of a block that is not allocated yet.
pub const PENDING: u32 = u32::MAX - 1;

/// A thread's access to what serves it.
pub trait Port {
    /// Serves a request; the first frame, or [`REFUSED`].
    fn allocate(&mut self, request: &Move) -> u32;

    /// Takes back what lies at `place`, which is not [`REFUSED`].
    fn free(&mut self, release: &Move, place: u32);

    /// Tells the system that this thread waits or ends.
    fn park(&mut self);

    /// Returns what the probe of a CPU has counted.
    fn counts(&mut self, token: u16) -> Counts;

    /// Returns the frames that the list of a CPU keeps.
    fn kept(&mut self, token: u16) -> u64;

    /// Returns what free memory looks like, and the largest order.
    fn snapshot(&mut self) -> Option<Snapshot>;

    /// Returns the frames that lists keep, of all CPUs. O(frames).
    fn listed(&mut self) -> Vec<u32>;

    /// Returns what went wrong so far.
    fn trouble(&self) -> Trouble;
}

/// What went wrong in a replay.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Trouble {
    /// Requests that were refused.
    pub refused: u64,
    /// Releases that were refused, which only a broken allocator does.
    pub failed: u64,
}

impl Trouble {
    /// Adds what went wrong elsewhere.
    pub fn add(&mut self, other: Trouble) {
        self.refused += other.refused;
        self.failed += other.failed;
    }
}

/// Serves for nothing: gives ever the next number.
#[derive(Clone, Copy, Debug, Default)]
pub struct Floor {
    next: u32,
    freed: u32,
}

impl Port for Floor {
    #[inline(always)]
    fn allocate(&mut self, request: &Move) -> u32 {
        self.next = (self.next + request.order().frames()) & (u32::MAX >> 1);
        self.next
    }

    #[inline(always)]
    fn free(&mut self, release: &Move, place: u32) {
        // Something must depend on what was read, or the loop would be removed.
        self.freed ^= std::hint::black_box(place ^ release.offset);
    }

    fn park(&mut self) {}

    fn counts(&mut self, _: u16) -> Counts {
        Counts::default()
    }

    fn kept(&mut self, _: u16) -> u64 {
        0
    }

    fn snapshot(&mut self) -> Option<Snapshot> {
        None
    }

    fn listed(&mut self) -> Vec<u32> {
        Vec::new()
    }

    fn trouble(&self) -> Trouble {
        Trouble::default()
    }
}
