//! All passes of all systems on a trace.
//!
//! Systems are compared within one run. Each timed pass of each system occurs once per round, and systems take turns,
//! so that a machine that becomes slower or busier affects all of them equally.
//!
//! # Invariants
//! Every pass starts with a newly built system on the same memory.

use everybuddy::systems::Parameters;
use everybuddy::{Counts, SystemSpec};

use crate::Error;
use crate::refusals::Refusals;
use crate::replay::classes::ClassMap;
use crate::replay::clock::Timer;
use crate::replay::detail::Detail;
use crate::replay::host::Arena;
use crate::replay::memory::{Initial, Memory};
use crate::replay::observe::{Counting, Listed, Sample, Tally, Ticks};
use crate::replay::outcome::{Comparison, Outcome};
use crate::replay::owners::OwnerMap;
use crate::replay::pace::{Pace, Round};
use crate::replay::pass::{self, How, Times};
use crate::replay::placement::follow;
use crate::replay::play::Played;
use crate::replay::random::Random;
use crate::replay::script::Script;
use crate::replay::watch::Watch;
use crate::touched::{Ablation, Touched};

/// The selection and the parameters of a comparison.
#[derive(Clone, Debug)]
pub struct ComparePlan {
    /// The systems.
    pub systems: Vec<SystemSpec>,
    /// The number of frames to manage; by default 1.25 times the trace's peak.
    pub memory: Option<u64>,
    /// What is in use at the start.
    pub initial: Initial,
    /// The seed of the order in which systems take turns.
    pub seed: u64,
    /// The number of repetitions of each timed pass.
    pub rounds: u32,
    /// Whether timed passes use the frames as the program did, so that times are the whole price.
    pub touches: bool,
}

impl ComparePlan {
    /// The default number of repetitions of timed passes.
    pub const ROUNDS: u32 = 5;
    /// The number of timed passes per round.
    const TIMED: u64 = 3;

    /// Returns the number of passes of a comparison on one trace.
    pub fn passes(&self) -> u64 {
        let systems = self.systems.len() as u64;
        systems + u64::from(self.rounds) * (systems + 1) * Self::TIMED
    }
}

/// Compares all systems of a plan on a trace, with the lists of the arena's machine. `passed` is called after each
/// pass.
///
/// # Errors
/// Returns a usage error if a system or the memory cannot be set up, or [`Error::Broken`] if an allocator broke its
/// contract.
pub fn compare(
    script: &Script,
    plan: &ComparePlan,
    timer: &Timer,
    arena: &mut Arena,
    mut passed: impl FnMut(),
) -> Result<Comparison, Error> {
    let memory = Memory::new(script, plan.memory, &plan.initial)?;
    let touched = plan
        .touches
        .then(|| Touched::new(memory.frames, Ablation::default()));
    let mut stage = Stage {
        script,
        memory,
        touched: touched.transpose()?,
        timer,
        arena,
        switches: 0,
    };
    let mut systems = Vec::with_capacity(plan.systems.len());
    for spec in &plan.systems {
        systems.push(stage.count(spec)?);
        passed();
    }
    let mut order: Vec<usize> = (0..plan.systems.len()).collect();
    let mut random = Random::new(plan.seed);
    let mut rounds: Vec<Vec<Round>> = plan.systems.iter().map(|_| Vec::new()).collect();
    let mut floor = Vec::new();
    for _ in 0..plan.rounds {
        floor.push(stage.time_floor(&mut passed)?);
        random.shuffle(&mut order);
        for &system in &order {
            rounds[system].push(stage.time(&plan.systems[system], &mut passed)?);
        }
    }
    for (outcome, rounds) in systems.iter_mut().zip(&rounds) {
        outcome.pace = Pace::over(rounds, script, timer);
        outcome.rounds = rounds.iter().map(|round| round.means(timer)).collect();
        outcome.detail.latency = Detail::latencies(rounds, script, timer);
    }
    Ok(Comparison {
        trace: script.name.clone(),
        events: script.events,
        recorded_ns: script.recorded_ns,
        peak_frames: script.peak_frames,
        cpus: script.cpus,
        threads: script.lanes.len(),
        assignment: script.assignment,
        memory: stage.memory,
        machine: stage.arena.machine(),
        rounds: plan.rounds,
        switches: stage.switches,
        touches: plan.touches,
        systems,
        floor: Pace::over(&floor, script, timer),
    })
}

/// The state that all passes on a trace share.
struct Stage<'s> {
    script: &'s Script,
    memory: Memory,
    touched: Option<Touched>,
    timer: &'s Timer,
    arena: &'s mut Arena,
    switches: u64,
}

impl Stage<'_> {
    /// Counts internal events, and audits the final state.
    fn count(&mut self, spec: &SystemSpec) -> Result<Outcome, Error> {
        let events = self.script.events;
        let memory = &self.memory;
        let how = How {
            listed: true,
            ..How::COUNTED
        };
        let done = pass::watch(self.script, memory, self.arena, spec, how, Counting::new)?;
        let mut tallies = [Tally::default(); 2];
        let sum = |probes: &[Watch]| {
            probes.iter().fold(Counts::default(), |mut sum, probe| {
                sum.add(&probe.counts);
                sum
            })
        };
        let (queues, background) = (sum(&done.probes), sum(&done.background));
        let (mut samples, mut listed) = (Vec::new(), Vec::new());
        let places = Detail::places(self.script, &done.played.observers);
        let is_alone = done.played.observers.len() == 1;
        let asked: i64 = done.played.observers.iter().map(|own| own.asked).sum();
        for observer in done.played.observers {
            for (sum, tally) in tallies.iter_mut().zip(&observer.tallies) {
                sum.add(tally);
            }
            samples.extend(observer.samples.into_iter().map(|sample| Sample {
                asked: sample.asked.filter(|_| is_alone),
                ..sample
            }));
            listed.extend(observer.listed);
        }
        listed.sort_by_key(|listed: &Listed| listed.position);
        listed.push(Listed {
            position: events,
            frames: done.listed,
        });
        samples.sort_by_key(|sample: &Sample| sample.position);
        samples.extend(done.end.map(|snapshot| Sample {
            position: events,
            snapshot,
            asked: u64::try_from(asked).ok(),
        }));
        let moments = listed.iter().map(|listed| listed.position);
        let of_blocks = self.script.of_blocks(|own| own.flags().class() as u8);
        let owner = &self.script.owners.of_block;
        let (mut classes, mut owners) = (Vec::new(), Vec::new());
        follow(self.script, memory, &places, moments, |frames| {
            if self.script.has_classes {
                classes.push(ClassMap::of(frames, &of_blocks));
            }
            if !owner.is_empty() {
                owners.push(OwnerMap::of(frames, owner));
            }
        });
        let ranges = self.memory.ranges();
        let setup = memory.setup(self.arena.machine(), &ranges, self.script.cpus);
        let parameters = spec.parameters(&setup);
        Ok(Outcome {
            spec: *spec,
            batch: parameters.as_ref().ok().and_then(Parameters::batch),
            has_list: parameters.as_ref().is_ok_and(Parameters::has_list),
            parameters: parameters.map(|p| p.to_string()).unwrap_or_default(),
            max_order: done.max_order,
            given: self.memory.free(),
            metadata_bytes: done.metadata_bytes,
            pace: Pace::default(),
            rounds: Vec::new(),
            tallies,
            services: done.services,
            background,
            queues,
            refusals: Refusals {
                requests: self.script.requests(),
                refused: done.played.trouble.refused,
            },
            samples,
            classes,
            owners,
            detail: Detail {
                places,
                listed,
                ..Detail::default()
            },
        })
    }

    /// Runs the timed passes of one round.
    fn time(&mut self, spec: &SystemSpec, passed: &mut impl FnMut()) -> Result<Round, Error> {
        self.round(passed, |stage, times| {
            let (script, memory, timer) = (stage.script, &stage.memory, stage.timer);
            let touched = stage.touched.as_ref();
            pass::time(script, memory, stage.arena, spec, timer, times, touched)
        })
    }

    /// Runs the same passes without an allocator behind the adapter.
    fn time_floor(&mut self, passed: &mut impl FnMut()) -> Result<Round, Error> {
        self.round(passed, |stage, times| {
            let touched = stage.touched.as_ref();
            pass::time_floor(stage.script, &stage.memory, stage.timer, times, touched)
        })
    }

    fn round(
        &mut self,
        passed: &mut impl FnMut(),
        mut time: impl FnMut(&mut Self, Times) -> Result<Played<Ticks>, Error>,
    ) -> Result<Round, Error> {
        let mut pass = |times| {
            let played = time(self, times)?;
            self.switches += played.switches;
            passed();
            Ok::<_, Error>(played)
        };
        let whole = pass(Times::Stretches)?;
        let segments = pass(Times::Segments)?;
        let singles = pass(Times::Singles)?;
        let mut operations = [0, 0];
        for observer in &segments.observers {
            for (sum, own) in operations.iter_mut().zip(observer.operations) {
                *sum += own;
            }
        }
        Ok(Round {
            elapsed: whole.elapsed.as_secs_f64(),
            stretches: whole
                .observers
                .into_iter()
                .map(|o| o.stretches)
                .collect::<Vec<_>>()
                .concat(),
            operations,
            segments: by_direction(segments.observers.into_iter().map(|o| o.directions)),
            singles: by_direction(singles.observers.into_iter().map(|o| o.directions)),
        })
    }
}

/// Joins the times of all threads.
fn by_direction(threads: impl Iterator<Item = [Vec<u32>; 2]>) -> [Vec<u32>; 2] {
    let mut joined = [Vec::new(), Vec::new()];
    for thread in threads {
        for (all, own) in joined.iter_mut().zip(thread) {
            if all.is_empty() {
                *all = own
            } else {
                all.extend(own)
            }
        }
    }
    joined
}
