//! The conformance suite on the real machine, and the plain model at length.

mod suite;

use everybuddy::platform::{Hosted, NativeCpus, Spin, Waiting};
use everybuddy::{CpuId, NoProbe, Platform};
use suite::Host;

/// Spins a little, then lets others run: these threads share few processors.
struct Yield;

impl Waiting for Yield {
    fn pause(attempt: u32) {
        if attempt < 8 {
            Spin::pause(attempt)
        } else {
            std::thread::yield_now()
        }
    }
}

type Machine = Hosted<Yield>;

/// CPUs are threads.
struct Threads;

impl Host<Machine> for Threads {
    fn run<F: Fn(&mut <Machine as Platform>::Cpu) + Sync>(&self, cpus: u16, body: F) {
        let set = NativeCpus::new(cpus);
        std::thread::scope(|scope| {
            for id in 0..cpus {
                let (set, body) = (&set, &body);
                scope.spawn(move || body(&mut set.claim::<NoProbe>(CpuId(id)).unwrap()));
            }
        });
    }
}

conformance!(Machine, Threads);
