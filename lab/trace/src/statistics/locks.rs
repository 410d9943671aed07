//! Acquisitions of a zone's lock, as the recorded kernel reported them.
//!
//! How long a real kernel waited for its lock is what a model of that kernel must predict. The numbers are in the terms
//! of the simulator: waits per call, and the share of the CPUs' time.
//!
//! # Invariants
//! An acquisition that did not wait is in no number about waits.

use std::collections::HashSet;

use super::Quantiles;
use crate::machine::Machine;
use crate::model::{Acquisition, LockSource, Trace};
use crate::waits_only::WaitsOnly;

/// What a trace says about the lock of a zone.
#[derive(Clone, Debug, PartialEq)]
pub struct LockWaits {
    /// Calls of the trace.
    pub calls: u64,
    /// CPUs that made calls or acquired the lock; if waits are all that was recorded, those of the machine.
    pub cpus: u32,
    /// Time from the first call or wait to the last; if waits are all that was recorded, that of the recording.
    pub duration_ns: u64,
    /// Acquisitions that were reported.
    pub acquisitions: u64,
    /// The waits, in nanoseconds: one per acquisition that was not immediate.
    pub wait_ns: Quantiles,
    /// The times for which the lock was held, as far as they are known.
    pub hold_ns: Quantiles,
    /// The blocks that were moved under the lock, as far as they are known.
    pub batch: Quantiles,
    /// The events that reported the acquisitions, each once, by value.
    pub sources: Vec<LockSource>,
}

impl LockWaits {
    /// Summarizes the acquisitions of a trace. Returns `None` if there are none, unless waits are all that was
    /// recorded. O(n log n).
    pub fn of(trace: &Trace) -> Option<LockWaits> {
        let waits_only = WaitsOnly::of(trace);
        let (first, last) = (trace.acquisitions.first(), trace.acquisitions.last());
        if first.is_none() && waits_only.is_none() {
            return None;
        }
        let begins = first.map(|own| own.time_ns.saturating_sub(own.wait_ns));
        let begins = begins
            .into_iter()
            .chain(trace.events.first().map(|event| event.time_ns));
        let ends = trace.events.last().map(|event| event.time_ns);
        let ends = ends.into_iter().chain(last.map(|own| own.time_ns));
        let seen_ns = ends.max().unwrap_or(0) - begins.min().unwrap_or(0);
        let calls = trace.events.iter().map(|event| event.cpu);
        let cpus: HashSet<u16> = calls
            .chain(trace.acquisitions.iter().map(|own| own.cpu))
            .collect();
        let quantiles = |value: fn(&Acquisition) -> u64| {
            let values = trace.acquisitions.iter().map(value);
            Quantiles::of(&mut values.filter(|value| *value > 0).collect::<Vec<_>>())
        };
        let is_of = |source: &LockSource| {
            let mut sources = trace.acquisitions.iter().map(|own| own.source);
            sources.any(|own| LockSource::from_value(own) == *source)
        };
        let seen = cpus.len() as u32;
        // CPUs that never waited are in no row, and neither is the time before the first wait.
        let all = Machine::of(trace).filter(|_| waits_only.is_some());
        Some(LockWaits {
            calls: trace.events.len() as u64,
            cpus: all.map_or(seen, |machine| u32::from(machine.cpus).max(seen)),
            duration_ns: waits_only.map_or(seen_ns, |own| own.duration_ns.max(seen_ns)),
            acquisitions: trace.acquisitions.len() as u64,
            wait_ns: quantiles(|own| own.wait_ns),
            hold_ns: quantiles(|own| own.hold_ns),
            batch: quantiles(|own| u64::from(own.batch)),
            sources: LockSource::ALL.into_iter().filter(is_of).collect(),
        })
    }

    /// Returns the waits per call.
    pub fn per_call(&self) -> f64 {
        self.wait_ns.count as f64 / self.calls.max(1) as f64
    }

    /// Returns the share of the time of all CPUs that was spent waiting.
    pub fn share(&self) -> f64 {
        let waited = self.wait_ns.mean * self.wait_ns.count as f64;
        waited / (self.duration_ns.max(1) as f64 * f64::from(self.cpus.max(1)))
    }

    /// Returns the sum of all waits, in nanoseconds per second of the trace.
    pub fn waited_per_second(&self) -> f64 {
        self.share() * f64::from(self.cpus.max(1)) * 1e9
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::model::{Event, Op};

    #[test]
    fn immediate_acquisitions_are_no_waits() {
        let own = |cpu, time_ns, wait_ns, hold_ns, batch, source| Acquisition {
            time_ns,
            wait_ns,
            hold_ns,
            batch,
            cpu,
            source,
            ..Acquisition::default()
        };
        let mut trace = Trace::default();
        assert_eq!(LockWaits::of(&trace), None);
        for at in 0..4 {
            let event = Event::new(1_000 + at * 100, 0, 1, Op::Allocate, at, 0);
            trace.events.push(event);
        }
        trace.acquisitions = vec![
            own(0, 1_050, 100, 30, 63, 1),
            own(1, 1_100, 0, 50, 0, 1),
            own(1, 1_350, 300, 0, 0, 3),
        ];
        let waits = LockWaits::of(&trace).unwrap();
        assert_eq!((waits.calls, waits.cpus, waits.acquisitions), (4, 2, 3));
        // From 950 to 1350 ns.
        assert_eq!(waits.duration_ns, 400);
        assert_eq!(waits.wait_ns.count, 2);
        assert_eq!(waits.wait_ns.p50, 100);
        assert_eq!(waits.wait_ns.max, 300);
        assert_eq!((waits.hold_ns.count, waits.hold_ns.max), (2, 50));
        assert_eq!((waits.batch.count, waits.batch.p50), (1, 63));
        assert_eq!(
            waits.sources,
            [LockSource::ZoneLocked, LockSource::Contention]
        );
        assert_eq!(waits.per_call(), 0.5);
        assert_eq!(waits.share(), 400.0 / 800.0);
        assert_eq!(waits.waited_per_second(), 1e9);
        // If only waits were recorded, the recording says how long it took, and the machine how many CPUs it has.
        trace.events.clear();
        let waits_only = WaitsOnly {
            duration_ns: 2_000,
            ..WaitsOnly::default()
        };
        let machine = Machine {
            cpus: 4,
            total_kib: 1,
            ..Machine::default()
        };
        trace.metadata = vec![waits_only.entry(), machine.entry()];
        assert_eq!(LockWaits::of(&trace).unwrap().share(), 400.0 / 8_000.0);
        trace.acquisitions.clear();
        let none = LockWaits::of(&trace).unwrap();
        assert_eq!((none.share(), none.duration_ns, none.cpus), (0.0, 2_000, 4));
    }
}
