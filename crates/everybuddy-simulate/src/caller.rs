//! A CPU that calls a system, and what it measures.
//!
//! # Purpose
//!
//! Workloads and traces decide which calls are made. How a call is made and measured is the same for both.
//!
//! # Invariants
//!
//! A CPU that waits for other CPUs outside of calls has parked itself, as an idle CPU of a kernel does: otherwise a CPU
//! that needs what is in its list would wait for it. The time is idle time and no part of a call.

use everybuddy::platform::CpuToken;
use everybuddy::{FrameAllocator, Pfn, Release, Request};
use everybuddy_measure::replay::memory::Random;
use everybuddy_sim::{Sim, SimCpu};

/// Instructions between two looks for what another CPU provides.
pub(crate) const LOOK: u32 = 200;

/// How fast CPUs make calls.
#[derive(Clone, Copy)]
pub(crate) struct Pace {
    /// The mean number of instructions between two calls. They vary by a half.
    pub(crate) think: u32,
    /// The seed of their number.
    pub(crate) seed: u64,
}

/// What a CPU measured, in cycles.
#[derive(Default)]
pub(crate) struct Counted {
    /// When the measurement began.
    pub(crate) start: u64,
    /// When the CPU was done.
    pub(crate) end: u64,
    /// The duration of each allocation, refused ones included.
    pub(crate) allocate: Vec<u64>,
    /// The duration of each free.
    pub(crate) free: Vec<u64>,
    /// Requests that were refused.
    pub(crate) refused: u64,
    /// The time in which the CPU waited for others outside of calls.
    pub(crate) idle: u64,
}

/// A CPU that makes calls and thinks in between.
pub(crate) struct Caller<'t, 'c> {
    system: &'t dyn FrameAllocator<Sim>,
    cpu: &'c mut SimCpu,
    random: Random,
    think: u32,
    counted: Counted,
}

impl<'t, 'c> Caller<'t, 'c> {
    /// Creates the caller of a CPU.
    pub(crate) fn new(
        pace: Pace,
        system: &'t dyn FrameAllocator<Sim>,
        cpu: &'c mut SimCpu,
    ) -> Self {
        Self {
            system,
            random: Random::new(pace.seed << 16 | u64::from(cpu.id().0)),
            think: pace.think,
            cpu,
            counted: Counted::default(),
        }
    }

    /// Returns the position of the CPU.
    pub(crate) fn index(&self) -> usize {
        self.cpu.id().index()
    }

    /// Forgets what was measured: from here on it counts. All CPUs must come here at the same time.
    pub(crate) fn begin(&mut self) {
        self.cpu.mark();
        self.counted = Counted {
            start: self.cpu.now(),
            ..Counted::default()
        };
    }

    /// Ends the measurement.
    pub(crate) fn end(mut self) -> Counted {
        self.counted.end = self.cpu.now();
        self.park();
        self.counted
    }

    /// Thinks, then allocates. Returns `None` if the request is refused.
    pub(crate) fn allocate(&mut self, request: Request) -> Option<Pfn> {
        self.think();
        let before = self.cpu.now();
        let given = self.system.allocate(self.cpu, request);
        self.counted.allocate.push(self.cpu.now() - before);
        self.counted.refused += u64::from(given.is_err());
        given.ok()
    }

    /// Thinks, then frees.
    pub(crate) fn free(&mut self, release: Release) {
        self.think();
        let before = self.cpu.now();
        let freed = self.system.free(self.cpu, release);
        self.counted.free.push(self.cpu.now() - before);
        debug_assert!(freed.is_ok(), "{release:?}: {freed:?}");
    }

    /// Waits for all other CPUs.
    pub(crate) fn meet(&mut self) {
        self.park();
        let before = self.cpu.now();
        self.cpu.barrier();
        self.counted.idle += self.cpu.now() - before;
    }

    /// Tells the system that this CPU makes no calls for a while.
    pub(crate) fn park(&mut self) {
        self.system.park(self.cpu);
    }

    /// Lets time pass, outside of calls, in a CPU that has parked itself.
    pub(crate) fn idle(&mut self, instructions: u32) {
        let before = self.cpu.now();
        self.cpu.work(instructions);
        self.counted.idle += self.cpu.now() - before;
    }

    fn think(&mut self) {
        if self.think > 0 {
            let half = self.think / 2;
            let more = self.random.below(u64::from(self.think) + 1) as u32;
            self.cpu.work(half + more);
        }
    }
}
