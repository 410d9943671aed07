//! The passes: what is watched while a script is performed.
//!
//! Exists because one replay can't show everything: a timestamp around each operation would cost
//! more than the operation, and counting disturbs times. So each pass watches one thing, on a
//! freshly built system.
//!
//! | observer | measures |
//! |----------|----------|
//! | [`Whole`] | the time of each few thousand operations, for throughput |
//! | [`Segments`] | the time of each segment, for mean latencies |
//! | [`Singles`] | the time of each operation, for percentiles |
//! | [`Counting`] | what each operation did inside, and free memory over time |
//!
//! Invariant: observers store into memory that was reserved before the start.

use std::iter::Peekable;
use std::vec::IntoIter;

use everybuddy::{Counts, Order, Snapshot};

use crate::replay::clock::Timer;
use crate::replay::port::{Port, REFUSED};
use crate::replay::script::{Kind, Lane, Move, RunEnd, Segment};

/// Watches a thread's calls.
pub trait Observer: Send {
    /// Is told that the next segment begins, before anything is waited for.
    #[inline(always)]
    fn next(&mut self, moves: usize) {
        let _ = moves;
    }

    /// Is told that all segments are done.
    fn end(&mut self) {}

    /// Performs requests and notes where the blocks are.
    fn allocations<P: Port>(
        &mut self,
        port: &mut P,
        segment: &Segment,
        moves: &[Move],
        places: &mut [u32],
    );

    /// Performs releases, except of blocks that were refused.
    fn frees<P: Port>(
        &mut self,
        port: &mut P,
        segment: &Segment,
        moves: &[Move],
        places: &mut [u32],
    );
}

#[inline(always)]
fn allocate_all(port: &mut impl Port, moves: &[Move], places: &mut [u32]) {
    for (request, place) in moves.iter().zip(places) {
        *place = port.allocate(request);
    }
}

#[inline(always)]
fn free_all(port: &mut impl Port, moves: &[Move], places: &[u32]) {
    for (release, place) in moves.iter().zip(places) {
        if *place != REFUSED {
            port.free(release, *place);
        }
    }
}

/// What a timed pass took, the timer's cost included; each observer fills in what it times.
#[derive(Clone, Debug, Default)]
pub struct Ticks {
    /// Ticks of each stretch, everything between its operations included: by [`Whole`].
    pub stretches: Vec<u32>,
    /// Ticks of each segment, by [`Segments`], or operation, by [`Singles`]: of allocations, of frees.
    pub directions: [Vec<u32>; 2],
    /// Operations in all segments: by [`Segments`].
    pub operations: [u64; 2],
}

/// An observer that times.
pub trait Timing<'t>: Observer + Into<Ticks> {
    /// Begins a pass over a lane.
    fn new(timer: &'t Timer, lane: &Lane) -> Self;
}

/// Watches nothing but the time of stretches that are long enough for a timestamp to cost nothing.
#[derive(Clone, Debug)]
pub struct Whole<'t> {
    timer: &'t Timer,
    ticks: Vec<u32>,
    start: Option<u64>,
    moves: usize,
}

impl<'t> Whole<'t> {
    /// Operations of a stretch, at least.
    const STRETCH: usize = 4096;
}

impl<'t> Timing<'t> for Whole<'t> {
    fn new(timer: &'t Timer, lane: &Lane) -> Self {
        let ticks = Vec::with_capacity(lane.moves.len() / Self::STRETCH + 1);
        Whole {
            timer,
            ticks,
            start: None,
            moves: 0,
        }
    }
}

impl From<Whole<'_>> for Ticks {
    fn from(whole: Whole<'_>) -> Ticks {
        Ticks {
            stretches: whole.ticks,
            ..Ticks::default()
        }
    }
}

impl Observer for Whole<'_> {
    #[inline(always)]
    fn next(&mut self, moves: usize) {
        if self.moves >= Self::STRETCH || self.start.is_none() {
            self.end();
        }
        self.moves += moves;
    }

    fn end(&mut self) {
        let now = self.timer.now();
        if let Some(start) = self.start {
            self.ticks
                .push(u32::try_from(now.saturating_sub(start)).unwrap_or(u32::MAX));
        }
        self.start = Some(now);
        self.moves = 0;
    }

    #[inline(always)]
    fn allocations<P: Port>(
        &mut self,
        port: &mut P,
        _: &Segment,
        moves: &[Move],
        places: &mut [u32],
    ) {
        allocate_all(port, moves, places);
    }

    #[inline(always)]
    fn frees<P: Port>(&mut self, port: &mut P, _: &Segment, moves: &[Move], places: &mut [u32]) {
        free_all(port, moves, places);
    }
}

/// Times segments. The first of each pair is for allocations, the second for frees.
#[derive(Clone, Debug)]
pub struct Segments<'t> {
    timer: &'t Timer,
    ticks: [Vec<u32>; 2],
    operations: [u64; 2],
}

impl<'t> Timing<'t> for Segments<'t> {
    fn new(timer: &'t Timer, lane: &Lane) -> Self {
        let segments = |allocates| {
            lane.segments
                .iter()
                .filter(|s| s.allocates == allocates)
                .count()
        };
        let ticks = [true, false].map(|allocates| Vec::with_capacity(segments(allocates)));
        Segments {
            timer,
            ticks,
            operations: [0; 2],
        }
    }
}

impl From<Segments<'_>> for Ticks {
    fn from(segments: Segments<'_>) -> Ticks {
        Ticks {
            directions: segments.ticks,
            operations: segments.operations,
            ..Ticks::default()
        }
    }
}

impl Observer for Segments<'_> {
    #[inline(always)]
    fn allocations<P: Port>(
        &mut self,
        port: &mut P,
        _: &Segment,
        moves: &[Move],
        places: &mut [u32],
    ) {
        let start = self.timer.now();
        allocate_all(port, moves, places);
        self.ticks[0].push(self.timer.since(start));
        self.operations[0] += moves.len() as u64;
    }

    #[inline(always)]
    fn frees<P: Port>(&mut self, port: &mut P, _: &Segment, moves: &[Move], places: &mut [u32]) {
        let start = self.timer.now();
        free_all(port, moves, places);
        self.ticks[1].push(self.timer.since(start));
        self.operations[1] += places.iter().filter(|place| **place != REFUSED).count() as u64;
    }
}

/// Times each operation. The first list is of allocations, the second of frees.
///
/// The times are stored as they come and sorted out afterwards: a histogram would take cache lines
/// from the allocator.
#[derive(Clone, Debug)]
pub struct Singles<'t> {
    timer: &'t Timer,
    ticks: [Vec<u32>; 2],
}

impl<'t> Timing<'t> for Singles<'t> {
    fn new(timer: &'t Timer, lane: &Lane) -> Self {
        Singles {
            timer,
            ticks: lane.directions().map(Vec::with_capacity),
        }
    }
}

impl From<Singles<'_>> for Ticks {
    fn from(singles: Singles<'_>) -> Ticks {
        Ticks {
            directions: singles.ticks,
            ..Ticks::default()
        }
    }
}

impl Observer for Singles<'_> {
    #[inline(always)]
    fn allocations<P: Port>(
        &mut self,
        port: &mut P,
        _: &Segment,
        moves: &[Move],
        places: &mut [u32],
    ) {
        for (request, place) in moves.iter().zip(places) {
            let start = self.timer.now();
            *place = port.allocate(request);
            self.ticks[0].push(self.timer.since(start));
        }
    }

    #[inline(always)]
    fn frees<P: Port>(&mut self, port: &mut P, _: &Segment, moves: &[Move], places: &mut [u32]) {
        for (release, place) in moves.iter().zip(places) {
            if *place != REFUSED {
                let start = self.timer.now();
                port.free(release, *place);
                self.ticks[1].push(self.timer.since(start));
            }
        }
    }
}

/// What operations of one direction did inside.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Tally {
    /// Operations performed.
    pub operations: u64,
    /// Operations of order 0 among them.
    pub single_frames: u64,
    /// Operations of order 0 that entered the core layer: by a refill, a drain, or past the list.
    pub entered: u64,
    /// Frames that crossed the border of the per-CPU layer during operations of order 0.
    pub crossed: u64,
    /// Operations during which a lock was not had at once, or that waited for a part of a domain.
    pub contended: u64,
    /// Operations of any order that visited the core layer: by a refill, a drain, or past the list.
    pub visits: u64,
    /// Contended ones among the visits.
    pub contended_visits: u64,
    /// Runs of two and more requests for single frames that ended.
    pub runs: u64,
    /// Frames that the CPU's list kept when they ended, all together.
    pub residual: u64,
    /// What the probe counted, beside what the fields above are made from.
    pub counts: Counts,
}

impl Tally {
    /// Adds an operation, by what the probe had counted before and after it.
    pub fn note(&mut self, order: Order, before: &Counts, after: &Counts) {
        let bypasses = after.bypasses_order0 - before.bypasses_order0;
        let moves = (after.refills - before.refills) + (after.drains - before.drains);
        let has_visited = moves + bypasses + (after.bypasses_larger - before.bypasses_larger) > 0;
        let is_contended =
            after.locks_contended > before.locks_contended || after.ghosts > before.ghosts;
        self.operations += 1;
        self.contended += u64::from(is_contended);
        self.visits += u64::from(has_visited);
        self.contended_visits += u64::from(has_visited && is_contended);
        if order == Order::ZERO {
            let moved = (after.frames_refilled - before.frames_refilled)
                + (after.frames_drained - before.frames_drained);
            self.single_frames += 1;
            self.entered += u64::from(moves + bypasses > 0);
            self.crossed += moved + bypasses;
        }
        self.counts.add(&after.since(before));
    }

    /// Adds the operations of another thread.
    pub fn add(&mut self, other: &Tally) {
        self.operations += other.operations;
        self.single_frames += other.single_frames;
        self.entered += other.entered;
        self.crossed += other.crossed;
        self.contended += other.contended;
        self.visits += other.visits;
        self.contended_visits += other.contended_visits;
        self.runs += other.runs;
        self.residual += other.residual;
        self.counts.add(&other.counts);
    }
}

/// Free memory at a position of the trace.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Sample {
    /// The position in the trace.
    pub position: u32,
    /// What free memory looked like.
    pub snapshot: Snapshot,
    /// Frames that were asked for, given, and not yet freed. On several threads nobody knows at a moment what the
    /// others have: then only at the end.
    pub asked: Option<u64>,
}

/// The frames that lists keep at a position of the trace.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Listed {
    /// The position in the trace: calls before it.
    pub position: u32,
    /// The frames, rising.
    pub frames: Vec<u32>,
}

/// Counts what operations do inside, and samples free memory.
#[derive(Clone, Debug)]
pub struct Counting {
    /// Allocations and frees.
    pub tallies: [Tally; 2],
    /// Free memory at the positions that this thread came to.
    pub samples: Vec<Sample>,
    /// The frames that lists kept at some positions that this thread came to.
    pub listed: Vec<Listed>,
    /// The first frame of each block that was allocated, in order; [`REFUSED`] where none was given.
    pub places: Vec<u32>,
    /// Frames that this thread asked for and was given, less those that it freed: those of others, too.
    pub asked: i64,
    /// The ends of runs that are still to come.
    ends: Peekable<IntoIter<RunEnd>>,
}

impl Counting {
    /// Begins a pass over a lane.
    pub fn new(lane: &Lane) -> Self {
        let samples = lane.segments.iter().filter(|segment| segment.sampled);
        Counting {
            asked: 0,
            tallies: [Tally::default(); 2],
            samples: Vec::with_capacity(samples.count()),
            listed: Vec::new(),
            places: Vec::with_capacity(lane.directions()[0]),
            ends: lane.ends.clone().into_iter().peekable(),
        }
    }

    /// Looks at what the list keeps, if a run ended with this move.
    fn end_run(&mut self, port: &mut impl Port, at: u32, performed: &Move) {
        let ended = self.ends.next_if(|end| end.at == at);
        // A single request is no batch of which something could be left.
        if ended.is_some_and(|end| end.length > 1) {
            let tally = &mut self.tallies[usize::from(performed.kind != Kind::Allocate)];
            tally.runs += 1;
            tally.residual += port.kept(performed.token);
        }
    }

    fn sample(&mut self, port: &mut impl Port, segment: &Segment) {
        if segment.sampled
            && let Some(snapshot) = port.snapshot()
        {
            self.samples.push(Sample {
                position: segment.position,
                snapshot,
                asked: Some(self.asked.max(0) as u64),
            });
        }
        if segment.mapped {
            self.listed.push(Listed {
                position: segment.position,
                frames: port.listed(),
            });
        }
    }
}

impl Observer for Counting {
    fn allocations<P: Port>(
        &mut self,
        port: &mut P,
        segment: &Segment,
        moves: &[Move],
        places: &mut [u32],
    ) {
        self.sample(port, segment);
        for ((at, request), place) in (segment.first..).zip(moves).zip(places) {
            let before = port.counts(request.token);
            *place = port.allocate(request);
            let after = port.counts(request.token);
            self.places.push(*place);
            if *place != REFUSED {
                self.asked += i64::from(request.order().frames());
            }
            self.tallies[0].note(request.order(), &before, &after);
            self.end_run(port, at, request);
        }
    }

    fn frees<P: Port>(
        &mut self,
        port: &mut P,
        segment: &Segment,
        moves: &[Move],
        places: &mut [u32],
    ) {
        self.sample(port, segment);
        for ((at, release), place) in (segment.first..).zip(moves).zip(places) {
            if *place != REFUSED {
                let before = port.counts(release.token);
                port.free(release, *place);
                let after = port.counts(release.token);
                self.asked -= i64::from(release.order().frames());
                // A part of a larger block is no single frame that a list could have kept.
                let order = match (release.kind, release.order()) {
                    (Kind::FreePart, Order::ZERO) => Order::TEN,
                    (_, order) => order,
                };
                self.tallies[1].note(order, &before, &after);
            }
            self.end_run(port, at, release);
        }
    }
}
