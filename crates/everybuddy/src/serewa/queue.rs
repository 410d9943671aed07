//! The queue between two services: a bounded ring of areas of memory.
//!
//! Allocating and freeing threads leave work for others, and must never wait for them. A slot is one word, and always
//! says which frames it accounts for. A service that stops in the middle of its work, and never continues, therefore
//! loses no frame. The slot that it stopped in is lost to the queue as room, not as memory.
//!
//! # Source
//! \[Serewa\] §2.2.2 and figure 1: the queues that join resource management, dividing and linking. The paper leaves
//! synchronization open and mentions binary semaphores. A thread that finds a semaphore taken blocks; `sync=lock`
//! excludes as a binary semaphore does, but its threads wait as the platform waits for any lock, natively by spinning.
//!
//! # Invariants
//! 1. Positions count up. The slot of a position is empty in that position's lap, then filled, then taken, then empty
//!    in the next lap. Each of these changes is one write of one word. The first two are contended; the thread that
//!    takes a slot owns it until it releases it.
//! 2. `tail` is at most one position behind the last filled slot, and not behind for any thread whose push has
//!    returned.
//! 3. Every position before `head` was released. Between `head` and `tail`, slots are in any state, so areas behind a
//!    slot that is never released are found nevertheless.
//!
//! A lap is counted modulo 2048. A thread would fill a slot out of turn if it was suspended between reading the slot
//! and filling it while exactly a multiple of 2048 × slots areas passed. A full queue is not an error: the caller
//! does the work itself.

use super::area::Area;
use crate::arena::{Arena, ArenaPlan};
use crate::cache_padded::CachePadded;
use crate::error::BuildError;
use crate::frame::Index;
use crate::frame_table::FrameTable;
use crate::lock::{Locks, ZoneLock};
use crate::platform::{AtomicWord, Ordering, Platform};
use crate::probe::{Event, Probe, Queue, QueueStep};
use crate::wrapping_slice::WrappingSlice;

/// The stage of a slot.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u8)]
enum Stage {
    /// Empty.
    Empty = 0,
    /// An area waits.
    Filled = 1,
    /// A thread processes the area.
    Taken = 2,
}

/// A slot's word, unpacked: 32 bits of start, 19 of frames, 2 of stage, 11 of lap.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Word {
    start: u32,
    frames: u32,
    stage: Stage,
    lap: u32,
}

const FRAMES_BITS: u32 = 19;
const FRAMES_MASK: u64 = (1 << FRAMES_BITS) - 1;
const LAPS: u32 = 1 << 11;

impl Word {
    const fn empty(lap: u32) -> Self {
        Self {
            start: 0,
            frames: 0,
            stage: Stage::Empty,
            lap: lap % LAPS,
        }
    }

    #[inline(always)]
    const fn pack(self) -> u64 {
        self.start as u64
            | (self.frames as u64) << 32
            | (self.stage as u64) << (32 + FRAMES_BITS)
            | (self.lap as u64) << (34 + FRAMES_BITS)
    }

    #[inline(always)]
    const fn unpack(word: u64) -> Self {
        Self {
            start: word as u32,
            frames: (word >> 32 & FRAMES_MASK) as u32,
            stage: match word >> (32 + FRAMES_BITS) & 3 {
                0 => Stage::Empty,
                1 => Stage::Filled,
                _ => Stage::Taken,
            },
            lap: (word >> (34 + FRAMES_BITS)) as u32,
        }
    }
}

/// The content of a queue; the last value that applies.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Contents {
    /// The queue is empty.
    Nothing,
    /// No area waits, but a thread processes one.
    InHand,
    /// An area waits.
    Waiting,
}

/// A slot that a thread has taken.
#[derive(Debug)]
#[must_use = "a slot that is not released is lost"]
pub(crate) struct TakenSlot {
    position: u32,
}

/// The queue.
pub(crate) struct AreaQueue<'a, P: Platform> {
    which: Queue,
    table: FrameTable<'a, P>,
    slots: WrappingSlice<'a, P::AtomicU64>,
    /// The position that is filled next.
    tail: &'a P::AtomicU32,
    /// Every position before this one was released.
    head: &'a P::AtomicU32,
    /// Held during each operation, if the queue has one.
    lock: Option<&'a ZoneLock<'a, P>>,
}

impl<'a, P: Platform> AreaQueue<'a, P> {
    /// Plans the memory of [`new`](Self::new).
    pub(crate) fn plan(plan: ArenaPlan, slots: u32) -> ArenaPlan {
        plan.slice::<P::AtomicU64>(slots as usize)
            .slice::<CachePadded<P::AtomicU32>>(2)
            .slice::<CachePadded<ZoneLock<'_, P>>>(1)
    }

    /// Creates an empty queue with the given number of slots, a power of two.
    pub(crate) fn new(
        arena: &mut Arena<'a>,
        table: FrameTable<'a, P>,
        which: Queue,
        slots: u32,
        locked: bool,
    ) -> Result<Self, BuildError> {
        let words = arena.slice("slot of a queue", slots as usize, |_| {
            P::AtomicU64::new(Word::empty(0).pack())
        })?;
        let ends = arena.slice("end of a queue", 2, |_| {
            CachePadded::new(P::AtomicU32::new(0))
        })?;
        let lock = arena.one(
            "lock of a queue",
            CachePadded::new(ZoneLock::new(Locks::Spin)),
        )?;
        match ends {
            [tail, head] if slots.is_power_of_two() => Ok(Self {
                which,
                table,
                slots: WrappingSlice::new(words),
                tail,
                head,
                lock: locked.then_some(&**lock),
            }),
            _ => Err(BuildError::BadOption("queue")),
        }
    }

    #[inline(always)]
    fn slot(&self, position: u32) -> &'a P::AtomicU64 {
        self.slots.at(position)
    }

    #[inline(always)]
    fn lap(&self, position: u32) -> u32 {
        (position >> self.slots.len().trailing_zeros()) % LAPS
    }

    /// Announces the next step to the probe, and acquires the lock for it.
    #[inline(always)]
    fn enter(&self, step: QueueStep, probe: &mut P::Probe) -> QueueGuard<'a, P> {
        probe.record(Event::Queue {
            queue: self.which,
            step,
        });
        QueueGuard(self.lock.inspect(|lock| {
            lock.lock();
        }))
    }

    /// Adds an area. Returns `false` if the queue is full, or if a nested caller would have to wait for the
    /// lock. Two atomic read-modify-writes if no other thread pushes.
    // Out of line: it loops, and would take the registers of the loop that pushes.
    #[inline(never)]
    pub(crate) fn push(&self, area: Area, nested: bool, probe: &mut P::Probe) -> bool {
        if nested && !self.is_open_to_nested() {
            return false;
        }
        let held = self.enter(QueueStep::Push, probe);
        let queue = self.which;
        let pushed = self.fill(area);
        drop(held);
        probe.record_with(|| {
            if pushed {
                Event::Queued {
                    queue,
                    length: self.length(),
                }
            } else {
                Event::QueueFull(queue)
            }
        });
        pushed
    }

    #[inline]
    fn fill(&self, area: Area) -> bool {
        loop {
            // Acquire: pairs with the release in `advance`: a thread that sees the tail sees the slots before it.
            let position = self.tail.load(Ordering::Acquire);
            let (slot, lap) = (self.slot(position), self.lap(position));
            let seen = slot.load(Ordering::Acquire);
            let empty = Word::empty(lap).pack();
            if seen == empty {
                let word = self.word(position, Stage::Filled, Some(area));
                // Release: pairs with the acquire in `take`: the records of the area are seen. Acquire: pairs with
                // the release in `release`.
                let filled =
                    slot.compare_exchange(empty, word, Ordering::AcqRel, Ordering::Relaxed);
                if filled.is_ok() {
                    self.advance(self.tail, position);
                    return true;
                }
                continue;
            }
            if Word::unpack(seen).lap == lap {
                // Another thread filled it and has not moved the tail yet.
                self.advance(self.tail, position);
            } else if self.tail.load(Ordering::Acquire) == position {
                // Not released since the previous lap.
                return false;
            }
        }
    }

    /// Moves an end by one position, unless another thread did.
    #[inline(always)]
    fn advance(&self, end: &P::AtomicU32, position: u32) {
        // Release: pairs with the acquire loads of the ends.
        let _ = end.compare_exchange(
            position,
            position.wrapping_add(1),
            Ordering::AcqRel,
            Ordering::Relaxed,
        );
    }

    #[inline(always)]
    fn word(&self, position: u32, stage: Stage, area: Option<Area>) -> u64 {
        let (start, frames) = area.map_or((0, 0), |area| (area.start.index().0, area.frames));
        Word {
            start,
            frames,
            stage,
            lap: self.lap(position),
        }
        .pack()
    }

    /// Releases a slot whose frames were all filed.
    #[inline]
    pub(crate) fn release(&self, slot: TakenSlot, probe: &mut P::Probe) {
        let _held = self.enter(QueueStep::Release, probe);
        let next = Word::empty(self.lap(slot.position).wrapping_add(1));
        // Release: pairs with the acquire in `fill`.
        self.slot(slot.position)
            .store(next.pack(), Ordering::Release);
        self.skip_released();
    }

    /// Moves the head over released positions. Amortized O(1).
    fn skip_released(&self) {
        loop {
            // Acquire, twice: pairs with the releases in `advance`. The slot is seen as the CPU saw it that moved the
            // head last, or later; from an earlier lap it would look released.
            let head = self.head.load(Ordering::Acquire);
            // Relaxed: a CPU that sees the head that is moved below sees this word, or a later one of the slot. The
            // area was filed under the lock before: the holder of the lock that sees the head sees it filed.
            let word = Word::unpack(self.slot(head).load(Ordering::Relaxed));
            if head == self.tail.load(Ordering::Acquire) || word.lap == self.lap(head) {
                return;
            }
            self.advance(self.head, head);
        }
    }

    /// Returns the positions that may not have been released yet.
    fn positions(&self) -> impl Iterator<Item = u32> + use<'a, P> {
        // Acquire, twice: pairs with the release in `advance`. The slots before the tail are seen as filled, the
        // slots before the head as released.
        let tail = self.tail.load(Ordering::Acquire);
        let head = self.head.load(Ordering::Acquire);
        let length = tail.wrapping_sub(head);
        // A head that is read late may be far behind, or, since it is read after the tail, even ahead of it.
        let length = if length > u32::MAX / 2 {
            0
        } else {
            length.min(self.slots.len())
        };
        (0..length)
            .rev()
            .map(move |back| tail.wrapping_sub(back + 1))
    }

    /// Returns `true` if a nested caller may use this queue: it cannot wait for the lock.
    pub(crate) fn is_open_to_nested(&self) -> bool {
        self.lock.is_none()
    }

    /// Takes the oldest filled slot, which must be released later. Returns `None` if there is none. O(1) unless a
    /// thread stopped in the middle of its work, then O(slots).
    pub(crate) fn take(&self, probe: &mut P::Probe) -> Option<(TakenSlot, Area)> {
        let _held = self.enter(QueueStep::Take, probe);
        for position in self.positions() {
            let slot = self.slot(position);
            let seen = slot.load(Ordering::Relaxed);
            let word = Word::unpack(seen);
            if word.stage != Stage::Filled || word.lap != self.lap(position) {
                continue;
            }
            let Some(start) = self.table.frame(Index(word.start)) else {
                continue;
            };
            let stage = Stage::Taken;
            let taken = Word { stage, ..word }.pack();
            // Acquire: pairs with the release in `fill`.
            let took = slot.compare_exchange(seen, taken, Ordering::Acquire, Ordering::Relaxed);
            if took.is_ok() {
                let frames = word.frames;
                return Some((TakenSlot { position }, Area { start, frames }));
            }
        }
        None
    }

    /// Sets what a taken slot accounts for from now on. The last piece of an area may be filed only after its slot
    /// accounts for nothing.
    #[inline]
    pub(crate) fn keep(&self, slot: &TakenSlot, area: Option<Area>, probe: &mut P::Probe) {
        let _held = self.enter(QueueStep::Keep, probe);
        let word = self.word(slot.position, Stage::Taken, area);
        // Release: pairs with the acquire loads in `contents` and `areas`. A CPU that sees that the slot accounts for
        // less sees the rest filed.
        self.slot(slot.position).store(word, Ordering::Release);
    }

    /// Returns how many slots are in use. A hint while other threads work.
    #[inline]
    pub(crate) fn length(&self) -> u32 {
        let head = self.head.load(Ordering::Relaxed);
        let length = self.tail.load(Ordering::Relaxed).wrapping_sub(head);
        if length > u32::MAX / 2 { 0 } else { length }
    }

    /// Returns the content of the queue, for the holder of the lock under which areas are filed: if a slot accounts
    /// for nothing, its area was filed by then. O(length).
    pub(crate) fn contents(&self) -> Contents {
        // A read-modify-write, because it always reads the last value, and a load need not. Acquire and release:
        // pairs with the read-modify-writes in `advance`.
        self.tail.fetch_add(0, Ordering::AcqRel);
        let contents = self.positions().map(|position| {
            // Acquire: pairs with the releases in `fill`, `keep` and `release`.
            let word = Word::unpack(self.slot(position).load(Ordering::Acquire));
            match word.stage {
                Stage::Filled if word.lap == self.lap(position) => Contents::Waiting,
                Stage::Taken if word.lap == self.lap(position) && word.frames > 0 => {
                    Contents::InHand
                }
                _ => Contents::Nothing,
            }
        });
        contents.max().unwrap_or(Contents::Nothing)
    }

    /// Returns every area that a slot accounts for. O(slots).
    pub(crate) fn areas(&self) -> impl Iterator<Item = Area> + '_ {
        let slots = (0..self.slots.len()).map(|position| self.slots.at(position));
        slots.filter_map(|slot| {
            // Acquire: pairs with the releases in `fill`, `keep` and `release`.
            let word = Word::unpack(slot.load(Ordering::Acquire));
            let start = self.table.frame(Index(word.start))?;
            let frames = word.frames;
            (word.stage != Stage::Empty && frames > 0).then_some(Area { start, frames })
        })
    }

    /// Returns the number of frames that wait or are being processed. A hint while other threads work. O(slots).
    pub(crate) fn frames(&self) -> u64 {
        self.areas().map(|area| u64::from(area.frames)).sum()
    }
}

/// The held lock of a queue.
struct QueueGuard<'a, P: Platform>(Option<&'a ZoneLock<'a, P>>);

impl<P: Platform> Drop for QueueGuard<'_, P> {
    #[inline(always)]
    fn drop(&mut self) {
        if let Some(lock) = self.0 {
            lock.unlock();
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Native;
    use crate::arena::Memory;
    use std::mem::MaybeUninit;
    use std::vec;
    use std::vec::Vec;

    /// A thread reads the tail before the head, and others may move both in between.
    #[test]
    fn no_position_lies_between_a_tail_and_a_head_that_is_ahead_of_it() {
        let plan = AreaQueue::<Native>::plan(ArenaPlan::default(), 4);
        let mut memory = vec![MaybeUninit::uninit(); plan.bytes().unwrap() + crate::LINE];
        let mut arena = Arena::new(Memory::new(&mut memory));
        let table = FrameTable::new(&[]);
        let queue = AreaQueue::<Native>::new(&mut arena, table, Queue::Linking, 4, false).unwrap();
        for (head, tail, expected) in [
            (3, 3, &[][..]),
            (3, 5, &[3, 4]),
            (6, 3, &[]),
            (4, 3, &[]),
            // The head was read late: there are four slots.
            (1, 7, &[3, 4, 5, 6]),
            (u32::MAX, 1, &[u32::MAX, 0]),
        ] {
            queue.head.store(head, Ordering::Relaxed);
            queue.tail.store(tail, Ordering::Relaxed);
            assert_eq!(queue.positions().collect::<Vec<_>>(), expected);
        }
    }
}
