//! Probes: how a layer reports what it did, at no cost if nothing listens.
//!
//! Benchmarks count splits, refills and contended locks; kernels need none of that. The probe is part of the
//! platform's type and lies in the CPU token, so counting needs no shared memory. With [`NoProbe`], every call
//! disappears from the machine code.
//!
//! # Invariants
//! A probe never influences what an allocator does.

use crate::frame::Order;

/// An event inside an allocator.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Event {
    /// A free block of this order was split in two.
    Split(Order),
    /// Two free buddies of this order were coalesced.
    Coalesce(Order),
    /// A free block, or with iBuddy a free frame, was added to a list, or removed from one. Recorded by the policies,
    /// where blocks move one by one.
    Link,
    /// The map was read or written to find or record whether a block is free: a bit of the map, or a domain's tag.
    /// Recorded where [`Link`](Self::Link) is.
    Mark,
    /// Frames moved from the zone layer into a per-CPU list.
    Refill {
        /// The number of frames.
        frames: u32,
    },
    /// Frames moved from a per-CPU list to the zone layer.
    Drain {
        /// The number of frames.
        frames: u32,
    },
    /// A request or a free of a block of this order went past the per-CPU list to the zone layer.
    Bypass(Order),
    /// A lock is about to be acquired.
    LockWanted,
    /// A lock was acquired.
    Lock {
        /// Whether another CPU held it at the first attempt.
        contended: bool,
        /// How many times the waiting CPU polled.
        waits: u32,
    },
    /// A lock was released.
    Unlock,
    /// All CPUs were asked to drain their lists, because a request could not be served.
    Reclaim,
    /// A CPU found every domain held, and waited for a part of another CPU's domain.
    Ghost {
        /// How many times the waiting CPU polled.
        waits: u32,
    },
    /// A domain was split, and a part of it handed to a waiting CPU.
    Extend,
    /// Two domains were merged into one.
    Merge,
    /// A CPU's buddy space was exchanged for another one.
    Exchange,
    /// A CPU was assigned a buddy space that another CPU has.
    Share,
    /// A run of requests, or of frees, was predicted to continue for a number of frames, when a list moved frames.
    Predicted {
        /// The number of frames.
        frames: u32,
    },
    /// An operation of a queue comes next. Recorded so that a test can stop a thread there.
    Queue {
        /// The queue.
        queue: Queue,
        /// The operation.
        step: QueueStep,
    },
    /// An area of memory was pushed into a queue.
    Queued {
        /// The queue.
        queue: Queue,
        /// How many slots are in use, including this one.
        length: u32,
    },
    /// A queue had no room for an area of memory.
    QueueFull(Queue),
    /// A frame was dropped from a list, because another CPU had taken it over after a racing double free.
    RacedDoubleFree,
}

/// The queues of a system whose services divide and link.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Queue {
    /// What remains of blocks that were larger than requested.
    Dividing,
    /// Freed areas.
    Linking,
}

/// The operations of a queue.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum QueueStep {
    /// A slot is filled.
    Push,
    /// A filled slot is taken.
    Take,
    /// A taken slot is updated to what remains of its area.
    Keep,
    /// A slot is emptied.
    Release,
}

/// A listener for [`Event`]s on one CPU.
pub trait Probe: Default + 'static {
    /// Records an event. Called on hot paths: it must be cheap and must not panic.
    fn record(&mut self, event: Event);

    /// Records an event that costs something to describe.
    #[inline(always)]
    fn record_with(&mut self, event: impl FnOnce() -> Event) {
        self.record(event());
    }
}

/// A probe that records nothing and costs nothing.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct NoProbe;

impl Probe for NoProbe {
    #[inline(always)]
    fn record(&mut self, _: Event) {}

    #[inline(always)]
    fn record_with(&mut self, _: impl FnOnce() -> Event) {}
}

/// How two numbers of one count become one.
enum Join {
    /// They are added.
    Sum,
    /// The larger one counts.
    Most,
}

impl Join {
    /// Returns what both counted together.
    const fn add(self, own: u64, other: u64) -> u64 {
        match self {
            Join::Sum => own + other,
            Join::Most if own > other => own,
            Join::Most => other,
        }
    }

    /// Returns what was counted after `before`; of a largest value, the largest so far.
    const fn since(self, after: u64, before: u64) -> u64 {
        match self {
            Join::Sum => after.saturating_sub(before),
            Join::Most => after,
        }
    }
}

/// A count that results report as a metric of its own.
#[derive(Clone, Copy, Debug)]
pub struct Counted {
    /// The name of the metric.
    pub metric: &'static str,
    /// What is counted.
    pub definition: &'static str,
    /// Reads the count.
    pub read: fn(&Counts) -> u64,
}

/// Declares the fields of [`Counts`], and everything that must name each of them. A field is its documentation, how two
/// numbers are joined, its name, and the metric under which results report it, if they do so by itself.
macro_rules! counts {
    ($(#[doc = $doc:literal] $join:ident $field:ident $(=> $metric:literal)?;)+) => {
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
            $(#[doc = $doc] pub $field: u64,)+
        }

        impl Counts {
            /// The counts that results report as they are. The documentation of a field defines its metric.
            pub const COUNTED: &'static [Counted] = &[
                $($(Counted {
                    metric: $metric,
                    definition: $doc,
                    read: |counts| counts.$field,
                },)?)+
            ];

            /// Adds the counts of another CPU.
            pub fn add(&mut self, other: &Counts) {
                $(self.$field = Join::$join.add(self.$field, other.$field);)+
            }

            /// Returns what was counted after `before`, an earlier state of the same counts. A largest value stays
            /// the largest so far.
            #[must_use]
            pub fn since(&self, before: &Counts) -> Counts {
                Counts {
                    $($field: Join::$join.since(self.$field, before.$field),)+
                }
            }
        }
    };
}

counts! {
    /// Blocks that were split in two.
    Sum splits => "splits";
    /// Pairs of buddies that were coalesced.
    Sum coalescings => "coalescings";
    /// Free blocks that were put into a list, or taken out of one, under the zone's lock; with iBuddy, free frames.
    Sum links => "list_operations";
    /// Bits of the map that were read or written, to find or to record whether a block is free.
    Sum marks => "map_operations";
    /// Refills of a per-CPU list.
    Sum refills;
    /// Frames that refills moved.
    Sum frames_refilled;
    /// Drains of a per-CPU list.
    Sum drains;
    /// Frames that drains moved.
    Sum frames_drained;
    /// Order-0 requests and releases that went past the per-CPU list.
    Sum bypasses_order0;
    /// Requests and releases of larger orders that went past the per-CPU list.
    Sum bypasses_larger;
    /// Lock acquisitions.
    Sum locks;
    /// Lock acquisitions that were not immediate.
    Sum locks_contended;
    /// How often a waiting CPU looked at a lock again.
    Sum lock_waits;
    /// How often all CPUs were asked to give back what they buffer, because a request could not be served.
    Sum reclaims => "reclaims";
    /// How often a CPU found every domain held, and waited for a part of another CPU's domain.
    Sum ghosts => "ghosts";
    /// How often a CPU that waited for a part of a domain looked again.
    Sum ghost_waits => "ghost_polls";
    /// Domains that were divided for a waiting CPU.
    Sum extensions => "extensions";
    /// Pairs of domains that were merged into one.
    Sum merges => "merges";
    /// Buddy spaces that a CPU exchanged for another one: an unassigned one, or a share of another CPU's \[iBuddy\].
    Sum exchanges => "exchanges_of_spaces";
    /// How often a CPU was assigned a buddy space of another CPU, because no unassigned one could serve \[iBuddy\].
    Sum shares => "shares_of_spaces";
    /// Predictions of how far a run goes on.
    Sum predictions;
    /// Frames that were predicted.
    Sum frames_predicted;
    /// Areas of memory that went into a queue.
    Sum queued;
    /// The lengths of the queues then, added up.
    Sum queue_lengths;
    /// The longest.
    Most queue_longest;
    /// Areas of memory that found a queue full.
    Sum queue_full;
    /// Frames dropped from a list after a racing double free.
    Sum raced_double_frees;
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
            // Events that `Counts` ignores.
            Event::LockWanted | Event::Unlock | Event::Queue { .. } => {}
            Event::Link => self.links += 1,
            Event::Mark => self.marks += 1,
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
            Event::Exchange => self.exchanges += 1,
            Event::Share => self.shares += 1,
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
            Event::Exchange,
            Event::Share,
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
        assert_eq!(hear(3).since(&hear(2)), hear(1));
    }

    #[test]
    fn counts_joined_and_taken_apart_are_the_same() {
        // The numbers of each field come from a generator, so a field that is forgotten, or joined with another, is
        // detected.
        let mut state = 1u64;
        let mut counts = || {
            let mut counts = Counts::default();
            for _ in 0..200 {
                state = state
                    .wrapping_mul(6_364_136_223_846_793_005)
                    .wrapping_add(1);
                let (frames, waits) = ((state >> 40) as u32 % 99, (state >> 48) as u32 % 9);
                let queue = Queue::Dividing;
                counts.record(match (state >> 33) % 19 {
                    0 => Event::Split(Order::ZERO),
                    1 => Event::Coalesce(Order::ZERO),
                    2 => Event::Refill { frames },
                    3 => Event::Drain { frames },
                    4 => Event::Bypass(Order::ZERO),
                    5 => Event::Bypass(Order::TEN),
                    6 => Event::Lock {
                        contended: frames % 2 == 0,
                        waits,
                    },
                    7 => Event::Reclaim,
                    8 => Event::Ghost { waits },
                    9 => Event::Extend,
                    10 => Event::Merge,
                    11 => Event::Predicted { frames },
                    12 => Event::Queued {
                        queue,
                        length: frames,
                    },
                    13 => Event::QueueFull(queue),
                    14 => Event::RacedDoubleFree,
                    15 => Event::Exchange,
                    16 => Event::Share,
                    17 => Event::Mark,
                    _ => Event::Link,
                });
            }
            counts
        };
        for _ in 0..50 {
            let (a, b) = (counts(), counts());
            let mut sum = a;
            sum.add(&b);
            let mut back = b;
            back.add(&a);
            assert_eq!(sum, back);
            let longest = |counts: Counts| Counts {
                queue_longest: 0,
                ..counts
            };
            assert_eq!(longest(sum.since(&a)), longest(b));
            assert_eq!(sum.since(&Counts::default()), sum);
            assert_eq!(sum.queue_longest, a.queue_longest.max(b.queue_longest));
            for counted in Counts::COUNTED {
                assert_eq!(
                    (counted.read)(&sum),
                    (counted.read)(&a) + (counted.read)(&b)
                );
            }
        }
    }
}
