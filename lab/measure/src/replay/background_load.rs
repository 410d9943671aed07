//! The machine of the measurement, and its background load.
//!
//! Times from a busy machine are misleading, unless the result states that it was busy.
//!
//! # Invariants
//! Unknown facts are omitted, never guessed.

use std::fs;
use std::thread;
use std::time::Duration;

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

/// Returns how many CPUs other programs keep busy now, or a hypervisor takes; `None` if unknown. Waits half a second.
pub fn busy_cpus() -> Option<f64> {
    let read = || fs::read_to_string("/proc/stat").ok();
    let before = read()?;
    thread::sleep(Duration::from_millis(500));
    busy_between(&before, &read()?)
}

/// Returns the mean number of busy CPUs between two states of `/proc/stat`.
fn busy_between(before: &str, after: &str) -> Option<f64> {
    // Of all CPUs: user, nice, system, idle, waits for devices, interrupts, soft interrupts, stolen. Time of guests is
    // part of the first two.
    let times = |text: &str| -> Option<[f64; 2]> {
        let line = text.lines().find_map(|line| line.strip_prefix("cpu "))?;
        let times: Vec<f64> = line
            .split_whitespace()
            .take(8)
            .map_while(|own| own.parse().ok())
            .collect();
        let all: f64 = times.iter().sum();
        Some([all, all - times.get(3)? - times.get(4)?])
    };
    let ([all, busy], [all_before, busy_before]) = (times(after)?, times(before)?);
    let is_one = |line: &&str| {
        line.strip_prefix("cpu")
            .is_some_and(|rest| rest.starts_with(|own: char| own.is_ascii_digit()))
    };
    let cpus = after.lines().filter(is_one).count();
    let passed = all - all_before;
    (passed > 0.0).then(|| (busy - busy_before) / passed * cpus as f64)
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn busy_cpus_follow_from_two_states() {
        let state = |times: &str| format!("cpu  {times} 7 0\ncpu0 1 2\ncpu1 1 2\nintr 5\n");
        let before = state("100 0 50 800 20 5 5 20");
        // Of 100 ticks, 20 are idle, 5 wait for a device, 15 are stolen and 60 are calls of others.
        let after = state("140 5 60 820 25 10 5 35");
        assert_eq!(busy_between(&before, &after), Some(1.5));
        assert_eq!(busy_between(&before, &before), None);
        assert_eq!(busy_between("", &after), None);
        assert_eq!(busy_between(&before, "cpu  1 2\n"), None);
    }
}
