//! Who holds which frame, kept beside the allocator.
//!
//! Why it exists: an allocator that gives a frame twice, loses one, or fails without need is found by
//! somebody who counts along.
//!
//! A holding ends *before* the release that gives it back begins (from then on anybody may get the
//! frames), and begins *after* the request returned. What bears on whether a request may fail is the
//! other way round: frames are *committed* from before a request until after their release. While fewer
//! frames are committed than there are, some frame is free at every moment, in the zone or in a list; and
//! a request for a single frame that fails as exhausted all the same failed wrongly.
//!
//! In buddy spaces less is promised: a searcher looks at one space after another, and a frame that comes free
//! behind its back is not found. There a request failed wrongly if some frame was free throughout: more frames
//! that nobody got and nobody gave back since it began than others ask for.
//!
//! Invariant: a mutex of the standard library guards it; the checkers' threads take turns on one thread
//! of the machine and never switch inside, so it is never contended, and orders nothing that they see.
//!
//! Not modelled: whether a request for a larger block may fail: that depends on which frames are free.

use std::sync::{Mutex, MutexGuard, PoisonError};

use everybuddy::{CpuId, Pfn};

/// The holdings and commitments of all CPUs.
#[derive(Debug)]
pub struct Ledger(Mutex<State>);

#[derive(Debug)]
struct State {
    /// Which CPU holds each frame.
    holders: Vec<Option<CpuId>>,
    /// Frames that are held, asked for, or on their way back.
    committed: u32,
    /// The frames that each CPU asks for now.
    asked: Vec<u32>,
    /// The most frames that were committed, beside its own, since each CPU's present request began.
    peaks: Vec<u32>,
    /// Whether the memory is divided into spaces.
    in_spaces: bool,
    /// How often each frame is on its way back; twice if somebody got it before a release returned.
    returning: Vec<u32>,
    /// For each CPU the frames that were free since its present request began.
    untouched: Vec<Vec<bool>>,
}

impl Ledger {
    /// Makes the ledger of a machine on which every frame is free.
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
        // A test that failed on one thread may look at it from another; its failure is what counts.
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Notes that a CPU begins to ask for so many frames.
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
            // What a request itself commits doesn't count against it.
            *peak = (state.committed - asked).max(*peak);
        }
    }

    /// Notes what a CPU got that asked for so many frames.
    ///
    /// # Panics
    /// If somebody holds any of them.
    pub fn gets(&self, cpu: CpuId, start: Pfn, frames: u32) {
        let state = &mut *self.state();
        state.asked[cpu.index()] = 0;
        for pfn in start.0..start.0 + frames {
            let holder = &mut state.holders[pfn as usize];
            if let Some(other) = holder.replace(cpu) {
                panic!("frame {pfn:#x} was given to {cpu:?} while {other:?} held it");
            }
            for untouched in &mut state.untouched {
                untouched[pfn as usize] = false;
            }
        }
    }

    /// Notes that a CPU's request failed; tells whether so many frames were not free at some moment, or, in
    /// spaces, no single one throughout.
    pub fn may_fail(&self, cpu: CpuId) -> bool {
        let state = &mut *self.state();
        let frames = core::mem::take(&mut state.asked[cpu.index()]);
        state.committed -= frames;
        if state.in_spaces {
            let untouched = state.untouched[cpu.index()].iter().filter(|free| **free);
            // Others may have got some already, and not be back yet to say so.
            return untouched.count() as u32 <= state.asked.iter().sum();
        }
        state.peaks[cpu.index()] + frames > state.holders.len() as u32
    }

    /// Notes that a CPU begins to give frames back.
    ///
    /// # Panics
    /// If it doesn't hold them.
    pub fn gives_back(&self, cpu: CpuId, start: Pfn, frames: u32) {
        let state = &mut *self.state();
        for pfn in start.0..start.0 + frames {
            let holder = state.holders[pfn as usize].take();
            assert_eq!(holder, Some(cpu), "who held frame {pfn:#x}");
            state.returning[pfn as usize] += 1;
        }
    }

    /// Notes that frames are back. Somebody may have got them by now.
    pub fn is_back(&self, start: Pfn, frames: u32) {
        let state = &mut *self.state();
        state.committed -= frames;
        for pfn in start.0..start.0 + frames {
            state.returning[pfn as usize] -= 1;
        }
    }

    /// Notes that a CPU hands what it holds over to another.
    ///
    /// # Panics
    /// If it doesn't hold it.
    pub fn is_handed(&self, start: Pfn, frames: u32, from: CpuId, to: CpuId) {
        let holders = &mut self.state().holders;
        for pfn in start.0..start.0 + frames {
            let holder = holders[pfn as usize].replace(to);
            assert_eq!(holder, Some(from), "who held frame {pfn:#x}");
        }
    }

    /// Returns the number of frames that anybody holds.
    pub fn held(&self) -> u64 {
        self.state().holders.iter().flatten().count() as u64
    }
}
