//! When a run is aborted: its limit of virtual time, and the watchdog.
//!
//! CPUs that never end a call, in a livelock or behind a lock that is not released, must end the run. The limit of
//! virtual time of a long run comes too late for that: the host would simulate it for days.
//!
//! # Invariants
//! The watchdog counts steps, and not cycles: a CPU that works for long, outside of calls, makes one step. It looks
//! after every [`BETWEEN_LOOKS`] cycles, so an access does not know of it.

/// When a run is aborted.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Limits {
    /// The virtual time of the run, in cycles.
    pub(crate) cycles: u64,
    /// The steps without progress, if they are limited; see [`Machine::patience`](crate::Machine::patience).
    pub(crate) patience: Option<u64>,
}

/// The cycles between two looks.
pub(crate) const BETWEEN_LOOKS: u64 = 1 << 20;

/// What the watchdog knows.
pub(crate) struct Watchdog {
    patience: u64,
    /// How often the run has made progress, and how often until the last look.
    progress: u64,
    seen: u64,
    /// The steps of all CPUs at the first look after the last progress.
    since: u64,
}

impl Watchdog {
    pub(crate) fn new(patience: u64) -> Self {
        Self {
            patience,
            progress: 0,
            seen: 0,
            since: 0,
        }
    }

    /// Notes that the run makes progress.
    pub(crate) fn progress(&mut self) {
        self.progress += 1;
    }

    /// Looks at a run whose CPUs have made `steps` steps. Returns the steps without progress if they are too many.
    pub(crate) fn look(&mut self, steps: u64) -> Option<u64> {
        if self.progress != self.seen {
            self.seen = self.progress;
            self.since = steps;
        }
        let without = steps - self.since;
        (without > self.patience).then_some(without)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn steps_count_from_the_first_look_after_the_last_progress() {
        let mut watchdog = Watchdog::new(100);
        assert_eq!(watchdog.look(100), None);
        watchdog.progress();
        assert_eq!([150, 250].map(|steps| watchdog.look(steps)), [None, None]);
        assert_eq!(watchdog.look(251), Some(101));
        watchdog.progress();
        assert_eq!(watchdog.look(9000), None);
    }
}
