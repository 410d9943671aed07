//! What listens inside of a system while nothing is timed from outside.
//!
//! Exists as one type for all who listen: every probe makes a platform of its own, for which all systems are compiled
//! once more. Times of operations are taken with `NoProbe`, which is the other platform.
//!
//! Counting goes on whatever else is listened to. For who times locks it costs an addition for each split and
//! coalescing while a lock is held, some nanoseconds of a batch; reading the clock costs more, and is taken off.
//!
//! Invariant: events that nobody here listens to ([`Event::Link`], [`Event::Mark`]) cost nothing.

use everybuddy::{Counts, Event, NoProbe, Probe};
use quanta::Clock;

use crate::replay::moments::Moments;

/// A probe that can be read, also when it counts nothing.
pub trait Reading: Probe + Send {
    /// Returns what was counted.
    fn read(&self) -> Counts;
}

impl Reading for NoProbe {
    #[inline(always)]
    fn read(&self) -> Counts {
        Counts::default()
    }
}

/// Counts, and listens to one thing more.
#[derive(Clone, Debug, Default)]
pub struct Watch {
    /// What was counted.
    pub counts: Counts,
    /// What is listened to beside that.
    pub beside: Beside,
}

/// What is listened to beside the counts.
#[derive(Clone, Debug, Default)]
pub enum Beside {
    /// Nothing.
    #[default]
    Nothing,
    /// How many frames refills and drains move.
    Bulks(Bulks),
    /// How long locks are waited for, and held.
    Locks(Box<Locks>),
}

impl Watch {
    /// Listens to refills and drains too.
    pub fn bulks() -> Watch {
        Watch {
            beside: Beside::Bulks(Bulks::default()),
            ..Watch::default()
        }
    }

    /// Listens to locks too; measurements of more than so many nanoseconds are left out.
    pub fn locks(longest: f64) -> Watch {
        Watch {
            beside: Beside::Locks(Box::new(Locks::new(longest))),
            ..Watch::default()
        }
    }
}

impl Probe for Watch {
    #[inline]
    fn record(&mut self, event: Event) {
        self.counts.record(event);
        match event {
            Event::Refill { .. } | Event::Drain { .. } => {
                if let Beside::Bulks(bulks) = &mut self.beside {
                    bulks.record(event);
                }
            }
            Event::LockWanted | Event::Lock { .. } | Event::Unlock => {
                if let Beside::Locks(locks) = &mut self.beside {
                    locks.record(event);
                }
            }
            _ => {}
        }
    }
}

impl Reading for Watch {
    #[inline]
    fn read(&self) -> Counts {
        self.counts
    }
}

/// Frames that refills and drains moved.
#[derive(Clone, Copy, Debug, Default)]
pub struct Bulks {
    /// Of refills.
    pub refills: Moments,
    /// Of drains.
    pub drains: Moments,
}

impl Bulks {
    fn record(&mut self, event: Event) {
        match event {
            Event::Refill { frames } => self.refills.add(u64::from(frames)),
            Event::Drain { frames } => self.drains.add(u64::from(frames)),
            _ => {}
        }
    }
}

/// How many locks may be held at once: a list's, and the zone's.
const DEPTH: usize = 4;

/// How long locks were waited for, and held, in ticks.
#[derive(Clone, Debug)]
pub struct Locks {
    clock: Clock,
    /// Ticks above which a measurement is left out.
    longest: u64,
    wanted: u64,
    taken: [u64; DEPTH],
    depth: usize,
    /// From wanting a lock to having it.
    pub wait: Moments,
    /// From having it to its opening.
    pub hold: Moments,
    /// Measurements that were left out.
    pub disturbed: u64,
}

impl Locks {
    fn new(longest: f64) -> Locks {
        // The operating system's clock is calibrated against the processor's once, by the timer.
        let clock = Clock::new();
        let per_tick = clock.delta_as_nanos(0, 1 << 40) as f64 / (1u64 << 40) as f64;
        Locks {
            longest: (longest / per_tick) as u64,
            clock,
            wanted: 0,
            taken: [0; DEPTH],
            depth: 0,
            wait: Moments::default(),
            hold: Moments::default(),
            disturbed: 0,
        }
    }

    #[inline]
    fn note(longest: u64, disturbed: &mut u64, moments: &mut Moments, ticks: u64) {
        match ticks <= longest {
            true => moments.add(ticks),
            false => *disturbed += 1,
        }
    }

    #[inline]
    fn record(&mut self, event: Event) {
        match event {
            Event::LockWanted => self.wanted = self.clock.raw(),
            Event::Lock { .. } => {
                let now = self.clock.raw();
                let waited = now.saturating_sub(self.wanted);
                Self::note(self.longest, &mut self.disturbed, &mut self.wait, waited);
                if let Some(taken) = self.taken.get_mut(self.depth) {
                    *taken = now;
                }
                self.depth += 1;
            }
            Event::Unlock => {
                let now = self.clock.raw();
                self.depth = self.depth.saturating_sub(1);
                if let Some(taken) = self.taken.get(self.depth) {
                    let held = now.saturating_sub(*taken);
                    Self::note(self.longest, &mut self.disturbed, &mut self.hold, held);
                }
            }
            _ => {}
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_listened_to_beside_does_not_change_the_counts() {
        let contended = true;
        let events = [
            Event::LockWanted,
            Event::Lock {
                contended,
                waits: 2,
            },
            Event::Refill { frames: 31 },
            Event::Refill { frames: 1 },
            Event::Drain { frames: 7 },
            Event::Unlock,
        ];
        let mut expected = Counts::default();
        events.iter().for_each(|event| expected.record(*event));
        for mut watch in [Watch::default(), Watch::bulks(), Watch::locks(1e12)] {
            events.iter().for_each(|event| watch.record(*event));
            assert_eq!(watch.read(), expected);
            match watch.beside {
                Beside::Nothing => {}
                Beside::Bulks(bulks) => {
                    assert_eq!(bulks.refills.mean(), Some(16.0));
                    assert_eq!((bulks.drains.count, bulks.drains.sum), (1, 7));
                }
                Beside::Locks(locks) => {
                    assert_eq!((locks.wait.count, locks.hold.count), (1, 1));
                    assert_eq!(locks.disturbed, 0);
                }
            }
        }
    }
}
