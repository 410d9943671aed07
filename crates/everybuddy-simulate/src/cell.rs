//! One system on one workload with one number of CPUs.
//!
//! # Purpose
//!
//! Each CPU runs the program of its thread, step by step, and thinks between two calls. All of them prepare, one after
//! the other, and run a round to warm up; then a round is measured.
//!
//! # Invariants
//!
//! What the driver itself does costs nothing: it is not in simulated memory. A block that one CPU passes to another is
//! passed at no cost.

use std::cell::RefCell;
use std::collections::VecDeque;
use std::mem::MaybeUninit;

use everybuddy::platform::CpuToken;
use everybuddy::{
    Block, FrameAllocator, FrameRange, Memory, MetadataPart, Pfn, Release, Request, Setup, Size,
    SystemSpec, metadata_layout,
};
use everybuddy_measure::Error;
use everybuddy_measure::replay::memory::Random;
use everybuddy_sim::{
    Caches, Hardware, Instructions, LARGEST_LIMIT, Machine, Region, Sim, SimCpu, Traffic, build_any,
};
use everybuddy_workload::{Body, Program, Setting, Step, Variant};

/// The instructions that an access stands for: the median over ten systems on four workloads. `ci/work.sh` counts them;
/// they range from 3.4, for a hit of `linux-6`, to 13.4, for `is`.
pub const INSTRUCTIONS: Instructions = Instructions { per_access: 7500 };

/// What is simulated.
#[derive(Clone, Copy, Debug)]
pub struct CellPlan<'p> {
    /// The machine.
    pub hardware: &'p Hardware,
    /// The system.
    pub spec: &'p SystemSpec,
    /// The workload.
    pub variant: &'p Variant,
    /// The number of CPUs, one thread on each.
    pub cpus: u16,
    /// The frames of the memory.
    pub frames: u32,
    /// The mean number of instructions between two calls. They vary by a half.
    pub think: u32,
    /// The factor by which the workload is shortened.
    pub shrink: u32,
    /// The seed of the random choices.
    pub seed: u64,
}

/// The durations of calls, in cycles.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Latency {
    /// The number of calls.
    pub calls: u64,
    /// The mean.
    pub mean: f64,
    /// The median.
    pub p50: u64,
    /// The 99th percentile.
    pub p99: u64,
    /// The longest.
    pub max: u64,
}

impl Latency {
    fn of(mut cycles: Vec<u64>) -> Self {
        cycles.sort_unstable();
        let calls = cycles.len() as u64;
        let at = |share: f64| {
            let index = (share * calls as f64).ceil() as usize;
            cycles.get(index.saturating_sub(1)).copied().unwrap_or(0)
        };
        Self {
            calls,
            mean: cycles.iter().sum::<u64>() as f64 / calls.max(1) as f64,
            p50: at(0.5),
            p99: at(0.99),
            max: at(1.0),
        }
    }
}

/// What happened to the lines of a part of the metadata.
#[derive(Clone, Debug, PartialEq)]
pub struct PartTraffic {
    /// What an element of the part holds.
    pub what: &'static str,
    /// What happened to all of its lines.
    pub traffic: Traffic,
}

/// What was measured.
#[derive(Clone, Debug, PartialEq)]
pub struct Cell {
    /// The cycles of the measured round, until the last CPU was done.
    pub cycles: u64,
    /// Allocations, refused ones included.
    pub allocate: Latency,
    /// Frees.
    pub free: Latency,
    /// Requests that were refused.
    pub refused: u64,
    /// The parts of the metadata, by the cycles that calls spent on them, the most first.
    pub parts: Vec<PartTraffic>,
    /// The cycles of all calls that were spent on memory: accesses and waiting for locks.
    pub memory_cycles: u64,
    /// Accesses outside the metadata; none, if nothing escapes the model.
    pub outside: u64,
}

impl Cell {
    /// Returns the calls of all CPUs.
    pub fn calls(&self) -> u64 {
        self.allocate.calls + self.free.calls
    }

    /// Returns calls per cycle.
    pub fn rate(&self) -> f64 {
        self.calls() as f64 / self.cycles.max(1) as f64
    }
}

/// What was allocated.
#[derive(Clone, Copy)]
struct Held {
    start: Pfn,
    size: Size,
}

/// Blocks on their way to a CPU.
type Mailbox = RefCell<VecDeque<Held>>;

/// What a CPU measured.
#[derive(Default)]
struct Counted {
    start: u64,
    end: u64,
    allocate: Vec<u64>,
    free: Vec<u64>,
    refused: u64,
}

/// Simulates a cell.
///
/// # Errors
/// [`Error`] if the system cannot be built, or if the simulation ends with an error.
pub fn simulate(plan: &CellPlan<'_>) -> Result<Cell, Error> {
    let CellPlan { spec, cpus, .. } = *plan;
    let ranges = [FrameRange::new(0, u64::from(plan.frames))];
    let setup = Setup::new(&ranges, cpus);
    let refuse = |error| Error::usage(format!("system {spec}: {error}"));
    let layout = metadata_layout::<Sim>(spec, &setup).map_err(refuse)?;
    let mut memory = vec![MaybeUninit::uninit(); layout.size() + layout.align()];
    let region = Region::of(&memory);
    let parts = RefCell::new(Vec::new());
    let mut listener = |part| parts.borrow_mut().push(part);
    let memory = Memory::new(&mut memory).describe(&mut listener);
    let system = build_any(spec, &setup, memory).map_err(refuse)?;

    let mailboxes: Vec<Mailbox> = (0..cpus).map(|_| Mailbox::default()).collect();
    let mut machine = Machine::new(cpus)
        .cost(
            Caches::new(*plan.hardware)
                .instructions(INSTRUCTIONS)
                .seed(plan.seed),
        )
        .limit(LARGEST_LIMIT);
    let report = machine
        .run(region, |cpu: &mut SimCpu| {
            Thread::new(plan, system, &mailboxes, cpu).run()
        })
        .map_err(|error| Error::Broken(format!("system {spec} on {cpus} CPUs: {error}")))?;

    let results = &report.results;
    let start = results.iter().map(|counted| counted.start).min();
    let end = results.iter().map(|counted| counted.end).max();
    let all = |which: fn(&Counted) -> &Vec<u64>| {
        Latency::of(results.iter().flat_map(which).copied().collect())
    };
    let (allocate, free) = (
        all(|counted| &counted.allocate),
        all(|counted| &counted.free),
    );
    let parts = by_part(&parts.borrow(), machine.model());
    Ok(Cell {
        cycles: end.unwrap_or(0) - start.unwrap_or(0),
        allocate,
        free,
        refused: results.iter().map(|counted| counted.refused).sum(),
        memory_cycles: parts
            .iter()
            .map(|part| part.traffic.cycles + part.traffic.waited)
            .sum(),
        parts,
        outside: machine.model().outside(),
    })
}

/// Adds up what happened to the lines of each part.
fn by_part(parts: &[MetadataPart], model: &Caches) -> Vec<PartTraffic> {
    let mut sums: Vec<PartTraffic> = Vec::new();
    for (line, traffic) in model.traffic() {
        let start = line.0 as usize * everybuddy::LINE;
        let after = parts.partition_point(|part| part.start <= start);
        let what = match after.checked_sub(1) {
            Some(index) => parts[index].what,
            None => "unknown",
        };
        match sums.iter_mut().find(|sum| sum.what == what) {
            Some(sum) => sum.traffic += traffic,
            None => sums.push(PartTraffic { what, traffic }),
        }
    }
    sums.sort_by_key(|part| std::cmp::Reverse(part.traffic.cycles + part.traffic.waited));
    sums
}

/// A thread of the workload on its CPU.
struct Thread<'t, 'c> {
    system: &'t dyn FrameAllocator<Sim>,
    mailboxes: &'t [Mailbox],
    cpu: &'c mut SimCpu,
    program: Program,
    slots: Vec<Option<Held>>,
    random: Random,
    think: u32,
    counted: Counted,
}

impl<'t, 'c> Thread<'t, 'c> {
    fn new(
        plan: &CellPlan<'_>,
        system: &'t dyn FrameAllocator<Sim>,
        mailboxes: &'t [Mailbox],
        cpu: &'c mut SimCpu,
    ) -> Self {
        let setting = Setting {
            frames: plan.frames,
            threads: plan.cpus,
            seed: plan.seed,
            shrink: plan.shrink,
        };
        let id = cpu.id().0;
        let program = plan.variant.program(&setting, id);
        Self {
            system,
            mailboxes,
            slots: vec![None; program.slots() as usize],
            program,
            random: Random::new(plan.seed << 16 | u64::from(id)),
            think: plan.think,
            cpu,
            counted: Counted::default(),
        }
    }

    fn run(mut self) -> Counted {
        let me = self.cpu.id().index();
        for turn in 0..self.mailboxes.len() {
            if turn == me {
                for body in self.program.prepare().to_vec() {
                    self.body(&body);
                }
            }
            self.meet();
        }
        self.round();
        self.meet();
        self.cpu.mark();
        self.counted = Counted {
            start: self.cpu.now(),
            ..Counted::default()
        };
        self.round();
        self.counted.end = self.cpu.now();
        self.system.park(self.cpu);
        self.counted
    }

    /// Waits for all other CPUs. A CPU that makes no calls for a while says so, as an idle CPU of a kernel does:
    /// otherwise a CPU that needs what is in its list would wait for it.
    fn meet(&mut self) {
        self.system.park(self.cpu);
        self.cpu.barrier();
    }

    fn round(&mut self) {
        for section in self.program.round() {
            self.meet();
            self.body(&section.body);
        }
    }

    fn body(&mut self, body: &Body) {
        if let Body::Arrange { slots } = body {
            let range = slots.start as usize..slots.end as usize;
            self.slots[range].sort_by_key(|held| held.map(|held| held.start));
            return;
        }
        for step in body.steps() {
            self.step(step);
        }
    }

    fn step(&mut self, step: Step) {
        match step {
            Step::Allocate { slot, size } => {
                self.think();
                let before = self.cpu.now();
                let request = match size {
                    Size::Order(order) => Request::order(order),
                    Size::Frames(frames) => Request::frames(frames.0),
                };
                let given = self.system.allocate(self.cpu, request);
                self.counted.allocate.push(self.cpu.now() - before);
                self.counted.refused += u64::from(given.is_err());
                self.slots[slot as usize] = given.ok().map(|start| Held { start, size });
            }
            Step::Free { slot } => {
                if let Some(Held { start, size }) = self.slots[slot as usize].take() {
                    self.think();
                    let release = match size {
                        Size::Order(order) => Release::block(Block::new(start, order)),
                        Size::Frames(frames) => Release::frames(start, frames.0),
                    };
                    let before = self.cpu.now();
                    let freed = self.system.free(self.cpu, release);
                    self.counted.free.push(self.cpu.now() - before);
                    debug_assert!(freed.is_ok(), "{start:?}, {size:?}: {freed:?}");
                }
            }
            Step::Hand { slot } => {
                if let Some(block) = self.slots[slot as usize].take() {
                    let next = (self.cpu.id().index() + 1) % self.mailboxes.len();
                    self.mailboxes[next].borrow_mut().push_back(block);
                }
            }
            Step::Receive { slot } => {
                let own = &self.mailboxes[self.cpu.id().index()];
                if own.borrow().is_empty() {
                    self.system.park(self.cpu);
                }
                // The sender may be refused and send nothing: so the wait ends.
                for _ in 0..MOST_LOOKS {
                    let block = own.borrow_mut().pop_front();
                    if block.is_some() {
                        self.slots[slot as usize] = block;
                        break;
                    }
                    self.cpu.work(LOOK);
                }
            }
        }
    }

    fn think(&mut self) {
        if self.think > 0 {
            let half = self.think / 2;
            let more = self.random.below(u64::from(self.think) + 1) as u32;
            self.cpu.work(half + more);
        }
    }
}

/// Instructions between two looks into an empty mailbox.
const LOOK: u32 = 200;
/// Looks until a block is given up.
const MOST_LOOKS: u32 = 100_000;

#[cfg(test)]
mod tests {
    use everybuddy::systems::ROWS;
    use everybuddy_measure::choice;

    use super::*;

    /// Runs a workload on four CPUs with little memory.
    fn small(system: &str, workload: &str, think: u32) -> Cell {
        let machine = everybuddy_machines::by_name_or_path("x5570").unwrap();
        let variants = choice::workloads(&[workload.to_string()]).unwrap();
        let plan = CellPlan {
            hardware: &machine.hardware,
            spec: &system.parse().unwrap(),
            variant: variants[0],
            cpus: 4,
            frames: 8192,
            think,
            shrink: 64,
            seed: 1,
        };
        simulate(&plan).unwrap()
    }

    #[test]
    fn an_access_stands_for_the_median_of_the_counts() {
        let counts = include_str!("../../../results/2026-11-21-epyc-2cpu-9/work.tsv");
        let median = counts.lines().find(|line| line.starts_with("median"));
        let median: f64 = median
            .unwrap()
            .rsplit('\t')
            .next()
            .unwrap()
            .parse()
            .unwrap();
        assert!((median * 1000.0 - f64::from(INSTRUCTIONS.per_access)).abs() <= 50.0);
    }

    #[test]
    fn every_system_runs_and_nothing_escapes() {
        for row in ROWS {
            for workload in ["burst:in-order", "handover", "steady:50:mixed"] {
                let cell = small(row.name, workload, 100);
                let name = format!("{} on {workload}", row.name);
                assert!(cell.calls() > 0 && cell.cycles > 0, "{name}");
                assert_eq!(cell.outside, 0, "{name}");
                assert!(!cell.parts.is_empty(), "{name}");
                for part in &cell.parts {
                    assert_ne!(part.what, "unknown", "{name}");
                }
                let (allocate, free) = (&cell.allocate, &cell.free);
                assert!(allocate.calls - cell.refused <= free.calls + 8192, "{name}");
                for latency in [allocate, free] {
                    assert!(latency.p50 <= latency.p99 && latency.p99 <= latency.max);
                }
            }
        }
    }

    #[test]
    fn a_run_is_the_same_wherever_its_memory_lies() {
        for system in ["bs", "lbs-31", "spring", "serewa"] {
            let first = small(system, "burst:random", 50);
            // Occupies the memory of the first run, more or less.
            let _other: Vec<Vec<u8>> = (1..40).map(|pages| vec![1; pages * 4096 + 24]).collect();
            assert_eq!(small(system, "burst:random", 50), first, "{system}");
        }
    }

    #[test]
    fn cpus_that_share_a_lock_wait_for_it() {
        let bs = small("bs", "burst:in-order", 0);
        let first = bs.parts.iter().find(|part| part.traffic.waits > 0);
        assert_eq!(first.map(|part| part.what), Some("zone lock"));
        let spaces = small("is", "burst:in-order", 0);
        assert!(spaces.rate() > 2.0 * bs.rate(), "{spaces:?}, {bs:?}");
    }
}
