//! The platform of all native tests: the real machine, with waiting and listening as values.
//!
//! Every platform type that a test names compiles every system once more, for some minutes. A test that wants to wait
//! differently, or to be told of events, says so at run time here, and all tests share one compiled set of systems.
//!
//! # Invariants
//! [`Machine`] is the only native platform of the tests, and [`try_any`] the only function that builds
//! systems on it. It is not generic, so the systems are compiled into this crate and into no test.

use std::boxed::Box;
use std::cell::Cell;
use std::mem::MaybeUninit;
use std::time::Duration;
use std::vec::Vec;
use std::{assert, panic, thread_local, vec};

use everybuddy::platform::{Hosted, NativeCpu, NativeCpus, Spin, Waiting};
use everybuddy::{
    BuildError, Counts, CpuId, Event, FrameAllocator, FrameRange, Memory, Platform, Probe, Setup,
    SystemSpec, metadata_layout, systems::build_erased,
};

use crate::Host;

/// The real machine, for tests.
#[cfg(not(feature = "plain"))]
pub type Machine = Hosted<Wait, Watch>;
/// The real machine with cells of plain memory, for tests under ThreadSanitizer.
#[cfg(feature = "plain")]
pub type Machine = crate::plain::Plain<Hosted<Wait, Watch>>;

/// The token of one of its CPUs.
pub type Cpu = NativeCpu<Watch>;

/// A system of any composition on it.
pub type System<'s> = dyn FrameAllocator<Machine> + 's;

/// Calls what the thread was told to call while it waits; see [`waiting_by`].
pub struct Wait;

thread_local! {
    static PAUSE: Cell<fn(u32)> = const { Cell::new(give_way) };
    static CLOCK: Cell<fn() -> Option<u64>> = const { Cell::new(|| None) };
}

impl Waiting for Wait {
    // A thread can be stopped in a call.
    const MAX_WAIT: u64 = 1_000_000_000;
    const MAX_POLLS: u32 = 1 << 16;

    fn pause(attempt: u32) {
        PAUSE.get()(attempt);
    }

    fn now() -> Option<u64> {
        CLOCK.get()()
    }
}

/// Spins a few times, then lets other threads run, and finally sleeps: test threads share few processors with other
/// programs, and a CPU that asks another one waits for a limited number of attempts. Threads wait like this by default.
///
/// # Panics
/// After a million attempts, when the wait cannot end.
pub fn give_way(attempt: u32) {
    assert!(attempt < 1 << 20, "the awaited event does not occur");
    match attempt {
        0..4 => Spin::pause(attempt),
        4..1024 => std::thread::yield_now(),
        _ => std::thread::sleep(Duration::from_micros(20)),
    }
}

/// Runs `body` with another way to wait on this thread. Threads that `body` starts wait as usual.
pub fn waiting_by<T>(pause: fn(u32), body: impl FnOnce() -> T) -> T {
    /// Restores the former way, also when `body` panics.
    struct Former(fn(u32));
    impl Drop for Former {
        fn drop(&mut self) {
            PAUSE.set(self.0);
        }
    }
    let _former = Former(PAUSE.replace(pause));
    body()
}

/// Runs `body` with a clock on this thread, which otherwise has none.
pub fn timed_by<T>(now: fn() -> Option<u64>, body: impl FnOnce() -> T) -> T {
    /// Restores the former clock, also when `body` panics.
    struct Former(fn() -> Option<u64>);
    impl Drop for Former {
        fn drop(&mut self) {
            CLOCK.set(self.0);
        }
    }
    let _former = Former(CLOCK.replace(now));
    body()
}

/// Counts what happens on a CPU, and passes it on to a listener if there is one.
#[derive(Default)]
pub struct Watch {
    /// What was counted.
    pub counts: Counts,
    /// What is called with each event after it was counted.
    pub listener: Option<Box<dyn FnMut(Event)>>,
}

impl Probe for Watch {
    fn record(&mut self, event: Event) {
        self.counts.record(event);
        if let Some(listener) = &mut self.listener {
            listener(event);
        }
    }
}

/// Claims the token of a CPU.
///
/// # Panics
/// If another thread has it, or there is no such CPU.
pub fn claim(cpus: &NativeCpus, id: u16) -> Cpu {
    cpus.claim_probed(CpuId(id))
        .expect("the CPU's token is not in use")
}

/// Builds a system in the memory given, and calls `visitor` once with it.
///
/// # Errors
/// Any [`BuildError`]; the visitor is not called then.
#[inline(never)]
pub fn try_any(
    spec: &SystemSpec,
    setup: &Setup<'_>,
    memory: Memory<'_>,
    visitor: &mut dyn FnMut(&dyn FrameAllocator<Machine>),
) -> Result<(), BuildError> {
    visitor(build_erased::<Machine>(spec, setup, memory)?);
    Ok(())
}

/// Returns memory for the metadata of a system on any platform.
///
/// # Panics
/// If the system can't be built.
pub fn memory_for<P: Platform>(spec: &SystemSpec, setup: &Setup<'_>) -> Vec<MaybeUninit<u8>> {
    let layout =
        metadata_layout::<P>(spec, setup).unwrap_or_else(|error| panic!("{spec}: {error}"));
    vec![MaybeUninit::uninit(); Memory::room(layout)]
}

/// Builds a system in memory of its own, runs `body` with it, and returns what `body` returns.
///
/// # Panics
/// If the system can't be built.
pub fn any<T>(spec: &SystemSpec, setup: &Setup<'_>, body: impl FnOnce(&System<'_>) -> T) -> T {
    let mut memory = memory_for::<Machine>(spec, setup);
    let (mut body, mut result) = (Some(body), None);
    let visitor = &mut |system: &dyn FrameAllocator<Machine>| {
        let body = body.take().expect("a visitor is called once");
        result = Some(body(system));
    };
    try_any(spec, setup, Memory::new(&mut memory), visitor)
        .unwrap_or_else(|error| panic!("{spec}: {error}"));
    result.expect("a visitor is called")
}

/// The same for a system by its name.
///
/// # Panics
/// If no system has this name, or it can't be built.
pub fn on<T>(name: &str, setup: &Setup<'_>, body: impl FnOnce(&System<'_>) -> T) -> T {
    let spec = name
        .parse()
        .unwrap_or_else(|error| panic!("{name}: {error}"));
    any(&spec, setup, body)
}

/// The same with the tokens of the system's CPUs.
///
/// # Panics
/// If no system has this name, or it can't be built.
pub fn on_cpus<const CPUS: usize, T>(
    name: &str,
    ranges: &[FrameRange],
    body: impl FnOnce(&System<'_>, [&mut Cpu; CPUS]) -> T,
) -> T {
    let set = NativeCpus::new(CPUS as u16);
    let mut cpus: [Cpu; CPUS] = core::array::from_fn(|id| claim(&set, id as u16));
    on(name, &Setup::new(ranges, CPUS as u16), |system| {
        body(system, cpus.each_mut())
    })
}

/// Runs the CPUs of [`Machine`] as threads.
pub struct Threads;

impl Host<Machine> for Threads {
    fn build(
        &self,
        spec: &SystemSpec,
        setup: &Setup<'_>,
        visitor: &mut dyn FnMut(&dyn FrameAllocator<Machine>),
    ) {
        any(spec, setup, |system| visitor(system));
    }

    fn run<F: Fn(&mut Cpu) + Sync>(&self, cpus: u16, body: F) {
        let set = NativeCpus::new(cpus);
        all_at_once(cpus, |id| body(&mut claim(&set, id)));
    }
}

/// Runs `body` on `threads` threads at the same time, with numbers from 0 on.
///
/// # Panics
/// If one of the threads panicked.
pub fn all_at_once(threads: u16, body: impl Fn(u16) + Sync) {
    std::thread::scope(|scope| {
        let body = &body;
        let spawn = |number| scope.spawn(move || body(number));
        let threads: Vec<_> = (0..threads).map(spawn).collect();
        // ThreadSanitizer sees how a thread is joined, but not how a scope waits: the standard library is not
        // instrumented.
        for thread in threads {
            if let Err(panic) = thread.join() {
                panic::resume_unwind(panic);
            }
        }
    });
}
