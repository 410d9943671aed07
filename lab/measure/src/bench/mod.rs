//! The benchmark: workloads that isolate the effects that are mixed in traces, on all contenders in one run.
//!
//! The question "how fast, compared with what?" has a reproducible answer.
//!
//! | file | contents |
//! |------|--------------|
//! | `caller` | the calls of a thread |
//! | [`contender`] | the operations of an allocator; our systems as contenders |
//! | `peer` | third-party allocators, and those in shared libraries, as contenders |
//! | [`contender_spec`] | contenders by name |
//! | `perform` | the timed loops |
//! | `meeting` | a barrier for the threads between sections |
//! | `round_trip` | the time of a cache line between two threads |
//! | [`visit`] | one workload on a new allocator, on its threads |
//! | `counted` | a system whose operations are counted instead |
//! | `check` | contenders checked against a shadow of memory |
//! | [`outcome`] | the reduction of many times to a few numbers |
//! | [`ratio`] | the ratio of two contenders' times, with an interval |
//! | [`rows`] | the results as rows |
//! | [`instructions`] | instruction counts, by callgrind |
//! | [`start`] | the start-up time of a system |
//! | [`cold`] | calls one by one, with programs between them that use the caches |
//!
//! # Invariants
//! In each round, each contender runs each workload once, on a new allocator, in an order that rotates every round.

mod caller;
mod check;
pub mod cold;
pub mod contender;
pub mod contender_spec;
mod counted;
pub mod instructions;
mod meeting;
pub mod outcome;
mod peer;
mod perform;
pub mod ratio;
mod round_trip;
pub mod rows;
pub mod start;
pub mod visit;

use everybuddy::SystemSpec;
use everybuddy::platform::NativeCpus;
use everybuddy_workload::{Setting, Variant};

use crate::Error;
use crate::replay::clock::Timer;
use crate::replay::host::{AnySystem, Arena};
use crate::replay::memory::Memory;
use crate::replay::observe::Tally;
use crate::replay::services;
use crate::replay::steady::Steady;
use crate::replay::watch::Watch;
use crate::touched::{Ablation, Touched};

use check::{Checked, Shadow};
pub use contender_spec::ContenderSpec;
use counted::{Counted, Sums};
pub use outcome::{Cell, Results};
use visit::{Visit, Visited};

/// The selection and the parameters of a benchmark.
#[derive(Clone, Debug)]
pub struct BenchPlan {
    /// The contenders.
    pub contenders: Vec<ContenderSpec>,
    /// The workloads.
    pub variants: Vec<&'static Variant>,
    /// Numbers of threads.
    pub threads: Vec<u16>,
    /// The memory.
    pub memory: Memory,
    /// The number of rounds.
    pub rounds: u32,
    /// The seed of random choices.
    pub seed: u64,
    /// The factor by which sections are shortened.
    pub shrink: u32,
    /// How the memory of workloads that use their frames differs from a kernel's.
    pub ablation: Ablation,
    /// Whether a visit without a valid section is repeated, up to [`TRIES`](Self::TRIES) times, and then refused.
    pub is_strict: bool,
}

impl BenchPlan {
    /// The default number of frames: 1 GiB.
    pub const FRAMES: u32 = 1 << 18;
    /// The default number of rounds.
    pub const ROUNDS: u32 = 5;
    /// How often a visit is tried, if invalid sections do not count.
    pub const TRIES: u32 = 20;
    /// Nanoseconds after which a section that can end anywhere is ended.
    const BUDGET: f64 = 5e6;

    /// Returns the workloads with the numbers of threads on which they can run.
    pub fn cells(&self) -> Vec<(&'static Variant, u16)> {
        let of = |variant: &&'static Variant| {
            let variant = *variant;
            let fits = move |threads: &u16| *threads >= variant.threads;
            let threads = self.threads.iter().copied().filter(fits);
            threads
                .map(move |threads| (variant, threads))
                .collect::<Vec<_>>()
        };
        self.variants.iter().flat_map(of).collect()
    }

    /// Returns the number of visits.
    pub fn visits(&self) -> u64 {
        u64::from(self.rounds) * (self.cells().len() * self.contenders.len()) as u64
    }

    /// Returns about how many seconds the visits take on a quiet host.
    pub fn seconds(&self) -> f64 {
        /// Those of one visit: a run of 12,600 took 24 minutes (results/bench-zen4).
        const VISIT: f64 = 0.113;
        VISIT * self.visits() as f64 / f64::from(self.shrink)
    }

    /// Returns the frames that the workloads use: those that are free at the start.
    pub fn frames(&self) -> u32 {
        u32::try_from(self.memory.free()).unwrap_or(u32::MAX)
    }

    fn setting(&self, threads: u16) -> Setting {
        Setting {
            frames: self.frames(),
            threads,
            seed: self.seed,
            shrink: self.shrink,
        }
    }
}

/// Measures everything, with the lists of the arena's machine. `visited` is called with a description after each visit.
///
/// # Errors
/// Returns a usage error if a contender cannot be set up with these parameters, [`Error::Broken`] if one broke its
/// contract, or [`Error::Failed`] if the host is too busy for a strict plan.
pub fn measure(
    plan: &BenchPlan,
    timer: &Timer,
    arena: &mut Arena,
    mut visited: impl FnMut(&str),
) -> Result<Results, Error> {
    let cells = plan.cells();
    let uses_frames = plan.variants.iter().any(|variant| variant.touches);
    let touched = uses_frames.then(|| Touched::new(plan.memory.frames, plan.ablation));
    let touched = touched.transpose()?;
    let mut results = Results::new(plan, arena.machine(), &cells);
    for round in 0..plan.rounds {
        for (index, (variant, threads)) in cells.iter().enumerate() {
            for turn in 0..plan.contenders.len() {
                let who = (turn + round as usize) % plan.contenders.len();
                let visit = Visit {
                    variant,
                    setting: plan.setting(*threads),
                    timer,
                    repeats: variant.repeats,
                    is_timed: true,
                    budget: BenchPlan::BUDGET,
                    touched: touched.as_ref().filter(|_| variant.touches),
                };
                let contender = &plan.contenders[who];
                let cell = &mut results.cells[index][who];
                for tried in 1.. {
                    let came = contender.with(&plan.memory, *threads, arena, |c| visit.call(c))?;
                    let Some(came) = judged(contender, variant, came)? else {
                        break;
                    };
                    if !plan.is_strict || !came.times.is_empty() {
                        cell.add(came);
                        break;
                    }
                    cell.dropped += came.disturbed.len() as u64;
                    if tried == BenchPlan::TRIES {
                        return Err(busy(contender, variant, *threads, cell.dropped));
                    }
                }
                visited(variant.name);
            }
        }
    }
    results.huge = touched.as_ref().and_then(Touched::huge);
    Ok(results)
}

/// Counts the internal events of the allocations and frees of a workload, over all threads.
///
/// # Errors
/// Like [`measure`], and a usage error if the workload cannot run on this number of threads.
pub fn count(
    variant: &'static Variant,
    setting: Setting,
    spec: &SystemSpec,
    timer: &Timer,
    arena: &mut Arena,
) -> Result<[Tally; 2], Error> {
    /// Rounds of a program, enough for the threads to interact often.
    const REPEATS: u32 = 16;
    if setting.threads < variant.threads {
        let least = variant.threads;
        let what = format!("workload {} needs {least} threads", variant.name);
        return Err(Error::usage(what));
    }
    let memory = Memory::fresh(u64::from(setting.frames));
    let sums = Sums::default();
    let visit = Visit {
        variant,
        setting,
        timer,
        repeats: (REPEATS / setting.shrink.max(1)).max(1),
        is_timed: false,
        budget: f64::INFINITY,
        touched: None,
    };
    let counted = |system: &AnySystem<'_, Watch>| {
        let cpus = NativeCpus::new(setting.threads);
        let sums = &sums;
        let call = || visit.call(&Counted { system, cpus, sums });
        services::alongside(system, setting.threads, &Watch::default, call).0
    };
    let came = arena.build_any(spec, &memory, setting.threads, counted)?;
    judged(&ContenderSpec::System(*spec), variant, came)?;
    Ok(sums.into_inner().unwrap_or_default())
}

/// The result of checking a contender on a workload.
#[derive(Clone, Debug)]
pub struct Verdict {
    /// The contender.
    pub contender: ContenderSpec,
    /// The workload.
    pub variant: &'static str,
    /// The number of threads.
    pub threads: u16,
    /// The number of allocations and frees, if the contender can run the workload.
    pub checked: Option<u64>,
    /// The number of them with a wrong state.
    pub faults: u64,
}

/// Runs every contender on every workload against a shadow of memory; nothing is timed.
///
/// # Errors
/// Like [`measure`]; wrong states are verdicts, not errors.
pub fn check(
    plan: &BenchPlan,
    timer: &Timer,
    arena: &mut Arena,
    mut visited: impl FnMut(&str),
) -> Result<Vec<Verdict>, Error> {
    let mut verdicts = Vec::new();
    for (variant, threads) in plan.cells() {
        for contender in &plan.contenders {
            let shadow = Shadow::new(plan.memory.frames as u32);
            let visit = Visit {
                variant,
                setting: plan.setting(threads),
                timer,
                repeats: variant.repeats,
                is_timed: false,
                budget: f64::INFINITY,
                touched: None,
            };
            let came = contender.with(&plan.memory, threads, arena, |inner| {
                let shadow = &shadow;
                visit.call(&Checked { inner, shadow })
            })?;
            let (faults, checked) = shadow.faults();
            // A frame that is handed out twice is freed twice, too: the first fault says more.
            let done = match judged(contender, variant, came) {
                Ok(done) => done.is_some(),
                Err(_) if faults > 0 => true,
                Err(error) => return Err(error),
            };
            verdicts.push(Verdict {
                contender: *contender,
                variant: variant.name,
                threads,
                checked: done.then_some(checked),
                faults,
            });
            visited(variant.name);
        }
    }
    Ok(verdicts)
}

/// Checks the contenders from shared libraries before anything is measured: that they can be built for every number of
/// frames and threads, and, on shortened workloads, that they hand out each frame once.
///
/// # Errors
/// Returns a usage error if one cannot be built, or [`Error::Failed`] if one broke the contract of its table.
pub fn vet(plan: &BenchPlan, timer: &Timer, arena: &mut Arena) -> Result<(), Error> {
    /// The factor by which sections are shortened: some thousand calls each.
    const SHRINK: u32 = 100;
    let loaded = plan.contenders.iter().filter(|c| c.file().is_some());
    let plan = BenchPlan {
        contenders: loaded.copied().collect(),
        shrink: plan.shrink.max(SHRINK),
        ..plan.clone()
    };
    for contender in &plan.contenders {
        contender.with(&contender_spec::start_memory(), 1, arena, |_| ())?;
    }
    let verdicts = check(&plan, timer, arena, |_| ())?;
    let Some(faulty) = verdicts.iter().find(|verdict| verdict.faults > 0) else {
        return Ok(());
    };
    Err(Error::Failed(format!(
        "--peer {}: {} on workload {}, threads: {}: {} of {} calls were about blocks outside of \
         memory, not aligned, or handed out twice\nhelp: `everybuddy bench --check --peer FILE` lists all workloads",
        faulty.contender.file().unwrap_or_default(),
        faulty.contender.name(),
        faulty.variant,
        faulty.threads,
        faulty.faults,
        faulty.checked.unwrap_or_default()
    )))
}

/// Explains why a strict plan is not measured.
fn busy(contender: &ContenderSpec, variant: &Variant, threads: u16, dropped: u64) -> Error {
    Error::Failed(format!(
        "this host is too busy to be measured: {} on workload {}, threads: {threads}: in each of {dropped} sections, \
         a thread lost its CPU, or a fixed loop next to the section took more than {} % longer than it can\nhelp: end \
         other programs, or measure at another time",
        contender.name(),
        variant.name,
        Steady::PERCENT
    ))
}

fn judged(
    contender: &ContenderSpec,
    variant: &Variant,
    came: Option<Result<Visited, &'static str>>,
) -> Result<Option<Visited>, Error> {
    let broken = |what: &str| {
        let what = format!("{} on workload {}: {what}", contender.name(), variant.name);
        match contender.file() {
            Some(file) => Error::Failed(format!("--peer {file}: {what}")),
            None => Error::Broken(what),
        }
    };
    match came.transpose().map_err(broken)? {
        Some(visited) if visited.failed > 0 => {
            let what = format!("{} frees failed", visited.failed);
            Err(broken(&what))
        }
        other => Ok(other),
    }
}
