//! Linux's per-CPU list of 2.6.32: single frames, a batch, a high watermark.
//!
//! It is the "lazy layer" of every comparison in the papers.
//!
//! # Source
//! \[iBuddy\] §2.1, §2.4 and §4. A request that finds the list empty (low watermark 0) moves a batch from the zone into
//! the list and returns its first frame. A free that fills the list to its high watermark returns the oldest batch to
//! the zone. With bypass (batch 1), a request at the low watermark and a free at the high watermark go past the list.
//! Larger orders always go past it.
//!
//! # Invariants
//! The entries of the ring are single frames tagged as buffered by this CPU. Between operations there are fewer than
//! `high` of them (with bypass, at most `high`).
//!
//! # Design decisions
//! The list is a ring in an array, in the order of Linux's list: the youngest frame is allocated first, a batch is
//! allocated in the order in which the zone returned it, and the oldest frames are drained. With `drain=merged`, the
//! frames of a drain are first merged into larger blocks (`merge`), outside the zone's lock.
//!
//! # Complexity
//! A hit is O(1) and touches two cache lines of this CPU and the frame's record. A miss is O(batch × orders) with one
//! lock.

use super::Missed;
use super::block_ring::BlockRing;
use super::cpu_list::CpuList;
use crate::arena::{Arena, ArenaPlan};
use crate::error::BuildError;
use crate::frame::Order;
use crate::frame_table::{Frame, FrameTable};
use crate::platform::{AtomicWord, CpuId, Ordering, Platform};
use crate::probe::{Event, Probe};
use crate::request::Hint;
use crate::zone::{Caller, ZoneLayer};

/// How many frames a list caches and moves.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Watermarks {
    /// Frames that move together.
    pub batch: u32,
    /// Number of frames at which the list returns a batch to the zone.
    pub high: u32,
    /// Whether requests and frees at the watermarks go past the list one by one.
    pub bypass: bool,
    /// Whether the frames of a drain are merged into larger blocks before the zone's lock is acquired.
    pub merged: bool,
}

impl Watermarks {
    /// Returns the batch of the paper: min(memory / 4 MiB - 1, 31), at least 1. `frames` counts frames of 4 KiB. Linux
    /// 2.6.32 itself has a smaller one below 352 MiB.
    pub fn linux_batch(frames: u64) -> u32 {
        (frames / 1024).saturating_sub(1).clamp(1, 31) as u32
    }

    /// Returns the number of entries that a ring needs.
    #[inline]
    fn capacity(&self) -> usize {
        (self.high.max(self.batch) as usize + 1).next_power_of_two()
    }
}

/// The list of one CPU. The first cache line holds everything that a hit touches.
#[repr(C, align(64))]
pub struct LinuxList<'a, P: Platform> {
    ring: BlockRing<'a, P>,
    /// Low half: a request hits while `top` is above it. High half: a free hits while `top` is below it. A closed
    /// list has marks that no operation hits.
    marks: P::AtomicU64,
    watermarks: Watermarks,
}

/// Marks that no operation hits: no top is above the largest number, and none is below zero.
pub(super) const CLOSED_MARKS: u64 = u32::MAX as u64;

impl<'a, P: Platform> LinuxList<'a, P> {
    /// Plans the entries of the lists of all CPUs.
    pub(crate) fn plan(plan: ArenaPlan, watermarks: Watermarks, cpus: u16) -> ArenaPlan {
        plan.slices::<P::Cell<u32>>(watermarks.capacity(), usize::from(cpus))
    }

    /// Returns a function that creates the list of a CPU, closed.
    pub(crate) fn maker(
        arena: &mut Arena<'a>,
        watermarks: Watermarks,
        cpus: u16,
    ) -> Result<impl FnMut(usize) -> Self + use<'a, P>, BuildError> {
        let capacity = watermarks.capacity();
        let entries =
            arena.zeros_of_all::<P, u32>("entry of a per-CPU list", capacity, usize::from(cpus))?;
        Ok(move |cpu: usize| Self {
            ring: BlockRing::new(&entries[cpu * capacity..][..capacity]),
            marks: P::AtomicU64::new(CLOSED_MARKS),
            watermarks,
        })
    }

    fn marks(&self) -> u64 {
        let bottom = self.ring.bottom();
        let room = if self.watermarks.bypass {
            self.watermarks.high
        } else {
            self.watermarks.high.saturating_sub(1)
        };
        u64::from(bottom) | u64::from(bottom + room) << 32
    }

    /// Returns up to `frames` of the oldest frames to the zone, under one lock; merged before, if the option says so.
    fn drain_oldest<Z: ZoneLayer<P>>(
        &self,
        caller: &mut Caller<'_, P>,
        owner: CpuId,
        zone: &Z,
        frames: u32,
    ) {
        let moved = if self.watermarks.merged {
            self.ring.drain_merged(caller, owner, zone, frames)
        } else {
            self.ring.drain(caller, owner, zone, Order::ZERO, frames)
        };
        caller.probe.record(Event::Drain { frames: moved });
    }
}

impl<P: Platform> CpuList<P> for LinuxList<'_, P> {
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
        _: Hint,
        missed: &mut Missed,
    ) -> Option<Frame> {
        if order != Order::ZERO {
            return None;
        }
        // A hint while the list is closed, and not used then: another CPU may be draining the list.
        let top = self.ring.top();
        // Relaxed: a close may be seen late; the CPU that closed the list waits for that.
        let low = self.marks.load(Ordering::Relaxed) as u32;
        if top <= low {
            // The low mark of a closed list is not a top.
            missed.bypasses = top == low && self.watermarks.bypass;
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
        _: Hint,
        missed: &mut Missed,
    ) -> bool {
        if order != Order::ZERO {
            return false;
        }
        let top = self.ring.top();
        // A hint, and relaxed: as in `pop`.
        let high = (self.marks.load(Ordering::Relaxed) >> 32) as u32;
        if top >= high {
            // The high mark of an open list is not zero.
            missed.bypasses = top == high && top != 0 && self.watermarks.bypass;
            return false;
        }
        self.ring.push(table, top, head, Order::ZERO, cpu)
    }

    fn refill<Z: ZoneLayer<P>>(
        &self,
        caller: &mut Caller<'_, P>,
        zone: &Z,
        order: Order,
        _: Hint,
    ) -> Option<Frame> {
        // A list that is not empty was closed, or its youngest frame was freed twice.
        match self.ring.pop_own(caller, zone.table(), order) {
            (Some(head), _) => Some(head),
            (None, _) if self.watermarks.bypass => None,
            (None, _) => {
                self.ring
                    .refill(caller, zone, order, self.watermarks.batch)
                    .0
            }
        }
    }

    fn overflow<Z: ZoneLayer<P>>(
        &self,
        caller: &mut Caller<'_, P>,
        zone: &Z,
        head: Frame,
        order: Order,
        _: Hint,
    ) -> bool {
        let length = self.ring.length();
        if self.watermarks.bypass && length >= self.watermarks.high
            || !self
                .ring
                .push(zone.table(), self.ring.top(), head, order, caller.cpu)
        {
            return false;
        }
        if length + 1 >= self.watermarks.high && !self.watermarks.bypass {
            self.drain_oldest(caller, caller.cpu, zone, self.watermarks.batch);
        }
        true
    }

    fn drain<Z: ZoneLayer<P>>(&self, caller: &mut Caller<'_, P>, owner: CpuId, zone: &Z) {
        let length = self.ring.length();
        if length > 0 {
            self.drain_oldest(caller, owner, zone, length);
        }
    }

    #[inline]
    fn open(&self) {
        // Acquire: pairs with the release in `close`: if this replaces a closed mark, the load that follows sees the
        // epoch that the closing CPU began. Release: passes that on to the next exchange.
        self.marks.swap(self.marks(), Ordering::AcqRel);
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
