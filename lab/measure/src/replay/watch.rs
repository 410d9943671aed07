//! Probes inside a system, for passes that are not timed from outside.
//!
//! All observers share one probe type, because every probe type defines a platform for which all systems are compiled
//! again. The times of operations are measured with `NoProbe`, which is the other platform.
//!
//! Events are always counted. When locks are timed, counting adds one addition per split, coalescing, operation on a
//! list and look at the map while a lock is held: tens of nanoseconds per batch. Reading the clock costs more, and is
//! subtracted.
//!
//! # Invariants
//! Counting does not change what is recorded in addition.

use std::mem::MaybeUninit;

use everybuddy::{BuildError, Counts, Event, NoProbe, Probe, Setup, SystemSpec, with_any_system};
use quanta::Clock;

use crate::replay::moments::Moments;
use crate::replay::platform::AnySystem;

/// A probe that can be read, even if it counts nothing.
pub trait ReadableProbe: Probe + Send {
    /// Returns the counts.
    fn read(&self) -> Counts;
}

impl ReadableProbe for NoProbe {
    #[inline(always)]
    fn read(&self) -> Counts {
        Counts::default()
    }
}

/// Counts events, and records one additional quantity.
#[derive(Clone, Debug, Default)]
pub struct Watch {
    /// The counts.
    pub counts: Counts,
    /// The additional quantity.
    pub extra: ExtraProbe,
}

/// The quantities that can be recorded in addition to the counts.
#[derive(Clone, Debug, Default)]
pub enum ExtraProbe {
    /// Nothing.
    #[default]
    Nothing,
    /// The time that locks are waited for, and held.
    Locks(Box<Locks>),
}

impl Watch {
    /// Also records locks; measurements of more than `longest` nanoseconds are ignored.
    pub fn locks(longest: f64) -> Watch {
        Watch {
            extra: ExtraProbe::Locks(Box::new(Locks::new(longest))),
            ..Watch::default()
        }
    }
}

impl Probe for Watch {
    #[inline]
    fn record(&mut self, event: Event) {
        self.counts.record(event);
        match event {
            Event::LockWanted | Event::Lock { .. } | Event::Unlock => {
                if let ExtraProbe::Locks(locks) = &mut self.extra {
                    locks.record(event);
                }
            }
            _ => {}
        }
    }
}

impl ReadableProbe for Watch {
    #[inline]
    fn read(&self) -> Counts {
        self.counts
    }
}

/// Builds a system whose events are counted, and calls `visit` with it.
///
/// The function is not generic, so the systems are compiled into this crate, and not into each crate that uses it.
///
/// # Errors
/// Any [`BuildError`].
#[inline(never)]
pub fn with_watched(
    spec: &SystemSpec,
    setup: &Setup<'_>,
    memory: &mut [MaybeUninit<u8>],
    visit: &mut dyn FnMut(&AnySystem<'_, Watch>),
) -> Result<(), BuildError> {
    with_any_system(spec, setup, memory, visit)
}

/// The maximum number of locks held at the same time: a list's and the zone's.
const DEPTH: usize = 4;

/// The time that locks were waited for, and held, in ticks.
#[derive(Clone, Debug)]
pub struct Locks {
    clock: Clock,
    /// Measurements above this number of ticks are ignored.
    longest: u64,
    wanted: u64,
    taken: [u64; DEPTH],
    depth: usize,
    /// From the attempt to acquire a lock to its acquisition.
    pub wait: Moments,
    /// From the acquisition of a lock to its release.
    pub hold: Moments,
    /// The number of ignored measurements.
    pub disturbed: u64,
}

impl Locks {
    fn new(longest: f64) -> Locks {
        // The timer calibrates the operating system's clock against the processor's once.
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
        if ticks <= longest {
            moments.add(ticks)
        } else {
            *disturbed += 1
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
        for mut watch in [Watch::default(), Watch::locks(1e12)] {
            events.iter().for_each(|event| watch.record(*event));
            assert_eq!(watch.read(), expected);
            match watch.extra {
                ExtraProbe::Nothing => {}
                ExtraProbe::Locks(locks) => {
                    assert_eq!((locks.wait.count, locks.hold.count), (1, 1));
                    assert_eq!(locks.disturbed, 0);
                }
            }
        }
    }
}
