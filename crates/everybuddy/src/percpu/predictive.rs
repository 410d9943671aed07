//! Spring Buddy's list: the run of requests predicts how many frames move.
//!
//! A list of fixed length is too short for a long run and too long after a short one. The next operations are
//! predictable: requests come in runs from one address region of one task, and so do frees.
//!
//! # Source
//! \[Spring\] §III-C and figure 7. A *run* is a sequence of requests, or of frees, of the same task and region on
//! this CPU. From the run so far and from what is left of the region, the list predicts how much longer the run
//! continues. Before requests it refills that many frames. Before frees it raises its limit by that many frames, so
//! that they stay in the list and return to the zone in bulk. When the run has ended, the list returns the rest.
//!
//! # Invariants
//! The entries of the ring are single frames tagged as buffered by this CPU. Between operations there are fewer than
//! [`Bound::max`] of them. A prediction changes how many frames move and when, never the meaning of a request.
//!
//! # Design decisions
//! The paper says what is predicted, but neither how nor how far.
//! 1. A run is predicted to continue for as long as it has lasted, since lengths of runs have no scale of their own
//!    (the averages in the paper's table II range from 122 to 74,249). The number of frames that move therefore
//!    doubles, within bounds. A run of n frames misses about log n times, and what is finally left is proportional to
//!    its own length, not to that of the longest run.
//! 2. A run that has just begun is predicted to have [`INITIAL_REFILL`] requests, or [`GROWTH`] times as many frees:
//!    runs of frees are longer (ten times in table II). These numbers are fitted: with them, what runs leave, measured
//!    in units of what fixed buffers leave, is near the paper's figure 11, so they do not show that the figure holds.
//!    The option `batch` sets the first of them, and the experiment `buffers` chooses it on some traces and tests it on
//!    another. The list does not remember earlier runs of a region: that would trade misses against residual frames,
//!    as other values of these numbers would.
//! 3. A refill moves at most [`SPREAD`] times as many frames as a first one, although the runs of table II span 51
//!    to 1. The option `spread` lets it be more.
//! 4. The end of a region ends the run. A refill is never longer than what is left of the region, or than an initial
//!    refill if that is more. If a region ends before the limit is reached, the limit is set to the number of frames
//!    cached at that point, so that the last free returns all of them. No more is predicted from a region, since most
//!    regions are touched only in part. In the paper a large region also lengthens the prediction once several
//!    requests came: `predict=widen` does that.
//! 5. No clock is read, so the request after a run detects its end. It returns the frames that accumulated only
//!    because of a prediction. The first free of a run returns all frames if they fill an initial limit. The first
//!    request of a run leaves no more than an initial refill if it finds an initial limit of freed frames, or two
//!    initial refills of requested ones. Fewer frames stay for the next run, whichever task it belongs to.
//! 6. Hits compare only the task and the region with those of the run, and a request without hints ends no run. A
//!    change of direction with the same task and region, or without hints, is therefore detected only when the list
//!    is empty or full, and alternating requests and frees always hit. The run so far is what moved in the list since
//!    the list last examined it.
//! 7. A CPU caches at most a share of memory, and at most 16 MiB; see [`Bound::by_memory`].
//! 8. [`Predict`] leaves out a part of the prediction, to measure what the part earns. Refills, drains and
//!    the hit that begins a run read it. Other hits do not.
//!
//! # Complexity
//! A hit costs as much as one of [`linux`](super::linux), plus one comparison if the hints are known: about ten
//! instructions if they come from memory. The first request or free of a run is a hit of about 40 more instructions,
//! or takes the slow path, about 170 instructions, if the limit changes; it takes no lock unless it returns frames. A
//! miss is O(frames × orders) with one lock.

use super::Missed;
use super::block_ring::BlockRing;
use super::cpu_list::CpuList;
use super::linux::CLOSED_MARKS;
use crate::arena::{Arena, ArenaPlan};
use crate::error::BuildError;
use crate::frame::Order;
use crate::frame_table::{Frame, FrameTable};
use crate::platform::{AtomicWord, CpuId, Ordering, Platform, SharedCell};
use crate::probe::{Event, Probe};
use crate::request::Hint;
use crate::zone::{Caller, ZoneLayer};

/// Frames of the first refill of a run.
pub(crate) const INITIAL_REFILL: u32 = 128;
/// The limit at the start of a run of frees, in first refills.
const GROWTH: u32 = 4;
/// The largest refill, in first refills.
pub(crate) const SPREAD: u32 = 4;
/// Frames that must be left of a region for a drain at its end to be worth a miss.
const MIN_TAIL: u32 = 64;

/// What a list predicts from.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Predict {
    /// The run so far and the address region, whose end shortens a prediction.
    #[default]
    Both,
    /// The same, but once a run has as many operations as a first refill, it is predicted to continue to the region's
    /// end: the reading of \[Spring\] §III-C2, which requires a large region and several operations.
    Widen,
    /// The run so far alone. Hints are ignored, so a run ends where its direction changes.
    Run,
    /// The address region alone: a run is predicted to continue to the region's end, if that is known.
    Region,
    /// Neither: each prediction is that of a run which has just begun.
    None,
}

impl Predict {
    fn uses_region(self) -> bool {
        matches!(self, Predict::Both | Predict::Widen | Predict::Region)
    }

    /// Returns the part of a hint that the list may use.
    fn known(self, hint: Hint) -> Hint {
        if self.uses_region() { hint } else { Hint::NONE }
    }
}

/// The bounds of predictions, and what they are made from.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Bound {
    /// Number of frames at which a list returns frames, whatever is predicted; at least 1.
    pub max: u32,
    /// What the list predicts from.
    pub predict: Predict,
    /// Frames of the first refill of a run.
    refill: u32,
    /// Maximum number of frames of a refill.
    max_refill: u32,
    /// The limit at the start of a run of frees.
    limit: u32,
}

impl Bound {
    /// Returns the bounds of lists of at most `max` frames whose runs begin with a refill of `first` frames, and whose
    /// refills are at most `spread` times as long.
    pub fn new(max: u32, (first, spread): (u32, u32), predict: Predict) -> Bound {
        Bound {
            max,
            predict,
            refill: first.min(max / GROWTH).max(1),
            max_refill: spread.saturating_mul(first).min(max),
            limit: GROWTH.saturating_mul(first).min(max),
        }
    }

    /// Returns the bound for a memory of `frames` frames of 4 KiB: all lists together cache at most a sixteenth of
    /// memory, and each caches at most 16 MiB. The array of a list takes 4 bytes per frame of its bound, so at most
    /// 16 KiB.
    pub fn by_memory(frames: u64, cpus: u16) -> u32 {
        let share = frames / 16 / u64::from(cpus.max(1));
        share.clamp(1, 4096) as u32
    }

    /// Returns the number of frames of the first refill of a run.
    pub fn first(self) -> u32 {
        self.refill
    }

    /// Returns how long a run with `run` operations so far is predicted to continue, before its region's end is
    /// taken into account. `left` is the remainder of the region.
    #[inline]
    fn expected(self, run: u32, left: u32) -> u32 {
        let is_known = left != 0 && left != Hint::UNKNOWN;
        match self.predict {
            Predict::Region if is_known => u32::MAX,
            Predict::Widen if is_known && run >= self.refill => u32::MAX,
            Predict::Both | Predict::Widen | Predict::Run => run,
            Predict::Region | Predict::None => 0,
        }
    }

    /// Returns the number of entries that a ring needs. A freed frame is added before the limit is checked, to fewer
    /// than `max` frames.
    #[inline]
    fn capacity(self) -> usize {
        (self.max as usize).next_power_of_two()
    }

    /// Returns the number of frames that is too many after a request, depending on what came before it.
    fn rest(self, before: Before) -> u32 {
        match before.ended {
            None => self.max,
            Some(Ended::Requests) => 2 * self.refill,
            Some(Ended::Releases) => self.limit,
        }
    }

    /// Predicts how many requests follow in a run that had `run` so far.
    #[inline]
    fn requests(self, run: u32, left: u32) -> u32 {
        let expected = self.expected(run, left);
        let frames = expected.clamp(self.refill, self.max_refill);
        frames.min(left.max(self.refill))
    }

    /// Returns the limit in a run of requests after which `kept` frames are cached: whatever comes next, half an
    /// initial limit of frees has room.
    #[inline]
    fn limit_of_requests(self, kept: u32) -> u32 {
        let room = kept.saturating_add(self.limit / 2);
        self.limit.max(room).min(self.max)
    }

    /// Returns the limit in a run that had `run` frees so far, after which `kept` frames are cached and `left` more
    /// of the region are expected.
    #[inline]
    fn limit(self, run: u32, kept: u32, left: u32) -> u32 {
        if left < MIN_TAIL {
            // The region ends here: it does not tell how long the run continues.
            self.expected(run, 0).clamp(self.limit, self.max)
        } else {
            let limit = self.expected(run, left).clamp(self.limit, self.max);
            limit.min(kept.saturating_add(left))
        }
    }
}

/// The run that a CPU is in. It belongs to the owner, except `kept`, which a CPU that drains the list also sets.
struct RequestRun<P: Platform> {
    /// The task and the region. Hits compare only this.
    origin: P::Cell<u64>,
    /// Whether frames are freed (1) or requested (0).
    releases: P::Cell<u32>,
    /// Its requests or frees, as far as they were counted.
    frames: P::Cell<u32>,
    /// Frames that were cached when the run was last examined: hits moved the difference since.
    kept: P::Cell<u32>,
}

/// What came before a request or a free.
#[derive(Clone, Copy)]
struct Before {
    /// How many others of its run are known.
    run: u32,
    /// The run that ended, if this begins a run. (Others of the new run may be known already: those that were hits
    /// because only the direction changed.)
    ended: Option<Ended>,
}

/// A run that ended.
#[derive(Clone, Copy)]
enum Ended {
    Requests,
    Releases,
}

impl<P: Platform> RequestRun<P> {
    fn new() -> Self {
        Self {
            origin: P::Cell::new(Hint::NONE.origin()),
            releases: P::Cell::new(0),
            frames: P::Cell::new(0),
            kept: P::Cell::new(0),
        }
    }

    /// Returns `true` if a request or a free may belong to this run. One without hints ends no run, and where the
    /// compiler sees that there are none, it generates no comparison.
    #[inline(always)]
    fn continues(&self, hint: Hint) -> bool {
        hint.origin() == Hint::NONE.origin() || self.origin.get() == hint.origin()
    }

    /// Records a request or a free of another run, which was a hit and after which `kept` frames are cached.
    fn begin(&self, hint: Hint, releases: bool, kept: u32) {
        self.origin.set(hint.origin());
        self.releases.set(u32::from(releases));
        self.frames.set(1);
        self.kept.set(kept);
    }

    /// Records a request or a free that missed while `kept` frames were cached. Returns what came before it.
    fn note(&self, hint: Hint, releases: bool, kept: u32) -> Before {
        let before = self.kept.get();
        let (more, fewer) = (kept.saturating_sub(before), before.saturating_sub(kept));
        let was = self.releases.get() != 0;
        let (onwards, backwards) = if was { (more, fewer) } else { (fewer, more) };
        let same = self.continues(hint);
        let run = match (same, was == releases) {
            (true, true) if backwards == 0 => self.frames.get().saturating_add(onwards),
            (true, false) => backwards,
            _ => 0,
        };
        let ended = match (same && was == releases, was) {
            (true, _) => None,
            (false, false) => Some(Ended::Requests),
            (false, true) => Some(Ended::Releases),
        };
        if hint.origin() != Hint::NONE.origin() {
            self.origin.set(hint.origin());
        }
        self.releases.set(u32::from(releases));
        self.frames.set(run.saturating_add(1));
        Before { run, ended }
    }
}

/// The list of one CPU. The first cache line holds everything that a hit touches.
#[repr(C, align(64))]
pub struct PredictiveList<'a, P: Platform> {
    ring: BlockRing<'a, P>,
    /// As in Linux's list: requests hit above the low half, frees below the high half.
    marks: P::AtomicU64,
    run: RequestRun<P>,
    /// Number of frames at which a free returns frames to the zone.
    limit: P::Cell<u32>,
    bound: Bound,
}

impl<'a, P: Platform> PredictiveList<'a, P> {
    /// Plans the entries of the lists of all CPUs.
    pub(crate) fn plan(plan: ArenaPlan, bound: Bound, cpus: u16) -> ArenaPlan {
        plan.slices::<P::Cell<u32>>(bound.capacity(), usize::from(cpus))
    }

    /// Returns a function that creates the list of a CPU, closed.
    pub(crate) fn maker(
        arena: &mut Arena<'a>,
        bound: Bound,
        cpus: u16,
    ) -> Result<impl FnMut(usize) -> Self + use<'a, P>, BuildError> {
        let capacity = bound.capacity();
        let entries =
            arena.zeros_of_all::<P, u32>("entry of a per-CPU list", capacity, usize::from(cpus))?;
        Ok(move |cpu: usize| Self {
            ring: BlockRing::new(&entries[cpu * capacity..][..capacity]),
            marks: P::AtomicU64::new(CLOSED_MARKS),
            run: RequestRun::new(),
            limit: P::Cell::new(bound.limit),
            bound,
        })
    }

    /// Begins a run of requests in an open list, with a request that can be a hit. Returns `true` if it is one. It is
    /// not if frames must be returned or the limit changes, which the slow path does.
    #[inline(never)]
    fn begin_requests(&self, hint: Hint) -> bool {
        if !self.bound.predict.uses_region() {
            self.run.origin.set(hint.origin());
            return true;
        }
        let kept = self.ring.length().saturating_sub(1);
        let rest = self.bound.limit.min(2 * self.bound.refill);
        if kept >= rest || self.limit.get() != self.bound.limit_of_requests(kept) {
            return false;
        }
        self.run.begin(hint, false, kept);
        true
    }

    /// Begins a run of frees with one that can be a hit, as above.
    #[inline(never)]
    fn begin_releases(&self, hint: Hint) -> bool {
        if !self.bound.predict.uses_region() {
            self.run.origin.set(hint.origin());
            return true;
        }
        let kept = self.ring.length() + 1;
        if kept >= self.bound.limit || self.limit.get() != self.bound.limit(1, kept, hint.after()) {
            return false;
        }
        self.run.begin(hint, true, kept);
        true
    }

    /// Returns up to `frames` of the oldest frames to the zone, under one lock.
    fn drain_oldest<Z: ZoneLayer<P>>(
        &self,
        caller: &mut Caller<'_, P>,
        owner: CpuId,
        zone: &Z,
        frames: u32,
    ) {
        let moved = self.ring.drain(caller, owner, zone, Order::ZERO, frames);
        caller.probe.record(Event::Drain { frames: moved });
    }
}

impl<P: Platform> CpuList<P> for PredictiveList<'_, P> {
    const USES_HINTS: bool = true;

    #[inline(always)]
    fn caches(&self, order: Order) -> bool {
        order == Order::ZERO
    }

    #[inline(always)]
    fn pop(
        &self,
        table: FrameTable<'_, P>,
        cpu: CpuId,
        order: Order,
        hint: Hint,
        _: &mut Missed,
    ) -> Option<Frame> {
        if order != Order::ZERO {
            return None;
        }
        // A hint while the list is closed, and not used then: another CPU may be draining the list.
        let top = self.ring.top();
        // Relaxed: a close may be seen late; the CPU that closed the list waits for that.
        if top <= self.marks.load(Ordering::Relaxed) as u32 {
            return None;
        }
        if !self.run.continues(hint) && !self.begin_requests(hint) {
            return None;
        }
        self.ring.pop(table, top, Order::ZERO, cpu)
    }

    #[inline(always)]
    fn push(
        &self,
        table: FrameTable<'_, P>,
        cpu: CpuId,
        head: Frame,
        order: Order,
        hint: Hint,
        _: &mut Missed,
    ) -> bool {
        if order != Order::ZERO {
            return false;
        }
        let top = self.ring.top();
        // A hint, and relaxed: as in `pop`.
        if top >= (self.marks.load(Ordering::Relaxed) >> 32) as u32 {
            return false;
        }
        if !self.run.continues(hint) && !self.begin_releases(hint) {
            return false;
        }
        self.ring.push(table, top, head, Order::ZERO, cpu)
    }

    fn refill<Z: ZoneLayer<P>>(
        &self,
        caller: &mut Caller<'_, P>,
        zone: &Z,
        order: Order,
        hint: Hint,
    ) -> Option<Frame> {
        let hint = self.bound.predict.known(hint);
        let before = self.run.note(hint, false, self.ring.length());
        let (own, _) = self.ring.pop_own(caller, zone.table(), order);
        let head = if own.is_some() {
            let kept = self.ring.length();
            if kept >= self.bound.rest(before) {
                let more = kept.saturating_sub(self.bound.refill);
                self.drain_oldest(caller, caller.cpu, zone, more);
            }
            own
        } else {
            let frames = self.bound.requests(before.run, hint.left);
            caller.probe.record(Event::Predicted { frames });
            self.ring.refill(caller, zone, order, frames).0
        };
        let kept = self.ring.length();
        self.run.kept.set(kept);
        self.limit.set(self.bound.limit_of_requests(kept));
        head
    }

    fn overflow<Z: ZoneLayer<P>>(
        &self,
        caller: &mut Caller<'_, P>,
        zone: &Z,
        head: Frame,
        order: Order,
        hint: Hint,
    ) -> bool {
        let length = self.ring.length();
        if !self
            .ring
            .push(zone.table(), self.ring.top(), head, order, caller.cpu)
        {
            return false;
        }
        let hint = self.bound.predict.known(hint);
        let before = self.run.note(hint, true, length);
        let limit = match before.ended {
            None => self.limit.get(),
            Some(_) => self.bound.limit,
        };
        let full = length + 1 >= limit;
        if full {
            self.drain_oldest(caller, caller.cpu, zone, length + 1);
        }
        let kept = self.ring.length();
        let run = before.run.saturating_add(1);
        let limit = self.bound.limit(run, kept, hint.after());
        if full {
            let frames = limit.saturating_sub(kept);
            caller.probe.record(Event::Predicted { frames });
        }
        self.run.kept.set(kept);
        self.limit.set(limit);
        true
    }

    fn drain<Z: ZoneLayer<P>>(&self, caller: &mut Caller<'_, P>, owner: CpuId, zone: &Z) {
        let length = self.ring.length();
        if length > 0 {
            self.drain_oldest(caller, owner, zone, length);
        }
        // What left this way was not requested.
        self.run.kept.set(0);
    }

    #[inline]
    fn open(&self) {
        let bottom = self.ring.bottom();
        let room = self.limit.get().saturating_sub(1);
        let marks = u64::from(bottom) | u64::from(bottom + room) << 32;
        // Acquire: pairs with the release in `close`: if this replaces a closed mark, the load that follows sees the
        // epoch that the closing CPU began. Release: passes that on to the next exchange.
        self.marks.swap(marks, Ordering::AcqRel);
    }

    #[inline]
    fn close(&self) {
        // Release: pairs with the acquire in `open`. Acquire: an owner that parks replaces a requester's close.
        self.marks.swap(CLOSED_MARKS, Ordering::AcqRel);
    }

    #[inline]
    fn is_closed(&self) -> bool {
        self.marks.load(Ordering::Relaxed) == CLOSED_MARKS
    }

    fn frames(&self) -> u64 {
        u64::from(self.ring.length())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn in_the_last_frames_of_a_region_a_run_is_not_expected_to_be_endless() {
        let bound = |predict| Bound::new(4096, (31, SPREAD), predict);
        for left in 0..MIN_TAIL {
            let limit = |predict: Predict| bound(predict).limit(500, 10, left);
            assert_eq!(limit(Predict::Region), limit(Predict::None), "{left}");
            assert_eq!(limit(Predict::Both), limit(Predict::Run), "{left}");
            assert_eq!(limit(Predict::Widen), limit(Predict::Run), "{left}");
        }
        // Before them, the region's end bounds the limit.
        for left in [MIN_TAIL, MIN_TAIL + 1000] {
            assert_eq!(bound(Predict::Region).limit(500, 10, left), 10 + left);
        }
    }

    #[test]
    fn a_large_region_widens_a_run_of_several_operations_and_no_other() {
        let bound = |predict| Bound::new(4096, (128, 16), predict);
        let (both, widen) = (bound(Predict::Both), bound(Predict::Widen));
        for run in [0, 1, 127] {
            assert_eq!(widen.requests(run, 1500), both.requests(run, 1500), "{run}");
            assert_eq!(widen.limit(run, 7, 3000), both.limit(run, 7, 3000), "{run}");
        }
        assert_eq!(both.requests(128, 1500), 128);
        assert_eq!(widen.requests(128, 1500), 1500);
        assert_eq!(both.limit(128, 7, 3000), 512);
        assert_eq!(widen.limit(128, 7, 3000), 3007);
        // Its bounds are those of every prediction, and a region of unknown size says nothing.
        assert_eq!(widen.requests(128, 5000), 16 * 128);
        assert_eq!(widen.limit(128, 7, 5000), 4096);
        assert_eq!(widen.requests(128, Hint::UNKNOWN), 128);
    }
}
