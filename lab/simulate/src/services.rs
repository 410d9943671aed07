//! The services of a system, on CPUs of their own or on those of callers that wait.
//!
//! Some systems leave work to services, such as dividing and linking. A kernel runs them as threads, or at idle
//! priority, and their accesses cost what those of callers cost. Where no service runs, a request does the work itself
//! when it needs the result.
//!
//! # Invariants
//! A CPU that finds work does the next unit immediately. Otherwise it looks again, less and less often, so that it does
//! not take the lines that others need. A caller does units only while it waits outside of calls, one at a time: after
//! each of them it looks whether it still has to wait.
//!
//! A caller has parked itself while it serves, as the interface permits: a service touches no list of a CPU, so others
//! may drain that list meanwhile.

use std::cell::Cell;

use everybuddy::platform::CpuToken;
use everybuddy::{FrameAllocator, Progress};
use everybuddy_sim::{Caches, Machine, Region, Report, Sim, SimCpu, SimError};
use everybuddy_trace::named;

use crate::counted::{Counted, LOOK};
use crate::program::Used;
use crate::timeline;
use crate::work::Work;

named! {
    /// Where the services of systems run.
    #[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
    pub enum Services {
        /// Nowhere: callers do their work when they need it.
        #[default]
        Callers => "callers",
        /// Each on a CPU of its own, after those of the callers: those that need a thread.
        Own => "own",
        /// On each CPU of a caller that waits outside of calls: all of them. CPUs must not share those of the machine,
        /// since a CPU that serves does not give its turn to a caller.
        Idle => "idle",
    }
}

/// Looks in vain before the time between two looks first doubles, and between doublings.
const LOOKS: u32 = 64;
/// The most doublings: up to 1,024 times [`LOOK`].
const DOUBLES: u32 = 10;

/// When a CPU without work looks for work again.
#[derive(Default)]
struct Looks {
    /// Looks in vain since the last unit.
    vain: u32,
}

impl Looks {
    /// Notes a look in vain. Returns the instructions until the next one.
    fn in_vain(&mut self) -> u32 {
        let doubled = (self.vain.saturating_sub(LOOKS) / LOOKS).min(DOUBLES);
        self.vain = self.vain.saturating_add(1);
        LOOK << doubled
    }
}

/// What a caller that waits knows of the work of services.
#[derive(Default)]
pub(crate) struct Spare {
    looks: Looks,
    /// The time of the next look.
    next: u64,
    /// The service at which it begins.
    service: usize,
}

impl Spare {
    /// Notes that a wait begins.
    pub(crate) fn begin(&mut self) {
        (self.looks, self.next) = (Looks::default(), 0);
    }
}

/// The CPUs of a run: those that make calls, and behind them one for each service.
pub(crate) struct Crew<'s> {
    /// The system.
    pub(crate) system: &'s dyn FrameAllocator<Sim>,
    /// The CPUs that make calls.
    callers: u16,
    /// The service of each CPU behind those, by its number.
    services: Vec<usize>,
    /// The number of services whose work callers do while they wait.
    idle_services: usize,
    /// The callers that go on, and how often all of them have come to a meeting.
    left: Cell<u16>,
    arrivals: Cell<u64>,
    /// How often a CPU has said that counting begins.
    pub(crate) marks: Cell<u64>,
    /// Whether calls of each CPU are cut off in its section.
    pub(crate) cut_off: Vec<Cell<bool>>,
    /// What the accesses of the system stand for.
    pub(crate) work: Work,
    /// What programs use between calls.
    pub(crate) used: Used,
    /// Whether everything that happens is recorded.
    is_recorded: bool,
}

impl<'s> Crew<'s> {
    /// Creates the CPUs of a run.
    pub(crate) fn new(
        system: &'s dyn FrameAllocator<Sim>,
        callers: u16,
        services: Services,
        work: Work,
        is_recorded: bool,
    ) -> Self {
        let all = system.services();
        Self {
            system,
            callers,
            services: services.with_cpus(system),
            idle_services: match services {
                Services::Idle => all.len(),
                Services::Callers | Services::Own => 0,
            },
            left: Cell::new(callers),
            arrivals: Cell::new(0),
            marks: Cell::new(0),
            cut_off: vec![Cell::new(false); usize::from(callers)],
            work,
            used: Used::default(),
            is_recorded,
        }
    }

    /// Sets what programs use between calls; nothing by default.
    pub(crate) fn using(self, used: Used) -> Self {
        Self { used, ..self }
    }

    /// Returns `true` if all callers may wait in calls for a service that only CPUs that wait outside of calls run.
    pub(crate) fn needs_bounded_waits(&self) -> bool {
        let services = self.system.services().iter();
        self.serves_in_waits() && services.into_iter().any(|service| service.own_thread)
    }

    /// Returns `true` if callers do the work of services while they wait.
    pub(crate) fn serves_in_waits(&self) -> bool {
        self.idle_services > 0
    }

    /// Notes that a caller has come to a meeting.
    pub(crate) fn arrive(&self) {
        self.arrivals.set(self.arrivals.get() + 1);
    }

    /// Returns `true` if all callers that go on have come to a meeting, by its number from 1. No caller leaves a
    /// meeting before all have come.
    pub(crate) fn all_are_at(&self, meeting: u64) -> bool {
        self.arrivals.get() >= meeting * u64::from(self.left.get())
    }

    /// Notes that a caller comes to no more meetings, after it has come to this many.
    pub(crate) fn leave(&self, meetings: u64) {
        self.left.set(self.left.get() - 1);
        self.arrivals.set(self.arrivals.get() - meetings);
    }

    /// Returns `true` if a caller goes on.
    pub(crate) fn goes_on(&self) -> bool {
        self.left.get() > 0
    }

    /// Does a unit of the work of services on the CPU of a caller that waits. Returns `false` if there is none, or if
    /// it is not yet time to look again.
    pub(crate) fn serve_in_wait(
        &self,
        cpu: &mut SimCpu,
        spare: &mut Spare,
        counted: &mut Counted,
    ) -> bool {
        if self.idle_services == 0 || cpu.now() < spare.next {
            return false;
        }
        for _ in 0..self.idle_services {
            let service = spare.service;
            spare.service = (service + 1) % self.idle_services;
            if self.unit(cpu, service, counted) {
                spare.looks = Looks::default();
                return true;
            }
        }
        // An instruction takes a cycle, as nearly as matters here.
        spare.next = cpu.now() + u64::from(spare.looks.in_vain());
        false
    }

    /// Does a unit of the work of a service. Returns `false` if there is none.
    fn unit(&self, cpu: &mut SimCpu, service: usize, counted: &mut Counted) -> bool {
        let before = cpu.now();
        cpu.path(self.work.other);
        let has_worked = self.system.serve(cpu, service, 1) == Progress::More;
        if has_worked {
            counted.busy += cpu.now() - before;
            counted.units += 1;
        }
        if self.is_recorded {
            let name = self.system.services()[service].name;
            let moments = &mut counted.moments;
            timeline::note(moments, cpu, (name, before), (false, !has_worked));
        }
        has_worked
    }

    /// Runs `body` on each CPU that makes calls, and the services on the others until all bodies have returned.
    pub(crate) fn run(
        &self,
        machine: &mut Machine<Caches>,
        region: Region,
        body: impl Fn(&mut SimCpu) -> Counted,
    ) -> Result<Report<Counted>, SimError> {
        machine.run(region, |cpu: &mut SimCpu| {
            let behind = cpu.id().0.checked_sub(self.callers).map(usize::from);
            if let Some(service) = behind.and_then(|behind| self.services.get(behind)) {
                return self.serve(cpu, *service);
            }
            body(cpu)
        })
    }

    /// Does the work of a service until no CPU is left that makes calls.
    fn serve(&self, cpu: &mut SimCpu, service: usize) -> Counted {
        cpu.stand_aside();
        let (mut counted, mut looks, mut marks) = (Counted::default(), Looks::default(), 0);
        while self.goes_on() {
            if self.marks.get() != marks {
                // What was done before does not count.
                marks = self.marks.get();
                counted = Counted::default();
                cpu.probe().start(self.is_recorded);
            }
            if self.unit(cpu, service, &mut counted) {
                looks = Looks::default()
            } else {
                cpu.work(looks.in_vain())
            }
        }
        self.system.park(cpu);
        counted
    }
}

impl Services {
    /// Returns the services of a system that get a CPU of their own.
    pub(crate) fn with_cpus(self, system: &dyn FrameAllocator<Sim>) -> Vec<usize> {
        let services = system.services().iter().enumerate();
        let threads = services.filter(|(_, service)| service.own_thread);
        match self {
            Services::Callers | Services::Idle => Vec::new(),
            Services::Own => threads.map(|(number, _)| number).collect(),
        }
    }
}
