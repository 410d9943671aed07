//! One system under one load with one number of CPUs.
//!
//! Builds the system, runs the load on a machine, and summarizes what all CPUs measured.
//!
//! # Invariants
//! What the driver itself does costs nothing: it is not in simulated memory.

use std::cell::RefCell;
use std::mem::MaybeUninit;

use everybuddy::{
    BuildError, FrameAllocator, FrameRange, LINE, Memory, MetadataPart, Nodes, Pfn, Setup,
    SystemSpec, Zone, metadata_layout,
};
use everybuddy_measure::Error;
use everybuddy_measure::replay::free_map::FreeMap;
use everybuddy_measure::replay::machine;
use everybuddy_measure::size::cpus;
use everybuddy_sim::{
    Caches, Cores, Hardware, LARGEST_LIMIT, Line, Machine, Region, Sim, SimError, Traffic,
    build_any,
};
use everybuddy_trace::named;
use everybuddy_workload::Setting;

use crate::Load;
use crate::caller::Pace;
use crate::counted::{Counted, LOOK};
use crate::program::{Program, Used};
use crate::services::{Crew, Services};
use crate::tasks;
use crate::timeline::{Moment, part_at};
use crate::trace::Deal;
use crate::work::Work;
use crate::workload::{self, Frees, Phases};

/// The cycles of a switch from one virtual CPU to another. Assumed, not measured.
pub const SWITCH: u64 = 3000;

named! {
    /// How many zones there are, and which CPUs of the machine run the threads.
    #[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
    pub enum Zones {
        /// One zone, and the first CPUs of the machine.
        #[default]
        One => "one",
        /// A zone for each socket, which serves the CPUs of its socket first, and CPUs of all sockets in turn.
        Socket => "socket",
    }
}

/// What is simulated.
#[derive(Clone, Copy, Debug)]
pub struct CellPlan<'p> {
    /// The machine.
    pub hardware: &'p Hardware,
    /// The system.
    pub spec: &'p SystemSpec,
    /// The load.
    pub load: &'p Load,
    /// The number of CPUs, one thread on each.
    pub cpus: u16,
    /// The frames of the memory. Of a machine's memory, those that are free at the start.
    pub frames: u32,
    /// The memory of a machine, if some of it is in use at the start. It has one zone.
    pub start: Option<&'p FreeMap>,
    /// The mean number of instructions before an allocation, and before a free. They vary by a half.
    pub think: [u32; 2],
    /// The instructions that each call executes around the allocator, as a kernel does.
    pub around: u32,
    /// What the program does between two calls.
    pub program: Program,
    /// The factor by which a workload is shortened. A trace is shortened before.
    pub shrink: u32,
    /// The seed of the random choices.
    pub seed: u64,
    /// Whether CPUs run the same section of a workload at the same time.
    pub phases: Phases,
    /// Which CPU frees what a CPU has allocated.
    pub frees: Frees,
    /// The cycles after which virtual CPUs take turns, where there are more than the machine has.
    pub slice: u64,
    /// Whether they take turns between calls only, as in a kernel that disables preemption during calls.
    pub whole_calls: bool,
    /// Where the services of systems run.
    pub services: Services,
    /// How many zones there are, and which CPUs of the machine run the threads.
    pub zones: Zones,
    /// The cycles in calls after which a CPU makes no more of them in a section of the load; `None` if it makes all.
    pub cut_off: Option<u64>,
    /// Whether everything that happens is recorded.
    pub is_recorded: bool,
}

impl CellPlan<'_> {
    /// Returns the frames of the memory, with those that are in use at the start.
    fn span(&self) -> u64 {
        self.start.map_or(u64::from(self.frames), FreeMap::frames)
    }
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
    /// Returns its statistics of cycles, by name.
    pub(crate) fn statistics(&self) -> [(&'static str, f64); 4] {
        let [p50, p99, max] = [self.p50, self.p99, self.max].map(|cycles| cycles as f64);
        [
            ("mean", self.mean),
            ("p50", p50),
            ("p99", p99),
            ("max", max),
        ]
    }

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
    /// The cycles of what was measured, until the last CPU was done.
    pub cycles: u64,
    /// The cycles of all CPUs outside of calls in which they wait for other CPUs, or are done.
    pub idle: u64,
    /// Allocations, refused ones included.
    pub allocate: Latency,
    /// Frees.
    pub free: Latency,
    /// Requests that were refused, of [`requests`](Self::requests).
    pub refused: u64,
    /// Requests. If CPUs are apart, these are more than the allocations that were measured.
    pub requests: u64,
    /// CPUs that did not make all calls of the load, if calls may be cut off.
    pub cut_off: Option<u64>,
    /// Acquisitions of locks in calls.
    pub locks: u64,
    /// Allocations, and frees, in which a lock was not acquired immediately, or the CPU waited for a part of a domain.
    pub contended: [u64; 2],
    /// How long locks were waited for in calls; `calls` is the number of waits.
    pub waits: Latency,
    /// How often a virtual CPU lost its CPU of the machine to another one.
    pub preemptions: u64,
    /// What happened on each CPU, if that was recorded: on those of callers, then on those of services.
    pub moments: Vec<Vec<Moment>>,
    /// Where the parts of the metadata lie, by address.
    pub layout: Vec<MetadataPart>,
    /// The parts of the metadata, by the cycles that calls spent on them, the most first.
    pub parts: Vec<PartTraffic>,
    /// The cycles of all calls that were spent on memory: accesses and waiting for locks.
    pub memory_cycles: u64,
    /// The cycles in which services had work, on CPUs of their own or on those that waited, and the units of that work.
    pub background: (u64, u64),
    /// Accesses outside the metadata; none, if nothing escapes the model.
    pub outside: u64,
    /// The size of the metadata, in bytes per frame.
    pub metadata: f64,
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

/// Simulates a cell.
///
/// # Errors
/// [`Error`] if the system cannot be built, or if the simulation ends with an error.
pub fn simulate(plan: &CellPlan<'_>) -> Result<Cell, Error> {
    let CellPlan { spec, cpus, .. } = *plan;
    let zones = match plan.zones {
        Zones::One => 1,
        Zones::Socket => u64::from(plan.hardware.sockets),
    };
    let each = plan.span() / zones;
    let ranges: Vec<FrameRange> = (0..zones)
        .map(|zone| FrameRange::new(Pfn(zone * each), each))
        .collect();
    let ranges: Vec<&[FrameRange]> = match plan.start {
        Some(map) => vec![map.ranges()],
        None => ranges.chunks(1).collect(),
    };
    let reach = plan.start.map(|_| FrameRange::new(Pfn(0), each));
    let new = |own, cpus| match reach {
        Some(reach) => Setup::new(own, cpus).with_reach(reach),
        None => Setup::new(own, cpus),
    };
    let refuse = |error| Error::usage(format!("system {spec}: {error}"));
    // The CPUs of services are CPUs of the system.
    let services = services(plan, &new(ranges[0], cpus)).map_err(refuse)?;
    let all = cpus.saturating_add(services);
    if services > 0 && plan.slice == 0 && u32::from(all) > plan.hardware.cpus() {
        return Err(Error::usage(format!(
            "--services own: {cpus} CPUs and {services} for the services of {spec} are more than the machine has, {}\n\
             help: choose fewer --cpus; or, with --slice N, let them take turns",
            plan.hardware.cpus()
        )));
    }
    if services > 0 && plan.whole_calls && u32::from(all) > plan.hardware.cpus() {
        return Err(Error::usage(format!(
            "--services own: {cpus} CPUs and {services} for the services of {spec} are more than the machine has, {}, \
             and with --whole-calls a caller could wait for a service that cannot run\nhelp: choose fewer --cpus, or \
             leave --whole-calls out",
            plan.hardware.cpus()
        )));
    }
    if plan.services == Services::Idle && u32::from(cpus) > plan.hardware.cpus() {
        return Err(Error::usage(format!(
            "--services idle: {cpus} CPUs are more than the machine has, {}: a CPU that waits would serve in the time \
             slice of one that works\nhelp: choose fewer --cpus",
            plan.hardware.cpus()
        )));
    }
    // Lists follow the machine and not what is managed here. Linux divides the marks of a zone's lists by the CPUs of
    // its socket, whether or not they call.
    let installed = (u64::from(plan.hardware.installed) << 8) / zones;
    let of_socket = u64::from(plan.hardware.cpus())
        .max(all.into())
        .div_ceil(zones);
    let of_socket = u16::try_from(of_socket).unwrap_or(all);
    let zone = machine::Machine::sized(Some(installed.max(each)), of_socket).zone;
    let setup = |own| new(own, all).with_zone(zone);
    let setups: Vec<Setup<'_>> = ranges.iter().map(|own| setup(own)).collect();
    // The memory of each zone begins at the same place of a line.
    let sizes = setups.iter().map(|setup| {
        let layout = metadata_layout::<Sim>(spec, setup)?;
        Ok((Memory::room(layout)).next_multiple_of(LINE))
    });
    let sizes: Vec<usize> = sizes.collect::<Result<_, _>>().map_err(refuse)?;
    simulate_system(plan, all, &mut |run| {
        let mut memory = vec![MaybeUninit::uninit(); sizes.iter().sum()];
        let region = Region::of(&memory);
        let parts = RefCell::new(Vec::new());
        let starts = sizes.iter().scan(0, |end, size| {
            *end += size;
            Some(*end - size)
        });
        let mut listeners: Vec<_> = starts
            .map(|before| {
                let parts = &parts;
                move |part: MetadataPart| {
                    let start = before + part.start;
                    parts.borrow_mut().push(MetadataPart { start, ..part });
                }
            })
            .collect();
        let (mut systems, mut rest) = (Vec::new(), &mut memory[..]);
        for ((setup, size), listener) in setups.iter().zip(&sizes).zip(&mut listeners) {
            let (own, others) = rest.split_at_mut(*size);
            rest = others;
            let own = Memory::new(own).describe(listener);
            systems.push(build_any(spec, setup, own).map_err(refuse)?);
        }
        let zones = systems.iter().zip(0..);
        let zones: Vec<_> = zones.map(|(own, node)| Zone::new(node, *own)).collect();
        let homes = (0..all).map(|cpu| plan.hardware.spread_place(cpu).socket as u8);
        let homes: Vec<u8> = homes.collect();
        let nodes = Nodes::new(&zones, &homes, &[]).map_err(refuse)?;
        let system: &dyn FrameAllocator<Sim> = match systems[..] {
            [one] => one,
            _ => &nodes,
        };
        run(&Built {
            system,
            region,
            parts: &parts.borrow(),
        });
        Ok(())
    })
}

/// A system in its memory.
struct Built<'b> {
    system: &'b dyn FrameAllocator<Sim>,
    region: Region,
    /// The parts of its metadata, by address.
    parts: &'b [MetadataPart],
}

/// Builds a new system, and calls a function with it.
type Build<'b> = dyn FnMut(&mut dyn FnMut(&Built<'_>)) -> Result<(), Error> + 'b;

/// Simulates a cell with the system that `build` builds, on `all` CPUs. If the run does not end, it is repeated with a
/// record of the writers of all words, so that a run that ends pays nothing for it.
fn simulate_system(plan: &CellPlan<'_>, all: u16, build: &mut Build<'_>) -> Result<Cell, Error> {
    let mut attempt = |names_writers| -> Result<Result<Cell, (bool, String)>, Error> {
        let mut result = None;
        build(&mut |built| {
            let cell = run(plan, all, built, names_writers);
            let explained = |error: SimError| {
                let waits = matches!(error, SimError::Deadlock { .. } | SimError::Stall { .. });
                (waits, explain(&error, built.parts))
            };
            result = Some(cell.map_err(explained));
        })?;
        Ok(result.expect("a system that is built is run"))
    };
    let cell = match attempt(false)? {
        Err((true, _)) => match attempt(true)? {
            Ok(_) => Err((
                true,
                "a run that waited for ever ended when it was repeated".to_string(),
            )),
            failed => failed,
        },
        other => other,
    };
    cell.map_err(|(_, what)| {
        Error::Broken(format!(
            "system {} under {} on {}, seed {}: {what}",
            plan.spec,
            plan.load.name(),
            cpus(u64::from(plan.cpus)),
            plan.seed
        ))
    })
}

/// Returns the steps of all CPUs without the end of a call after which a run is aborted. Between two ends, each CPU may
/// hand over a lock 4,096 times, as in a long batch. Every other CPU then makes four accesses to find that it has to
/// wait again. Besides, a call may look at each frame 64 times. CPUs that wait outside of calls and serve look around
/// while one CPU works.
fn patience(plan: &CellPlan<'_>, all: u16) -> u64 {
    let all = u64::from(all);
    let looks = match plan.services {
        Services::Idle => 2 * all * u64::from(plan.think[0].max(plan.think[1]) / LOOK),
        Services::Callers | Services::Own => 0,
    };
    (1 << 22) + 4096 * 4 * all * all + 64 * plan.span() + looks
}

/// Describes why a run did not end: which CPU waits for what, and for whom.
fn explain(error: &SimError, parts: &[MetadataPart]) -> String {
    let named = |line: Line| match line {
        Line::OUTSIDE | Line::BARRIER => line.to_string(),
        _ => format!("`{}` ({line})", part_of(parts, line)),
    };
    let written = |writer: Option<everybuddy::CpuId>| match writer {
        Some(writer) => format!(", last written by CPU {}", writer.0),
        None => String::new(),
    };
    let (what, running, waiting): (_, &[_], _) = match error {
        SimError::Deadlock { waiting } => (
            "all CPUs wait for each other: a deadlock".to_string(),
            &[],
            waiting,
        ),
        SimError::Stall {
            steps,
            waiting,
            running,
            ..
        } => (
            format!(
                "no call has ended for {steps} steps of the CPUs: a livelock, or a lock is not released"
            ),
            running,
            waiting,
        ),
        error => return error.to_string(),
    };
    let mut cpus: Vec<(u16, String)> = Vec::new();
    cpus.extend(running.iter().map(|own| {
        let (word, at, writer) = (named(own.line), own.at, written(own.writer));
        let text = format!(
            "CPU {} runs: in cycle {at} it accessed {word}{writer}",
            own.cpu.0
        );
        (own.cpu.0, text)
    }));
    cpus.extend(waiting.iter().map(|own| {
        let (word, since, writer) = (named(own.line), own.since, written(own.writer));
        let text = format!(
            "CPU {} waits since cycle {since} for {word}{writer}",
            own.cpu.0
        );
        (own.cpu.0, text)
    }));
    cpus.sort();
    let lines = cpus.iter().map(|(_, text)| format!("\n  {text}"));
    what + &lines.collect::<String>()
}

/// Runs a cell once.
fn run(
    plan: &CellPlan<'_>,
    all: u16,
    built: &Built<'_>,
    names_writers: bool,
) -> Result<Cell, SimError> {
    let &Built {
        system,
        region,
        parts,
    } = built;
    let (region, used) = Used::new(plan.program, plan.span(), region, parts);
    let cpus = plan.cpus;
    let caches = Caches::new(*plan.hardware);
    let mut machine = Machine::new(all)
        .cost(caches.seed(plan.seed).spread(plan.zones == Zones::Socket))
        .limit(LARGEST_LIMIT)
        .patience(patience(plan, all));
    let work = Work::of(plan.spec);
    let crew = Crew::new(system, cpus, plan.services, work, plan.is_recorded).using(used);
    // A CPU that keeps its own in a call may wait there for one that cannot run meanwhile.
    let waits_for_queued = plan.whole_calls && u32::from(all) > plan.hardware.cpus();
    if crew.needs_bounded_waits() || waits_for_queued {
        machine = machine.bounded_waits();
    }
    if names_writers || plan.is_recorded {
        machine = machine.record_writers();
    }
    if u32::from(all) > plan.hardware.cpus() {
        let cores = Cores::new(plan.hardware.cpus() as u16);
        let cores = cores.slice(plan.slice).switch_cost(SWITCH);
        machine = machine.cores(cores);
    }
    let pace = Pace {
        think: plan.think,
        around: plan.around,
        seed: plan.seed,
        is_recorded: plan.is_recorded,
        keeps_ends: plan.phases == Phases::Apart,
        cut_off: plan.cut_off,
        whole_calls: plan.whole_calls,
    };
    let report = match plan.load {
        Load::Workload(variant) => {
            let setting = Setting {
                frames: plan.frames,
                threads: cpus,
                seed: plan.seed,
                shrink: plan.shrink,
            };
            workload::run(
                variant,
                &setting,
                (plan.phases, plan.frees),
                pace,
                &crew,
                &mut machine,
                region,
            )
        }
        Load::Trace(traced) => {
            let deal = Deal::new(traced, cpus);
            tasks::run(&deal, pace, &crew, &mut machine, region)
        }
    };
    let mut report = report?;

    let moments = report.results.iter_mut();
    let moments = moments.map(|counted| std::mem::take(&mut counted.moments));
    let moments = if plan.is_recorded {
        moments.collect()
    } else {
        Vec::new()
    };
    let served = report.results.iter();
    let background = served.fold((0, 0), |sum, own| (sum.0 + own.busy, sum.1 + own.units));
    report.results.truncate(usize::from(cpus));
    let requests = report.results.iter();
    let requests = requests.map(|counted| counted.allocate.len() as u64).sum();
    let (cycles, idle) = match plan.phases {
        Phases::Together => together(&report.results),
        Phases::Apart => apart(&mut report.results),
    };
    let results = &report.results;
    let all = |which: fn(&Counted) -> &Vec<u64>| {
        Latency::of(results.iter().flat_map(which).copied().collect())
    };
    let (allocate, free) = (
        all(|counted| &counted.allocate),
        all(|counted| &counted.free),
    );
    let (layout, parts) = (parts.to_vec(), by_part(parts, &region, machine.model()));
    Ok(Cell {
        cycles,
        idle,
        allocate,
        free,
        refused: results.iter().map(|counted| counted.refused).sum(),
        requests,
        cut_off: plan
            .cut_off
            .map(|_| results.iter().map(|own| u64::from(own.is_cut_off)).sum()),
        locks: results.iter().map(|counted| counted.locks).sum(),
        contended: [0, 1].map(|kind| results.iter().map(|counted| counted.contended[kind]).sum()),
        waits: all(|counted| &counted.waits),
        preemptions: report.cpus.iter().map(|cpu| cpu.preemptions).sum(),
        moments,
        layout,
        memory_cycles: parts
            .iter()
            .map(|part| part.traffic.cycles + part.traffic.waited)
            .sum(),
        parts,
        background,
        outside: machine.model().outside(),
        metadata: system.metadata_bytes() as f64 / plan.span() as f64,
    })
}

/// Returns the number of CPUs that the services of a plan's system need.
fn services(plan: &CellPlan<'_>, setup: &Setup<'_>) -> Result<u16, BuildError> {
    if plan.services != Services::Own {
        return Ok(0);
    }
    let layout = metadata_layout::<Sim>(plan.spec, setup)?;
    let mut memory = vec![MaybeUninit::uninit(); Memory::room(layout)];
    let system = build_any(plan.spec, setup, Memory::new(&mut memory))?;
    Ok(plan.services.with_cpus(system).len() as u16)
}

/// Returns the time until the last CPU was done, and the time in which CPUs waited for others or were done.
fn together(results: &[Counted]) -> (u64, u64) {
    let start = results.iter().map(|counted| counted.start).min();
    let end = results.iter().map(|counted| counted.end).max();
    let (start, end) = (start.unwrap_or(0), end.unwrap_or(0));
    let idle = |counted: &Counted| counted.idle + (end - counted.end);
    (end - start, results.iter().map(idle).sum())
}

/// The same for CPUs that begin at different times: the time in which all of them make calls. Forgets all calls that
/// did not end in that time.
fn apart(results: &mut [Counted]) -> (u64, u64) {
    let start = results.iter().map(|counted| counted.start).max();
    let stop = results.iter().map(|counted| counted.stop).min();
    let (start, stop) = (start.unwrap_or(0), stop.unwrap_or(0));
    for counted in &mut *results {
        let [allocations, frees] = std::mem::take(&mut counted.ends);
        let is_inside = |end: &u64| (start..=stop).contains(end);
        for (calls, ends) in [
            (&mut counted.allocate, allocations),
            (&mut counted.free, frees),
        ] {
            let mut inside = ends.iter().map(is_inside);
            calls.retain(|_| inside.next().unwrap_or(false));
        }
    }
    let idle = results.iter().map(|counted| counted.idle).sum();
    (stop.saturating_sub(start), idle)
}

/// Returns what an element of the part holds that a line is in.
fn part_of(parts: &[MetadataPart], line: Line) -> &'static str {
    part_at(parts, line).map_or("unknown", |part| part.what)
}

/// Adds up what happened to the lines of each part.
fn by_part(parts: &[MetadataPart], region: &Region, model: &Caches) -> Vec<PartTraffic> {
    let mut sums: Vec<PartTraffic> = Vec::new();
    for (line, traffic) in model.traffic() {
        let what = part_of(parts, region.place(line));
        match sums.iter_mut().find(|sum| sum.what == what) {
            Some(sum) => sum.traffic += traffic,
            None => sums.push(PartTraffic { what, traffic }),
        }
    }
    sums.sort_by_key(|part| std::cmp::Reverse(part.traffic.cycles + part.traffic.waited));
    sums
}

#[cfg(test)]
mod tests;
