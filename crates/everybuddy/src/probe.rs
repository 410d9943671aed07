//! Probes: how a layer tells what it did, at no cost when nobody listens.
//!
//! Why it exists: benches want counts of splits, refills and contended locks; kernels want none of it.
//! The probe is part of the platform's type, lies in the CPU token (so counting needs no shared memory),
//! and with [`NoProbe`] every call disappears from the machine code.
//!
//! Invariant: a probe never influences what an allocator does.

use crate::frame::Order;

/// Something that happened inside an allocator.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Event {
    /// A free block of this order was split in two.
    Split(Order),
    /// Two free buddies of this order were coalesced.
    Coalesce(Order),
    /// A free block was put into a list of free blocks, or taken out of one. Told by the policies of free blocks,
    /// where blocks move one by one.
    Link,
    /// It was looked up, or written down, whether a block is free: a bit of the map, or a domain's tag. Told where
    /// [`Link`](Self::Link) is.
    Mark,
    /// So many frames moved from the zone layer into a per-CPU list.
    Refill {
        /// Frames moved.
        frames: u32,
    },
    /// So many frames moved from a per-CPU list to the zone layer.
    Drain {
        /// Frames moved.
        frames: u32,
    },
    /// A request or a release of a block of this order went past the per-CPU list to the zone layer.
    Bypass(Order),
    /// A lock is about to be asked for.
    LockWanted,
    /// A lock was taken.
    Lock {
        /// Whether somebody else held it at the first try.
        contended: bool,
        /// How many times the waiter looked again.
        waits: u32,
    },
    /// A lock was opened.
    Unlock,
    /// All CPUs were asked to give back what they buffer, because a request could not be served.
    Reclaim,
    /// A CPU found every domain taken, and waited to be given a part of another CPU's.
    Ghost {
        /// How many times the waiter looked again.
        waits: u32,
    },
    /// A domain was divided, and a part of it given to a CPU that waited.
    Extend,
    /// Two domains were merged into one.
    Merge,
    /// A run of requests, or of releases, was predicted to go on for so many frames, as a list moved frames.
    Predicted {
        /// Frames.
        frames: u32,
    },
    /// One of a queue's operations comes next. Told so that a test can stop a thread there.
    Queue {
        /// The queue.
        queue: Queue,
        /// The operation.
        step: QueueStep,
    },
    /// An area of memory goes into a queue.
    Queued {
        /// The queue.
        queue: Queue,
        /// How many slots are in use, with this one.
        length: u32,
    },
    /// An area of memory found no room in a queue.
    QueueFull(Queue),
    /// A frame was found in a list that another CPU had taken over after a racing double free; dropped.
    RacedDoubleFree,
}

/// The queues of a system that leaves work to services.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Queue {
    /// What remains of blocks that were larger than asked for.
    Dividing,
    /// What was freed.
    Linking,
}

/// The operations of a queue.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum QueueStep {
    /// A slot is filled.
    Push,
    /// A filled slot is taken.
    Take,
    /// A taken slot is told what of it remains.
    Keep,
    /// A slot is emptied.
    Release,
}

/// A listener for [`Event`]s on one CPU.
pub trait Probe: Default + 'static {
    /// Takes note of an event. Called on hot paths: must be cheap and must not panic.
    fn record(&mut self, event: Event);
}

/// Listens to nothing, costs nothing.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct NoProbe;

impl Probe for NoProbe {
    #[inline(always)]
    fn record(&mut self, _: Event) {}
}

/// Counts every event of one CPU.
///
/// ```
/// use everybuddy::{Counts, Event, Probe};
/// let mut counts = Counts::default();
/// counts.record(Event::Refill { frames: 31 });
/// assert_eq!((counts.refills, counts.frames_refilled), (1, 31));
/// ```
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Counts {
    /// Splits of a block.
    pub splits: u64,
    /// Coalescings of two buddies.
    pub coalescings: u64,
    /// Refills of a per-CPU list.
    pub refills: u64,
    /// Frames that refills moved.
    pub frames_refilled: u64,
    /// Drains of a per-CPU list.
    pub drains: u64,
    /// Frames that drains moved.
    pub frames_drained: u64,
    /// Order-0 requests and releases that went past the per-CPU list.
    pub bypasses_order0: u64,
    /// Requests and releases of larger orders that went past the per-CPU list.
    pub bypasses_larger: u64,
    /// Lock acquisitions.
    pub locks: u64,
    /// Lock acquisitions that were not immediate.
    pub locks_contended: u64,
    /// Times a waiter looked at a lock again.
    pub lock_waits: u64,
    /// Times all CPUs were asked to give back what they buffer.
    pub reclaims: u64,
    /// Times a CPU found every domain taken, and waited to be given a part of another CPU's.
    pub ghosts: u64,
    /// Times such a waiter looked again.
    pub ghost_waits: u64,
    /// Domains divided for a CPU that waited.
    pub extensions: u64,
    /// Pairs of domains merged into one.
    pub merges: u64,
    /// Predictions of how far a run goes on.
    pub predictions: u64,
    /// Frames that were predicted.
    pub frames_predicted: u64,
    /// Areas of memory that went into a queue.
    pub queued: u64,
    /// The lengths of the queues then, added up.
    pub queue_lengths: u64,
    /// The longest.
    pub queue_longest: u64,
    /// Areas of memory that found a queue full.
    pub queue_full: u64,
    /// Frames dropped from a list after a racing double free.
    pub raced_double_frees: u64,
}

impl Counts {
    /// Adds the counts of another CPU.
    pub fn add(&mut self, other: &Counts) {
        let Counts {
            splits,
            coalescings,
            refills,
            frames_refilled,
            drains,
            frames_drained,
            bypasses_order0,
            bypasses_larger,
            locks,
            locks_contended,
            lock_waits,
            reclaims,
            ghosts,
            ghost_waits,
            extensions,
            merges,
            predictions,
            frames_predicted,
            queued,
            queue_lengths,
            queue_longest,
            queue_full,
            raced_double_frees,
        } = other;
        self.splits += splits;
        self.coalescings += coalescings;
        self.refills += refills;
        self.frames_refilled += frames_refilled;
        self.drains += drains;
        self.frames_drained += frames_drained;
        self.bypasses_order0 += bypasses_order0;
        self.bypasses_larger += bypasses_larger;
        self.locks += locks;
        self.locks_contended += locks_contended;
        self.lock_waits += lock_waits;
        self.reclaims += reclaims;
        self.ghosts += ghosts;
        self.ghost_waits += ghost_waits;
        self.extensions += extensions;
        self.merges += merges;
        self.predictions += predictions;
        self.frames_predicted += frames_predicted;
        self.queued += queued;
        self.queue_lengths += queue_lengths;
        self.queue_longest = self.queue_longest.max(*queue_longest);
        self.queue_full += queue_full;
        self.raced_double_frees += raced_double_frees;
    }
}

impl Probe for Counts {
    #[inline]
    fn record(&mut self, event: Event) {
        match event {
            Event::Split(_) => self.splits += 1,
            Event::Coalesce(_) => self.coalescings += 1,
            Event::Refill { frames } => {
                self.refills += 1;
                self.frames_refilled += u64::from(frames);
            }
            Event::Drain { frames } => {
                self.drains += 1;
                self.frames_drained += u64::from(frames);
            }
            Event::Bypass(Order::ZERO) => self.bypasses_order0 += 1,
            Event::Bypass(_) => self.bypasses_larger += 1,
            Event::Lock { contended, waits } => {
                self.locks += 1;
                self.locks_contended += u64::from(contended);
                self.lock_waits += u64::from(waits);
            }
            // What one who counts calls doesn't want to hear of.
            Event::Link | Event::Mark | Event::LockWanted | Event::Unlock | Event::Queue { .. } => {
            }
            Event::Queued { length, .. } => {
                self.queued += 1;
                self.queue_lengths += u64::from(length);
                self.queue_longest = self.queue_longest.max(length.into());
            }
            Event::QueueFull(_) => self.queue_full += 1,
            Event::Reclaim => self.reclaims += 1,
            Event::Ghost { waits } => {
                self.ghosts += 1;
                self.ghost_waits += u64::from(waits);
            }
            Event::Extend => self.extensions += 1,
            Event::Merge => self.merges += 1,
            Event::Predicted { frames } => {
                self.predictions += 1;
                self.frames_predicted += u64::from(frames);
            }
            Event::RacedDoubleFree => self.raced_double_frees += 1,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn adding_is_hearing_both() {
        let frames = 3;
        let waits = 5;
        let events = [
            Event::Split(Order::ZERO),
            Event::Coalesce(Order::ZERO),
            Event::Refill { frames },
            Event::Drain { frames },
            Event::Bypass(Order::ZERO),
            Event::Bypass(Order::TEN),
            Event::Link,
            Event::Mark,
            Event::LockWanted,
            Event::Lock {
                contended: true,
                waits,
            },
            Event::Unlock,
            Event::Reclaim,
            Event::Ghost { waits },
            Event::Extend,
            Event::Merge,
            Event::Queued {
                queue: Queue::Linking,
                length: 7,
            },
            Event::QueueFull(Queue::Dividing),
            Event::RacedDoubleFree,
        ];
        let hear = |times: usize| {
            let mut counts = Counts::default();
            for event in events.iter().cycle().take(times * events.len()) {
                counts.record(*event);
            }
            counts
        };
        let mut sum = hear(1);
        sum.add(&hear(2));
        assert_eq!(sum, hear(3));
        assert_eq!((sum.ghosts, sum.ghost_waits), (3, 15));
        assert_eq!((sum.extensions, sum.merges), (3, 3));
        assert_eq!((sum.queue_lengths, sum.queue_longest), (21, 7));
    }
}
