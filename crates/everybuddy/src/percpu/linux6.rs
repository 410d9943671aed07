//! The per-CPU lists of current Linux: one list per order, and a self-tuning high watermark.
//!
//! It is what users have today.
//!
//! # Source
//! Linux 6.12, `mm/page_alloc.c`: what its functions for batch, high watermark, refill and bulk free compute,
//! rewritten from their behaviour. Blocks of orders 0 to 3 and of a huge page (order 9) are cached in one list per
//! order, and counted together in frames. The batch is about 0.025 % of the zone, at most 63 frames. A refill of single
//! frames doubles with each refill that no free separates from the last one, up to 32 batches. The high watermark
//! lies between a minimum, which comes from the zone's low watermark, and a maximum, which is an eighth of the zone
//! divided by the CPUs. Refills raise it, and so does a free that reaches it in a long run of frees. A drain returns
//! as many frames as were freed in that run, and at least a batch. A CPU that only frees blocks of orders 1 to 3
//! returns more, so that they do not fragment memory.
//!
//! # Invariants
//! `frames` is the sum over the lists. The entries of a list are heads of blocks of its order, tagged as buffered by
//! this CPU.
//!
//! # Design decisions
//! Deviations from the source: there is one list per order, since there are no migrate types here. No timer decays
//! the high watermark (a measured run has no idle time), and there is no reaction to reclaim. Lists are rings in an
//! array, which is as long as the maximum of the high watermark, or as the managed memory if that is less.

use super::Missed;
use super::block_ring::BlockRing;
use super::cpu_list::CpuList;
use super::linux_zone::LinuxZone;
use crate::arena::{Arena, ArenaPlan};
use crate::error::BuildError;
use crate::frame::Order;
use crate::frame_table::{Frame, FrameTable};
use crate::platform::{AtomicWord, CpuId, Ordering, Platform, SharedCell};
use crate::probe::{Event, Probe};
use crate::request::Hint;
use crate::zone::{Caller, ZoneLayer};

/// The orders that have a list.
const CACHED_ORDERS: [u8; LISTS] = [0, 1, 2, 3, 9];
const LISTS: usize = 5;
/// Blocks up to this order are cheap to allocate (Linux's "costly order").
pub(super) const COSTLY_ORDER: u8 = 3;
/// A refill or a drain moves at most 2^SCALE batches.
const SCALE: u32 = 5;

/// The tuning of the lists of a zone.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Tuning {
    /// Minimum number of frames that move together.
    pub batch: u32,
    /// The smallest high watermark, in frames.
    pub high_min: u32,
    /// The largest high watermark, in frames.
    pub high_max: u32,
    /// Frames that the lists of a CPU can hold at most: `high_max`, or the managed frames if they are fewer.
    pub most: u32,
}

impl Tuning {
    /// Returns what Linux computes for the lists of a zone, in a system that manages `room` frames.
    pub fn linux(zone: &LinuxZone, room: u64) -> Tuning {
        let cpus = u64::from(zone.cpus.max(1));
        // A thousandth of the zone, at most 1 MiB; a quarter of that; then one less than a power of two.
        let quarter = (zone.frames / 1024).min(256) / 4;
        let batch = match quarter.max(1) {
            1 => 1,
            quarter => {
                let up = quarter + quarter / 2;
                (1u64 << (63 - up.leading_zeros())) - 1
            }
        };
        let high = |frames: u64| (frames / cpus).max(batch * 4);
        let (high_min, high_max) = match u64::from(zone.fraction) {
            0 => (high(zone.low), high(zone.frames / 8)),
            fraction => (high(zone.frames / fraction), high(zone.frames / fraction)),
        };
        let high_max = high_max.max(high_min);
        let small = |frames: u64| u32::try_from(frames).unwrap_or(u32::MAX);
        Tuning {
            batch: batch as u32,
            high_min: small(high_min),
            high_max: small(high_max),
            most: small(high_max.min(room)),
        }
    }

    /// Returns the number of entries that the list of this order needs.
    fn capacity(&self, order: u8) -> usize {
        // A freed block is added before the watermark is checked.
        ((self.most >> order) as usize + 2).next_power_of_two()
    }

    #[inline]
    fn capacity_of_cpu(&self) -> usize {
        CACHED_ORDERS
            .iter()
            .map(|order| self.capacity(*order))
            .sum()
    }
}

/// The lists of one CPU.
#[repr(C, align(64))]
pub struct Linux6List<'a, P: Platform> {
    /// Zero when closed.
    open: P::AtomicU32,
    /// Frames in all lists.
    frames: P::Cell<u32>,
    /// The present high watermark.
    high: P::Cell<u32>,
    /// Frames freed in the present run of frees; halved by each request.
    freed: P::Cell<u32>,
    /// A refill moves 2^this batches; halved by each free.
    refill_scale: P::Cell<u32>,
    /// Whether the last free was of order 1 to 3.
    freed_higher: P::Cell<u32>,
    tuning: Tuning,
    lists: [BlockRing<'a, P>; LISTS],
}

impl<'a, P: Platform> Linux6List<'a, P> {
    /// Plans the entries of the lists of all CPUs.
    pub(crate) fn plan(plan: ArenaPlan, tuning: Tuning, cpus: u16) -> ArenaPlan {
        plan.slices::<P::Cell<u32>>(tuning.capacity_of_cpu(), usize::from(cpus))
    }

    /// Returns a function that creates the lists of a CPU, closed.
    pub(crate) fn maker(
        arena: &mut Arena<'a>,
        tuning: Tuning,
        cpus: u16,
    ) -> Result<impl FnMut(usize) -> Self + use<'a, P>, BuildError> {
        let capacity = tuning.capacity_of_cpu();
        let entries =
            arena.zeros_of_all::<P, u32>("entry of a per-CPU list", capacity, usize::from(cpus))?;
        Ok(move |cpu: usize| {
            let mut rest = &entries[cpu * capacity..][..capacity];
            Self {
                open: P::AtomicU32::new(0),
                frames: P::Cell::new(0),
                high: P::Cell::new(tuning.high_min),
                freed: P::Cell::new(0),
                refill_scale: P::Cell::new(0),
                freed_higher: P::Cell::new(0),
                tuning,
                lists: CACHED_ORDERS.map(|order| {
                    let (own, others) = rest.split_at(tuning.capacity(order));
                    rest = others;
                    BlockRing::new(own)
                }),
            }
        })
    }

    /// Returns the list of an order.
    #[inline(always)]
    fn list(&self, order: Order) -> Option<&BlockRing<'a, P>> {
        match order.get() {
            low @ 0..=COSTLY_ORDER => self.lists.get(usize::from(low)),
            9 => self.lists.last(),
            _ => None,
        }
    }

    /// Returns how many blocks a refill moves, and tunes the next one.
    fn refill_blocks(&self, order: Order) -> u32 {
        let Tuning {
            batch,
            high_min,
            high_max,
            ..
        } = self.tuning;
        let high = self.high.get().clamp(high_min, high_max);
        let scale = if order == Order::ZERO {
            self.refill_scale.get()
        } else {
            0
        };
        let mut frames = batch << scale;
        // A higher watermark could have made this refill unnecessary.
        let high = (high + frames).min(high_max);
        self.high.set(high);
        if order == Order::ZERO {
            let most = high.saturating_sub(self.frames.get() + batch).max(batch);
            if frames <= most && scale < SCALE {
                self.refill_scale.set(scale + 1);
            }
            frames = frames.min(most);
        }
        if frames > 1 {
            (frames >> order.get()).max(2)
        } else {
            frames
        }
    }

    /// Returns the watermark at which this free drains, and how many frames it then returns; tunes both.
    fn drain_frames(&self, crowding: bool) -> (u32, u32) {
        let Tuning {
            batch,
            high_min,
            high_max,
            ..
        } = self.tuning;
        let (frames, freed) = (self.frames.get(), self.freed.get());
        let high = self.high.get().clamp(high_min, high_max);
        self.high.set(high);
        if crowding {
            self.high
                .set(high.saturating_sub(batch << SCALE).max(high_min));
            return (0, frames.min(batch << SCALE));
        }
        if frames >= high && high_min != high_max && high < freed + batch {
            self.high.set((freed + batch).clamp(high_min, high_max));
        }
        let most = high.saturating_sub(batch).max(batch);
        (
            high,
            if high < batch {
                1
            } else {
                freed.clamp(batch, most)
            },
        )
    }

    /// Returns at least `frames` frames to the zone, the oldest of a list first. Empties one list after the other,
    /// starting with that of order `first`.
    fn drain_oldest<Z: ZoneLayer<P>>(
        &self,
        caller: &mut Caller<'_, P>,
        owner: CpuId,
        zone: &Z,
        frames: u32,
        first: Order,
    ) {
        let table = zone.table();
        let mut turn = CACHED_ORDERS
            .iter()
            .position(|order| *order == first.get())
            .unwrap_or(0);
        let mut moved = 0;
        zone.free_bulk(caller, || {
            if moved >= frames {
                return None;
            }
            for _ in 0..LISTS {
                let order = Order::saturating(u32::from(CACHED_ORDERS[turn % LISTS]));
                if let Some(head) = self.lists[turn % LISTS].pop_oldest(table) {
                    moved += order.frames();
                    self.frames.set(self.frames.get() - order.frames());
                    return Some((head, order, BlockRing::<P>::tag(order, owner)));
                }
                turn += 1;
            }
            None
        });
        caller.probe.record(Event::Drain { frames: moved });
    }

    /// Counts a block that was added to its list as freed.
    #[inline(always)]
    fn count_freed(&self, order: Order) {
        self.frames.set(self.frames.get() + order.frames());
        self.refill_scale.set(self.refill_scale.get() >> 1);
        let freed = self.freed.get();
        if freed < self.tuning.batch << SCALE {
            self.freed.set(freed + order.frames());
        }
        let higher = order != Order::ZERO && order.get() <= COSTLY_ORDER;
        self.freed_higher.set(u32::from(higher));
    }
}

impl<P: Platform> CpuList<P> for Linux6List<'_, P> {
    #[inline(always)]
    fn caches(&self, order: Order) -> bool {
        self.list(order).is_some()
    }

    #[inline(always)]
    fn pop(
        &self,
        table: FrameTable<'_, P>,
        cpu: CpuId,
        order: Order,
        _: Hint,
        _: &mut Missed,
    ) -> Option<Frame> {
        let list = self.list(order)?;
        // Relaxed: a close may be seen late; the CPU that closed the list waits for that.
        if self.open.load(Ordering::Relaxed) == 0 {
            return None;
        }
        let top = list.top();
        if top == list.bottom() {
            return None;
        }
        let head = list.pop(table, top, order, cpu)?;
        self.frames.set(self.frames.get() - order.frames());
        self.freed.set(self.freed.get() >> 1);
        Some(head)
    }

    #[inline(always)]
    fn push(
        &self,
        table: FrameTable<'_, P>,
        cpu: CpuId,
        head: Frame,
        order: Order,
        _: Hint,
        _: &mut Missed,
    ) -> bool {
        let Some(list) = self.list(order) else {
            return false;
        };
        // Relaxed: as in `pop`. Frees that may drain, and frees of higher orders, take the slow path.
        if self.open.load(Ordering::Relaxed) == 0
            || self.frames.get() + order.frames() >= self.high.get()
            || (order != Order::ZERO && order.get() <= COSTLY_ORDER)
        {
            return false;
        }
        let kept = list.push(table, list.top(), head, order, cpu);
        if kept {
            self.count_freed(order);
        }
        kept
    }

    fn refill<Z: ZoneLayer<P>>(
        &self,
        caller: &mut Caller<'_, P>,
        zone: &Z,
        order: Order,
        _: Hint,
    ) -> Option<Frame> {
        let list = self.list(order)?;
        self.freed.set(self.freed.get() >> 1);
        // A list that is not empty was closed, or its youngest block was freed twice.
        let (own, left) = list.pop_own(caller, zone.table(), order);
        self.frames.set(self.frames.get() - left * order.frames());
        if own.is_some() {
            return own;
        }
        let (first, moved) = list.refill(caller, zone, order, self.refill_blocks(order));
        let kept = moved.saturating_sub(1);
        self.frames.set(self.frames.get() + kept * order.frames());
        first
    }

    fn overflow<Z: ZoneLayer<P>>(
        &self,
        caller: &mut Caller<'_, P>,
        zone: &Z,
        head: Frame,
        order: Order,
        _: Hint,
    ) -> bool {
        let Some(list) = self.list(order) else {
            return false;
        };
        let batch = self.tuning.batch;
        // Blocks of orders 1 to 3 in a run of frees would crowd out what the zone coalesces.
        let crowding = order != Order::ZERO
            && order.get() <= COSTLY_ORDER
            && self.freed.get() >= batch + self.tuning.high_min / 2
            && self.freed_higher.get() != 0;
        if !list.push(zone.table(), list.top(), head, order, caller.cpu) {
            return false;
        }
        self.count_freed(order);
        let (mark, frames) = self.drain_frames(crowding);
        if self.frames.get() >= mark {
            self.drain_oldest(caller, caller.cpu, zone, frames, order);
        }
        true
    }

    fn drain<Z: ZoneLayer<P>>(&self, caller: &mut Caller<'_, P>, owner: CpuId, zone: &Z) {
        let frames = self.frames.get();
        if frames > 0 {
            self.drain_oldest(caller, owner, zone, frames, Order::ZERO);
        }
    }

    #[inline]
    fn open(&self) {
        // Acquire: pairs with the release in `close`: if this replaces a close, the load that follows sees the epoch
        // that the closing CPU began. Release: passes that on to the next exchange.
        self.open.swap(1, Ordering::AcqRel);
    }

    #[inline]
    fn close(&self) {
        // Release: pairs with the acquire in `open`. Acquire: an owner that parks replaces a requester's close.
        self.open.swap(0, Ordering::AcqRel);
    }

    #[inline]
    fn is_closed(&self) -> bool {
        self.open.load(Ordering::Relaxed) == 0
    }

    fn frames(&self) -> u64 {
        u64::from(self.frames.peek())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Returns batch and high watermarks of a machine with one zone.
    fn alone(frames: u64, cpus: u16) -> [u32; 3] {
        let tuning = Tuning::linux(&LinuxZone::alone(frames, cpus), frames);
        [tuning.batch, tuning.high_min, tuning.high_max]
    }

    #[test]
    fn tuned_as_linux_tunes() {
        // Frames, CPUs; batch, low watermark of the zone per CPU, an eighth of memory per CPU.
        for (frames, cpus, expected) in [
            (1 << 10, 1, [1, 80, 128]),
            (1 << 15, 1, [7, 452, 4096]),
            (100_000, 3, [31, 263, 4166]),
            (1 << 18, 8, [63, 252, 4096]),
            (4 << 20, 8, [63, 1036, 65536]),
            (1 << 28, 64, [63, 4706, 524_288]),
        ] {
            assert_eq!(alone(frames, cpus), expected);
        }
        // Batches are one less than a power of two, and grow with memory.
        let mut last = 0;
        for shift in 10..24 {
            let [batch, ..] = alone(1 << shift, 4);
            assert!(batch >= last && (batch + 1).is_power_of_two() || batch == 1);
            last = batch;
        }
        assert_eq!(last, 63);
    }

    #[test]
    fn tuned_as_kernels_show() {
        // Zones of two machines with Linux 6.18, as /proc/zoneinfo shows them: managed frames, low watermark; batch,
        // high_min and high_max with 2 CPUs.
        for (frames, low, expected) in [
            (3840, 13, [1, 6, 240]),
            (772_917, 2888, [63, 1444, 48_307]),
            (5_394_266, 20_163, [63, 10_081, 337_141]),
            (3840, 20, [1, 10, 240]),
            (772_808, 4231, [63, 2115, 48_300]),
            (3_080_192, 16_866, [63, 8433, 192_512]),
        ] {
            let zone = LinuxZone {
                frames,
                low,
                cpus: 2,
                fraction: 0,
            };
            let own = Tuning::linux(&zone, 1 << 14);
            assert_eq!([own.batch, own.high_min, own.high_max], expected);
            // The lists need no more entries than there are frames.
            assert_eq!(own.most, expected[2].min(1 << 14));
        }
        // Each zone's low watermark follows from the machine's reserve, here 67,584 KiB.
        let machine = [3840, 772_917, 5_394_266];
        let all = machine.iter().sum();
        let low = machine.map(|frames| LinuxZone::of(frames, all, 16_896, 2).low);
        assert_eq!(low, [13, 2888, 20_163]);
    }
}
