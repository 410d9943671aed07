//! What a CPU that stops for ever does to the others: at every access of every operation, on every system.
//!
//! A CPU of a hypervisor, or a thread, may stop inside a call and never continue. The others must go on, except where
//! they wait for a lock that it holds.
//!
//! # Invariants
//! CPU 1 begins when CPU 0 has stopped. It allocates and frees until it has had every frame that it can get, and it
//! must never get a frame that CPU 0 holds, or one twice.

use std::cell::{Cell, RefCell};
use std::collections::{BTreeMap, BTreeSet, HashSet};
use std::rc::Rc;

use everybuddy::platform::CpuToken;
use everybuddy::systems::{Obstacle, Row, ZoneKind};
use everybuddy::{CpuId, Event, Flags};
use everybuddy_sim::{Flat, Line, Machine, Region, SimCpu, SimError, Waiting};

use crate::common::{System, with_memory};
use crate::steps::{Before, FRAMES, Held, Own, PROGRAMS, Program, Step, prepare, small_systems};

/// Polls after which a wait is taken for endless, and those after which it certainly is.
const FEW: u32 = 64;
const MANY: u32 = 1 << 17;

/// A run in which CPU 0 stops.
struct Stop<'a> {
    name: &'a str,
    program: &'a Program,
    /// Those of the last request of CPU 1.
    flags: Flags,
}

/// What was seen of CPU 0.
#[derive(Clone, Default)]
struct Seen {
    /// The step that it executes, by position.
    step: Rc<Cell<usize>>,
    /// Its accesses, if it ended.
    accesses: Rc<Cell<u64>>,
    /// Locks that it holds.
    locks: Rc<Cell<i32>>,
    /// Whether it may have acquired one that it has not recorded yet.
    wanted: Rc<Cell<bool>>,
    /// Whether one of both was so when it stopped. Its destructors release locks later.
    locked: Rc<Cell<bool>>,
}

thread_local! {
    /// What listens to CPU 0: all CPUs of a machine are on one thread.
    static SEEN: RefCell<Option<Seen>> = const { RefCell::new(None) };
}

impl Seen {
    fn record(&self, event: Event) {
        match event {
            Event::LockWanted => self.wanted.set(true),
            Event::Lock { .. } => {
                self.locks.set(self.locks.get() + 1);
                self.wanted.set(false);
            }
            // A domain that was collected is released, but was not recorded as acquired.
            Event::Unlock => self.locks.set((self.locks.get() - 1).max(0)),
            _ => {}
        }
    }
}

impl Stop<'_> {
    /// Stops CPU 0 at its access `access`. Returns what CPU 1 waits for if it hangs, and what was seen of CPU 0.
    fn run(&self, access: u64, polls: u32) -> (Option<Waiting>, Seen) {
        let seen = Seen::default();
        let waiting = with_memory(self.name, 2, FRAMES, 0, |region, system| {
            self.run_on(system, region, (access, polls), &seen)
        });
        (waiting, seen)
    }

    fn run_on(
        &self,
        system: &System<'_>,
        region: Region,
        (access, polls): (u64, u32),
        seen: &Seen,
    ) -> Option<Waiting> {
        let mut machine = Machine::new(2)
            .cost(Flat::new(10))
            .limit(1 << 36)
            .polls(polls)
            .stop(CpuId(0), access);
        let held = Held::default();
        let own = machine.outside(|cpus| prepare(self.program.before, cpus, system, &held));
        let own = own.map(|own| Cell::new(Some(own)));
        let report = machine.run(region, |cpu: &mut SimCpu| {
            let own = &mut own[cpu.id().index()].take().unwrap();
            if cpu.id() == CpuId(0) {
                SEEN.set(Some(seen.clone()));
                cpu.probe().listener = Some(|event| {
                    SEEN.with_borrow(|seen| seen.iter().for_each(|own| own.record(event)))
                });
                for (position, step) in self.program.steps.iter().enumerate() {
                    seen.step.set(position);
                    own.step(cpu, system, &held, *step);
                }
                seen.accesses.set(cpu.accesses());
                return;
            }
            // CPU 0 has stopped or ended.
            cpu.work(1 << 30);
            seen.locked.set(seen.locks.get() > 0 || seen.wanted.get());
            self.go_on(cpu, system, own, &held);
        });
        match report {
            Ok(_) => None,
            Err(SimError::Hang { waiting, .. }) => Some(waiting[0]),
            Err(error) => panic!("{}, access {access}: {error}", self.name),
        }
    }

    /// What CPU 1 does.
    fn go_on(&self, cpu: &mut SimCpu, system: &System<'_>, own: &mut Own, held: &Held) {
        for order in [0, 0, 3, 0] {
            own.allocate(cpu, system, held, (order, Flags::NO_WAIT));
        }
        own.free_all(cpu, system, held);
        // All that there is.
        for flags in [Flags::NO_WAIT, self.flags] {
            while own.allocate(cpu, system, held, (0, Flags::NO_WAIT)) {}
            own.allocate(cpu, system, held, (0, flags));
            own.free_all(cpu, system, held);
        }
        system.park(cpu);
    }
}

/// For each system and step: at how many accesses a stop makes the others hang, and the number of accesses.
type Table = BTreeMap<(&'static str, Step), (u32, u32)>;

/// Stops CPU 0 at every `every`th access of a program, and returns what the others wait for if they hang.
fn stop_everywhere(
    row: &'static Row,
    stop: &Stop<'_>,
    every: usize,
    table: &mut Table,
) -> BTreeSet<Obstacle> {
    let (_, seen) = stop.run(u64::MAX, FEW);
    let mut certain: HashSet<Line> = HashSet::new();
    let mut obstacles = BTreeSet::new();
    for access in (1..=seen.accesses.get()).step_by(every) {
        let (mut hung, seen) = stop.run(access, FEW);
        // A request that waits for lists polls words that others wait for endlessly.
        let known = stop.flags == Flags::NO_WAIT;
        if let Some(waiting) = hung
            && !(known && certain.contains(&waiting.line))
        {
            hung = stop.run(access, MANY).0;
            certain.extend(hung.map(|_| waiting.line));
        }
        let step = stop.program.steps[seen.step.get()];
        let counts = table.entry((row.name, step)).or_default();
        counts.1 += 1;
        if let Some(waiting) = hung {
            counts.0 += 1;
            let zone = row.obstacles().next().unwrap();
            // A CPU that waits for a domain waits for a word that it wrote itself.
            let for_domain = zone == Obstacle::Domain && waiting.writer == Some(CpuId(1));
            let for_zone = seen.locked.get() || for_domain;
            let for_stopped = waiting.writer == Some(CpuId(0)) || for_domain;
            let name = stop.name;
            assert!(for_stopped, "{name}, {step:?}, access {access}: {waiting}");
            obstacles.insert(if for_zone { zone } else { Obstacle::List });
        }
    }
    obstacles
}

/// Stops CPU 0 at accesses of all programs on all systems, and compares what the others wait for with what the systems
/// say: at one of `every` accesses, and at one of `waiting` where CPU 1 waits for lists.
fn others_hang_as_documented((every, waiting): (usize, usize), skips: impl Fn(&str) -> bool) {
    let mut table = Table::new();
    for (row, name) in small_systems().filter(|(row, _)| !skips(row.name)) {
        let mut obstacles = BTreeSet::new();
        // Waits that end by themselves take long.
        let slow = if row.zone() == ZoneKind::Separated && every > 1 {
            7
        } else {
            1
        };
        for program in &PROGRAMS {
            let short = program.before == Before::Shortage;
            let every = if short { 1 } else { every * slow };
            for (flags, every) in [(Flags::NO_WAIT, every), (Flags::NONE, waiting)] {
                let name = name.as_str();
                let stop = Stop {
                    name,
                    program,
                    flags,
                };
                obstacles.extend(stop_everywhere(row, &stop, every, &mut table));
            }
        }
        let documented: BTreeSet<_> = row.obstacles().collect();
        assert_eq!(obstacles, documented, "{name}");
    }
    for ((name, step), (hangs, all)) in &table {
        println!("{name} {step:?}: others hang at {hangs} of {all} accesses");
    }
}

/// The systems whose names differ in a length that these tests override are tested once.
#[test]
fn a_stopped_cpu_makes_others_wait_for_ever_only_where_its_system_says_so() {
    others_hang_as_documented((7, 31), |name| {
        name.ends_with("-372") || name.ends_with("-744")
    });
}

#[test]
#[ignore = "`ci/stress.sh schedules` runs it"]
fn the_same_at_every_access() {
    others_hang_as_documented((1, 1), |_| false);
}
