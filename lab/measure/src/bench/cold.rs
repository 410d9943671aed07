//! Calls one by one, with programs between them that use the caches.
//!
//! A benchmark of calls alone leaves the caches to the allocator. Here something else uses them between two calls, and
//! each call is timed apart, between fences.
//!
//! # Invariants
//! Nothing but the call is between two readings of the clock. Frames, metadata and what a program uses lie in huge
//! pages where the operating system has them, so that translation of addresses is not what is measured. A section of
//! calls in which the thread lost its CPU, or next to which the CPU was slow, counts only if there is no other one.

use std::hint::black_box;
use std::time::{Duration, Instant};
use std::{fs, thread};

use everybuddy_trace::named;
use everybuddy_workload::{Setting, Step, Variant};

use super::ContenderSpec;
use super::contender::Contender;
use super::perform::{Belt, Pot, Tools};
use crate::Error;
use crate::choice;
use crate::replay::adapter::REFUSED;
use crate::replay::background_load;
use crate::replay::clock::Timer;
use crate::replay::host::Arena;
use crate::replay::memory::Memory;
use crate::replay::random::Random;
use crate::replay::steady::Steady;
use crate::touched::{Ablation, HUGE, Touched, advise_huge, in_huge_pages};

named! {
    /// What happens between two calls.
    #[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
    pub enum Between {
        /// Nothing.
        #[default]
        Nothing => "nothing",
        /// Time passes, as much as pointers take: interrupts, and the hypervisor of a virtual machine, use caches, too.
        Waited => "waited",
        /// Each frame that was allocated is zeroed.
        Zeroed => "zeroed",
        /// The same, and more than the second cache holds is read before each call.
        Swept => "swept",
        /// The same, and pointers are followed in a part of memory that is larger than the second cache.
        Chased => "chased",
    }
}

impl Between {
    /// Returns the lines that are used before each call, and the bytes they are a part of.
    pub fn lines(self, swept: u64) -> (u32, u64) {
        match self {
            Between::Nothing | Between::Waited | Between::Zeroed => (0, 0),
            Between::Swept => ((swept / LINE) as u32, swept),
            Between::Chased => (STEPS, CHASED),
        }
    }

    /// Returns `true` if frames are zeroed.
    pub fn zeroes(self) -> bool {
        !matches!(self, Between::Nothing | Between::Waited)
    }
}

/// The workload whose calls are timed.
pub const WORKLOAD: &str = "cold";
/// The bytes of a cache line.
const LINE: u64 = 64;
/// The bytes in which pointers are followed, and the pointers before each call.
const CHASED: u64 = 8 << 20;
const STEPS: u32 = 8192;
/// About what the pointers before a call take.
const WAIT: Duration = Duration::from_micros(500);
/// The nanoseconds of a call beyond which something else ran: about 20,000 cycles, and an interrupt takes longer.
pub const LONGEST: f64 = 7000.0;
/// The calls of a section. What is asked of the kernel after each uses caches, too: fewer than a hundredth of the calls
/// follow it.
const SECTION: usize = 256;

/// What is measured.
#[derive(Clone, Debug)]
pub struct ColdPlan {
    /// The contenders.
    pub contenders: Vec<ContenderSpec>,
    /// The memory.
    pub memory: Memory,
    /// The number of rounds, in each of which all contenders take turns.
    pub rounds: u32,
    /// The seed of random choices.
    pub seed: u64,
    /// The factor by which the load is shortened.
    pub shrink: u32,
}

/// The times of single calls of one kind, of a contender with a program.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Singles {
    /// The median in nanoseconds.
    pub p50: f64,
    /// The mean in nanoseconds.
    pub mean: f64,
    /// The 99th percentile in nanoseconds.
    pub p99: f64,
    /// The calls that count.
    pub calls: u64,
    /// The calls that took so long that something else must have run.
    pub left_out: u64,
    /// The calls in disturbed sections, which were dropped.
    pub dropped: u64,
    /// Whether all sections were disturbed: then they count after all.
    pub is_disturbed: bool,
}

impl Singles {
    fn of([calm, disturbed]: [Vec<f64>; 2]) -> Self {
        let is_disturbed = calm.is_empty() && !disturbed.is_empty();
        let (mut nanos, dropped) = if is_disturbed {
            (disturbed, 0)
        } else {
            (calm, disturbed.len())
        };
        nanos.sort_unstable_by(f64::total_cmp);
        let all = nanos.len();
        let end = nanos.partition_point(|own| *own <= LONGEST);
        let own = &nanos[..end];
        let at = |share: f64| own.get((own.len() as f64 * share) as usize).copied();
        Self {
            p50: at(0.5).unwrap_or(0.0),
            mean: own.iter().sum::<f64>() / own.len().max(1) as f64,
            p99: at(0.99).unwrap_or(0.0),
            calls: end as u64,
            left_out: (all - end) as u64,
            dropped: dropped as u64,
            is_disturbed,
        }
    }
}

/// What was measured.
#[derive(Clone, Debug, Default)]
pub struct ColdResults {
    /// For each contender and each [`Between`], allocations and frees.
    pub cells: Vec<[[Singles; 2]; Between::ALL.len()]>,
    /// The bytes that are swept.
    pub swept: u64,
    /// The part of what programs use that lies in huge pages, if it is known.
    pub huge: Option<f64>,
    /// The same of metadata, of the system that has the least of it there.
    pub huge_metadata: Option<f64>,
}

/// A line that names the next one.
#[derive(Clone, Copy, Default)]
#[repr(align(64))]
struct Line(u32);

/// Lines that begin with a huge page.
struct Lines {
    all: Vec<Line>,
    skip: usize,
}

impl Lines {
    fn new(bytes: u64) -> Self {
        let (count, room) = ((bytes / LINE) as usize, HUGE / size_of::<Line>());
        let mut all = Vec::with_capacity(count + room);
        advise_huge(all.spare_capacity_mut());
        let start: *const Line = all.as_ptr();
        let skip = start.cast::<u8>().align_offset(HUGE) / size_of::<Line>();
        let skip = skip.min(room);
        all.resize(skip + count, Line::default());
        Self { all, skip }
    }

    fn get(&self) -> &[Line] {
        &self.all[self.skip..]
    }
}

/// What programs use besides frames.
struct Used {
    swept: Lines,
    chain: Lines,
}

impl Used {
    fn new(swept: u64, seed: u64) -> Self {
        let (swept, mut chain) = (Lines::new(swept), Lines::new(CHASED));
        let mut order: Vec<u32> = (0..chain.get().len() as u32).collect();
        Random::new(seed).shuffle(&mut order);
        for (at, own) in order.iter().enumerate() {
            chain.all[chain.skip + *own as usize] = Line(order[(at + 1) % order.len()]);
        }
        Self { swept, chain }
    }

    /// Uses caches before a call. The chain goes on at `at`.
    fn use_caches(&self, between: Between, at: &mut u32) {
        match between {
            Between::Nothing | Between::Zeroed => {}
            Between::Waited => {
                let start = Instant::now();
                while start.elapsed() < WAIT {}
            }
            Between::Swept => {
                let sum = self.swept.get().iter().fold(0u32, |sum, line| sum ^ line.0);
                black_box(sum);
            }
            Between::Chased => {
                let steps = 0..STEPS;
                let chain = self.chain.get();
                let next = |at: u32, _| chain[at as usize].0;
                *at = black_box(steps.fold(*at, next));
            }
        }
    }
}

/// Returns twice the size of the second cache of the first CPU; 4 MiB where the operating system does not say.
fn swept_bytes() -> u64 {
    let text = fs::read_to_string("/sys/devices/system/cpu/cpu0/cache/index2/size").ok();
    let kib = text.and_then(|text| text.trim().strip_suffix('K')?.parse::<u64>().ok());
    kib.map_or(4 << 20, |kib| 2 * (kib << 10))
}

/// Measures all contenders with each program between their calls. `visited` is called after each visit.
///
/// # Errors
/// Returns a usage error if a contender cannot be set up, or if the machine lacks the memory, and [`Error::Broken`] if
/// a contender refused a frame or failed.
pub fn measure(
    plan: &ColdPlan,
    timer: &Timer,
    arena: &mut Arena,
    mut visited: impl FnMut(&str),
) -> Result<ColdResults, Error> {
    arena.in_huge_pages();
    let variant = choice::workloads(&[WORKLOAD.to_string()])?[0];
    let before = in_huge_pages();
    let touched = Touched::new(plan.memory.frames, Ablation::default())?;
    let swept = swept_bytes();
    let used = Used::new(swept, plan.seed);
    let huge = before.zip(in_huge_pages()).map(|(before, after)| {
        let bytes = (plan.memory.frames << 12) + swept + CHASED;
        after.saturating_sub(before) as f64 / bytes as f64
    });
    let mut all = vec![<[Times; Between::ALL.len()]>::default(); plan.contenders.len()];
    let mut huge_metadata = None;
    for round in 0..plan.rounds as usize {
        for (program, between) in Between::ALL.into_iter().enumerate() {
            for turn in 0..plan.contenders.len() {
                let who = (turn + round) % plan.contenders.len();
                let contender = &plan.contenders[who];
                let visit = Visit {
                    plan,
                    variant,
                    timer,
                    touched: &touched,
                    used: &used,
                    between,
                };
                let came = contender.with(&plan.memory, 1, arena, |own| visit.call(own))?;
                let times = came.map_err(|what| {
                    Error::Broken(format!("{} on {WORKLOAD}: {what}", contender.name()))
                })?;
                let own = all[who][program].iter_mut().flatten();
                for (own, times) in own.zip(times.into_iter().flatten()) {
                    own.extend(times);
                }
                if let (ContenderSpec::System(_), Some(part)) = (contender, arena.huge()) {
                    huge_metadata = Some(huge_metadata.map_or(part, |least: f64| least.min(part)));
                }
                visited(between.name());
            }
        }
    }
    let cells = all
        .into_iter()
        .map(|own| own.map(|own| own.map(Singles::of)));
    Ok(ColdResults {
        cells: cells.collect(),
        swept,
        huge,
        huge_metadata,
    })
}

/// A contender with a program between its calls.
#[derive(Clone, Copy)]
struct Visit<'v> {
    plan: &'v ColdPlan,
    variant: &'static Variant,
    timer: &'v Timer,
    touched: &'v Touched,
    used: &'v Used,
    between: Between,
}

/// The nanoseconds of allocations and of frees, of calm sections and of disturbed ones.
type Times = [[Vec<f64>; 2]; 2];

impl Visit<'_> {
    /// Runs the load twice, in a thread that stays on a CPU: to warm up, and to be timed.
    fn call(self, contender: &dyn Contender) -> Result<Times, &'static str> {
        let died = Err("a thread of the benchmark failed");
        thread::scope(|scope| {
            let run = scope.spawn(move || {
                if let Some(core) = core_affinity::get_core_ids().unwrap_or_default().first() {
                    core_affinity::set_for_current(*core);
                }
                self.run(contender)
            });
            run.join().unwrap_or(died)
        })
    }

    fn run(self, contender: &dyn Contender) -> Result<Times, &'static str> {
        let Self {
            plan,
            variant,
            timer,
            touched,
            ..
        } = self;
        let setting = Setting {
            frames: u32::try_from(plan.memory.free()).unwrap_or(u32::MAX),
            threads: 1,
            seed: plan.seed,
            shrink: plan.shrink,
        };
        let mut program = variant.program(&setting, 0);
        let (belt, pot) = (Belt::new(), Pot::default());
        let tools = Tools {
            timer,
            belt: &belt,
            pot: &pot,
            touched: None,
        };
        let worker = contender.worker(0, program.slots(), tools);
        let mut worker = worker.ok_or("its CPU is in use")?;
        let mut places = vec![REFUSED; program.slots() as usize];
        // The thread stays on the first CPU.
        let steady = Steady::on(0);
        let (mut times, mut at) = (Times::default(), 0);
        for is_timed in [false, true] {
            let between = if is_timed {
                self.between
            } else {
                Between::Nothing
            };
            for section in program.round() {
                let mut steps = section.body.steps().peekable();
                let (mut is_calm, mut before) = (steady.is_steady(), background_load::switches());
                while steps.peek().is_some() {
                    // Lines of a buffer that has been used.
                    let mut all = [(0, 0); SECTION];
                    let mut done = 0;
                    for step in steps.by_ref().take(SECTION) {
                        self.used.use_caches(between, &mut at);
                        all[done] = match step {
                            Step::Allocate { slot, .. } => {
                                let (place, ticks) = worker.allocate_apart();
                                places[slot as usize] = place;
                                if between.zeroes() {
                                    touched.zero(place);
                                }
                                (0, ticks)
                            }
                            Step::Free { slot } => (1, worker.free_apart(places[slot as usize])),
                            Step::Hand { .. } | Step::Receive { .. } => continue,
                        };
                        done += 1;
                    }
                    let (was_calm, was) = (is_calm, before);
                    (is_calm, before) = (steady.is_steady(), background_load::switches());
                    let is_disturbed = !was_calm || !is_calm || before != was;
                    for (kind, ticks) in all[..done].iter().filter(|_| is_timed) {
                        times[*kind][usize::from(is_disturbed)].push(timer.single(*ticks));
                    }
                }
            }
            if places.contains(&REFUSED) {
                return Err("a request was refused");
            }
        }
        worker.park();
        if worker.finish() > 0 {
            return Err("a free failed");
        }
        Ok(times)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_lap_of_the_chain_visits_each_line_once() {
        let used = Used::new(1 << 20, 3);
        let chain = used.chain.get();
        let lines = chain.len();
        assert_eq!((lines, used.swept.get().len()), (131_072, 16_384));
        assert_eq!(chain.as_ptr().addr() % HUGE, 0);
        let mut seen = vec![false; lines];
        let mut at = 0;
        for _ in 0..lines {
            assert!(!std::mem::replace(&mut seen[at as usize], true));
            at = chain[at as usize].0;
        }
        assert_eq!(at, 0);
        used.use_caches(Between::Swept, &mut at);
        assert_eq!(at, 0);
        used.use_caches(Between::Chased, &mut at);
        assert_ne!(at, 0);
        let rest = lines as u32 - STEPS;
        assert_eq!((0..rest).fold(at, |at, _| chain[at as usize].0), 0);
    }

    #[test]
    fn calls_during_which_something_else_ran_are_left_out() {
        let nanos: Vec<f64> = (0..100).map(f64::from).chain([8000.0, 1e6]).collect();
        let own = Singles::of([nanos, Vec::new()]);
        assert_eq!((own.p50, own.mean, own.p99), (50.0, 49.5, 99.0));
        assert_eq!((own.calls, own.left_out, own.dropped), (100, 2, 0));
        assert_eq!(Singles::of(<[Vec<f64>; 2]>::default()), Singles::default());
    }

    #[test]
    fn disturbed_sections_count_only_if_there_are_no_others() {
        let own = Singles::of([vec![5.0; 10], vec![9.0; 30]]);
        assert_eq!((own.p50, own.calls, own.dropped), (5.0, 10, 30));
        assert!(!own.is_disturbed);
        let own = Singles::of([Vec::new(), vec![9.0; 30]]);
        assert_eq!((own.p50, own.calls, own.dropped), (9.0, 30, 0));
        assert!(own.is_disturbed);
    }

    /// Two systems, and a load of 64 frames.
    fn plan() -> ColdPlan {
        let systems = ["bs", "everybuddy"].map(str::to_string);
        let systems = choice::parse(&systems).unwrap();
        ColdPlan {
            contenders: systems.into_iter().map(ContenderSpec::System).collect(),
            memory: Memory::fresh(4096),
            rounds: 2,
            seed: 1,
            shrink: 16,
        }
    }

    #[test]
    fn every_program_is_measured_for_every_contender() {
        let mut visits = 0;
        let timer = Timer::calibrated();
        let all = measure(&plan(), &timer, &mut Arena::default(), |_| visits += 1).unwrap();
        assert_eq!(visits, 2 * 2 * Between::ALL.len());
        assert_eq!(all.cells.len(), 2);
        for own in all.cells.iter().flatten().flatten() {
            assert_eq!(own.calls + own.left_out + own.dropped, 2 * 64);
            assert!((0.0..=own.p99).contains(&own.p50), "{own:?}");
        }
        for share in [all.huge, all.huge_metadata] {
            assert!(share.is_none_or(|own| own >= 0.0), "{share:?}");
            assert!(share.is_some() || !cfg!(target_os = "linux"));
        }
    }

    #[test]
    fn a_program_zeroes_the_frames_that_it_gets_and_no_others() {
        let plan = plan();
        let (timer, used) = (Timer::calibrated(), Used::new(1 << 16, 1));
        let touched = Touched::new(4096, Ablation::default()).unwrap();
        for contender in &plan.contenders {
            for between in Between::ALL {
                (0..4096).for_each(|place| touched.write_line(place));
                let visit = Visit {
                    plan: &plan,
                    variant: choice::workloads(&[WORKLOAD.to_string()]).unwrap()[0],
                    timer: &timer,
                    touched: &touched,
                    used: &used,
                    between,
                };
                let came = contender.with(&plan.memory, 1, &mut Arena::default(), |own| {
                    visit.call(own)
                });
                let times = came.unwrap().unwrap();
                assert!(times.iter().all(|own| own[0].len() + own[1].len() == 64));
                // What is written to frame 0 is 0.
                let zeroed = (1..4096).filter(|place| touched.read(*place) == 0).count();
                let name = (contender.name(), between.name());
                match between {
                    Between::Nothing | Between::Waited => assert_eq!(zeroed, 0, "{name:?}"),
                    _ => assert!((63..=64).contains(&zeroed), "{name:?}: {zeroed}"),
                }
            }
        }
    }
}
