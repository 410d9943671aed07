//! The loop: performs a script on a port for each thread.
//!
//! Exists once, so that every pass on every system, and the floor, do the same around what is
//! measured.
//!
//! Invariant: an observer sees nothing but calls of the port. Waiting for other threads, looking
//! up where a block lies and noting where one was given happen between segments, outside of what
//! observers time.

use std::sync::Barrier;
use std::thread;
use std::time::{Duration, Instant};

use crate::Error;
use crate::run::bystanders;
use crate::run::gate::{Gate, Turn};
use crate::run::observe::Observer;
use crate::run::port::{Port, REFUSED, Trouble};
use crate::run::script::{Lane, Script, Segment};

/// What came of a script.
pub struct Played<O> {
    /// The observer of each thread.
    pub observers: Vec<O>,
    /// From the common start to the end of the last thread.
    pub elapsed: Duration,
    /// What went wrong on all threads.
    pub trouble: Trouble,
    /// How often a thread was switched out against its will.
    pub switches: u64,
}

/// Performs a script, each lane on a thread of its own.
///
/// `open` gives a thread its port, `close` takes it back after its CPUs were parked.
///
/// # Errors
/// [`Error::Broken`] when a thread gets no port or panics.
pub fn play<P: Port, O: Observer>(
    script: &Script,
    window: u32,
    open: impl Fn(&Lane) -> Option<P> + Sync,
    close: impl Fn(P) + Sync,
    observer: impl Fn(&Lane) -> O + Sync,
) -> Result<Played<O>, Error> {
    let gate = Gate::new(script.lanes.len(), script.blocks, window);
    let barrier = Barrier::new(script.lanes.len());
    let cores = core_affinity::get_core_ids().unwrap_or_default();
    // A single thread may wander to whichever core is quiet.
    let pinned = script.lanes.len() > 1 && script.lanes.len() <= cores.len();
    let perform = |number: usize, lane: &Lane| {
        if pinned {
            core_affinity::set_for_current(cores[number]);
        }
        let mut turn = gate.turn(number);
        let port = open(lane);
        let mut observer = observer(lane);
        let switches = bystanders::switches();
        barrier.wait();
        let start = Instant::now();
        let mut port = port?;
        run(lane, &mut turn, &mut port, &mut observer);
        let end = Instant::now();
        let switches = bystanders::switches().saturating_sub(switches);
        port.park();
        let trouble = port.trouble();
        close(port);
        Some((observer, start, end, trouble, switches))
    };
    let lanes = thread::scope(|scope| {
        let perform = &perform;
        let spawn = |(number, lane)| scope.spawn(move || perform(number, lane));
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
        let Some((observer, start, end, trouble, switches)) = lane else {
            return Err(Error::Broken("a thread of the replay failed".to_string()));
        };
        times = Some(match times {
            Some((first, last)) => (first.min(start), last.max(end)),
            None => (start, end),
        });
        played.observers.push(observer);
        played.trouble.add(trouble);
        played.switches += switches;
    }
    played.elapsed = times.map_or(Duration::ZERO, |(first, last)| last - first);
    Ok(played)
}

fn run<P: Port, O: Observer>(lane: &Lane, turn: &mut Turn<'_>, port: &mut P, observer: &mut O) {
    let mut places = [REFUSED; Segment::LONGEST];
    for segment in &lane.segments {
        observer.next(segment.moves as usize);
        turn.enter(segment, port);
        let first = segment.first as usize;
        let moves = &lane.moves[first..first + segment.moves as usize];
        let places = &mut places[..moves.len()];
        if segment.allocates {
            observer.allocations(port, segment, moves, places);
            for (performed, place) in moves.iter().zip(places) {
                turn.put(performed.block, *place);
            }
        } else {
            for (performed, place) in moves.iter().zip(&mut *places) {
                *place = match turn.take(performed.block, port) {
                    REFUSED => REFUSED,
                    start => start + performed.offset,
                };
            }
            observer.frees(port, segment, moves, places);
        }
    }
    observer.end();
}
