//! A record of the holder of each frame, independent of the allocator.
//!
//! An independent count detects an allocator that hands out a frame twice, loses a frame, or fails a request
//! unnecessarily.
//!
//! A CPU's ownership ends *before* the call that frees the frames begins (from then on any CPU may allocate them) and
//! begins *after* the allocation returned. To decide whether a request may fail, the intervals are widened: frames
//! are *committed* from before a request until after their free. While fewer frames are committed than exist, some
//! frame is free at every moment, in the zone or in a list. A request for a single frame that fails with
//! out-of-memory in that state is an error.
//!
//! Buddy spaces guarantee less: a search visits one space after another and misses a frame that becomes free in a
//! space that it has already visited. There, a failure is an error if some frame was free throughout the request: if
//! more frames were neither allocated nor freed since the request began than other CPUs have requested.
//!
//! # Invariants
//! A mutex of the standard library guards the ledger. The checkers run all model threads on one host thread and never
//! switch while the mutex is held, so it is never contended and adds no ordering that the checkers could see.
//!
//! # Not modelled
//! Whether a request for a larger block may fail, because that depends on which frames are free.

use std::sync::{Mutex, MutexGuard, PoisonError};

use everybuddy::{CpuId, Index};

/// The owners and commitments of all CPUs.
#[derive(Debug)]
pub struct Ledger(Mutex<State>);

#[derive(Debug)]
struct State {
    /// The owner of each frame.
    holders: Vec<Option<CpuId>>,
    /// The number of frames that are held, requested, or being freed.
    committed: u32,
    /// The number of frames that each CPU currently requests.
    asked: Vec<u32>,
    /// For each CPU, the maximum number of frames that were committed by others since its current request began.
    peaks: Vec<u32>,
    /// Whether the memory is divided into spaces.
    in_spaces: bool,
    /// The number of pending frees of each frame; two if another CPU allocated it before a free returned.
    returning: Vec<u32>,
    /// For each CPU, the frames that have been free since its current request began.
    untouched: Vec<Vec<bool>>,
}

impl Ledger {
    /// Creates the ledger of a machine on which every frame is free.
    pub fn new(frames: usize, cpus: u16, in_spaces: bool) -> Self {
        Self(Mutex::new(State {
            holders: vec![None; frames],
            committed: 0,
            asked: vec![0; usize::from(cpus)],
            peaks: vec![0; usize::from(cpus)],
            in_spaces,
            returning: vec![0; frames],
            untouched: vec![vec![false; frames]; usize::from(cpus)],
        }))
    }

    fn state(&self) -> MutexGuard<'_, State> {
        // A test that failed on one thread may read the ledger from another; only the first failure matters.
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Records that a CPU starts a request for `frames` frames.
    pub fn asks(&self, cpu: CpuId, frames: u32) {
        let state = &mut *self.state();
        state.asked[cpu.index()] = frames;
        state.peaks[cpu.index()] = 0;
        state.committed += frames;
        let free = state.holders.iter().zip(&state.returning);
        state.untouched[cpu.index()] = free
            .map(|(holder, returning)| holder.is_none() && *returning == 0)
            .collect();
        for (peak, asked) in state.peaks.iter_mut().zip(&state.asked) {
            // The frames of the request itself do not count against it.
            *peak = (state.committed - asked).max(*peak);
        }
    }

    /// Records that a request returned these frames.
    ///
    /// # Panics
    /// If a CPU already holds any of them.
    pub fn gets(&self, cpu: CpuId, start: Index, frames: u32) {
        let state = &mut *self.state();
        state.asked[cpu.index()] = 0;
        for pfn in start.0..start.0 + frames {
            let holder = &mut state.holders[pfn as usize];
            if let Some(other) = holder.replace(cpu) {
                panic!("frame {pfn:#x} was handed out to {cpu:?} while {other:?} held it");
            }
            for untouched in &mut state.untouched {
                untouched[pfn as usize] = false;
            }
        }
    }

    /// Records that a CPU's request failed. Returns `true` if the failure is allowed: if fewer frames than requested
    /// were free at some moment or, in spaces, if no single frame was free throughout.
    pub fn may_fail(&self, cpu: CpuId) -> bool {
        let state = &mut *self.state();
        let frames = core::mem::take(&mut state.asked[cpu.index()]);
        state.committed -= frames;
        if state.in_spaces {
            let untouched = state.untouched[cpu.index()].iter().filter(|free| **free);
            // Other CPUs may have allocated frames already without having recorded it yet.
            return untouched.count() as u32 <= state.asked.iter().sum();
        }
        state.peaks[cpu.index()] + frames > state.holders.len() as u32
    }

    /// Records that a CPU starts to free frames.
    ///
    /// # Panics
    /// If the CPU does not hold them.
    pub fn gives_back(&self, cpu: CpuId, start: Index, frames: u32) {
        let state = &mut *self.state();
        for pfn in start.0..start.0 + frames {
            let holder = state.holders[pfn as usize].take();
            assert_eq!(holder, Some(cpu), "the holder of frame {pfn:#x}");
            state.returning[pfn as usize] += 1;
        }
    }

    /// Records that a free returned. Another CPU may have allocated the frames by now.
    pub fn is_back(&self, start: Index, frames: u32) {
        let state = &mut *self.state();
        state.committed -= frames;
        for pfn in start.0..start.0 + frames {
            state.returning[pfn as usize] -= 1;
        }
    }

    /// Records that a CPU hands frames over to another CPU.
    ///
    /// # Panics
    /// If it does not hold them.
    pub fn is_handed(&self, start: Index, frames: u32, from: CpuId, to: CpuId) {
        let holders = &mut self.state().holders;
        for pfn in start.0..start.0 + frames {
            let holder = holders[pfn as usize].replace(to);
            assert_eq!(holder, Some(from), "the holder of frame {pfn:#x}");
        }
    }

    /// Returns the number of frames that are held.
    pub fn held(&self) -> u64 {
        self.state().holders.iter().flatten().count() as u64
    }
}
