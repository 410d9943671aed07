//! The time of a call on one thread, with atomic locks and with locks of plain loads and stores.
//!
//! In the paper's table 1, a call of LiS-1 with one thread takes 113 to 276 cycles. If the atomic operation of a lock
//! takes 20 of them, which is assumed, it is a small part. Here it may be a larger one: the difference of the two times
//! is what the atomic operations cost.
//!
//! | file | contents |
//! |------|----------|
//! | `plain` | the platform of one thread |
//! | `loads` | the loads, and their times |
//!
//! # Invariants
//! Systems take turns in each round, and each round starts with another system. In each turn a system runs all loads
//! with both locks, and begins with the one with which it ended its turn before.

mod loads;
mod plain;

use std::mem::MaybeUninit;

use everybuddy::platform::{CpuId, NativeCpu};
use everybuddy::systems::{self, Bs, Is, Lbs1, Lbs31, Lis1, Lis31, System};
use everybuddy::{FrameAllocator, Memory as Room, Native, Platform};

use crate::components::{Number, summary};
use crate::shared::prelude::*;
use everybuddy_measure::replay::clock::Timer;
use everybuddy_measure::replay::memory::Memory;

use loads::{Calls, Displaced, Stream};
use plain::{OneThread, Plain};

/// What sources with a lock of plain loads and stores end in.
const PLAIN: &str = ":plain";

/// The parameters in the experiment's file.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct Parameters {
    /// The number of turns of each system.
    rounds: u32,
    /// How often a turn repeats a load; the shortest time counts.
    passes: u32,
    threads: OneThread,
    stream: Stream,
    displaced: Displaced,
}

/// The numbers of a load with each lock: atomic, plain.
type Both = [Vec<Number>; 2];

impl Measure for Parameters {
    fn repeats(&self) -> Repeats {
        Repeats::Rounds(self.rounds)
    }

    fn design(&self, experiment: &Experiment, _: &Conditions) -> Result<Design, Error> {
        let loads = ["stream", "displaced"].map(String::from).into_iter();
        let loads = loads.chain(experiment.trace_names());
        let about = loads.flat_map(|load| [load.clone(), load + PLAIN].map(About::all));
        // One cell: a turn is over all loads.
        let steps = experiment.systems.len() * self.rounds as usize;
        let cell = Cell::new("all", steps, about.collect());
        Ok(Design::new(vec![cell]))
    }

    fn measure(&self, _: usize, run: &mut Run<'_, '_>) -> Result<Vec<Row>, Error> {
        let specs = run.specs()?;
        let traces = 0..run.experiment.traces().len();
        let traces: Vec<Traced> = traces
            .map(|trace| run.traced(trace, Some(OneThread::CPUS)))
            .collect::<Result<_, _>>()?;
        let calls = traces.iter().map(|traced| Calls::of(&traced.script));
        let calls = calls.collect::<Result<Vec<_>, _>>()?;
        let frames = run.experiment.frames().map_err(Error::usage)?;
        let frames = frames.ok_or_else(|| Error::usage("memory: missing"))?;
        let shrink = run.shrink() as usize;
        let turn = Turn {
            parameters: self,
            memory: Memory::fresh(frames),
            calls: &calls,
            passes: run.rounds(self.passes),
            shrink,
        };
        let rounds = run.rounds(self.rounds);
        let mut turns = 0;
        let all = run.in_turns(rounds, &specs, "lock-cost", |spec, bench| {
            let round = turns / specs.len();
            turns += 1;
            turn.run(spec, bench.timer, round % 2 == 1)
        })?;
        let mut names = vec!["stream".to_string(), "displaced".to_string()];
        names.extend(traces.into_iter().map(|traced| traced.name));
        let mut rows = Vec::new();
        for (load, name) in names.iter().enumerate() {
            for (lock, suffix) in ["", PLAIN].into_iter().enumerate() {
                for (spec, rounds) in specs.iter().zip(&all) {
                    let own = rounds.iter().map(|round| round[load][lock].clone());
                    let source = format!("{name}{suffix}");
                    let common = run.common(&source, spec, OneThread::CPUS);
                    rows.extend(summary(&own.collect::<Vec<_>>(), &common));
                }
            }
        }
        Ok(rows)
    }
}

/// What a turn of a system needs.
struct Turn<'t> {
    parameters: &'t Parameters,
    memory: Memory,
    calls: &'t [Calls],
    passes: u32,
    shrink: usize,
}

impl Turn<'_> {
    /// Runs all loads with both locks, first with the atomic one unless `plain_first`.
    fn run(&self, spec: &SystemSpec, timer: &Timer, plain_first: bool) -> Result<Vec<Both>, Error> {
        match spec.name() {
            "bs" => self.on_both::<Bs>(spec, timer, plain_first),
            "lbs-1" => self.on_both::<Lbs1>(spec, timer, plain_first),
            "lbs-31" => self.on_both::<Lbs31>(spec, timer, plain_first),
            "is" => self.on_both::<Is>(spec, timer, plain_first),
            "lis-1" => self.on_both::<Lis1>(spec, timer, plain_first),
            "lis-31" => self.on_both::<Lis31>(spec, timer, plain_first),
            name => Err(Error::usage(format!(
                "system {name}: not one of bs, lbs-1, lbs-31, is, lis-1 and lis-31"
            ))),
        }
    }

    fn on_both<S: System>(
        &self,
        spec: &SystemSpec,
        timer: &Timer,
        plain_first: bool,
    ) -> Result<Vec<Both>, Error> {
        let (atomic, plain) = if plain_first {
            let plain = self.on::<S, Plain>(spec, timer)?;
            (self.on::<S, Native>(spec, timer)?, plain)
        } else {
            let atomic = self.on::<S, Native>(spec, timer)?;
            (atomic, self.on::<S, Plain>(spec, timer)?)
        };
        let both = atomic.into_iter().zip(plain);
        Ok(both.map(|(atomic, plain)| [atomic, plain]).collect())
    }

    /// Runs all loads on a platform.
    fn on<S: System, P: Platform<Cpu = NativeCpu>>(
        &self,
        spec: &SystemSpec,
        timer: &Timer,
    ) -> Result<Vec<Vec<Number>>, Error> {
        let refused = |error| Error::usage(format!("system {spec}: {error}"));
        let ranges = self.memory.ranges();
        let setup = self.memory.setup(None, &ranges, OneThread::CPUS);
        let layout = systems::metadata_layout::<P>(spec, &setup).map_err(refused)?;
        let mut bytes = vec![MaybeUninit::uninit(); Room::room(layout)];
        let system: &S::Built<'_, P> =
            systems::build_as(spec, &setup, Room::new(&mut bytes)).map_err(refused)?;
        let cpus = self.parameters.threads.cpus();
        let mut cpu = cpus
            .claim(CpuId(0))
            .map_err(|error| Error::Broken(format!("the only token of a new set: {error}")))?;
        let all = self.loads::<P>(system, &mut cpu, timer);
        let broken = |what: String| Error::Broken(format!("system {spec}: {what}"));
        let all = all.map_err(broken)?;
        system
            .check(&mut cpu)
            .map_err(|violation| broken(violation.to_string()))?;
        Ok(all)
    }

    /// Runs all loads on a system.
    fn loads<P: Platform>(
        &self,
        system: &impl FrameAllocator<P>,
        cpu: &mut P::Cpu,
        timer: &Timer,
    ) -> Result<Vec<Vec<Number>>, String> {
        let Parameters {
            stream, displaced, ..
        } = &self.parameters;
        let (passes, shrink) = (self.passes, self.shrink);
        let mut all = vec![
            stream.time(system, cpu, timer, passes, shrink)?,
            displaced.time(system, cpu, timer, passes, shrink)?,
        ];
        for calls in self.calls {
            all.push(calls.time(system, cpu, timer, passes)?);
        }
        Ok(all)
    }
}
