//! The machine: how many CPUs, what costs what, and what runs on them.
//!
//! Why it exists: it is the place where tokens come from. A token exists inside [`Machine::run`] and
//! [`Machine::outside`] only; both borrow the machine exclusively, so that no two tokens of a machine have
//! the same number at the same time.
//!
//! Invariant: a run starts at time zero with a cost model that was reset: what ran before leaves no trace
//! but in the caller's memory.

use std::thread;

use everybuddy::{CpuId, Probe};

use crate::cost::{CostModel, Flat};
use crate::engine;
use crate::platform::SimCpu;
use crate::region::Region;
use crate::report::{Report, SimError};
use crate::schedule::{LONGEST, Schedule, SplitMix64};

/// A machine of virtual CPUs.
///
/// (Tokens of two machines with the same number would both count as the owner of that CPU's lists. That
/// can't cause undefined behaviour, but frames could be given twice: use a system with one machine.)
pub struct Machine {
    cpus: u16,
    cost: Box<dyn CostModel>,
    limit: u64,
    seed: u64,
    jitter: u64,
    stack: usize,
}

impl Machine {
    /// The limit of virtual time of a new machine, in cycles: some seconds of a real machine, some minutes
    /// of the host.
    pub const DEFAULT_LIMIT: u64 = 10_000_000_000;

    /// The largest limit of virtual time, in cycles.
    pub const LARGEST_LIMIT: u64 = LONGEST;

    /// The size of a virtual CPU's stack on a new machine, in bytes.
    pub const DEFAULT_STACK: usize = 256 * 1024;

    /// Makes a machine of CPUs 0 to `cpus - 1` with [`Flat::default`] costs, no jitter, and the default
    /// limit and stacks.
    pub fn new(cpus: u16) -> Self {
        Self {
            cpus,
            cost: Box::new(Flat::default()),
            limit: Self::DEFAULT_LIMIT,
            seed: 0,
            jitter: 0,
            stack: Self::DEFAULT_STACK,
        }
    }

    /// Sets what accesses cost.
    #[must_use]
    pub fn cost(self, cost: impl CostModel + 'static) -> Self {
        Self {
            cost: Box::new(cost),
            ..self
        }
    }

    /// Sets the virtual time, in cycles, at which a run is given up; at most
    /// [`LARGEST_LIMIT`](Self::LARGEST_LIMIT). It ends every loop that touches shared memory; one that
    /// doesn't hangs the host.
    #[must_use]
    pub fn limit(self, cycles: u64) -> Self {
        Self {
            limit: cycles.min(Self::LARGEST_LIMIT),
            ..self
        }
    }

    /// Adds 0 to `most` random cycles to each access, which gives another schedule for each
    /// [`seed`](Self::seed). Zero adds nothing.
    #[must_use]
    pub fn jitter(self, most: u64) -> Self {
        Self {
            jitter: most,
            ..self
        }
    }

    /// Sets where the jitter's random numbers start. Without jitter it changes nothing.
    #[must_use]
    pub fn seed(self, seed: u64) -> Self {
        Self { seed, ..self }
    }

    /// Sets the size of each virtual CPU's stack in bytes, rounded up to pages. A closure that needs more
    /// hits a guard page, and the process ends.
    #[must_use]
    pub fn stack(self, bytes: usize) -> Self {
        Self {
            stack: bytes,
            ..self
        }
    }

    /// Returns the number of CPUs. O(1).
    pub fn cpus(&self) -> u16 {
        self.cpus
    }

    /// Runs `body` once on each CPU, all from time zero, until all have returned. Lines are numbered within
    /// `region`.
    ///
    /// `B` is what counts events on each CPU; a closure whose parameter is `&mut SimCpu<Counts>` says it,
    /// and returns what its probe counted. What the closures share beside simulated memory is theirs to
    /// guard: a virtual CPU stops only at accesses to simulated memory, at [`SimCpu::work`] and in waits,
    /// so a `RefCell` will do if it isn't borrowed across those.
    ///
    /// # Errors
    /// Any [`SimError`]. The closures' stacks are unwound then: what they hold is dropped.
    ///
    /// # Panics
    /// When a closure panics, with that panic, after the other closures' stacks were unwound.
    ///
    /// Unwinding is a panic too: a closure that catches panics in a loop must leave the loop then, and a
    /// destructor must not wait for another CPU.
    pub fn run<B: Probe, T>(
        &mut self,
        region: Region,
        body: impl Fn(&mut SimCpu<B>) -> T,
    ) -> Result<Report<T>, SimError> {
        if engine::is_inside() {
            return Err(SimError::Nested);
        }
        if thread::panicking() {
            return Err(SimError::Unwinding);
        }
        let random = SplitMix64::new(self.seed);
        let schedule = Schedule::new(
            self.cpus,
            region,
            &mut *self.cost,
            self.limit,
            self.jitter,
            random,
        );
        engine::run(self.cpus, self.stack, schedule, |cpu| {
            body(&mut SimCpu::new(cpu))
        })
    }

    /// Calls `body` with the tokens of all CPUs, by number, without simulating: nothing is charged, and
    /// waits spin. For set-up, inspection, and tests that need tokens and no machine.
    ///
    /// Inside a closure of a run it is part of that closure's CPU, and charged to it.
    pub fn outside<B: Probe, T>(&mut self, body: impl FnOnce(&mut [SimCpu<B>]) -> T) -> T {
        let mut tokens: Vec<SimCpu<B>> =
            (0..self.cpus).map(|cpu| SimCpu::new(CpuId(cpu))).collect();
        body(&mut tokens)
    }
}
