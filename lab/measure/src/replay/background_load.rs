//! The machine of the measurement, and its background load.
//!
//! Times from a busy machine are misleading, unless the result states that it was busy.
//!
//! # Invariants
//! Unknown facts are omitted, never guessed.

use std::fs;
use std::thread;

/// The known facts about the machine.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct HostInfo {
    /// The processor's name.
    pub processor: Option<String>,
    /// Logical CPUs that this process may use.
    pub cores: Option<usize>,
    /// The kernel and its release.
    pub kernel: Option<String>,
    /// The number of runnable threads, averaged over the last minute before the measurement.
    pub load: Option<f64>,
}

impl HostInfo {
    /// Queries the machine.
    pub fn look() -> HostInfo {
        let info = fs::read_to_string("/proc/cpuinfo").unwrap_or_default();
        let load = fs::read_to_string("/proc/loadavg").unwrap_or_default();
        HostInfo {
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

    /// Returns `true` if other programs ran during a measurement on `threads` threads, as far as known.
    pub fn was_busy(&self) -> bool {
        match (self.load, self.cores) {
            (Some(load), Some(cores)) => load > 0.5 * cores as f64,
            _ => false,
        }
    }
}

/// Returns the kernel's name and release, such as `Linux 6.18.0`.
fn kernel() -> Option<String> {
    let read = |file: &str| fs::read_to_string(format!("/proc/sys/kernel/{file}")).ok();
    let (name, release) = (read("ostype")?, read("osrelease")?);
    Some(format!("{} {}", name.trim(), release.trim()))
}

/// Returns the CPU time of this thread in nanoseconds; NaN if unknown.
pub(crate) fn cpu_time() -> f64 {
    #[cfg(target_os = "linux")]
    {
        let time = rustix::time::clock_gettime(rustix::time::ClockId::ThreadCPUTime);
        time.tv_sec as f64 * 1e9 + time.tv_nsec as f64
    }
    #[cfg(not(target_os = "linux"))]
    f64::NAN
}

/// Returns the number of involuntary context switches of this thread; 0 if unknown.
pub(crate) fn switches() -> u64 {
    let status = fs::read_to_string("/proc/thread-self/status").unwrap_or_default();
    let count = status
        .lines()
        .find_map(|line| line.strip_prefix("nonvoluntary_ctxt_switches:"));
    count
        .and_then(|count| count.trim().parse().ok())
        .unwrap_or(0)
}
