//! Keeps several threads close to the order of the trace.
//!
//! A replay on several threads must preserve two properties of the trace. A free waits for its allocation. No thread
//! runs more than a window of events ahead of the slowest thread; otherwise more memory would be in use than in the
//! trace.
//!
//! There is no deadlock. The slowest thread never waits for the window. If it waits for an allocation, that
//! allocation precedes the end of its own segment, so it is within the window of the thread that performs it. If that
//! thread waits in turn, it waits for an earlier allocation, and so on: the chain decreases and ends at a thread that
//! can continue. This requires a window that is wider than any segment ([`Segment::WIDEST`]).
//!
//! # Invariants
//! A published position never exceeds that of the thread's next move.

use std::sync::atomic::{AtomicBool, AtomicU32, Ordering};
use std::thread;

use crate::replay::adapter::{Adapter, PENDING, REFUSED};
use crate::replay::script::Segment;

/// The position of a thread, on its own cache line.
#[repr(align(128))]
struct Progress(AtomicU32);

/// The shared state of the threads of a replay.
pub struct Gate {
    progress: Vec<Progress>,
    places: Vec<AtomicU32>,
    window: u32,
    abandoned: AtomicBool,
}

/// A thread's access to the gate.
pub struct Turn<'g> {
    gate: &'g Gate,
    lane: usize,
    /// The position of the slowest thread at the last check.
    slowest: u32,
}

impl Gate {
    /// Creates the gate for `threads` threads and `blocks` blocks.
    pub fn new(threads: usize, blocks: u32, window: u32) -> Gate {
        Gate {
            progress: (0..threads).map(|_| Progress(AtomicU32::new(0))).collect(),
            places: (0..blocks).map(|_| AtomicU32::new(PENDING)).collect(),
            window: window.max(2 * Segment::WIDEST),
            abandoned: AtomicBool::new(false),
        }
    }

    /// Returns the access of a thread.
    pub fn turn(&self, lane: usize) -> Turn<'_> {
        Turn {
            gate: self,
            lane,
            slowest: 0,
        }
    }

    fn slowest(&self) -> u32 {
        // Relaxed: an outdated position is smaller, and only makes a thread wait longer.
        let positions = self
            .progress
            .iter()
            .map(|progress| progress.0.load(Ordering::Relaxed));
        positions.min().unwrap_or(u32::MAX)
    }
}

impl Turn<'_> {
    /// Waits until a segment is within the window, and publishes this thread's position.
    #[inline]
    pub fn enter(&mut self, segment: &Segment, adapter: &mut dyn Adapter) {
        if self.gate.progress.len() == 1 {
            return;
        }
        self.publish(segment.position);
        if segment.position.saturating_sub(self.slowest) <= self.gate.window {
            return;
        }
        let mut wait = Wait::default();
        loop {
            self.slowest = self.gate.slowest();
            if segment.position.saturating_sub(self.slowest) <= self.gate.window
                || self.gate.abandoned.load(Ordering::Relaxed)
            {
                return;
            }
            wait.pause(adapter);
        }
    }

    /// Publishes the placement of a block.
    #[inline(always)]
    pub fn put(&self, block: u32, place: u32) {
        // Release: pairs with the acquire in `take`: the thread that frees this block sees the allocator's writes for
        // it.
        self.gate.places[block as usize].store(place, Ordering::Release);
    }

    /// Waits for the allocation of a block, and returns its placement.
    #[inline(always)]
    pub fn take(&self, block: u32, adapter: &mut dyn Adapter) -> u32 {
        // Acquire: pairs with the release in `put`.
        match self.gate.places[block as usize].load(Ordering::Acquire) {
            PENDING => self.wait_for(block, adapter),
            place => place,
        }
    }

    #[cold]
    #[inline(never)]
    fn wait_for(&self, block: u32, adapter: &mut dyn Adapter) -> u32 {
        let mut wait = Wait::default();
        while !self.gate.abandoned.load(Ordering::Relaxed) {
            // Acquire: like in `take`.
            match self.gate.places[block as usize].load(Ordering::Acquire) {
                PENDING => wait.pause(adapter),
                place => return place,
            }
        }
        REFUSED
    }

    fn publish(&self, position: u32) {
        self.gate.progress[self.lane]
            .0
            .store(position, Ordering::Relaxed);
    }
}

impl Drop for Turn<'_> {
    /// Lets the other threads continue without this one, even after a panic.
    fn drop(&mut self) {
        if thread::panicking() {
            self.gate.abandoned.store(true, Ordering::Relaxed);
        }
        self.publish(u32::MAX);
    }
}

/// One wait: spins briefly, then parks the thread's CPUs and yields the processor.
#[derive(Default)]
struct Wait {
    pauses: u32,
}

impl Wait {
    /// Pauses before the CPUs are parked: closing a list does not pay off for shorter waits.
    const SPINS: u32 = 200;

    fn pause(&mut self, adapter: &mut dyn Adapter) {
        self.pauses = self.pauses.saturating_add(1);
        match self.pauses {
            pauses if pauses < Self::SPINS => std::hint::spin_loop(),
            Self::SPINS => adapter.park(),
            _ => thread::yield_now(),
        }
    }
}
