//! The operations that the replay needs of a system.
//!
//! A loop over the moves of a segment is compiled for each system, and once for the floor: the same loop without an
//! allocator shows the cost of the loop itself. What surrounds it is compiled once, and enters it by one indirect call.
//!
//! # Invariants
//! An adapter is used by one thread, with that thread's CPU tokens.

use everybuddy::{Counts, Snapshot};

use crate::refusals::ByOrder;
use crate::replay::clock::Timer;
use crate::replay::script::Move;
use crate::touched::Touched;

/// The placement of a block whose request failed.
pub const REFUSED: u32 = u32::MAX;
/// The placement of a block that is not allocated yet.
pub const PENDING: u32 = u32::MAX - 1;

/// A thread's access to a system.
pub trait Adapter {
    /// Performs an allocation. Returns the first frame, or [`REFUSED`].
    fn allocate(&mut self, request: &Move) -> u32;

    /// Frees the block at `place`, which is not [`REFUSED`].
    fn free(&mut self, release: &Move, place: u32);

    /// Performs allocations and records the placement of the blocks.
    fn allocate_all(&mut self, moves: &[Move], places: &mut [u32]) {
        for (request, place) in moves.iter().zip(places) {
            *place = self.allocate(request);
        }
    }

    /// Performs frees, except for blocks whose allocation failed.
    fn free_all(&mut self, moves: &[Move], places: &[u32]) {
        for (release, place) in moves.iter().zip(places) {
            if *place != REFUSED {
                self.free(release, *place);
            }
        }
    }

    /// Like [`allocate_all`](Self::allocate_all), with the time of each.
    fn time_allocations(
        &mut self,
        moves: &[Move],
        places: &mut [u32],
        timer: &Timer,
        ticks: &mut Vec<u32>,
    ) {
        for (request, place) in moves.iter().zip(places) {
            let start = timer.start();
            *place = self.allocate(request);
            ticks.push(timer.stop(start));
        }
    }

    /// Like [`free_all`](Self::free_all), with the time of each.
    fn time_frees(&mut self, moves: &[Move], places: &[u32], timer: &Timer, ticks: &mut Vec<u32>) {
        for (release, place) in moves.iter().zip(places) {
            if *place != REFUSED {
                let start = timer.start();
                self.free(release, *place);
                ticks.push(timer.stop(start));
            }
        }
    }

    /// Parks the thread's CPUs: the thread waits or ends.
    fn park(&mut self);

    /// Returns the counts of a CPU's probe.
    fn counts(&mut self, token: u16) -> Counts;

    /// Returns the number of frames in the list of a CPU.
    fn kept(&mut self, token: u16) -> u64;

    /// Returns the state of free memory, and the largest order.
    fn snapshot(&mut self) -> Option<Snapshot>;

    /// Returns the frames in the lists of all CPUs. O(frames).
    fn listed(&mut self) -> Vec<u32>;

    /// Returns the failures so far.
    fn trouble(&self) -> Trouble;
}

/// A thread's access to a system whose frames are used as the program used them. Each call is dispatched, so each takes
/// a nanosecond more than without.
pub struct Using<'u> {
    /// The access to the system.
    pub inner: &'u mut dyn Adapter,
    /// The memory behind the frames.
    pub memory: &'u Touched,
}

impl Adapter for Using<'_> {
    fn allocate(&mut self, request: &Move) -> u32 {
        let place = self.inner.allocate(request);
        if place != REFUSED {
            self.memory
                .used(place, request.order().frames(), request.used());
        }
        place
    }

    fn free(&mut self, release: &Move, place: u32) {
        self.inner.free(release, place);
    }

    fn park(&mut self) {
        self.inner.park();
    }

    fn counts(&mut self, token: u16) -> Counts {
        self.inner.counts(token)
    }

    fn kept(&mut self, token: u16) -> u64 {
        self.inner.kept(token)
    }

    fn snapshot(&mut self) -> Option<Snapshot> {
        self.inner.snapshot()
    }

    fn listed(&mut self) -> Vec<u32> {
        self.inner.listed()
    }

    fn trouble(&self) -> Trouble {
        self.inner.trouble()
    }
}

/// The failures of a replay.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Trouble {
    /// Failed requests.
    pub refused: ByOrder,
    /// Failed frees, 0 unless the allocator is broken.
    pub failed: u64,
}

impl Trouble {
    /// Adds the failures of another thread.
    pub fn add(&mut self, other: Trouble) {
        self.refused.join(&other.refused);
        self.failed += other.failed;
    }
}

/// The replay without an allocator: returns consecutive numbers.
#[derive(Clone, Copy, Debug, Default)]
pub struct Floor {
    next: u32,
    freed: u32,
}

impl Adapter for Floor {
    #[inline(always)]
    fn allocate(&mut self, request: &Move) -> u32 {
        self.next = (self.next + request.order().frames()) & (u32::MAX >> 1);
        self.next
    }

    #[inline(always)]
    fn free(&mut self, release: &Move, place: u32) {
        // A result must depend on the loaded value, or the loop would be removed.
        self.freed ^= std::hint::black_box(place ^ release.offset());
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
