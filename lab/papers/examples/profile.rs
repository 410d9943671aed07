//! The program's profile, and the paper's.
//!
//! `cargo run --release -p everybuddy-papers --example profile -- [STORE] [ITERATIONS] [SEED]`; the default is queues
//! with a known end, a million iterations, seed 1. Queues that are searched linearly then take minutes: 50,000
//! iterations suffice, and the steps per call are the same.
//!
//! Exists for numbers without building the laboratory.
//!
//! # Invariants
//! Prints what was counted and measured, and of the paper what was printed there.

use everybuddy_papers::emulation::function::Function;
use everybuddy_papers::emulation::manager::{Case, Heap};
use everybuddy_papers::emulation::paper;
use everybuddy_papers::emulation::program::ITERATIONS;
use everybuddy_papers::emulation::runs::{self, StoreRun};
use everybuddy_papers::emulation::store::StoreKind;

fn main() -> Result<(), String> {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let number = |at: usize, what: &str, default: u32| match arguments.get(at) {
        Some(text) => text
            .parse()
            .map_err(|_| format!("{what} `{text}` is not a number")),
        None => Ok(default),
    };
    let store = match arguments.first() {
        Some(name) => name.parse()?,
        None => StoreKind::QueueTail,
    };
    let iterations = number(1, "iterations", ITERATIONS)?;
    let seed = number(2, "seed", 1)?;
    let mut seconds = Vec::new();
    for case in Case::ALL {
        let plan = StoreRun {
            heap: Heap::PAPER,
            case,
            store,
            seed,
            iterations,
        };
        print(plan, &mut seconds)?;
    }
    if let [first, second] = seconds[..] {
        let [paper_first, paper_second] = Case::ALL.map(paper::seconds);
        let (own, paper) = (second / first, paper_second / paper_first);
        println!("time of case 2 over case 1: {own:.3}, the paper's {paper:.3}");
    }
    Ok(())
}

/// Runs one case twice, counted and timed, and prints its profile.
fn print(plan: StoreRun, seconds: &mut Vec<f64>) -> Result<(), String> {
    let counted = runs::steps(plan)?;
    let timed = runs::time(plan)?;
    let time = timed.sampled.time.as_secs_f64();
    seconds.push(time);
    println!(
        "case {}, {}, seed {}, {} iterations: {} splits, {} merges of pairs, {} refused, {:.2} s",
        plan.case.number(),
        plan.store,
        plan.seed,
        plan.iterations,
        counted.work.splits,
        counted.work.pairs,
        counted.work.refused,
        time,
    );
    println!(
        "{:<32} {:>10} {:>10} {:>7} {:>12} {:>7} {:>7}",
        "function", "calls", "paper's", "ratio", "steps/call", "% time", "paper's"
    );
    let scale = f64::from(plan.iterations) / f64::from(ITERATIONS);
    for line in paper::profile(plan.case) {
        let calls = counted.work.calls.of(line.function);
        // The main loop is called once, whatever its length.
        let expected = match line.function {
            Function::Test => 1.0,
            _ => line.calls as f64 * scale,
        };
        let samples = timed.sampled.samples;
        println!(
            "{:<32} {:>10} {:>10.0} {:>7.3} {:>12.1} {:>7.1} {:>7.1}",
            line.function.name(),
            calls,
            expected,
            calls as f64 / expected,
            counted.steps.of(line.function) as f64 / calls.max(1) as f64,
            100.0 * samples.of(line.function) as f64 / samples.sum().max(1) as f64,
            100.0 * line.seconds / paper::seconds(plan.case),
        );
    }
    println!();
    Ok(())
}
