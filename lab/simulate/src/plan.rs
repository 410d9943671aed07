//! All cells of a run.
//!
//! A plan is what the command line asks for. Its cells are simulated on the CPUs of the host, several at the same time.
//!
//! # Invariants
//! The order of the rows, and every value, depend on the plan alone: neither on the number of threads nor on the cells
//! that an earlier run has simulated. One load is simulated after the other, and of a load the cells of few CPUs first.

use std::fmt;
use std::num::NonZero;
use std::ops::Range;
use std::sync::Arc;

use everybuddy::SystemSpec;
use everybuddy_measure::replay::free_map::FreeMap;
use everybuddy_measure::rows::{Platform, Row};
use everybuddy_measure::size::{self, count, cpus};
use everybuddy_measure::{Error, choice};
use everybuddy_sim::Hardware;

use crate::Load;
use crate::cell::{Cell, CellPlan, Zones, simulate};
use crate::jobs;
use crate::machines::Machine;
use crate::program::Program;
use crate::rows::{self, Scaling};
use crate::services::Services;
use crate::timeline;
use crate::workload::{Frees, Phases};

/// What is simulated: each system under each load with each number of CPUs.
#[derive(Clone, Debug)]
pub struct Plan {
    /// The name of the machine.
    pub machine: String,
    /// The machine.
    pub hardware: Hardware,
    /// The loads, with different names.
    pub loads: Vec<Load>,
    /// The systems.
    pub specs: Vec<SystemSpec>,
    /// The numbers of CPUs, ascending.
    pub cpus: Vec<u16>,
    /// The frames of the memory under a workload.
    pub frames: u32,
    /// The memory of a machine, with which every cell starts. `frames` are those that are free.
    pub start: Option<Arc<FreeMap>>,
    /// The mean number of cycles between two calls, for loads without a pace of their own.
    pub think: u32,
    /// The instructions that each call executes around the allocator, as a kernel does.
    pub around: u32,
    /// What programs do between two calls.
    pub program: Program,
    /// The factor by which workloads are shortened.
    pub shrink: u32,
    /// Whether CPUs run the same section of a workload at the same time.
    pub phases: Phases,
    /// Which CPU frees what a CPU has allocated.
    pub frees: Frees,
    /// How many zones there are, and which CPUs of the machine run the threads.
    pub zones: Zones,
    /// The cycles after which virtual CPUs take turns, where there are more than the machine has.
    pub slice: u64,
    /// Whether they take turns between calls only, as in a kernel that disables preemption during calls.
    pub whole_calls: bool,
    /// Where the services of systems run.
    pub services: Services,
    /// The cycles in calls after which a CPU makes no more of them in a section of a load; `None` if it makes all. A
    /// collapsed lock can take hours otherwise.
    pub cut_off: Option<u64>,
    /// Whether a system that has stopped scaling under a load is not simulated on more CPUs. The cells of a system
    /// under a load are then simulated one after the other.
    pub stops: bool,
    /// The seeds.
    pub seeds: Vec<u64>,
}

/// What is called with each cell that has ended, and its rows. They are `None` if the cell was left out, since the
/// system had stopped scaling ([`Plan::stops`]).
pub type Done<'d> = dyn FnMut(&CellId, Option<&[Row]>) -> Result<(), Error> + 'd;

/// What takes the position of a cell in its chain, and its rows or `None`. Returns whether to go on.
type Ended<'e> = dyn FnMut((usize, Option<Vec<Row>>)) -> bool + 'e;

/// Names a cell of a plan.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct CellId {
    /// The position of the load.
    pub load: usize,
    /// The position of the system.
    pub spec: usize,
    /// The number of CPUs.
    pub cpus: u16,
    /// The seed.
    pub seed: u64,
}

/// A cell's name for readers.
struct Name<'p>(&'p Plan, &'p CellId);

impl fmt::Display for Name<'_> {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Name(plan, id) = self;
        let (load, spec) = (plan.loads[id.load].name(), &plan.specs[id.spec]);
        write!(
            out,
            "{load}, {spec}, {}, seed {}",
            cpus(u64::from(id.cpus)),
            id.seed
        )
    }
}

impl Plan {
    /// Creates the plan of one CPU and one seed that makes calls and does nothing else, in 8 GiB.
    pub fn new(machine: &Machine, loads: Vec<Load>, specs: Vec<SystemSpec>) -> Self {
        Self {
            machine: machine.name.clone(),
            hardware: machine.hardware,
            loads,
            specs,
            cpus: vec![1],
            frames: 1 << 21,
            start: None,
            think: 0,
            around: 0,
            program: Program::default(),
            shrink: 1,
            phases: Phases::Together,
            frees: Frees::Own,
            zones: Zones::One,
            slice: 0,
            whole_calls: false,
            services: Services::Callers,
            cut_off: None,
            stops: false,
            seeds: vec![1],
        }
    }

    /// Returns all cells in the order of their rows: those of a system under a load are neighbours.
    pub fn cells(&self) -> Vec<CellId> {
        let mut cells = Vec::new();
        for (load, own) in self.loads.iter().enumerate() {
            for spec in 0..self.specs.len() {
                for cpus in self.cpus.iter().filter(|cpus| **cpus >= own.least_cpus()) {
                    cells.extend(self.seeds.iter().map(|seed| CellId {
                        load,
                        spec,
                        cpus: *cpus,
                        seed: *seed,
                    }));
                }
            }
        }
        cells
    }

    /// Returns what a cell costs, as far as it is known before: its CPUs, each of which makes as many calls.
    pub fn cost(id: &CellId) -> u64 {
        u64::from(id.cpus)
    }

    /// Returns the frames of the memory under a load.
    pub fn memory(&self, load: &Load, cpus: u16) -> u64 {
        match load {
            Load::Trace(traced) if self.start.is_none() => traced.memory(cpus),
            _ => u64::from(self.frames),
        }
    }

    /// Returns the name of a cell, which no other cell of the plan has.
    pub fn name(&self, id: &CellId) -> String {
        Name(self, id).to_string()
    }

    /// Returns a text that is different for each cell with other rows: what the simulation takes, and what its rows are
    /// named by. Only the program is missing, which may simulate the same cell in another way.
    pub fn identity(&self, id: &CellId) -> String {
        format!("{:?} {:?}", self.base(id), self.cell_plan(id, false))
    }

    /// Simulates the cells that have no rows yet on at most `jobs` threads. Calls `done` with each cell and its rows as
    /// the cell ends, at most [`left`](Plan::left) times.
    ///
    /// # Errors
    /// The [`Error`] of `done`, or that of the first cell that has one. A usage error if `rows` has not one entry for
    /// each cell.
    pub fn run(
        &self,
        jobs: NonZero<usize>,
        mut rows: Vec<Option<Vec<Row>>>,
        done: &mut Done<'_>,
    ) -> Result<(Vec<Row>, Vec<Scaling>), Error> {
        let cells = self.cells();
        if rows.len() != cells.len() {
            return Err(Error::usage("rows of another plan"));
        }
        let known = rows.clone();
        let chains = self.chains(&cells, &known);
        let work = |chain: usize, ended: &mut Ended<'_>| {
            let chain = chains[chain].clone();
            self.simulate_chain(&cells[chain.clone()], &known[chain], ended)
        };
        jobs::each_of_several(jobs, chains.len(), work, &mut |chain, (cell, own)| {
            let at = chains[chain].start + cell;
            done(&cells[at], own.as_deref())?;
            rows[at] = own;
            Ok(())
        })?;
        Ok(self.joined(&cells, &rows))
    }

    /// Returns how many cells a run with these known rows simulates at most. Those that are left out since the system
    /// has stopped scaling in known cells do not count.
    pub fn left(&self, known: &[Option<Vec<Row>>]) -> usize {
        let cells = self.cells();
        let left = self.chains(&cells, known).into_iter().map(|chain| {
            let mut rows: Vec<&[Row]> = Vec::new();
            for at in chain.clone() {
                if self.has_stopped(&cells[at], &rows) {
                    return 0;
                }
                match &known[at] {
                    Some(known) => rows.push(known),
                    None => {
                        return known[at..chain.end]
                            .iter()
                            .filter(|rows| rows.is_none())
                            .count();
                    }
                }
            }
            0
        });
        left.sum()
    }

    /// Returns the ranges of cells that are simulated one after the other, in the order in which they begin: load by
    /// load, the cheapest first. Ranges whose cells are all known are omitted. A cell depends on others only if systems
    /// [stop](Plan::stops) at their limits: on the cells before it of the same system and load.
    fn chains(&self, cells: &[CellId], known: &[Option<Vec<Row>>]) -> Vec<Range<usize>> {
        let is_linked = |a: &CellId, b: &CellId| self.stops && (a.load, a.spec) == (b.load, b.spec);
        let mut chains: Vec<Range<usize>> = Vec::new();
        for chain in cells.chunk_by(is_linked) {
            let start = chains.last().map_or(0, |last| last.end);
            chains.push(start..start + chain.len());
        }
        chains.retain(|chain| known[chain.clone()].iter().any(Option::is_none));
        chains.sort_by_key(|chain| {
            let own = &cells[chain.clone()];
            let most = own.iter().map(Plan::cost).max();
            (own.first().map(|id| id.load), most)
        });
        chains
    }

    /// Simulates the cells of a chain that are not known, until the system has stopped scaling.
    fn simulate_chain(
        &self,
        cells: &[CellId],
        known: &[Option<Vec<Row>>],
        ended: &mut Ended<'_>,
    ) -> Result<(), Error> {
        let (mut rows, mut is_known): (Vec<Vec<Row>>, bool) = (Vec::new(), true);
        for (at, (id, known)) in cells.iter().zip(known).enumerate() {
            let so_far: Vec<&[Row]> = rows.iter().map(Vec::as_slice).collect();
            let goes_on = match (self.has_stopped(id, &so_far), known) {
                // These do not count as left: see `left`.
                (true, _) if is_known => break,
                (true, _) => ended((at, None)),
                (false, Some(known)) => {
                    rows.push(known.clone());
                    true
                }
                (false, None) => {
                    is_known = false;
                    let own = self.simulate(id)?;
                    rows.push(own.clone());
                    ended((at, Some(own)))
                }
            };
            if !goes_on {
                break;
            }
        }
        Ok(())
    }

    /// Returns `true` if the rows of the cells before `id` show that the system has stopped scaling on fewer CPUs.
    fn has_stopped(&self, id: &CellId, rows: &[&[Row]]) -> bool {
        // The seeds of a number of CPUs follow each other.
        let whole = rows.len() / self.seeds.len() * self.seeds.len();
        let (load, system) = (self.loads[id.load].name(), self.specs[id.spec].to_string());
        self.stops && rows::scaling(load, system, &rows[..whole]).limit.is_some()
    }

    /// Simulates a cell, and returns what happened in it in Perfetto's format.
    ///
    /// # Errors
    /// The [`Error`] of the cell. A usage error if more than [`MOST_MOMENTS`](timeline::MOST_MOMENTS) things happen.
    pub fn timeline(&self, id: &CellId) -> Result<Vec<u8>, Error> {
        let cell = self.cell(id, true)?;
        let moments: usize = cell.moments.iter().map(Vec::len).sum();
        if moments > timeline::MOST_MOMENTS {
            return Err(Error::usage(format!(
                "--timeline: the run has {} events, at most {} can be shown\nhelp: choose fewer CPUs or a \
                 larger --shrink",
                count(moments as u64),
                count(timeline::MOST_MOMENTS as u64),
            )));
        }
        let name = format!("{}, simulated {}", self.name(id), self.machine);
        let mhz = self.hardware.mhz;
        Ok(timeline::encode(&name, mhz, &cell.moments, &cell.layout))
    }

    /// Simulates a cell, and returns its rows.
    ///
    /// # Errors
    /// A usage error if the system refuses the memory. [`Error::Broken`] if it breaks its contract.
    pub fn simulate(&self, id: &CellId) -> Result<Vec<Row>, Error> {
        let cell = self.cell(id, false)?;
        let mhz = self.hardware.mhz;
        Ok(rows::of_cell(&self.base(id), mhz, self.phases, &cell))
    }

    fn cell(&self, id: &CellId, is_recorded: bool) -> Result<Cell, Error> {
        simulate(&self.cell_plan(id, is_recorded))
    }

    /// Returns all that the simulation of a cell depends on.
    fn cell_plan(&self, id: &CellId, is_recorded: bool) -> CellPlan<'_> {
        CellPlan {
            hardware: &self.hardware,
            spec: &self.specs[id.spec],
            load: &self.loads[id.load],
            cpus: id.cpus,
            frames: self.memory(&self.loads[id.load], id.cpus) as u32,
            start: self.start.as_deref(),
            think: self.loads[id.load]
                .pace()
                .unwrap_or([self.think; 2])
                .map(|cycles| self.instructions(cycles)),
            around: self.around,
            program: self.program,
            shrink: self.shrink,
            seed: id.seed,
            phases: self.phases,
            frees: self.frees,
            slice: self.slice,
            whole_calls: self.whole_calls,
            services: self.services,
            zones: self.zones,
            cut_off: self.cut_off,
            is_recorded,
        }
    }

    /// Returns what the run does not do by default: how rows name it, and how readers do.
    fn choices(&self) -> impl Iterator<Item = [String; 2]> {
        let apart = (self.phases == Phases::Apart).then_some(["+phases=apart", "CPUs are apart"]);
        let frees = match self.frees {
            Frees::Own => None,
            Frees::Other => Some(["+frees=other", "other CPUs free"]),
            Frees::One => Some(["+frees=one", "one CPU frees"]),
        };
        let zones = self.zones == Zones::Socket;
        let zones = zones.then_some(["+zones=socket", "each socket has a zone"]);
        let services = match self.services {
            Services::Callers => None,
            Services::Own => Some(["+services=own", "services have CPUs of their own"]),
            Services::Idle => Some(["+services=idle", "services run on CPUs that wait"]),
        };
        let turns = self.whole_calls;
        let turns = turns.then_some(["+turns=calls", "CPUs take turns between calls"]);
        let cut = self.cut_off.is_some();
        let cut = cut.then_some(["+cut-off=on", "calls that take too long are cut off"]);
        let around = (self.around > 0).then(|| {
            [
                format!("+around={}", self.around),
                format!(
                    "{} instructions around the allocator in each call",
                    self.around
                ),
            ]
        });
        let program = (self.program != Program::default()).then(|| {
            let terms = self.program.to_string();
            [
                format!("+program={}", terms.replace(',', ":")),
                format!("programs between calls: {terms}"),
            ]
        });
        let all = apart.into_iter().chain(frees).chain(zones).chain(turns);
        let all = all
            .chain(cut)
            .chain(services)
            .map(|own| own.map(String::from));
        all.chain(around)
            .chain(program)
            .chain(self.start.as_deref().map(|map| {
                [
                    format!("+start={}", map.label()),
                    format!("{}, {} free", map.described(), size::frames(map.free())),
                ]
            }))
    }

    /// Returns what the run does not do by default, as the end of a list: `; CPUs are apart`.
    pub fn remarks(&self) -> String {
        let remarks = self.choices().map(|[_, remark]| format!("; {remark}"));
        remarks.collect()
    }

    /// Returns a row of a cell that has everything but a measurement.
    fn base(&self, id: &CellId) -> Row {
        let spec = &self.specs[id.spec];
        Row {
            experiment: self
                .choices()
                .fold("simulate".to_string(), |name, [own, _]| name + &own),
            source: self.loads[id.load].name().to_string(),
            system: spec.name().to_string(),
            options: choice::options(spec),
            platform: Platform::Sim(self.machine.clone()),
            cpus: id.cpus,
            seed: id.seed,
            operation: "all",
            ..Row::default()
        }
    }

    /// Returns the rows of a load, and what follows from all cells of each system, as far as they have ended.
    pub fn of_load(&self, load: usize, rows: &[Option<Vec<Row>>]) -> (Vec<Row>, Vec<Scaling>) {
        let pairs = self.cells().into_iter().zip(rows);
        let own = pairs.filter(|(id, _)| id.load == load);
        let (cells, rows): (Vec<CellId>, Vec<Option<Vec<Row>>>) =
            own.map(|(id, rows)| (id, rows.clone())).unzip();
        self.joined(&cells, &rows)
    }

    /// Joins the rows of the cells that have ended, and adds what follows from all of a system under a load. Rows of
    /// cells that a system [leaves out](Plan::stops) are dropped: another run may have simulated them.
    fn joined(&self, cells: &[CellId], rows: &[Option<Vec<Row>>]) -> (Vec<Row>, Vec<Scaling>) {
        let (mut all, mut scalings) = (Vec::new(), Vec::new());
        let ended = cells.iter().zip(rows);
        let ended = ended.filter_map(|(id, rows)| Some((id, rows.as_deref()?)));
        let ended: Vec<(&CellId, &[Row])> = ended.collect();
        let same = |a: &(&CellId, &[Row]), b: &(&CellId, &[Row])| {
            (a.0.load, a.0.spec) == (b.0.load, b.0.spec)
        };
        for group in ended.chunk_by(same) {
            let (id, mut own): (&CellId, Vec<&[Row]>) = (group[0].0, Vec::new());
            for (id, rows) in group {
                if self.has_stopped(id, &own) {
                    break;
                }
                own.push(rows);
            }
            all.extend(own.iter().flat_map(|rows| rows.iter().cloned()));
            let (load, system) = (self.loads[id.load].name(), self.specs[id.spec].to_string());
            let scaling = rows::scaling(load, system, &own);
            all.extend(rows::of_scaling(&self.base(id), &scaling));
            scalings.push(scaling);
        }
        (all, scalings)
    }

    /// Returns the number of instructions that take this many cycles.
    fn instructions(&self, cycles: u32) -> u32 {
        (u64::from(cycles) * 1000 / u64::from(self.hardware.work)).min(u64::from(u32::MAX / 2))
            as u32
    }
}

#[cfg(test)]
mod tests;
