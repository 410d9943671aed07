//! A probe that counts, measures waits for locks, and on demand keeps every event with its time.
//!
//! A timeline shows when a CPU held a lock and when it waited. The probe of a virtual CPU knows the events, and the
//! engine knows the time.
//!
//! # Invariants
//! The tape costs no virtual time: it is not in simulated memory. Times on one tape never decrease.

use everybuddy::{Counts, Event, Probe};

use crate::engine;
use crate::report::LastAccess;

/// An event of a CPU.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Taped {
    /// The virtual time, in cycles since the start of the run.
    pub at: u64,
    /// What happened.
    pub event: Event,
    /// The last access of the CPU before a lock was acquired or released, or before it had waited for a domain. Known
    /// if the run [records writers](crate::Machine::record_writers).
    pub access: Option<LastAccess>,
}

/// The probe of a virtual CPU: the counts of all events, and the events themselves if it records.
#[derive(Clone, Debug, Default)]
pub struct Tape {
    /// The counts of all events.
    pub counts: Counts,
    /// The waits since the last [`take_waits`](Self::take_waits), in cycles.
    waits: Vec<u64>,
    /// When the lock was wanted that is not held yet.
    wanted: Option<u64>,
    events: Option<Vec<Taped>>,
    /// What is told of each event after it was counted, if anything is.
    pub listener: Option<fn(Event)>,
}

impl Tape {
    /// Forgets everything, and records from now on if `is_recording`. O(events).
    pub fn start(&mut self, is_recording: bool) {
        *self = Self {
            events: is_recording.then(Vec::new),
            ..Self::default()
        };
    }

    /// Returns how long each lock was waited for, in cycles, since the last call: from when it was wanted to when it
    /// was acquired. A lock that was acquired immediately is left out; a CPU that waits for a part of a domain is in.
    /// O(1).
    pub fn take_waits(&mut self) -> Vec<u64> {
        std::mem::take(&mut self.waits)
    }

    /// Returns what was recorded since the last call, in order. O(1).
    pub fn take(&mut self) -> Vec<Taped> {
        self.events.as_mut().map(std::mem::take).unwrap_or_default()
    }
}

impl Probe for Tape {
    #[inline]
    fn record(&mut self, event: Event) {
        self.counts.record(event);
        match event {
            Event::LockWanted => self.wanted = engine::clock(),
            Event::Lock {
                contended: true, ..
            }
            | Event::Ghost { .. } => {
                let wait = self.wanted.take().zip(engine::clock());
                self.waits.extend(wait.map(|(wanted, now)| now - wanted));
            }
            _ => {}
        }
        if let Some(events) = &mut self.events {
            let access = match event {
                Event::Lock { .. } | Event::Unlock | Event::Ghost { .. } => engine::last_access(),
                _ => None,
            };
            let now = engine::clock().unwrap_or(0);
            // A CPU that shares its core may have lost it since it released the lock.
            let at = match (event, access) {
                (Event::Unlock, Some(release)) => release.at,
                _ => now,
            };
            events.push(Taped { at, event, access });
        }
        if let Some(listener) = self.listener {
            listener(event);
        }
    }
}

#[cfg(test)]
mod tests {
    use everybuddy::{CpuId, CpuToken, RawLock, SpinLock};

    use super::*;
    use crate::{Machine, Region, Sim, SimCpu, Write};

    #[test]
    fn a_wait_lasts_from_when_the_lock_was_wanted() {
        let report = Machine::new(1)
            .run(Region::NONE, |cpu: &mut SimCpu<Tape>| {
                let lock = |contended| Event::Lock {
                    contended,
                    waits: 0,
                };
                for (work, event) in [
                    (5, lock(true)),
                    (6, lock(false)),
                    (7, Event::Ghost { waits: 1 }),
                ] {
                    cpu.work(1);
                    cpu.probe().record(Event::LockWanted);
                    cpu.work(work);
                    cpu.probe().record(event);
                }
                // The wait has been counted with the domain.
                cpu.probe().record(lock(true));
                (cpu.probe().take_waits(), cpu.probe().take_waits())
            })
            .unwrap();
        assert_eq!(report.results[0], (vec![5, 7], vec![]));
    }

    #[test]
    fn an_acquisition_knows_the_release_before_it_if_writers_are_recorded() {
        let run = |mut machine: Machine| {
            let lock = SpinLock::<Sim>::new();
            let report = machine.run(Region::around(&lock), |cpu: &mut SimCpu| {
                cpu.probe().start(true);
                // The second CPU comes while the first one holds the lock.
                cpu.work(u32::from(cpu.id().0) * 50);
                let ((), waits) = lock.lock();
                let contended = waits > 0;
                cpu.probe().record(Event::Lock { contended, waits });
                cpu.work(500);
                lock.unlock(&());
                cpu.probe().record(Event::Unlock);
                cpu.probe().take()
            });
            report.unwrap().results
        };
        let known = run(Machine::new(2).record_writers());
        let [acquired, released] = [0, 1].map(|event| known[0][event].access.unwrap());
        assert_eq!((acquired.before, released.before), (None, None));
        assert_eq!(released.at, known[0][1].at);
        let next = known[1][0];
        let release = Write {
            cpu: CpuId(0),
            at: released.at,
        };
        assert!(matches!(
            next.event,
            Event::Lock {
                contended: true,
                ..
            }
        ));
        assert_eq!(next.access.unwrap().before, Some(release));
        assert!(next.at > released.at);
        let unknown = run(Machine::new(2));
        let events = |all: &[Vec<Taped>]| -> Vec<(u64, Event)> {
            all.iter()
                .flatten()
                .map(|own| (own.at, own.event))
                .collect()
        };
        assert_eq!(events(&unknown), events(&known), "the run is the same");
        assert!(unknown.iter().flatten().all(|own| own.access.is_none()));
    }

    #[test]
    fn events_are_kept_with_their_times_only_while_the_tape_records() {
        let report = Machine::new(1)
            .run(Region::NONE, |cpu: &mut SimCpu<Tape>| {
                cpu.probe().record(Event::LockWanted);
                cpu.work(5);
                cpu.probe().start(true);
                cpu.work(7);
                cpu.probe().record(Event::Unlock);
                cpu.work(1);
                cpu.probe().record(Event::Extend);
                let first = cpu.probe().take();
                cpu.probe().record(Event::Merge);
                let second = cpu.probe().take();
                cpu.probe().start(false);
                cpu.probe().record(Event::Merge);
                (first, second, cpu.probe().take(), cpu.probe().counts)
            })
            .unwrap();
        let (first, second, none, counts) = &report.results[0];
        let taped = |at, event| Taped {
            at,
            event,
            access: None,
        };
        assert_eq!(first, &[taped(12, Event::Unlock), taped(13, Event::Extend)]);
        assert_eq!(second, &[taped(13, Event::Merge)]);
        assert!(none.is_empty());
        assert_eq!((counts.merges, counts.extensions), (1, 0));
    }
}
