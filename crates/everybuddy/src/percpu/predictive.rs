//! Spring Buddy's list: how much it moves is predicted from the run of requests that it is in.
//!
//! Why it exists: a list of fixed length is too short for a long run and too long after a short one. What comes
//! next can be guessed: requests come in runs from one address region of one task, and so do releases.
//!
//! Source: Spring Buddy (002) section III-C and figure 7. A *run* is made of successive requests, or of
//! successive releases, of the same task and region on this CPU. From the run so far and from what is left of
//! the region the list predicts how far the run goes on: before requests it refills that much, for releases it
//! widens its limit that much, so that they stay and are given back in bulk. When the run has ended, it gives
//! the rest back.
//!
//! Invariant: entries of the ring are single frames tagged as buffered by this CPU, fewer than
//! [`Bound::most`] of them at rest. A prediction changes how much moves and when, never what a request means.
//!
//! Decides: the paper says what is predicted, and neither how nor how far.
//! 1. A run goes on for as long as it has lasted: lengths of runs have no scale of their own (in the paper's
//!    table II they are from 122 to 74,249 on average). So what moves doubles, within bounds: a run of n frames
//!    misses about log n times, and what is left in the end is in proportion to its length, not to the longest
//!    of all runs.
//! 2. A run that has just begun is predicted to have [`FIRST_REFILL`] requests or [`FIRST_LIMIT`] releases:
//!    runs of releases are longer (ten times in table II). A refill brings at most [`LONGEST_REFILL`]. Chosen
//!    so that what runs leave, measured in what fixed buffers leave, is near the paper's figure 11. What
//!    earlier runs of a region had is not remembered: that changes misses and residual as other numbers here
//!    would, one against the other.
//! 3. A region's end ends the run. A refill is never longer than what is left, beyond a first refill; and if a
//!    region ends before the limit is reached, the limit is set to what is kept then, so that its last release
//!    gives all back. Nothing longer is predicted from a region: most are touched only in part.
//! 4. An ended run is noticed by the request after it, there being no clock. Then goes what only a prediction
//!    let grow: the first release of a run gives all back if that fills a first limit; the first request of a
//!    run keeps no more than a first refill if it finds a first limit of released frames, or two first refills
//!    of requested ones. What is less stays for the next run, whoever's it is.
//! 5. Hits compare the task and the region with the run's, nothing else; a request of which nothing is known ends no
//!    run. So a change of direction with the same task and region, or without hints, is noticed only when the list
//!    is empty or full, and pairs of a request and a release are hits for ever. The run so far is what moved in
//!    the list since it was last looked at.
//! 6. A CPU keeps at most a share of memory, and 16 MiB; see [`Bound::by_memory`].
//!
//! Cost: a hit is that of [`linux`](super::linux), and one comparison where something is known: with hints that come
//! from memory some ten instructions. The first request or release of a run is a hit of some 40 instructions more,
//! or takes the long way, about 170, if the limit changes; no lock unless something is given back. A miss is
//! O(frames x orders), one lock.

use super::block_ring::BlockRing;
use super::buffered::{CpuList, FreeOutcome};
use super::linux::CLOSED;
use crate::arena::{Arena, ArenaPlan};
use crate::error::BuildError;
use crate::frame::Order;
use crate::frame_table::{Frame, FrameTable};
use crate::platform::{AtomicWord, CpuId, Ordering, Platform, SharedCell};
use crate::probe::{Event, Probe};
use crate::request::Hint;
use crate::zone::{Caller, ZoneLayer};

/// Frames of the first refill of a run.
const INITIAL_REFILL: u32 = 128;
/// Frames of a refill at most.
const MAX_REFILL: u32 = 512;
/// The limit when a run of releases begins.
const INITIAL_LIMIT: u32 = 512;
/// Frames that are left of a region when a drain at its end is worth a miss.
const MIN_TAIL: u32 = 64;

/// How far predictions may go.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Bound {
    /// Frames at which a list gives back, whatever is predicted; at least 1.
    pub most: u32,
}

impl Bound {
    /// Returns the bound that follows from memory, in frames of 4 KiB: all lists together have at most a
    /// sixteenth of memory, and each has at most 16 MiB. A list's array takes 4 bytes for each frame that it may
    /// have, so at most 16 KiB.
    pub fn by_memory(frames: u64, cpus: u16) -> Bound {
        let share = frames / 16 / u64::from(cpus.max(1));
        Bound {
            most: share.clamp(1, 4096) as u32,
        }
    }

    /// Returns the entries that a ring needs: a release is added before the limit is looked at, to fewer than
    /// the most.
    fn capacity(self) -> usize {
        (self.most as usize).next_power_of_two()
    }

    fn initial_refill(self) -> u32 {
        INITIAL_REFILL.min(self.most / 4).max(1)
    }

    fn initial_limit(self) -> u32 {
        INITIAL_LIMIT.min(self.most)
    }

    /// Returns how much is too much to be kept after a request, by what came before.
    fn rest(self, before: Before) -> u32 {
        match before.ended {
            None => self.most,
            Some(Ended::Requests) => 2 * self.initial_refill(),
            Some(Ended::Releases) => self.initial_limit(),
        }
    }

    /// Predicts how many requests follow, in a run that had `run` so far.
    fn requests(self, run: u32, left: u32) -> u32 {
        let first = self.initial_refill();
        run.clamp(first, MAX_REFILL.min(self.most))
            .min(left.max(first))
    }

    /// Returns at how many frames to give back, in a run of requests after which `kept` frames are kept: whatever comes
    /// next, half a first limit of releases has room.
    fn limit_of_requests(self, kept: u32) -> u32 {
        let room = kept.saturating_add(INITIAL_LIMIT / 2);
        self.initial_limit().max(room).min(self.most)
    }

    /// Returns at how many frames to give back, in a run that had `run` releases so far, after which `kept`
    /// frames are kept and `left` more of the region are to come.
    fn limit(self, run: u32, kept: u32, left: u32) -> u32 {
        let limit = run.clamp(self.initial_limit(), self.most);
        if left < MIN_TAIL {
            limit
        } else {
            limit.min(kept.saturating_add(left))
        }
    }
}

/// The run that a CPU is in. Its owner's, but for `kept`, which whoever empties the list sets too.
struct Run<P: Platform> {
    /// The task and the region; this alone is compared by hits.
    origin: P::Cell<u64>,
    /// Whether frames are released, 1, or requested, 0.
    releases: P::Cell<u32>,
    /// Its requests or releases, as far as they were counted.
    frames: P::Cell<u32>,
    /// Frames that were kept when it was looked at last: what moved since were hits.
    kept: P::Cell<u32>,
}

/// What came before a request or a release.
#[derive(Clone, Copy)]
struct Before {
    /// How many others of its run are known.
    run: u32,
    /// What ended, if it begins a run. (Others of that run may be known still: those that were hits, because
    /// nothing but the direction changed.)
    ended: Option<Ended>,
}

/// A run that ended.
#[derive(Clone, Copy)]
enum Ended {
    Requests,
    Releases,
}

impl<P: Platform> Run<P> {
    fn new() -> Self {
        Self {
            origin: P::Cell::new(Hint::NONE.origin()),
            releases: P::Cell::new(0),
            frames: P::Cell::new(0),
            kept: P::Cell::new(0),
        }
    }

    /// Tells whether a request or a release may belong to this run: one that nothing is known of ends none, and where
    /// the compiler sees that, there is nothing to compare.
    #[inline(always)]
    fn continues(&self, hint: Hint) -> bool {
        hint.origin() == Hint::NONE.origin() || self.origin.get() == hint.origin()
    }

    /// Takes note of a request or a release that is no hit, made while `kept` frames are kept; tells what came
    /// before it.
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

/// The list of one CPU. The first line holds all that a hit touches.
#[repr(C, align(64))]
pub struct PredictiveList<'a, P: Platform, const CHECK: bool> {
    ring: BlockRing<'a, P, CHECK>,
    /// As in Linux's list: requests hit above the low half, releases below the high half.
    marks: P::AtomicU64,
    run: Run<P>,
    /// Frames at which a release gives back.
    limit: P::Cell<u32>,
    bound: Bound,
}

impl<'a, P: Platform, const CHECK: bool> PredictiveList<'a, P, CHECK> {
    /// Plans the entries of all CPUs' lists.
    pub(crate) fn plan(plan: ArenaPlan, bound: Bound, cpus: u16) -> ArenaPlan {
        plan.slice::<P::Cell<u32>>(bound.capacity() * usize::from(cpus))
    }

    /// Makes a maker of lists, one for each CPU, all closed.
    pub(crate) fn maker(
        arena: &mut Arena<'a>,
        bound: Bound,
        cpus: u16,
    ) -> Result<impl FnMut(usize) -> Self + use<'a, P, CHECK>, BuildError> {
        let capacity = bound.capacity();
        let entries = arena.zeros::<P, u32>(capacity * usize::from(cpus))?;
        Ok(move |cpu: usize| Self {
            ring: BlockRing::new(&entries[cpu * capacity..][..capacity]),
            marks: P::AtomicU64::new(CLOSED),
            run: Run::new(),
            limit: P::Cell::new(bound.initial_limit()),
            bound,
        })
    }

    /// Begins a run of requests with one that can be a hit, of an open list. Tells whether it is one: not if something
    /// is to be given back, or the limit changes, which takes the long way.
    #[inline(never)]
    fn begin_requests(&self, hint: Hint) -> bool {
        let kept = self.ring.length().saturating_sub(1);
        let rest = self
            .bound
            .initial_limit()
            .min(2 * self.bound.initial_refill());
        if kept >= rest || self.limit.get() != self.bound.limit_of_requests(kept) {
            return false;
        }
        self.run.note(hint, false, kept + 1);
        self.run.kept.set(kept);
        true
    }

    /// Begins a run of releases with one that can be a hit, as above.
    #[inline(never)]
    fn begin_releases(&self, hint: Hint) -> bool {
        let kept = self.ring.length() + 1;
        if kept >= self.bound.initial_limit()
            || self.limit.get() != self.bound.limit(1, kept, hint.after())
        {
            return false;
        }
        self.run.note(hint, true, kept - 1);
        self.run.kept.set(kept);
        true
    }

    /// Gives up to `frames` of the oldest frames back, under one lock.
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

impl<P: Platform, const CHECK: bool> CpuList<P> for PredictiveList<'_, P, CHECK> {
    const TAGS: bool = CHECK;

    #[inline(always)]
    fn caches(&self, order: Order) -> bool {
        order == Order::ZERO
    }

    #[inline(always)]
    fn pop(&self, table: FrameTable<'_, P>, cpu: CpuId, order: Order, hint: Hint) -> Option<Frame> {
        if order != Order::ZERO {
            return None;
        }
        // A hint while the list is closed, which is then not used: somebody may be fetching it.
        let top = self.ring.top();
        // Relaxed: a closing mark may be seen late; the closer waits until it was.
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
    ) -> bool {
        if order != Order::ZERO {
            return false;
        }
        let top = self.ring.top();
        // Hint and relaxed: as in `take`.
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
        let before = self.run.note(hint, false, self.ring.length());
        let (own, _) = self.ring.pop_own(caller, zone.table(), order);
        let head = if own.is_some() {
            let kept = self.ring.length();
            if kept >= self.bound.rest(before) {
                let more = kept.saturating_sub(self.bound.initial_refill());
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
    ) -> FreeOutcome {
        let length = self.ring.length();
        if !self
            .ring
            .push(zone.table(), self.ring.top(), head, order, caller.cpu)
        {
            return FreeOutcome::Refused;
        }
        let before = self.run.note(hint, true, length);
        let limit = match before.ended {
            None => self.limit.get(),
            Some(_) => self.bound.initial_limit(),
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
        FreeOutcome::Kept
    }

    fn drain<Z: ZoneLayer<P>>(&self, caller: &mut Caller<'_, P>, owner: CpuId, zone: &Z) {
        let length = self.ring.length();
        if length > 0 {
            self.drain_oldest(caller, owner, zone, length);
        }
        // What left this way was no request.
        self.run.kept.set(0);
    }

    #[inline]
    fn open(&self) {
        let bottom = self.ring.bottom();
        let room = self.limit.get().saturating_sub(1);
        let marks = u64::from(bottom) | u64::from(bottom + room) << 32;
        // Acquire: pairs with the release in `close`: if this replaces a closed mark, the epoch that its
        // closer began is seen by the load that follows. Release: passes that on to the next exchange.
        self.marks.swap(marks, Ordering::AcqRel);
    }

    #[inline]
    fn close(&self) {
        // Release: pairs with the acquire in `open`. Acquire: an owner that parks replaces an asker's close.
        self.marks.swap(CLOSED, Ordering::AcqRel);
    }

    #[inline]
    fn is_closed(&self) -> bool {
        self.marks.load(Ordering::Relaxed) == CLOSED
    }

    fn frames(&self) -> u64 {
        u64::from(self.ring.length())
    }
}
