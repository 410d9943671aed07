//! Counts the instructions and mispredicted branches of an allocation and of a free, by policy and traffic: \[BL89\]
//! table 2, in a reproducible form. Branches are predicted by callgrind's model of a processor.
//!
//! `cargo run --release -p everybuddy-measure --example instructions` runs itself under callgrind (valgrind must be
//! installed) for each policy, traffic and operation, and prints means and ratios. It takes several minutes.
//!
//! `instructions measure SYSTEM TRAFFIC SEED CALLS` performs the calls once. It counts the functions
//! `measured_allocate` and `measured_free`, minus their cost without an allocator.

use std::hint::black_box;
use std::process::{Command, ExitCode};

use everybuddy::{NoProbe, Order, SystemSpec};
use everybuddy_measure::streams::interval::Interval;
use everybuddy_measure::streams::manager::{Extent, Manager, Nothing, WithManager, with_buddy};
use everybuddy_measure::streams::recording::Recording;
use everybuddy_workload::streams::{Timing, Traffic};

const SYSTEMS: [&str; 3] = ["bs+order=7", "watermark+order=7", "delay-2+order=7"];
const TRAFFIC: [(&str, Timing); 4] = [
    ("D/D/m", Timing::Deterministic),
    ("M/M/m", Timing::Exponential),
    ("batches", Timing::Batches(4)),
    ("geometric", Timing::Geometric(4)),
];
/// The arena that matches the paper's failures: 60,416 bytes.
const UNITS: u32 = 3776;
const SEEDS: u64 = 10;
const WARM: usize = 20_000;
const CALLS: usize = 100_000;

/// A counted allocation.
#[inline(never)]
fn measured_allocate<M: Manager>(manager: &mut M, order: Order) -> Option<u32> {
    manager.allocate(order)
}

/// A counted free.
#[inline(never)]
fn measured_free<M: Manager>(manager: &mut M, start: u32, order: Order) -> bool {
    manager.free(start, order)
}

/// Replays a recording; returns the numbers of successful allocations and of frees.
struct Perform<'r>(&'r Recording);

impl WithManager for Perform<'_> {
    type Output = [u64; 2];

    fn call<M: Manager>(self, manager: &mut M) -> [u64; 2] {
        let recording = self.0;
        let mut slots: Vec<Option<(u32, Order)>> = vec![None; recording.slots as usize];
        let mut served = [0; 2];
        for (at, call) in recording.calls.iter().enumerate() {
            let counts = at >= recording.warm;
            let slot = &mut slots[call.slot as usize];
            match (call.order, slot.take()) {
                (Some(order), _) => {
                    let start = if counts {
                        measured_allocate(manager, order)
                    } else {
                        black_box(manager.allocate(order))
                    };
                    *slot = start.map(|start| (start, order));
                    served[0] += u64::from(counts && slot.is_some());
                }
                (None, Some((start, order))) => {
                    let freed = if counts {
                        measured_free(manager, start, order)
                    } else {
                        black_box(manager.free(start, order))
                    };
                    assert!(freed, "a block could not be given back");
                    served[1] += u64::from(counts);
                }
                (None, None) => {}
            }
        }
        served
    }
}

fn measure(system: &str, timing: Timing, seed: u64, calls: usize) -> Result<[u64; 2], String> {
    let traffic = Traffic {
        timing,
        users: 3.0,
        seed,
    };
    let recording = Recording::of(traffic, WARM, calls);
    if system == "nothing" {
        return Ok(Perform(&recording).call(&mut Nothing));
    }
    let spec: SystemSpec = system.parse().map_err(|error| format!("{error}"))?;
    with_buddy::<NoProbe, _>(&spec, Extent::fixed(UNITS), Perform(&recording))
        .map_err(|error| error.to_string())
}

/// Runs this program under callgrind; returns the instructions and mispredicted branches per successful call of an
/// operation.
fn count(system: &str, traffic: &str, seed: u64, direction: usize) -> Result<[f64; 2], String> {
    let program = std::env::current_exe().map_err(|error| error.to_string())?;
    let function = ["*measured_allocate*", "*measured_free*"][direction];
    let output = Command::new("valgrind")
        .args(["--tool=callgrind", "--callgrind-out-file=/dev/null"])
        .arg("--branch-sim=yes")
        .arg(format!("--toggle-collect={function}"))
        .arg(program)
        .args([
            "measure",
            system,
            traffic,
            &seed.to_string(),
            &CALLS.to_string(),
        ])
        .output()
        .map_err(|error| format!("valgrind can't be run: {error}"))?;
    let said = String::from_utf8_lossy(&output.stderr);
    if !output.status.success() {
        return Err(said.into_owned());
    }
    // The first number of a line: `Collected : 123 45 6`, `Mispredicts: 1,234 (...)`.
    let after = |word: &str| -> Option<f64> {
        let line = said.lines().find_map(|line| line.split(word).nth(1))?;
        line.split_whitespace()
            .next()?
            .replace(',', "")
            .parse()
            .ok()
    };
    let numbers = after("Collected : ").zip(after("Mispredicts:"));
    let served = String::from_utf8_lossy(&output.stdout);
    let served: Option<f64> = served
        .split_whitespace()
        .nth(direction)
        .and_then(|number| number.parse().ok());
    let served = served.filter(|served| *served > 0.0);
    let (numbers, served) = numbers.zip(served).ok_or("valgrind said nothing")?;
    Ok([numbers.0 / served, numbers.1 / served])
}

fn table() -> Result<(), String> {
    println!("instructions, {SEEDS} seeds of {CALLS} calls; +- is half a 95 % interval");
    println!(
        "{:<10} {:<18} {:>15} {:>15} {:>15} {:>16} {:>15}",
        "traffic", "policy", "allocate", "free", "pair / bs", "pair / watermark", "mispredicted"
    );
    for (traffic, _) in TRAFFIC {
        // The instructions of an empty call do not depend on the called system.
        let floors = [
            count("nothing", traffic, 1, 0)?,
            count("nothing", traffic, 1, 1)?,
        ];
        let mut pairs: Vec<Vec<f64>> = Vec::new();
        for system in SYSTEMS {
            let mut columns = [Vec::new(), Vec::new()];
            let mut missed = vec![0.0; SEEDS as usize];
            for (seed, missed) in (1..).zip(&mut missed) {
                for (direction, column) in columns.iter_mut().enumerate() {
                    let all = count(system, traffic, seed, direction)?;
                    column.push(all[0] - floors[direction][0]);
                    *missed += all[1] - floors[direction][1];
                }
            }
            let [allocate, free] = &columns;
            pairs.push(allocate.iter().zip(free).map(|(a, f)| a + f).collect());
            let over = |other: usize| -> Vec<f64> {
                let other = pairs.get(other).into_iter().flatten();
                let own = pairs.last().into_iter().flatten();
                own.zip(other).map(|(own, other)| own / other).collect()
            };
            let write = |values: &[f64]| match Interval::of(values) {
                Some(own) => format!("{:.3} +-{:.3}", own.mean, own.half),
                None => String::new(),
            };
            println!(
                "{traffic:<10} {system:<18} {:>15} {:>15} {:>15} {:>16} {:>15}",
                write(allocate),
                write(free),
                write(&over(0)),
                write(&over(1)),
                write(&missed)
            );
        }
    }
    Ok(())
}

fn main() -> ExitCode {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let words: Vec<&str> = arguments.iter().map(String::as_str).collect();
    let done = match words[..] {
        [] => table(),
        ["measure", system, traffic, seed, calls] => {
            let timing = TRAFFIC.iter().find(|row| row.0 == traffic);
            match (timing, seed.parse(), calls.parse()) {
                (Some((_, timing)), Ok(seed), Ok(calls)) => {
                    measure(system, *timing, seed, calls).map(|[a, f]| println!("{a} {f}"))
                }
                _ => Err("measure SYSTEM TRAFFIC SEED CALLS".to_string()),
            }
        }
        _ => Err("no arguments, or measure SYSTEM TRAFFIC SEED CALLS".to_string()),
    };
    match done {
        Ok(()) => ExitCode::SUCCESS,
        Err(what) => {
            eprintln!("instructions: {what}");
            ExitCode::from(2)
        }
    }
}
