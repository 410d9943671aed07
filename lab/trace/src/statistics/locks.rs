//! Acquisitions of a zone's lock, as the recorded kernel reported them.
//!
//! # Purpose
//!
//! How long a real kernel waited for its lock is what a model of that kernel must predict. The numbers are in the terms
//! of the simulator: waits per call, and the share of the CPUs' time.
//!
//! # Invariants
//!
//! An acquisition that did not wait is in no number about waits.

use std::collections::HashSet;

use super::Quantiles;
use crate::model::{Acquisition, LockSource, Trace};

/// What a trace says about the lock of a zone.
#[derive(Clone, Debug, PartialEq)]
pub struct LockWaits {
    /// Calls of the trace.
    pub calls: u64,
    /// CPUs that made calls or acquired the lock.
    pub cpus: u32,
    /// Time from the first call or wait to the last.
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
    /// Summarizes the acquisitions of a trace. Returns `None` if there are none. O(n log n).
    pub fn of(trace: &Trace) -> Option<LockWaits> {
        let (first, last) = (trace.acquisitions.first()?, trace.acquisitions.last()?);
        let begin = first.time_ns.saturating_sub(first.wait_ns);
        let begin = trace
            .events
            .first()
            .map_or(begin, |event| event.time_ns.min(begin));
        let end = trace.events.last().map_or(0, |event| event.time_ns);
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
        Some(LockWaits {
            calls: trace.events.len() as u64,
            cpus: cpus.len() as u32,
            duration_ns: end.max(last.time_ns) - begin,
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
            pid: 1,
            batch,
            cpu,
            source,
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
        assert_eq!(
            (waits.wait_ns.count, waits.wait_ns.p50, waits.wait_ns.max),
            (2, 100, 300)
        );
        assert_eq!((waits.hold_ns.count, waits.hold_ns.max), (2, 50));
        assert_eq!((waits.batch.count, waits.batch.p50), (1, 63));
        assert_eq!(
            waits.sources,
            [LockSource::ZoneLocked, LockSource::Contention]
        );
        assert_eq!(waits.per_call(), 0.5);
        assert_eq!(waits.share(), 400.0 / 800.0);
    }
}
