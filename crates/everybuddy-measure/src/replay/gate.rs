//! What keeps several threads close to the order of the trace.
//!
//! Exists because a replay on several threads must not run ahead of itself: a free waits for its
//! allocation, and no thread runs more than a window of events ahead of the slowest, or the memory
//! that lives at once would be more than the trace's.
//!
//! Why nobody waits for ever: the thread that is furthest behind never waits for the window. If it
//! waits for an allocation, that lies before the end of its own segment, so in the window of
//! whoever is to perform it; who waits in turn for an earlier one, and so on: the chain falls, and
//! ends at a thread that can go on. This needs the window to be wider than any segment
//! ([`Segment::WIDEST`]).
//!
//! Invariant: a published position is at most that of the next move of its thread.

use std::sync::atomic::{AtomicBool, AtomicU32, Ordering};
use std::thread;

use crate::replay::port::{PENDING, Port, REFUSED};
use crate::replay::script::Segment;

/// How far a thread is, on a cache line of its own.
#[repr(align(128))]
struct Progress(AtomicU32);

/// What the threads of a replay share.
pub struct Gate {
    progress: Vec<Progress>,
    places: Vec<AtomicU32>,
    window: u32,
    abandoned: AtomicBool,
}

/// A thread's place at the gate.
pub struct Turn<'g> {
    gate: &'g Gate,
    lane: usize,
    /// The slowest thread's position when it was last looked at.
    slowest: u32,
}

impl Gate {
    /// Makes the gate of so many threads for so many blocks.
    pub fn new(threads: usize, blocks: u32, window: u32) -> Gate {
        Gate {
            progress: (0..threads).map(|_| Progress(AtomicU32::new(0))).collect(),
            places: (0..blocks).map(|_| AtomicU32::new(PENDING)).collect(),
            window: window.max(2 * Segment::WIDEST),
            abandoned: AtomicBool::new(false),
        }
    }

    /// Takes the place of a thread.
    pub fn turn(&self, lane: usize) -> Turn<'_> {
        Turn {
            gate: self,
            lane,
            slowest: 0,
        }
    }

    fn slowest(&self) -> u32 {
        // Relaxed: an old position is a smaller one, and only makes a thread wait longer.
        let positions = self
            .progress
            .iter()
            .map(|progress| progress.0.load(Ordering::Relaxed));
        positions.min().unwrap_or(u32::MAX)
    }
}

impl Turn<'_> {
    /// Waits until the window has come to a segment, and tells the others where this thread is.
    #[inline]
    pub fn enter(&mut self, segment: &Segment, port: &mut impl Port) {
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
            wait.pause(port);
        }
    }

    /// Tells the others where a block lies.
    #[inline(always)]
    pub fn put(&self, block: u32, place: u32) {
        // Release: pairs with the acquire in `take`: what the allocator did for this block is seen
        // by the thread that frees it.
        self.gate.places[block as usize].store(place, Ordering::Release);
    }

    /// Returns where a block lies, once it was allocated.
    #[inline(always)]
    pub fn take(&self, block: u32, port: &mut impl Port) -> u32 {
        // Acquire: pairs with the release in `put`.
        match self.gate.places[block as usize].load(Ordering::Acquire) {
            PENDING => self.wait_for(block, port),
            place => place,
        }
    }

    #[cold]
    #[inline(never)]
    fn wait_for(&self, block: u32, port: &mut impl Port) -> u32 {
        let mut wait = Wait::default();
        while !self.gate.abandoned.load(Ordering::Relaxed) {
            // Acquire: as in `take`.
            match self.gate.places[block as usize].load(Ordering::Acquire) {
                PENDING => wait.pause(port),
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
    /// Lets the others go on without this thread, also when it panicked.
    fn drop(&mut self) {
        if thread::panicking() {
            self.gate.abandoned.store(true, Ordering::Relaxed);
        }
        self.publish(u32::MAX);
    }
}

/// One wait: spins for a moment, then parks the thread's CPUs and gives the processor away.
#[derive(Default)]
struct Wait {
    pauses: u32,
}

impl Wait {
    /// Pauses before the CPUs are parked: shorter waits are not worth closing a list for.
    const SPINS: u32 = 200;

    fn pause<P: Port>(&mut self, port: &mut P) {
        self.pauses = self.pauses.saturating_add(1);
        match self.pauses {
            pauses if pauses < Self::SPINS => std::hint::spin_loop(),
            Self::SPINS => port.park(),
            _ => thread::yield_now(),
        }
    }
}
