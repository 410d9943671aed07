//! The loop: runs a script on an adapter for each thread.
//!
//! A single loop serves every pass on every system and the replay without an allocator, so that the code around the
//! measured part is always the same.
//!
//! # Invariants
//! An observer sees only calls of the adapter. Waiting for other threads, looking up the placement of a block and
//! recording a new placement happen between segments, outside the observed part.

use std::sync::Barrier;
use std::thread;
use std::time::{Duration, Instant};

use crate::Error;
use crate::replay::adapter::{Adapter, REFUSED, Trouble};
use crate::replay::background_load;
use crate::replay::gate::{Gate, Turn};
use crate::replay::observe::{Observer, Run};
use crate::replay::script::{Lane, Script, Segment};

/// The results of a script.
#[derive(Debug)]
pub struct Played<O> {
    /// The observer of each thread.
    pub observers: Vec<O>,
    /// From the common start to the end of the last thread.
    pub elapsed: Duration,
    /// The failures on all threads.
    pub trouble: Trouble,
    /// The number of involuntary context switches.
    pub switches: u64,
}

/// A thread's view of a script: its lane, and the gate to the other threads.
pub struct Part<'p> {
    /// The moves to perform.
    pub lane: &'p Lane,
    turn: Turn<'p>,
    start: &'p Barrier,
}

/// The results of one thread.
pub struct Stretch<O> {
    observer: O,
    start: Instant,
    end: Instant,
    trouble: Trouble,
    switches: u64,
}

impl Part<'_> {
    /// Runs a lane on an adapter once all threads are ready, and parks its CPUs. Returns `None` if there is no adapter.
    pub fn perform<O: Observer>(
        mut self,
        adapter: Option<&mut dyn Adapter>,
        mut observer: O,
    ) -> Option<Stretch<O>> {
        let switches = background_load::switches();
        self.start.wait();
        let start = Instant::now();
        let adapter = adapter?;
        run(self.lane, &mut self.turn, adapter, &mut observer);
        let end = Instant::now();
        let switches = background_load::switches().saturating_sub(switches);
        adapter.park();
        let trouble = adapter.trouble();
        Some(Stretch {
            observer,
            start,
            end,
            trouble,
            switches,
        })
    }
}

impl<O> Stretch<O> {
    /// Converts the observations.
    pub fn map<T>(self, make: impl FnOnce(O) -> T) -> Stretch<T> {
        Stretch {
            observer: make(self.observer),
            start: self.start,
            end: self.end,
            trouble: self.trouble,
            switches: self.switches,
        }
    }
}

/// Runs a script, each lane on its own thread, by `perform`.
///
/// Does not depend on the adapter, so that the thread code is compiled once and not per system.
///
/// # Errors
/// Returns [`Error::Broken`] if a thread gets no adapter or panics.
pub fn play<O: Send>(
    script: &Script,
    window: u32,
    perform: &(dyn Fn(Part<'_>) -> Option<Stretch<O>> + Sync),
) -> Result<Played<O>, Error> {
    let gate = Gate::new(script.lanes.len(), script.blocks, window);
    let barrier = Barrier::new(script.lanes.len());
    let cores = core_affinity::get_core_ids().unwrap_or_default();
    // A single thread may migrate to any idle core.
    let pinned = script.lanes.len() > 1 && script.lanes.len() <= cores.len();
    let work = |number: usize, lane: &Lane| {
        if pinned {
            core_affinity::set_for_current(cores[number]);
        }
        perform(Part {
            lane,
            turn: gate.turn(number),
            start: &barrier,
        })
    };
    let lanes = thread::scope(|scope| {
        let work = &work;
        let spawn = |(number, lane)| scope.spawn(move || work(number, lane));
        let threads: Vec<_> = script.lanes.iter().enumerate().map(spawn).collect();
        threads
            .into_iter()
            .map(|thread| thread.join().ok().flatten())
            .collect::<Vec<_>>()
    });
    let mut played = Played {
        observers: Vec::with_capacity(lanes.len()),
        elapsed: Duration::ZERO,
        trouble: Trouble::default(),
        switches: 0,
    };
    let mut times: Option<(Instant, Instant)> = None;
    for lane in lanes {
        let Some(stretch) = lane else {
            return Err(Error::Broken("a thread of the replay failed".to_string()));
        };
        times = Some(match times {
            Some((first, last)) => (first.min(stretch.start), last.max(stretch.end)),
            None => (stretch.start, stretch.end),
        });
        played.observers.push(stretch.observer);
        played.trouble.add(stretch.trouble);
        played.switches += stretch.switches;
    }
    played.elapsed = times.map_or(Duration::ZERO, |(first, last)| last - first);
    Ok(played)
}

fn run(lane: &Lane, turn: &mut Turn<'_>, adapter: &mut dyn Adapter, observer: &mut impl Observer) {
    let mut places = [REFUSED; Segment::LONGEST];
    for segment in &lane.segments {
        observer.next(segment.moves as usize);
        turn.enter(segment, adapter);
        let first = segment.first as usize;
        let moves = &lane.moves[first..first + segment.moves as usize];
        let places = &mut places[..moves.len()];
        if segment.allocates {
            observer.allocations(Run {
                adapter,
                segment,
                moves,
                places: &mut *places,
            });
            for (performed, place) in moves.iter().zip(places) {
                turn.put(performed.block, *place);
            }
        } else {
            for (performed, place) in moves.iter().zip(&mut *places) {
                *place = match turn.take(performed.block, adapter) {
                    REFUSED => REFUSED,
                    start => start + performed.offset(),
                };
            }
            observer.frees(Run {
                adapter,
                segment,
                moves,
                places,
            });
        }
    }
    observer.end();
}
