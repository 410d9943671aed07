//! The machine that was measured on, and whether it was quiet.
//!
//! Exists because times from a busy machine mislead, and a result that says so doesn't.
//!
//! Invariant: what can't be found out is left out, never guessed.

use std::fs;
use std::thread;

/// The machine, as far as it is known.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Machine {
    /// The processor's name.
    pub processor: Option<String>,
    /// Logical CPUs that this process may use.
    pub cores: Option<usize>,
    /// The kernel and its release.
    pub kernel: Option<String>,
    /// Threads that wanted to run, averaged over the last minute, before the measurement.
    pub load: Option<f64>,
}

impl Machine {
    /// Looks at the machine.
    pub fn look() -> Machine {
        let info = fs::read_to_string("/proc/cpuinfo").unwrap_or_default();
        let load = fs::read_to_string("/proc/loadavg").unwrap_or_default();
        Machine {
            processor: info
                .lines()
                .find_map(|line| line.strip_prefix("model name"))
                .and_then(|rest| rest.split_once(':'))
                .map(|(_, name)| name.trim().to_string()),
            cores: thread::available_parallelism().ok().map(usize::from),
            kernel: kernel(),
            load: load
                .split(' ')
                .next()
                .and_then(|number| number.parse().ok()),
        }
    }

    /// Tells whether others ran beside a measurement on so many threads, as far as is known.
    pub fn was_busy(&self) -> bool {
        match (self.load, self.cores) {
            (Some(load), Some(cores)) => load > 0.5 * cores as f64,
            _ => false,
        }
    }
}

/// Returns the kernel's name and release, like `Linux 6.18.0`.
fn kernel() -> Option<String> {
    let read = |file: &str| fs::read_to_string(format!("/proc/sys/kernel/{file}")).ok();
    let (name, release) = (read("ostype")?, read("osrelease")?);
    Some(format!("{} {}", name.trim(), release.trim()))
}

/// Returns how often this thread was switched out against its will; 0 where that is unknown.
pub(crate) fn switches() -> u64 {
    let status = fs::read_to_string("/proc/thread-self/status").unwrap_or_default();
    let count = status
        .lines()
        .find_map(|line| line.strip_prefix("nonvoluntary_ctxt_switches:"));
    count
        .and_then(|count| count.trim().parse().ok())
        .unwrap_or(0)
}
