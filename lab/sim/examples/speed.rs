//! Prints how many simulated accesses per second the host executes.
//!
//! # Purpose
//!
//! To compare two versions of the engine. Build this program at both, run both several times in turn, and compare the
//! rates. The hashes must be equal, or the runs were different runs.
//!
//! Usage: `speed [CPUS[,CPUS]...] [SYSTEM...]`
//!
//! Each CPU allocates single frames in bursts, frees them in the same order, and works for about 1,000 instructions
//! between calls. Every access costs 10 cycles. The rate is that of the fastest of several runs: other load on the
//! host only makes a run slower.

use std::time::Instant;

use everybuddy::platform::CpuToken;
use everybuddy::{
    FrameAllocator, FrameRange, Memory, Pfn, Release, Request, Setup, SystemSpec, metadata_layout,
};
use everybuddy_sim::{Flat, Machine, Region, Report, Sim, SimCpu, build_any};

const FRAMES: u64 = 1 << 20;

/// Frames that a CPU holds before it frees them.
const BURST: usize = 256;

/// Pairs of allocation and free, on all CPUs together.
const PAIRS: usize = 1 << 15;

const REPEATS: usize = 8;

fn main() {
    let mut arguments = std::env::args().skip(1);
    let counts = arguments.next().unwrap_or("1,24,64,128".into());
    let counts: Vec<u16> = counts
        .split(',')
        .map(|count| count.parse().expect("CPUS must be numbers"))
        .collect();
    let mut systems: Vec<String> = arguments.collect();
    if systems.is_empty() {
        systems = ["lbs-31", "is", "spring", "bs"].map(String::from).into();
    }
    println!("system          CPUs  accesses  switches  M accesses/s  hash");
    for system in &systems {
        for &cpus in &counts {
            print_rate(system, cpus);
        }
    }
}

fn print_rate(system: &str, cpus: u16) {
    let mut fastest = f64::INFINITY;
    let mut last: Option<Report> = None;
    for _ in 0..REPEATS {
        let (report, seconds) = run(system, cpus);
        fastest = fastest.min(seconds);
        if let Some(last) = last.replace(report.clone()) {
            assert_eq!(last, report, "two equal runs differ");
        }
    }
    let report = last.expect("there is at least one run");
    println!(
        "{system:<15} {cpus:>4} {:>9} {:>9} {:>13.1}  {:016x}",
        report.accesses(),
        report.switches,
        report.accesses() as f64 / fastest / 1e6,
        report.hash,
    );
}

/// Runs the workload once, in a new system. Returns the report and the seconds that the run took.
fn run(system: &str, cpus: u16) -> (Report, f64) {
    let spec: SystemSpec = system.parse().expect("SYSTEM must be the name of a system");
    let ranges = [FrameRange::new(Pfn(0), FRAMES)];
    let setup = Setup::new(&ranges, cpus);
    let layout = metadata_layout::<Sim>(&spec, &setup).expect("the setup is valid");
    let mut memory = vec![core::mem::MaybeUninit::uninit(); Memory::room(layout)];
    let region = Region::of(&memory);
    let bursts = PAIRS.div_ceil(BURST * usize::from(cpus));
    let memory = Memory::new(&mut memory);
    let built =
        build_any(&spec, &setup, memory).expect("the memory is as large as the layout says");
    let mut machine = Machine::new(cpus).cost(Flat::new(10));
    let body = |cpu: &mut SimCpu| churn(built, cpu, bursts);
    let start = Instant::now();
    let report = machine.run(region, body);
    let seconds = start.elapsed().as_secs_f64();
    (report.expect("no CPU hangs"), seconds)
}

fn churn(system: &dyn FrameAllocator<Sim>, cpu: &mut SimCpu, bursts: usize) {
    let mut random = u64::from(cpu.id().0) << 32 | 1;
    let mut work = |cpu: &mut SimCpu| {
        random ^= random << 13;
        random ^= random >> 7;
        random ^= random << 17;
        cpu.work(500 + (random >> 32) as u32 % 1001);
    };
    let mut held = Vec::with_capacity(BURST);
    for _ in 0..bursts {
        for _ in 0..BURST {
            work(cpu);
            held.push(
                system
                    .allocate(cpu, Request::FRAME)
                    .expect("memory is not short"),
            );
        }
        for frame in held.drain(..) {
            work(cpu);
            system
                .free(cpu, Release::frame(frame))
                .expect("the frame was allocated");
        }
    }
}
