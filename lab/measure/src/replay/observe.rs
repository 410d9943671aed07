//! The passes: what is observed while a script runs.
//!
//! One replay cannot show everything. A timestamp around each operation would cost more than the operation, and
//! counting distorts times. Each pass therefore observes one quantity, on a newly built system.
//!
//! | observer | measures |
//! |----------|----------|
//! | [`Whole`] | the time of every few thousand operations, for throughput |
//! | [`Segments`] | the time of each segment, for mean latencies |
//! | [`Singles`] | the time of each operation, for percentiles |
//! | [`Notes`] | whatever the internal events of each operation show |
//! | [`Counting`] | the internal events of each operation, and free memory over time |
//!
//! # Invariants
//! Observers store into memory that was reserved before the start.

use std::iter::Peekable;
use std::vec::IntoIter;

use everybuddy::{Counts, Order, Snapshot};

use crate::replay::adapter::{Adapter, REFUSED};
use crate::replay::clock::Timer;
use crate::replay::script::{Lane, Move, MoveKind, RunEnd, Segment};

/// A segment that is to be performed.
pub struct Run<'r> {
    /// The thread's access to the system.
    pub adapter: &'r mut dyn Adapter,
    /// The segment.
    pub segment: &'r Segment,
    /// Its moves.
    pub moves: &'r [Move],
    /// The placements of the blocks of these moves.
    pub places: &'r mut [u32],
}

/// Observes the calls of a thread.
pub trait Observer: Send {
    /// Called before the next segment starts, and before any wait.
    #[inline(always)]
    fn next(&mut self, moves: usize) {
        let _ = moves;
    }

    /// Called after the last segment.
    fn end(&mut self) {}

    /// Performs allocations and records the placement of the blocks.
    fn allocations(&mut self, run: Run<'_>);

    /// Performs frees, except for blocks whose allocation failed.
    fn frees(&mut self, run: Run<'_>);
}

/// An observer of untimed passes. It receives the probe's counts before and after each operation.
pub trait Notes: Send {
    /// Records an operation. `at` is its index among the moves of the lane.
    fn note(&mut self, at: u32, performed: &Move, before: &Counts, after: &Counts);

    /// Records that a free was left out, because the allocation of its block failed.
    fn skip(&mut self, at: u32, release: &Move) {
        let _ = (at, release);
    }
}

impl<N: Notes> Observer for N {
    fn allocations(&mut self, run: Run<'_>) {
        let Run { adapter, .. } = run;
        for ((at, request), place) in (run.segment.first..).zip(run.moves).zip(run.places) {
            let before = adapter.counts(request.token);
            *place = adapter.allocate(request);
            self.note(at, request, &before, &adapter.counts(request.token));
        }
    }

    fn frees(&mut self, run: Run<'_>) {
        let Run { adapter, .. } = run;
        for ((at, release), place) in (run.segment.first..).zip(run.moves).zip(run.places) {
            if *place == REFUSED {
                self.skip(at, release);
                continue;
            }
            let before = adapter.counts(release.token);
            adapter.free(release, *place);
            self.note(at, release, &before, &adapter.counts(release.token));
        }
    }
}

/// The times of a timed pass, including the timer's cost; each observer fills in its own fields.
#[derive(Clone, Debug, Default)]
pub struct Ticks {
    /// Ticks of each section, including everything between its operations: by [`Whole`].
    pub stretches: Vec<u32>,
    /// Ticks of each segment, by [`Segments`], or of each operation, by [`Singles`]: of allocations, of frees.
    pub directions: [Vec<u32>; 2],
    /// Operations in all segments: by [`Segments`].
    pub operations: [u64; 2],
}

/// An observer that measures times.
pub trait Timing<'t>: Observer + Into<Ticks> {
    /// Starts a pass over a lane.
    fn new(timer: &'t Timer, lane: &Lane) -> Self;
}

/// Measures only the time of sections that are long enough to make the cost of a timestamp negligible.
#[derive(Clone, Debug)]
pub struct Whole<'t> {
    timer: &'t Timer,
    ticks: Vec<u32>,
    start: Option<u64>,
    moves: usize,
}

impl<'t> Whole<'t> {
    /// The minimum number of operations per section.
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
    fn allocations(&mut self, run: Run<'_>) {
        run.adapter.allocate_all(run.moves, run.places);
    }

    #[inline(always)]
    fn frees(&mut self, run: Run<'_>) {
        run.adapter.free_all(run.moves, run.places);
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
    fn allocations(&mut self, run: Run<'_>) {
        let start = self.timer.now();
        run.adapter.allocate_all(run.moves, run.places);
        self.ticks[0].push(self.timer.since(start));
        self.operations[0] += run.moves.len() as u64;
    }

    #[inline(always)]
    fn frees(&mut self, run: Run<'_>) {
        let start = self.timer.now();
        run.adapter.free_all(run.moves, run.places);
        self.ticks[1].push(self.timer.since(start));
        let made = run.places.iter().filter(|place| **place != REFUSED);
        self.operations[1] += made.count() as u64;
    }
}

/// Times each operation. The first list is for allocations, the second for frees.
///
/// The times are stored as they arrive and sorted afterwards: a histogram would take cache lines from the allocator.
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
    fn allocations(&mut self, run: Run<'_>) {
        let Run {
            adapter,
            moves,
            places,
            ..
        } = run;
        adapter.time_allocations(moves, places, self.timer, &mut self.ticks[0]);
    }

    #[inline(always)]
    fn frees(&mut self, run: Run<'_>) {
        let Run {
            adapter,
            moves,
            places,
            ..
        } = run;
        adapter.time_frees(moves, places, self.timer, &mut self.ticks[1]);
    }
}

/// The internal events of allocations or of frees.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Tally {
    /// Operations performed.
    pub operations: u64,
    /// The number of them with order 0.
    pub single_frames: u64,
    /// Operations of order 0 that reached the zone layer: by a refill, a drain, or a bypass.
    pub entered: u64,
    /// Frames that crossed the border of the per-CPU layer during operations of order 0.
    pub crossed: u64,
    /// Operations during which a lock was not acquired immediately, or that waited for a part of a domain.
    pub contended: u64,
    /// Operations of any order that reached the zone layer: by a refill, a drain, or a bypass.
    pub visits: u64,
    /// The contended operations among those that reached the zone layer.
    pub contended_visits: u64,
    /// The number of ended runs of at least two requests for single frames.
    pub runs: u64,
    /// The sum of the frames in the CPU's list at the ends of these runs.
    pub residual: u64,
    /// The events counted by the probe, in addition to those that the fields above are computed from.
    pub counts: Counts,
}

impl Tally {
    /// Adds an operation, from the probe's counts before and after it.
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

    /// Returns the sums of the allocations and of the frees of some threads.
    pub fn sums<'t>(threads: impl IntoIterator<Item = &'t [Tally; 2]>) -> [Tally; 2] {
        let mut sums = [Tally::default(); 2];
        for own in threads {
            sums.iter_mut().zip(own).for_each(|(sum, own)| sum.add(own));
        }
        sums
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

/// The state of free memory at a position of the trace.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Sample {
    /// The position in the trace.
    pub position: u32,
    /// The state of free memory.
    pub snapshot: Snapshot,
    /// The number of requested and not yet freed frames. On several threads it is known only at the end.
    pub asked: Option<u64>,
}

/// The frames in lists at a position of the trace.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Listed {
    /// The position in the trace: the number of calls before it.
    pub position: u32,
    /// The frames, in increasing order.
    pub frames: Vec<u32>,
}

/// Counts the internal events of operations, and samples free memory.
#[derive(Clone, Debug)]
pub struct Counting {
    /// Allocations and frees.
    pub tallies: [Tally; 2],
    /// Free memory at the positions that this thread reached.
    pub samples: Vec<Sample>,
    /// The frames in lists at some positions that this thread reached.
    pub listed: Vec<Listed>,
    /// The first frame of each allocated block, in order; [`REFUSED`] if the request failed.
    pub places: Vec<u32>,
    /// The number of frames that this thread requested successfully, minus those that it freed, including those of
    /// other threads.
    pub asked: i64,
    /// The ends of the remaining runs.
    ends: Peekable<IntoIter<RunEnd>>,
}

impl Counting {
    /// Starts a pass over a lane.
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

    /// Reads the contents of the list if a run ended with this move.
    fn end_run(&mut self, adapter: &mut dyn Adapter, at: u32, performed: &Move) {
        let ended = self.ends.next_if(|end| end.at == at);
        // A single request is not a batch with a possible residual.
        if ended.is_some_and(|end| end.length > 1) {
            let tally = &mut self.tallies[usize::from(performed.kind != MoveKind::Allocate)];
            tally.runs += 1;
            tally.residual += adapter.kept(performed.token);
        }
    }

    fn sample(&mut self, adapter: &mut dyn Adapter, segment: &Segment) {
        if segment.sampled
            && let Some(snapshot) = adapter.snapshot()
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
                frames: adapter.listed(),
            });
        }
    }
}

impl Observer for Counting {
    fn allocations(&mut self, run: Run<'_>) {
        let Run { adapter, .. } = run;
        self.sample(adapter, run.segment);
        for ((at, request), place) in (run.segment.first..).zip(run.moves).zip(run.places) {
            let before = adapter.counts(request.token);
            *place = adapter.allocate(request);
            let after = adapter.counts(request.token);
            self.places.push(*place);
            if *place != REFUSED {
                self.asked += i64::from(request.order().frames());
            }
            self.tallies[0].note(request.order(), &before, &after);
            self.end_run(adapter, at, request);
        }
    }

    fn frees(&mut self, run: Run<'_>) {
        let Run { adapter, .. } = run;
        self.sample(adapter, run.segment);
        for ((at, release), place) in (run.segment.first..).zip(run.moves).zip(run.places) {
            if *place != REFUSED {
                let before = adapter.counts(release.token);
                adapter.free(release, *place);
                let after = adapter.counts(release.token);
                self.asked -= i64::from(release.order().frames());
                // A part of a larger block is not a single frame that a list could have cached.
                let order = match (release.kind, release.order()) {
                    (MoveKind::FreePart, Order::ZERO) => Order::TEN,
                    (_, order) => order,
                };
                self.tallies[1].note(order, &before, &after);
            }
            self.end_run(adapter, at, release);
        }
    }
}
