//! A made-up report with the size of a real one: three traces, sixteen systems.
//!
//! The page can be viewed, tested and weighed without measuring anything. The numbers are random but plausible; they
//! describe no real system.
//!
//! # Invariants
//! The same seed produces the same report.

mod memory;
mod numbers;

use everybuddy_page::report::{
    Answer, Bin, LiveSample, Machine, OrderShare, Quantiles, Report, RunLengths, Share, Statistics,
    Trace,
};

pub(crate) use numbers::Random;

/// The systems: name, parameters, batch of the list (0 without a list), and whether there are domains.
#[rustfmt::skip]
const SYSTEMS: [(&str, &str, u32, bool); 16] = [
    ("bs", "no per-CPU list", 0, false),
    ("lbs-1", "bypass, high mark 186", 1, false),
    ("lbs-31", "batch 31, high mark 186", 31, false),
    ("is", "no per-CPU list, spaces of 4 MiB", 0, false),
    ("lis-1", "bypass, high mark 186, spaces of 4 MiB", 1, false),
    ("lis-31", "batch 31, high mark 186, spaces of 4 MiB", 31, false),
    ("fixlazy-372", "batch 62, high mark 372", 62, false),
    ("fixlazy-744", "batch 124, high mark 744", 124, false),
    ("spring", "predicted, up to 4096, elastic domains", 300, true),
    ("spring-core", "no per-CPU list, elastic domains", 0, true),
    ("spring-fixlazy-186", "batch 31, high mark 186, elastic domains", 31, true),
    ("spring-fixlazy-372", "batch 62, high mark 372, elastic domains", 62, true),
    ("spring-fixlazy-744", "batch 124, high mark 744, elastic domains", 124, true),
    ("watermark", "no per-CPU list, lazy ratio 0.5, speedup ratio 0.5", 0, false),
    ("delay-2", "no per-CPU list", 0, false),
    ("linux-6", "batch 63, high mark 578 to 13376", 63, false),
];

/// A trace: name, calls, maximum number of frames in use, mean length of a run in memory.
struct Plan {
    name: &'static str,
    calls: u64,
    peak: u64,
    together: f64,
    owners: &'static [&'static str],
    orders: &'static [(u8, f64)],
}

const PLANS: [Plan; 3] = [
    Plan {
        name: "gcc_build",
        calls: 431_168,
        peak: 15_220,
        together: 14.0,
        owners: &["cc1", "as", "ld", "collect2", "make", "sh", "gcc", "other"],
        orders: &[(0, 0.999), (1, 0.0006), (2, 0.0004)],
    },
    Plan {
        name: "dbench_tar",
        calls: 329_747,
        peak: 138_400,
        together: 90.0,
        owners: &["dbench", "tar", "gzip", "sh", "other"],
        orders: &[
            (0, 0.567),
            (1, 0.11),
            (2, 0.076),
            (3, 0.045),
            (4, 0.2),
            (5, 0.002),
        ],
    },
    Plan {
        name: "numpy_thp",
        calls: 151_716,
        peak: 171_300,
        together: 150.0,
        owners: &["python3", "sh", "other"],
        orders: &[(0, 0.993), (9, 0.0068), (1, 0.0002)],
    },
];

/// Creates a report.
pub(crate) fn report(seed: u64) -> Report {
    let mut random = Random::new(seed);
    Report {
        title: "Buddy systems on traces of real programs".into(),
        command: "everybuddy compare --html".into(),
        date: "20 November 2026, 17:00 UTC".into(),
        version: "everybuddy 0.1.0 (made-up numbers)".into(),
        machine: Machine {
            processor: "AMD EPYC".into(),
            cores: 2,
            kernel: "Linux 6.18.44".into(),
            quiet: "Other programs were running: trust the order and the ratios, not the \
                    nanoseconds; counts are exact."
                .into(),
            was_busy: true,
        },
        timer_floor_ns: 10.0,
        seed,
        rounds: 5,
        traces: PLANS.iter().map(|plan| trace(plan, &mut random)).collect(),
    }
}

fn trace(plan: &Plan, random: &mut Random) -> Trace {
    let threads = if plan.name == "numpy_thp" { 2 } else { 1 };
    let managed = (plan.peak * 5 / 4).next_multiple_of(1024);
    let live = live(plan.peak, random);
    let memory = memory::Memory {
        frames: managed,
        together: plan.together,
        owners: plan.owners.len() as u64,
        large: plan.orders.iter().any(|(order, _)| *order == 9),
    };
    let systems: Vec<_> = SYSTEMS
        .iter()
        .map(|(name, parameters, batch, domains)| {
            let kind = numbers::Kind {
                batch: *batch,
                domains: *domains,
                threads,
                calls: plan.calls,
            };
            let mut system = numbers::system(name, parameters, kind, &live, managed, random);
            system.maps = memory.maps(&live, random);
            system
        })
        .collect();
    Trace {
        name: plan.name.into(),
        calls: plan.calls,
        peak_frames: plan.peak,
        managed_frames: managed,
        cpus: 2,
        threads,
        dealt: match threads {
            1 => "One thread performs the calls in the trace's order, as 2 CPUs.".into(),
            _ => "2 threads perform the calls of the trace's CPUs.".into(),
        },
        statistics: statistics(plan, &live, random),
        owners: plan.owners.iter().map(|name| name.to_string()).collect(),
        table: numbers::table(&systems),
        answer: Some(Answer {
            summary: "Of 16 systems, these 2 are made up. Linux is `linux-6`.".into(),
            rule: "A system beats another one if it is better by a criterion.".into(),
            systems: ["linux-6+percpu=locked", "bs"]
                .map(|name| {
                    (
                        name.into(),
                        "Best: time (9.00 ns). Price: metadata.".repeat(5),
                    )
                })
                .into(),
            matters: "With Linux's lists, these calls take 0.25% of the time.".into(),
            next: "`everybuddy advise` knows settings.".into(),
            slower: "Better, but slower: `is`.".into(),
            limits: "Frames were never touched (`everybuddy simulate`).".into(),
        }),
        systems,
    }
}

/// Frames in use at 201 moments: rising, fluctuating, and falling to a remainder.
fn live(peak: u64, random: &mut Random) -> Vec<u64> {
    let wave = random.between(3.0, 7.0);
    let at = |i: u64| {
        let x = i as f64 / 200.0;
        let hill = (x * 6.0).min(1.0) * (1.0 - (x - 0.8).max(0.0) * 4.0);
        hill * (0.75 + 0.25 * (x * wave * std::f64::consts::TAU).sin())
    };
    let noise = |value: f64, random: &mut Random| value * random.between(0.93, 1.0);
    let values: Vec<f64> = (0..=200).map(|i| noise(at(i), random)).collect();
    let most = values.iter().fold(0.0, |a: f64, b| a.max(*b));
    values
        .iter()
        .map(|v| (v / most * peak as f64) as u64)
        .collect()
}

fn statistics(plan: &Plan, live: &[u64], random: &mut Random) -> Statistics {
    let allocations = plan.calls / 2 + 900;
    let frames: f64 = plan
        .orders
        .iter()
        .map(|(o, share)| share * 2f64.powi(i32::from(*o)))
        .sum();
    let duration_ns = (random.between(9.0, 40.0) * 1e9) as u64;
    let bins = (6..=20).map(|half| Bin {
        upper: 10f64.powf(f64::from(half) / 2.0),
        count: (1000.0 * (-((f64::from(half) - 15.0) / 3.0).powi(2)).exp()) as u64,
    });
    let share = |name: &str, share| Share {
        name: name.into(),
        share,
    };
    Statistics {
        allocations,
        frees: plan.calls - allocations,
        partial_frees: 12,
        duration_ns,
        orders: plan
            .orders
            .iter()
            .map(|(order, share)| OrderShare {
                order: *order,
                allocations: (share * allocations as f64) as u64,
                allocation_share: *share,
                frame_share: share * 2f64.powi(i32::from(*order)) / frames,
            })
            .collect(),
        final_frames: live[200],
        live: (0..)
            .zip(live)
            .map(|(i, frames)| LiveSample {
                time_ns: duration_ns * i / 200,
                frames: *frames,
            })
            .collect(),
        task_runs: [runs(90.0, random), runs(300.0, random)],
        region_runs: [runs(30.0, random), runs(120.0, random)],
        region_share: 0.71,
        cross_cpu_free_share: 0.046,
        exit_free_share: 0.86,
        lifetime_ns: Quantiles {
            p50: 44_000_000,
            p90: 400_000_000,
            p99: 2_100_000_000,
            max: 11_000_000_000,
        },
        lifetimes: bins.collect(),
        contexts: vec![
            share("fault in user mode", 0.74),
            share("system call", 0.17),
            share("fault in the kernel", 0.05),
            share("exiting", 0.03),
            share("interrupt", 0.01),
        ],
        cpus: 2,
        tasks: 297,
        regions: 5_120,
    }
}

fn runs(mean: f64, random: &mut Random) -> RunLengths {
    let mut lengths: Vec<u64> = (0..3000)
        .map(|_| (random.exponential() * mean).powf(1.2).max(1.0) as u64)
        .collect();
    lengths.sort_unstable();
    let calls: u64 = lengths.iter().sum();
    let mut histogram = vec![0; 20];
    for length in &lengths {
        histogram[length.ilog2() as usize] += length;
    }
    let at = |percent: usize| lengths[(lengths.len() * percent / 100).min(lengths.len() - 1)];
    let long: u64 = lengths.iter().filter(|length| **length >= 64).sum();
    RunLengths {
        runs: lengths.len() as u64,
        mean: calls as f64 / lengths.len() as f64,
        median: at(50),
        p90: at(90),
        p99: at(99),
        max: at(100),
        long_share: long as f64 / calls as f64,
        histogram,
    }
}
