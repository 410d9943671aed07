//! What a hit of a per-CPU list costs: through the platform seam, and written by hand.
//!
//! `cargo run --profile counted -p everybuddy-example-instructions --bin hit_cost` times pairs of one allocation
//! and one free of a single frame, interleaved in one run, and prints medians and ratios.
//!
//! `hit_cost inlined` times the same with both calls inlined into the loop: then the compiler keeps plain fields
//! in registers from the allocation to the release, and may not do so with cells.
//!
//! `hit_cost count WHO PAIRS` runs just that many pairs of one of them: two such runs under callgrind differ
//! by the instructions of the pairs (`ci/seam.sh`). `hit_cost count-run WHO PAIRS` does the same with pairs that name
//! a run of one frame. The machine code to compare is that of the functions
//! `seam_allocate` and `hand_allocate`, `seam_free` and `hand_free`.

use std::hint::black_box;
use std::mem::MaybeUninit;
use std::time::Instant;

use everybuddy::prelude::*;
use everybuddy::systems::{
    Buddy, EverybuddyTrees, Lbs, LbsLocked, LlFreeTrees, Pcp, SpringBuddy, build_as,
};

const PAIRS: u32 = 1_000_000;
const ROUNDS: usize = 41;

type Cpu = <Native as Platform>::Cpu;

/// One allocation through the seam.
#[inline(never)]
fn seam_allocate<A: FrameAllocator<Native>>(system: &A, cpu: &mut Cpu) -> Option<Index> {
    system.allocate(cpu, Request::FRAME).ok()
}

/// One release through the seam.
#[inline(never)]
fn seam_free<A: FrameAllocator<Native>>(system: &A, cpu: &mut Cpu, frame: Index) -> bool {
    system.free(cpu, Release::frame(frame)).is_ok()
}

fn seam_pair<A: FrameAllocator<Native>>(system: &A, cpu: &mut Cpu) -> bool {
    seam_allocate(system, cpu).is_some_and(|frame| seam_free(system, cpu, frame))
}

/// The same for a run of one frame.
#[inline(never)]
fn seam_allocate_run<A: FrameAllocator<Native>>(system: &A, cpu: &mut Cpu) -> Option<Index> {
    system.allocate(cpu, Request::frames(1)).ok()
}

#[inline(never)]
fn seam_free_run<A: FrameAllocator<Native>>(system: &A, cpu: &mut Cpu, frame: Index) -> bool {
    system.free(cpu, Release::frames(frame, 1)).is_ok()
}

fn seam_pair_of_runs<A: FrameAllocator<Native>>(system: &A, cpu: &mut Cpu) -> bool {
    seam_allocate_run(system, cpu).is_some_and(|frame| seam_free_run(system, cpu, frame))
}

/// The same list written by hand: plain fields, no platform, no layers; the same checks.
mod by_hand {
    pub(super) const ALLOCATED: u32 = 0xff20_0000;
    pub(super) const BUFFERED: u32 = 0xff40_0000;

    #[repr(C, align(64))]
    pub(super) struct List {
        pub(super) top: u32,
        pub(super) bottom: u32,
        pub(super) marks: u64,
        pub(super) entries: Box<[u32; 256]>,
    }

    pub(super) struct Allocator {
        pub(super) lists: Vec<List>,
        pub(super) records: Vec<[u32; 2]>,
    }

    impl Allocator {
        #[inline]
        pub(super) fn allocate(&mut self, cpu: usize) -> Option<u32> {
            let list = self.lists.get_mut(cpu)?;
            let top = list.top;
            if top <= list.marks as u32 {
                return None;
            }
            let frame = list.entries[(top - 1) as usize & 255];
            let record = self.records.get_mut(frame as usize)?;
            if record[0] != BUFFERED | cpu as u32 {
                return None;
            }
            record[0] = ALLOCATED;
            list.top = top - 1;
            Some(frame)
        }

        #[inline]
        pub(super) fn free(&mut self, cpu: usize, frame: u32) -> bool {
            let Some(record) = self.records.get_mut(frame as usize) else {
                return false;
            };
            let Some(list) = self.lists.get_mut(cpu) else {
                return false;
            };
            let top = list.top;
            if top >= (list.marks >> 32) as u32 || record[0] != ALLOCATED {
                return false;
            }
            record[0] = BUFFERED | cpu as u32;
            list.entries[top as usize & 255] = frame;
            list.top = top + 1;
            true
        }
    }
}

/// Both calls through the seam, inlined.
#[inline(always)]
fn seam_pair_inlined<A: FrameAllocator<Native>>(system: &A, cpu: &mut Cpu) -> bool {
    match system.allocate(cpu, Request::FRAME) {
        Ok(frame) => system.free(cpu, Release::frame(frame)).is_ok(),
        Err(_) => false,
    }
}

/// Both calls by hand, inlined.
#[inline(always)]
fn hand_pair_inlined(system: &mut by_hand::Allocator, cpu: &mut u16) -> bool {
    let cpu = usize::from(*cpu);
    match system.allocate(cpu) {
        Some(frame) => system.free(cpu, frame),
        None => false,
    }
}

/// What stands for the miss: never taken here, but it must be possible.
#[cold]
#[inline(never)]
fn miss(system: &mut by_hand::Allocator, cpu: usize) -> Option<u32> {
    let list = system.lists.get_mut(cpu)?;
    list.bottom = list.top;
    None
}

/// One allocation by hand.
#[inline(never)]
fn hand_allocate(system: &mut by_hand::Allocator, cpu: &mut u16) -> Option<u32> {
    let cpu = usize::from(*cpu);
    match system.allocate(cpu) {
        None => miss(system, cpu),
        hit => hit,
    }
}

/// One release by hand.
#[inline(never)]
fn hand_free(system: &mut by_hand::Allocator, cpu: &mut u16, frame: u32) -> bool {
    let cpu = usize::from(*cpu);
    system.free(cpu, frame) || miss(system, cpu).is_some()
}

fn hand_pair(system: &mut by_hand::Allocator, cpu: &mut u16) -> bool {
    hand_allocate(system, cpu).is_some_and(|frame| hand_free(system, cpu, frame))
}

/// A private array of frame numbers: what no allocator can beat.
#[inline(never)]
fn floor_allocate(list: &mut Vec<u32>) -> Option<u32> {
    list.pop()
}

#[inline(never)]
fn floor_free(list: &mut Vec<u32>, frame: u32) -> bool {
    list.push(black_box(frame));
    true
}

fn floor_pair(list: &mut Vec<u32>) -> bool {
    floor_allocate(list).is_some_and(|frame| floor_free(list, frame))
}

/// Runs `then` on a system, inside the visitor: the next system is built within, so that all live simultaneously
/// and can be timed in turn.
struct Timed<'t>(&'t mut dyn FnMut() -> f64);

fn time(mut pair: impl FnMut() -> bool) -> f64 {
    let start = Instant::now();
    for _ in 0..PAIRS {
        assert!(pair());
    }
    start.elapsed().as_nanos() as f64 / f64::from(PAIRS)
}

/// Builds the named systems one inside the other, then runs `measure` with a timer for each.
struct Nest<'n, 'm> {
    inlined: bool,
    names: &'n [&'static str],
    memories: &'m mut [Vec<MaybeUninit<u8>>],
    timers: Vec<Timed<'n>>,
    measure: &'n mut dyn FnMut(&mut [Timed<'_>]),
}

impl WithSystem<Native> for Nest<'_, '_> {
    type Output = ();

    fn call<A: FrameAllocator<Native>>(self, _: &'static str, system: &A) {
        let cpus = NativeCpus::new(1);
        let Ok(mut cpu) = cpus.claim(CpuId(0)) else {
            return;
        };
        let inlined = self.inlined;
        let mut timer = || {
            if !inlined {
                time(|| seam_pair(system, &mut cpu))
            } else {
                time(|| seam_pair_inlined(system, &mut cpu))
            }
        };
        timer();
        let Nest {
            names,
            memories,
            timers,
            measure,
            ..
        } = self;
        let mut timers: Vec<Timed<'_>> = timers.into_iter().map(|t| Timed(t.0)).collect();
        timers.push(Timed(&mut timer));
        match (names.split_first(), memories.split_first_mut()) {
            (Some((name, names)), Some((memory, memories))) => {
                build(
                    name,
                    memory,
                    Nest {
                        inlined,
                        names,
                        memories,
                        timers,
                        measure,
                    },
                );
            }
            _ => measure(&mut timers),
        }
    }
}

const RANGES: &[FrameRange] = &[FrameRange::new(Pfn(0), 1 << 18)];

/// Builds one of the systems that are timed, and runs `visitor` on it. Only their compositions are compiled.
fn build<V: WithSystem<Native>>(name: &str, memory: &mut Vec<MaybeUninit<u8>>, visitor: V) {
    let setup = Setup::new(RANGES, 1);
    let Ok(spec) = name.parse::<SystemSpec>() else {
        return eprintln!("{name}: no such system");
    };
    let Ok(layout) = metadata_layout::<Native>(&spec, &setup) else {
        return;
    };
    memory.resize(Memory::room(layout), MaybeUninit::uninit());
    let memory = Memory::new(memory);
    macro_rules! on {
        ($composition:ident) => {
            build_as::<Native, $composition<'_, Native>>(&spec, &setup, memory).map(|system| {
                visitor.call(spec.name(), system);
            })
        };
    }
    let built = match name {
        "bs" => on!(Buddy),
        "spring" => on!(SpringBuddy),
        "linux-6" => on!(Pcp),
        "lbs-31+percpu=locked" => on!(LbsLocked),
        "llfree" => on!(LlFreeTrees),
        "everybuddy" => on!(EverybuddyTrees),
        _ => on!(Lbs),
    };
    if let Err(error) = built {
        eprintln!("{name}: {error}");
        std::process::exit(1);
    }
}

fn list_by_hand() -> by_hand::Allocator {
    by_hand::Allocator {
        lists: vec![by_hand::List {
            top: 31,
            bottom: 0,
            marks: 185 << 32,
            entries: Box::new(std::array::from_fn(|entry| entry as u32)),
        }],
        records: vec![[by_hand::BUFFERED, 0]; 1 << 18],
    }
}

/// Runs a number of pairs on a system.
struct Pairs {
    number: u32,
    are_runs: bool,
}

impl WithSystem<Native> for Pairs {
    type Output = ();

    fn call<A: FrameAllocator<Native>>(self, _: &'static str, system: &A) {
        let cpus = NativeCpus::new(1);
        if let Ok(mut cpu) = cpus.claim(CpuId(0)) {
            let Pairs { number, are_runs } = self;
            (0..number).for_each(|_| {
                assert!(if are_runs {
                    seam_pair_of_runs(system, &mut cpu)
                } else {
                    seam_pair(system, &mut cpu)
                });
            });
        }
    }
}

/// Runs a number of pairs, for an instruction counter.
fn count(who: &str, number: u32, are_runs: bool) {
    if who == "hand" {
        let (mut hand, mut cpu) = (list_by_hand(), black_box(0));
        (0..number).for_each(|_| assert!(hand_pair(&mut hand, &mut cpu)));
    } else {
        build(who, &mut Vec::new(), Pairs { number, are_runs });
    }
}

fn main() {
    let arguments: Vec<String> = std::env::args().collect();
    if let [_, verb, who, pairs] = &arguments[..]
        && verb.starts_with("count")
        && let Ok(pairs) = pairs.parse()
    {
        return count(who, pairs, verb == "count-run");
    }
    let inlined = arguments.get(1).is_some_and(|verb| verb == "inlined");
    let names = ["lbs-31", "lbs-31+percpu=locked", "spring", "linux-6", "bs"];
    let mut memories: Vec<_> = names.iter().map(|_| Vec::new()).collect();
    let (first, rest) = memories.split_at_mut(1);
    let mut measure = |systems: &mut [Timed<'_>]| {
        let mut hand = list_by_hand();
        let mut floor: Vec<u32> = (0..256).collect();
        let mut cpu: u16 = black_box(0);
        let mut times = vec![Vec::new(); names.len() + 2];
        for round in 0..ROUNDS {
            for turn in 0..times.len() {
                let who = (turn + round) % times.len();
                let ns = match who {
                    0 => time(|| floor_pair(&mut floor)),
                    1 if inlined => time(|| hand_pair_inlined(&mut hand, &mut cpu)),
                    1 => time(|| hand_pair(&mut hand, &mut cpu)),
                    system => (systems[system - 2].0)(),
                };
                times[who].push(ns);
            }
        }
        let median = |times: &[f64]| {
            let mut times = times.to_vec();
            times.sort_by(f64::total_cmp);
            times[times.len() / 2]
        };
        println!("pair of one allocation and one release, order 0, always a hit (but bs)");
        println!("{:<24} {:>9} {:>9}", "", "ns", "x by hand");
        let labels = ["floor: private array", "by hand"].into_iter().chain(names);
        for (label, own) in labels.zip(&times) {
            let ratios: Vec<f64> = own
                .iter()
                .zip(&times[1])
                .map(|(own, hand)| own / hand)
                .collect();
            println!("{label:<24} {:>9.2} {:>9.2}", median(own), median(&ratios));
        }
    };
    let nest = Nest {
        inlined,
        names: &names[1..],
        memories: rest,
        timers: Vec::new(),
        measure: &mut measure,
    };
    build(names[0], &mut first[0], nest);
}
