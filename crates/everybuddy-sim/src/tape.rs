//! A probe that counts, and on demand keeps every event with its time.
//!
//! # Purpose
//!
//! A timeline shows when a CPU held a lock and when it waited. The probe of a virtual CPU knows the events, and the
//! engine knows the time.
//!
//! # Invariants
//!
//! The tape costs no virtual time: it is not in simulated memory. Times on one tape never decrease.

use everybuddy::{Counts, Event, Probe};

use crate::engine;

/// An event of a CPU.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Taped {
    /// The virtual time, in cycles since the start of the run.
    pub at: u64,
    /// What happened.
    pub event: Event,
}

/// The probe of a virtual CPU: the counts of all events, and the events themselves if it records.
#[derive(Clone, Debug, Default)]
pub struct Tape {
    /// The counts of all events.
    pub counts: Counts,
    events: Option<Vec<Taped>>,
}

impl Tape {
    /// Forgets everything, and records from now on if `is_recording`. O(events).
    pub fn start(&mut self, is_recording: bool) {
        *self = Self {
            counts: Counts::default(),
            events: is_recording.then(Vec::new),
        };
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
        if let Some(events) = &mut self.events {
            let at = engine::clock().unwrap_or(0);
            events.push(Taped { at, event });
        }
    }
}

#[cfg(test)]
mod tests {
    use everybuddy::CpuToken;

    use super::*;
    use crate::{Machine, Region, SimCpu};

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
        let taped = |at, event| Taped { at, event };
        assert_eq!(first, &[taped(12, Event::Unlock), taped(13, Event::Extend)]);
        assert_eq!(second, &[taped(13, Event::Merge)]);
        assert!(none.is_empty());
        assert_eq!((counts.merges, counts.extensions), (1, 0));
    }
}
