//! The machine: the number of CPUs, the costs, and the closures that run on the CPUs.
//!
//! The machine is the source of tokens. A token exists inside [`Machine::run`] and [`Machine::outside`] only. Both
//! borrow the machine exclusively, so no two tokens of a machine have the same number at the same time.
//!
//! # Invariants
//! A run starts at time zero with a cost model that was reset. Earlier runs leave no trace except in the caller's
//! memory.

use std::thread;

use everybuddy::{CpuId, Probe};

use crate::cores::Cores;
use crate::cost::{CostModel, Flat};
use crate::engine;
use crate::faults::{Fault, Plan};
use crate::platform::SimCpu;
use crate::random::SplitMix64;
use crate::ready::LONGEST;
use crate::region::Region;
use crate::report::{Report, SimError};
use crate::schedule::Schedule;
use crate::watchdog::Limits;

/// A machine of virtual CPUs.
///
/// (Tokens of two machines with the same number would both count as the owner of that CPU's lists. This cannot cause
/// undefined behaviour, but a frame could be allocated twice: use a system with one machine only.)
pub struct Machine<C: CostModel = Flat> {
    cpus: u16,
    cost: C,
    limits: Limits,
    seed: u64,
    jitter: u64,
    stack: usize,
    plan: Plan,
}

/// The default limit of virtual time, in cycles: several seconds of a real machine, several minutes on the host.
pub const DEFAULT_LIMIT: u64 = 10_000_000_000;

/// The largest limit of virtual time, in cycles.
pub const LARGEST_LIMIT: u64 = LONGEST;

/// The default size of a virtual CPU's stack, in bytes.
pub const DEFAULT_STACK: usize = 256 * 1024;

impl Machine {
    /// Creates a machine of CPUs 0 to `cpus - 1` with [`Flat::default`] costs, no jitter, and the default limit and
    /// stacks.
    pub fn new(cpus: u16) -> Self {
        Self {
            cpus,
            cost: Flat::default(),
            limits: Limits {
                cycles: DEFAULT_LIMIT,
                patience: None,
            },
            seed: 0,
            jitter: 0,
            stack: DEFAULT_STACK,
            plan: Plan::NOTHING,
        }
    }
}

impl<C: CostModel> Machine<C> {
    /// Sets the cost model.
    #[must_use]
    pub fn cost<D: CostModel>(self, cost: D) -> Machine<D> {
        let Self {
            cpus,
            cost: _,
            limits,
            seed,
            jitter,
            stack,
            plan,
        } = self;
        Machine {
            cpus,
            cost,
            limits,
            seed,
            jitter,
            stack,
            plan,
        }
    }

    /// Returns the cost model, with what it counted in the last run. O(1).
    pub fn model(&self) -> &C {
        &self.cost
    }

    /// Sets the virtual time, in cycles, at which a run is aborted; at most [`LARGEST_LIMIT`]. The limit ends every
    /// loop that touches shared memory. A loop that does not touch shared memory hangs the host.
    #[must_use]
    pub fn limit(mut self, cycles: u64) -> Self {
        self.limits.cycles = cycles.min(LARGEST_LIMIT);
        self
    }

    /// Lets a watchdog abort a run as [`SimError::Stall`] in which all CPUs together make more than `steps` steps
    /// without [progress](SimCpu::progress). A step is an access, or work that is charged. Unlike the
    /// [limit](Self::limit), it does not depend on how long the whole run takes. It looks every million cycles of
    /// virtual time, which costs the host nothing between the looks.
    #[must_use]
    pub fn patience(mut self, steps: u64) -> Self {
        self.limits.patience = Some(steps);
        self
    }

    /// Adds 0 to `most` random cycles to each access, which gives a different schedule for each
    /// [`seed`](Self::seed). Zero adds no jitter.
    #[must_use]
    pub fn jitter(self, most: u64) -> Self {
        Self {
            jitter: most,
            ..self
        }
    }

    /// Sets the seed of the jitter. Without jitter it has no effect.
    #[must_use]
    pub fn seed(self, seed: u64) -> Self {
        Self { seed, ..self }
    }

    /// Sets the size of each virtual CPU's stack in bytes, rounded up to pages. A closure that needs more hits a
    /// guard page, and the process is killed.
    #[must_use]
    pub fn stack(self, bytes: usize) -> Self {
        Self {
            stack: bytes,
            ..self
        }
    }

    /// Stops a CPU for ever when it has made `access` accesses, counted from 1: the access takes effect, and the CPU
    /// never runs again. The others go on. A CPU that was stopped counts as ended for a
    /// [barrier](SimCpu::barrier). Numbers that are not CPUs have no effect.
    ///
    /// All CPUs that wait look again when it stops, since it may have been about to wake them. When all other CPUs
    /// wait, they [poll](Self::polls). After the run the stack of the stopped CPU is unwound, and its destructors
    /// change shared memory: check the allocator inside the run.
    #[must_use]
    pub fn stop(mut self, cpu: CpuId, access: u64) -> Self {
        self.plan.add(cpu, access, Fault::Stop);
        self
    }

    /// Interrupts a CPU when it has made `access` accesses, counted from 1: the CPU runs the handler of
    /// [`run_interrupted`](Self::run_interrupted), and then continues. In a handler the next interrupt waits until
    /// the handler has returned. A CPU that waits is not interrupted.
    #[must_use]
    pub fn interrupt(mut self, cpu: CpuId, access: u64) -> Self {
        self.plan.add(cpu, access, Fault::Interrupt);
        self
    }

    /// Sets how often one wait polls in vain after a CPU was stopped, or with [`bounded_waits`](Self::bounded_waits).
    /// If all CPUs wait and each has polled as often, the run ends as [`SimError::Hang`], or as
    /// [`SimError::Deadlock`] if no CPU was stopped. Waits of allocators that are bounded poll up to 65,536 times.
    #[must_use]
    pub fn polls(mut self, times: u32) -> Self {
        self.plan.polls = times;
        self
    }

    /// Lets bounded waits end although no CPU was stopped: when all CPUs wait, they [poll](Self::polls). For runs in
    /// which the CPU that would end a wait may itself be waiting. Takes the host longer.
    #[must_use]
    pub fn bounded_waits(mut self) -> Self {
        self.plan.bounds_waits = true;
        self
    }

    /// Records which CPU wrote a word last, so that errors name it. This takes the host longer. A run in which CPUs
    /// are stopped or interrupted always records it.
    #[must_use]
    pub fn record_writers(mut self) -> Self {
        self.plan.records = true;
        self
    }

    /// Lets the virtual CPUs share `cores`: at most one of them runs on a core at any time.
    #[must_use]
    pub fn cores(mut self, cores: Cores) -> Self {
        self.plan.cores = Some(cores);
        self
    }

    /// Returns the number of CPUs. O(1).
    pub fn cpus(&self) -> u16 {
        self.cpus
    }

    /// Runs `body` once on each CPU, all from time zero, until all have returned. Cache lines are numbered within
    /// `region`.
    ///
    /// `B` is the probe that counts events on each CPU. A closure selects it by its parameter type (`&mut
    /// SimCpu<Counts>`) and returns the probe's counts. Data that the closures share outside simulated memory is the
    /// caller's responsibility. A virtual CPU is suspended only at accesses to simulated memory, at [`SimCpu::work`]
    /// and in waits, so a `RefCell` suffices if it is not borrowed across those.
    ///
    /// # Errors
    /// Returns any [`SimError`]. The stacks of the closures have been unwound: everything they own is dropped.
    ///
    /// # Panics
    /// If a closure panics, with that panic, after the stacks of the other closures were unwound.
    ///
    /// Unwinding is a panic too. A closure that catches panics in a loop must leave the loop, and a destructor must
    /// not wait for another CPU.
    pub fn run<B: Probe, T>(
        &mut self,
        region: Region,
        body: impl Fn(&mut SimCpu<B>) -> T,
    ) -> Result<Report<T>, SimError> {
        self.run_interrupted(region, |_| {}, body)
    }

    /// Does the same as [`run`](Self::run), and runs `handler` at each [interrupt](Self::interrupt), on the stack of
    /// the CPU that it interrupts.
    ///
    /// The handler has no token. It is part of its CPU: its accesses are charged to that CPU and counted, and it may
    /// be suspended at them.
    ///
    /// # Errors
    /// Those of [`run`](Self::run).
    ///
    /// # Panics
    /// As [`run`](Self::run). A panic of the handler is one of the closure that it interrupted.
    pub fn run_interrupted<B: Probe, T>(
        &mut self,
        region: Region,
        handler: impl Fn(CpuId),
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
            &mut self.cost,
            self.limits,
            (self.jitter, random),
            &self.plan,
        );
        engine::run(self.cpus, self.stack, schedule, &handler, |cpu| {
            body(&mut SimCpu::new(cpu))
        })
    }

    /// Calls `body` with the tokens of all CPUs, by number, without simulation: nothing is charged, and waits spin.
    /// For set-up, inspection, and tests that need tokens but no machine.
    ///
    /// If it is called inside a closure of a run, `body` runs as part of that closure's CPU and is charged to it.
    pub fn outside<B: Probe, T>(&mut self, body: impl FnOnce(&mut [SimCpu<B>]) -> T) -> T {
        let mut tokens: Vec<SimCpu<B>> =
            (0..self.cpus).map(|cpu| SimCpu::new(CpuId(cpu))).collect();
        body(&mut tokens)
    }
}
