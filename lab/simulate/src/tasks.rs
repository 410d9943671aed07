//! The tasks of a trace as a load.
//!
//! Each CPU makes the calls of its tasks in the order of the trace, as fast as the system and the time between calls
//! permit. Copies of the trace begin at different times. Nothing has warmed up: the first call is measured.
//!
//! # Invariants
//! A free waits until its block is allocated. An allocation never waits, and each CPU follows the order of the trace.
//! So a chain of CPUs that wait for each other leads to ever earlier calls, and ends at a CPU that does not wait: CPUs
//! never wait in a circle.

use std::cell::RefCell;

use everybuddy::{Block, Hint, Index, Release, Request, Size};
use everybuddy_measure::replay::adapter::{PENDING, REFUSED};
use everybuddy_measure::replay::random::Random;
use everybuddy_measure::replay::script::{Move, MoveKind};
use everybuddy_sim::{Caches, Machine, Region, Report, SimCpu, SimError};

use crate::caller::{Caller, Pace};
use crate::counted::{Counted, LOOK};
use crate::services::Crew;
use crate::trace::{Deal, Turn};

/// A CPU that has waited for long looks less often: the next look comes after this share of the wait.
const PATIENCE: u64 = 64;
/// Copies begin at random within this many calls ...
const STAGGER: u64 = 1000;
/// ... but within this share of a copy's calls.
const STAGGER_SHARE: u64 = 10;

/// Returns the instructions after which each copy begins.
fn starts(deal: &Deal<'_>, pace: Pace) -> Vec<u64> {
    let calls = deal.traced.moves().len() as u64 * u64::from(deal.copies);
    let of_one = calls / deal.turns.len() as u64 / STAGGER_SHARE;
    let within = of_one.min(STAGGER) * u64::from(pace.think[0].max(LOOK));
    let mut random = Random::new(pace.seed);
    // A single copy has no other one to differ from.
    let of = |_| match deal.copies {
        1 => 0,
        _ => random.below(within),
    };
    (0..deal.copies).map(of).collect()
}

/// Runs a trace that was dealt out to the CPUs of the machine.
pub(crate) fn run(
    deal: &Deal<'_>,
    pace: Pace,
    crew: &Crew<'_>,
    machine: &mut Machine<Caches>,
    region: Region,
) -> Result<Report<Counted>, SimError> {
    let blocks = deal.traced.script.blocks as usize;
    let places = vec![PENDING; blocks * deal.copies as usize];
    let places = RefCell::new(places);
    let starts = starts(deal, pace);
    crew.run(machine, region, |cpu: &mut SimCpu| {
        let thread = Thread {
            caller: Caller::new(pace, crew, cpu),
            deal,
            places: &places,
        };
        thread.run(&starts)
    })
}

/// The tasks of a CPU.
struct Thread<'t, 'c> {
    caller: Caller<'t, 'c>,
    deal: &'t Deal<'t>,
    /// The first frame of each block of each copy.
    places: &'t RefCell<Vec<u32>>,
}

impl Thread<'_, '_> {
    fn run(mut self, starts: &[u64]) -> Counted {
        self.caller.meet();
        self.caller.mark();
        self.caller.begin();
        let turns = &self.deal.turns[self.caller.index()];
        if let Some(first) = turns.first() {
            let start = starts[first.copy as usize];
            self.caller.pause(start.min(u64::from(u32::MAX)) as u32);
        }
        self.caller.begin_section();
        for turn in turns {
            self.call(*turn);
        }
        self.caller.done();
        self.caller.stop()
    }

    fn call(&mut self, turn: Turn) {
        let traced = self.deal.traced;
        let own = &traced.moves()[turn.at as usize];
        let place = turn.copy as usize * traced.script.blocks as usize + own.block as usize;
        let hint = hint(own, turn.copy.wrapping_mul(traced.stride));
        if own.kind == MoveKind::Allocate {
            let request = Request {
                size: Size::Order(own.order()),
                hint,
                flags: own.flags(),
            };
            let given = self.caller.allocate(request);
            self.places.borrow_mut()[place] = given.map_or(REFUSED, |start| start.0);
            return;
        }
        let start = match self.wait_for(place) {
            REFUSED => return,
            start => Index(start + own.offset()),
        };
        let release = match own.kind {
            MoveKind::FreePart => Release::frames(start, own.order().frames()),
            _ => Release::block(Block::new(start, own.order())),
        };
        self.caller.free(release.with_hint(hint));
    }

    /// Waits for the allocation of a block, and returns its first frame.
    fn wait_for(&mut self, place: usize) -> u32 {
        let (mut waited, mut has_parked) = (0, false);
        loop {
            match self.places.borrow()[place] {
                PENDING => {}
                start => return start,
            }
            if !has_parked {
                self.caller.park();
                has_parked = true;
            }
            let next = (waited / PATIENCE).clamp(u64::from(LOOK), u64::from(u32::MAX));
            // A CPU that served has not let this time pass.
            if !self.caller.idle(next as u32) {
                waited += next;
            }
        }
    }
}

/// Returns the hint of a call for a copy whose tasks and regions are this far from those of the trace.
fn hint(own: &Move, distance: u32) -> Hint {
    let moved = |id| match id {
        Hint::UNKNOWN => id,
        id => id.wrapping_add(distance),
    };
    Hint {
        task: moved(own.hint.task),
        region: moved(own.hint.region),
        left: own.hint.left,
    }
}

#[cfg(test)]
mod tests;
