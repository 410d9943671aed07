//! Fragmentation in four stages, while many programs start, run, end, and leave the machine idle.
//!
//! Results are compared with figure 13 of \[Spring\], which requires more CPUs than this machine has. The experiment
//! runs on simulated CPUs, on which every access to shared metadata takes the same time. Shapes and orders are
//! compared, not times.
//!
//! Stages: **a** the programs start; **b** they run; **c** they end, and all of their memory is freed; **d** one CPU
//! continues with little memory. Finally all lists are drained.
//!
//! Several seeds are simulated. A number is the mean over the seeds, and the seeds are its rounds, so that a claim can
//! tell whether it holds for each of them. What a stage is about is the change that it brings: see
//! `fragmentation_change`.
//!
//! # Invariants
//! The rows are reproducible. The rows of single moments are those of the first seed.

pub(crate) mod figure;
mod numbers;
mod programs;

use std::cell::{self, RefCell};
use std::mem::MaybeUninit;

use everybuddy::platform::CpuToken;
use everybuddy::systems::ZoneKind;
use everybuddy::{FrameAllocator, FrameRange, Memory, Pfn, Setup, SystemSpec, metadata_layout};
use everybuddy_sim::{Flat, Machine, Region, Sim, SimCpu, build_any};

use self::numbers::{ENDS, HALVES, HOME, Numbers, Printed, STAGES, Seen};
use self::programs::{Kept, Kernel, Program, Thread};
use crate::shared::prelude::*;
use everybuddy_measure::replay::random::Random;

/// The parameters in the experiment's file.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct Parameters {
    /// Threads of each program, each on its own CPU; one more CPU watches.
    threads: u16,
    /// The total number of cycles.
    cycles: u64,
    /// The starts of stages b and c, in percent. Stage d starts when everything is freed.
    begins: [u64; 2],
    /// Cycles of an access.
    access: u64,
    /// Instructions between two requests of a thread.
    pause: u32,
    /// Frames of a region in stage d.
    little: u32,
    /// Samples.
    samples: u64,
    /// The number of seeds.
    seeds: u32,
    /// The orders whose free blocks are counted.
    orders: Vec<u8>,
    /// What the source printed about stage b.
    printed: Vec<Printed>,
    /// The programs.
    programs: Vec<Program>,
    /// The kernel's own requests.
    kernel: Kernel,
}

impl Parameters {
    /// Returns which numbers are made of what is seen.
    fn numbers(&self) -> Numbers<'_> {
        Numbers {
            orders: &self.orders,
            printed: &self.printed,
        }
    }

    /// Returns the number of CPUs with programs.
    fn cpus(&self) -> u16 {
        self.threads * self.programs.len() as u16
    }
}

impl Measure for Parameters {
    fn repeats(&self) -> Repeats {
        Repeats::SimulatedSeeds(self.seeds)
    }

    fn design(&self, experiment: &Experiment, _: &Conditions) -> Result<Design, Error> {
        let cell = |name: &String| {
            let sources = STAGES.iter().chain(&ENDS).chain(&HALVES).chain([&HOME]);
            let of = |source: &&str| {
                let own = About::all(*source).system(name);
                own.rounds(Metrics::All, self.seeds)
            };
            Cell::new(name, self.seeds as usize, sources.map(of).collect())
        };
        Ok(Design::new(experiment.systems.iter().map(cell).collect()))
    }

    /// Simulates a system.
    fn measure(&self, system: usize, run: &mut Run<'_, '_>) -> Result<Vec<Row>, Error> {
        let frames = run.experiment.frames().map_err(Error::usage)?;
        let frames = frames.unwrap_or(1 << 19);
        let spec = run.specs()?.swap_remove(system);
        let mut rows = Vec::new();
        let mut seeds = Vec::new();
        for seed in 0..u64::from(self.seeds.max(1)) {
            let mut base = run.common("", &spec, self.cpus());
            base.seed += seed;
            let seen = simulate(self, &spec, frames, base.seed, run.shrink())?;
            if seed == 0 {
                rows.extend(numbers::moments(self.numbers(), &seen, &base));
            }
            seeds.push(numbers::stages(self.numbers(), &seen, &base));
            run.step(format_args!("{spec}, seed {}", base.seed));
        }
        rows.extend(numbers::over_seeds(&seeds));
        Ok(rows)
    }
}

/// Runs the programs on a system.
fn simulate(
    own: &Parameters,
    spec: &SystemSpec,
    frames: u64,
    seed: u64,
    shrink: u32,
) -> Result<Seen, Error> {
    let ranges = [FrameRange::new(Pfn(0), frames)];
    let setup = Setup::new(&ranges, own.cpus() + 1);
    let refuse = |error| Error::usage(format!("system {spec}: {error}"));
    let layout = metadata_layout::<Sim>(spec, &setup).map_err(refuse)?;
    let mut memory = vec![MaybeUninit::uninit(); Memory::room(layout)];
    let parameters = spec.parameters(&setup).map_err(refuse)?;
    let visitor = Visitor {
        is_elastic: parameters.composition.zone == ZoneKind::Domains,
        region: Region::of(&memory),
        frames,
        seed,
        own,
        cycles: own.cycles / u64::from(shrink),
    };
    let system = build_any(spec, &setup, Memory::new(&mut memory)).map_err(refuse)?;
    visitor
        .call(system)
        .map_err(|error| Error::Broken(format!("system {spec}: {error}")))
}

struct Visitor<'o> {
    own: &'o Parameters,
    is_elastic: bool,
    region: Region,
    frames: u64,
    seed: u64,
    cycles: u64,
}

impl Visitor<'_> {
    /// Runs the programs on a new system.
    fn call(&self, system: &dyn FrameAllocator<Sim>) -> Result<Seen, String> {
        let (own, cycles, cpus) = (self.own, self.cycles, self.own.cpus());
        let [running, ending] = own.begins.map(|part| cycles * part / 100);
        // Two thirds of memory, for all regions at their maximum, one and a half times the mean.
        let share = (self.frames * 4 / 9 / u64::from(cpus)) as u32;
        let kept: Vec<Kept> = own.programs.iter().map(|_| Kept::default()).collect();
        let ended = cell::Cell::new(0);
        let samples = RefCell::new(Vec::new());
        let home = cell::Cell::new(None);
        let mut machine = Machine::new(cpus + 1)
            .cost(Flat::new(own.access))
            // Otherwise an unfair lock could starve the sampling CPU, in lockstep.
            .jitter(own.access)
            .seed(self.seed)
            .limit(cycles * 20);
        let run = machine.run(self.region, |cpu: &mut SimCpu| {
            let number = cpu.id().0;
            if number == cpus {
                // A sample reads the metadata: it must not slow down the programs.
                let mut is_freed = false;
                while cpu.now() < cycles {
                    cpu.work((cycles / own.samples) as u32);
                    // Stage c ends with the first sample after everything was freed. Before it, the last program
                    // still divides the memory that the others freed.
                    let stage = match () {
                        () if is_freed => 3,
                        () if cpu.now() >= ending => 2,
                        () if cpu.now() >= running => 1,
                        () => 0,
                    };
                    is_freed = ended.get() >= cpus;
                    let snapshot = system.snapshot(cpu);
                    samples.borrow_mut().push((cpu.now(), stage, snapshot));
                }
                system.park(cpu);
                return;
            }
            let program = usize::from(number / own.threads);
            let mut thread = Thread {
                system,
                kept: &kept[program],
                task: u32::from(number) + 1,
                pause: own.pause,
                kernel: &own.kernel,
                random: Random::new(self.seed << 16 | u64::from(number)),
            };
            thread.run(cpu, &own.programs[program], share, ending);
            ended.set(ended.get() + 1);
            if number > 0 {
                return;
            }
            while ended.get() < cpus {
                cpu.work(own.pause);
            }
            let mut region = u32::MAX / 2;
            while cpu.now() < cycles {
                region += 1;
                thread.region(cpu, region, own.little, own.little, cycles);
                thread.forget(cpu);
            }
            thread.run(cpu, &own.programs[program], share, 0);
            let quiet = system.quiesce(cpu);
            home.set(quiet.ok().map(|()| system.snapshot(cpu)));
        });
        run.map_err(|error| error.to_string())?;
        let home = home.take().ok_or("the lists could not be drained")?;
        let free = home.free_frames();
        if free != self.frames {
            return Err(format!(
                "{free} frames are free finally, of {}",
                self.frames
            ));
        }
        machine.outside(|cpus: &mut [SimCpu]| match cpus.first_mut() {
            Some(cpu) => system
                .check(cpu)
                .map(drop)
                .map_err(|wrong| wrong.to_string()),
            None => Ok(()),
        })?;
        Ok(Seen {
            samples: samples.into_inner(),
            home,
            max_order: system.max_order(),
            cycles,
            is_elastic: self.is_elastic,
        })
    }
}
