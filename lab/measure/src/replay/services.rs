//! The services of a system, on separate threads.
//!
//! A system that leaves dividing and linking to services needs threads for them. While a script runs, each service
//! that requires a thread has one. The thread performs one unit of work at a time and checks for the next. If there
//! is none, it checks again a few times and then sleeps, for increasing durations, so that it does not take processor
//! time from the callers on a machine with few processors. Work that a kernel would do in its idle loop is done in
//! the same way, by `serve` with a budget.
//!
//! # Invariants
//! No service runs before `body` starts or after `alongside` returns.

use std::sync::Mutex;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::Duration;

use everybuddy::platform::{NativeCpus, Waiting};
use everybuddy::{CpuId, Progress};
use quanta::Instant;

use crate::replay::calls::Calls;
use crate::replay::host::Yielding;
use crate::replay::watch::ReadableProbe;

/// The work of a service.
#[derive(Clone, Debug, Default)]
pub struct Served {
    /// Its name.
    pub name: &'static str,
    /// The time that it worked, without checking for work and without sleeping.
    pub busy: Duration,
    /// The same without units that took longer than [`LONGEST`].
    pub steady: Duration,
    /// Units of work: areas divided or linked, requests served.
    pub units: u64,
}

/// A unit that takes longer was interrupted: its thread was switched out, or waited for a thread that was.
pub const LONGEST: Duration = Duration::from_micros(50);

/// The number of checks before a service without work sleeps.
const LOOKS: u32 = 64;
/// The first sleep, and the number of times it doubles.
const SLEEP: Duration = Duration::from_micros(20);
const DOUBLES: u32 = 5;

/// Runs `body` concurrently with the services of a system, which act as the CPUs from `first` on and use `probe`.
///
/// Only this wrapper is compiled for each body, because a scope of threads is 5,000 lines for the compiler.
pub fn alongside<S: Calls<B> + ?Sized, B: ReadableProbe, T>(
    system: &S,
    first: u16,
    probe: &(dyn Fn() -> B + Sync),
    body: impl FnOnce() -> T,
) -> (T, Vec<Served>, Vec<B>) {
    let (mut body, mut came) = (Some(body), None);
    let (served, heard) = run_beside(system, first, probe, &mut || {
        came = body.take().map(|body| body());
    });
    let came = came.expect("the body is called once");
    (came, served, heard)
}

/// Runs `body` once, concurrently with the services.
fn run_beside<S: Calls<B> + ?Sized, B: ReadableProbe>(
    system: &S,
    first: u16,
    probe: &(dyn Fn() -> B + Sync),
    body: &mut dyn FnMut(),
) -> (Vec<Served>, Vec<B>) {
    let services = system.services();
    let threaded = services.iter().filter(|service| service.own_thread).count();
    if threaded == 0 {
        body();
        return (Vec::new(), Vec::new());
    }
    let cpus = NativeCpus::new(first.saturating_add(services.len() as u16));
    let ended = AtomicBool::new(false);
    let homes = Mutex::new((Vec::new(), Vec::new()));
    thread::scope(|scope| {
        for (number, service) in services.iter().enumerate() {
            if !service.own_thread {
                continue;
            }
            let (cpus, ended, homes) = (&cpus, &ended, &homes);
            scope.spawn(move || {
                let id = CpuId(first.saturating_add(number as u16));
                let Ok(mut cpu) = cpus.claim_probed::<B>(id) else {
                    return;
                };
                *cpu.probe() = probe();
                let mut served = Served {
                    name: service.name,
                    ..Served::default()
                };
                let mut idle = 0u32;
                while !ended.load(Ordering::Relaxed) {
                    let start = Instant::now();
                    if system.serve(&mut cpu, number, 1) == Progress::More {
                        let took = start.elapsed();
                        served.busy += took;
                        if took <= LONGEST {
                            served.steady += took;
                        }
                        served.units += 1;
                        idle = 0;
                        continue;
                    }
                    if idle < LOOKS {
                        Yielding::pause(idle.min(6))
                    } else {
                        thread::sleep(SLEEP * (1 << (idle - LOOKS).min(DOUBLES)))
                    }
                    idle = idle.saturating_add(1);
                }
                let heard = std::mem::take(cpu.probe());
                if let Ok(mut homes) = homes.lock() {
                    homes.0.push(served);
                    homes.1.push(heard);
                }
            });
        }
        // Required if the body panics: otherwise the scope would wait for the services for ever.
        struct End<'e>(&'e AtomicBool);
        impl Drop for End<'_> {
            fn drop(&mut self) {
                self.0.store(true, Ordering::Relaxed);
            }
        }
        let _end = End(&ended);
        body();
    });
    let (mut served, heard) = homes.into_inner().unwrap_or_default();
    served.sort_by_key(|one: &Served| services.iter().position(|s| s.name == one.name));
    (served, heard)
}
