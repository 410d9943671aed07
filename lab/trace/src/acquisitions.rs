//! The rule of acquisitions: a CPU waits for one zone's lock at a time.
//!
//! Reading a file and assembling a recording share one definition of which acquisitions are possible.
//!
//! # Invariants
//! Admitted acquisitions are sorted by time. On each CPU, a wait begins after the previous acquisition was released, or
//! after it was acquired if the release is unknown.

use std::collections::HashMap;

use crate::error::Problem;
use crate::model::Acquisition;

/// Texts round times to microseconds, and a kernel measures waits by another clock than its events: an overlap up to
/// this many nanoseconds is none.
const ROUNDING_NS: u64 = 2_000;

/// Follows the acquisitions of all CPUs, in order of time.
#[derive(Clone, Debug, Default)]
pub struct OnCpus {
    time_ns: u64,
    /// When the last acquisition of each CPU ended, as far as is known.
    ends: HashMap<u16, u64>,
}

impl OnCpus {
    /// Accepts the next acquisition, or returns the rule that it breaks and changes nothing. O(1).
    ///
    /// # Errors
    ///
    /// [`Problem::TimeRunsBack`] if it is earlier than the previous one, and [`Problem::WaitOverlaps`] if its CPU was
    /// waiting for a zone's lock, or held one, when it began to wait.
    pub fn admit(&mut self, own: &Acquisition) -> Result<(), Problem> {
        let (time_ns, before_ns) = (own.time_ns, self.time_ns);
        if time_ns < before_ns {
            return Err(Problem::TimeRunsBack { time_ns, before_ns });
        }
        if let Some(end_ns) = self.ends.get(&own.cpu) {
            let begin_ns = time_ns.saturating_sub(own.wait_ns);
            if begin_ns.saturating_add(ROUNDING_NS) < *end_ns {
                let (cpu, end_ns) = (own.cpu, *end_ns);
                return Err(Problem::WaitOverlaps {
                    cpu,
                    begin_ns,
                    end_ns,
                });
            }
        }
        self.time_ns = time_ns;
        let end_ns = time_ns.saturating_add(own.hold_ns);
        self.ends.insert(own.cpu, end_ns);
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn own(cpu: u16, time_ns: u64, wait_ns: u64, hold_ns: u64) -> Acquisition {
        Acquisition {
            time_ns,
            wait_ns,
            hold_ns,
            cpu,
            ..Acquisition::default()
        }
    }

    #[test]
    fn a_cpu_waits_for_one_lock_at_a_time() {
        let mut cpus = OnCpus::default();
        assert!(cpus.admit(&own(0, 10_000, 4_000, 5_000)).is_ok());
        assert!(cpus.admit(&own(1, 11_000, 11_000, 0)).is_ok());
        // CPU 0 holds its lock until 15,000 ns; 2,000 ns may be rounding.
        assert!(matches!(
            cpus.admit(&own(0, 16_000, 3_001, 0)),
            Err(Problem::WaitOverlaps {
                cpu: 0,
                begin_ns: 12_999,
                end_ns: 15_000
            })
        ));
        assert!(cpus.admit(&own(0, 16_000, 3_000, 0)).is_ok());
        assert!(matches!(
            cpus.admit(&own(1, 15_999, 0, 0)),
            Err(Problem::TimeRunsBack { .. })
        ));
        // What was refused has changed nothing.
        assert!(cpus.admit(&own(1, 16_000, 5_000, u64::MAX)).is_ok());
        assert!(cpus.admit(&own(1, u64::MAX, 0, 0)).is_ok());
    }
}
