//! The services of a system, on CPUs of their own.
//!
//! # Purpose
//!
//! Some systems leave work to services, such as dividing and linking. A kernel runs them as threads, and their accesses
//! cost what those of callers cost. Where no service runs, a request does the work itself when it needs the result.
//!
//! # Invariants
//!
//! A service that finds work does the next unit immediately. Otherwise it looks again, less and less often, so that it
//! does not take the lines that others need.

use std::cell::Cell;

use everybuddy::platform::CpuToken;
use everybuddy::{FrameAllocator, Progress};
use everybuddy_sim::{Caches, Machine, Region, Report, Sim, SimCpu, SimError};

use crate::counted::{Counted, LOOK};
use crate::timeline;

/// Where the services of systems run.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Services {
    /// Nowhere: callers do their work when they need it.
    #[default]
    Callers,
    /// Each on a CPU of its own, after those of the callers.
    Own,
}

impl Services {
    /// Returns the services of a system that get a CPU of their own: those that need a thread. The others are for idle
    /// moments of callers, which a simulated caller does not have.
    pub(crate) fn of(self, system: &dyn FrameAllocator<Sim>) -> Vec<usize> {
        let services = system.services().iter().enumerate();
        let threads = services.filter(|(_, service)| service.own_thread);
        match self {
            Services::Callers => Vec::new(),
            Services::Own => threads.map(|(number, _)| number).collect(),
        }
    }
}

/// Looks in vain before the time between two looks first doubles, and between doublings.
const LOOKS: u32 = 64;
/// The most doublings: up to 1,024 times [`LOOK`].
const DOUBLES: u32 = 10;

/// The CPUs of a run: those that make calls, and behind them one for each service.
pub(crate) struct Crew<'s> {
    /// The system.
    pub(crate) system: &'s dyn FrameAllocator<Sim>,
    /// The CPUs that make calls.
    pub(crate) callers: u16,
    /// The service of each CPU behind those, by its number.
    pub(crate) services: Vec<usize>,
    /// How often a CPU has said that counting begins.
    pub(crate) marks: Cell<u64>,
    /// Whether everything that happens is recorded.
    is_recorded: bool,
}

impl<'s> Crew<'s> {
    /// Creates the CPUs of a run.
    pub(crate) fn new(
        system: &'s dyn FrameAllocator<Sim>,
        callers: u16,
        services: Vec<usize>,
        is_recorded: bool,
    ) -> Self {
        let marks = Cell::new(0);
        Self {
            system,
            callers,
            services,
            marks,
            is_recorded,
        }
    }

    /// Runs `body` on each CPU that makes calls, and the services on the others until all bodies have returned.
    pub(crate) fn run(
        &self,
        machine: &mut Machine<Caches>,
        region: Region,
        body: impl Fn(&mut SimCpu) -> Counted,
    ) -> Result<Report<Counted>, SimError> {
        let left = Cell::new(self.callers);
        machine.run(region, |cpu: &mut SimCpu| {
            let behind = cpu.id().0.checked_sub(self.callers).map(usize::from);
            if let Some(service) = behind.and_then(|behind| self.services.get(behind)) {
                return self.serve(cpu, *service, &left);
            }
            let counted = body(cpu);
            left.set(left.get() - 1);
            counted
        })
    }

    /// Does the work of a service until no CPU is left that makes calls.
    fn serve(&self, cpu: &mut SimCpu, service: usize, left: &Cell<u16>) -> Counted {
        cpu.stand_aside();
        let mut counted = Counted::default();
        let (mut idle, mut marks) = (0u32, 0);
        while left.get() > 0 {
            if self.marks.get() != marks {
                // What was done before does not count.
                marks = self.marks.get();
                counted = Counted::default();
                cpu.probe().start(self.is_recorded);
            }
            let before = cpu.now();
            let progress = self.system.serve(cpu, service, 1);
            if self.is_recorded && marks > 0 {
                let name = self.system.services()[service].name;
                let in_vain = progress == Progress::Idle;
                timeline::note(&mut counted.moments, cpu, (name, before), (false, in_vain));
            }
            if progress == Progress::More {
                counted.busy += cpu.now() - before;
                counted.units += 1;
                idle = 0;
                continue;
            }
            let doubled = (idle.saturating_sub(LOOKS) / LOOKS).min(DOUBLES);
            cpu.work(LOOK << doubled);
            idle = idle.saturating_add(1);
        }
        self.system.park(cpu);
        counted
    }
}
