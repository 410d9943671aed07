//! The ratio of case 2 to case 1 by store, in steps and times, and the variation over seeds.
//!
//! `cargo run --release -p everybuddy-papers --example stores -- [ROUNDS] [STORE...]`; the default is three rounds of
//! all stores except the queues that are searched linearly, which take minutes for a million iterations.
//!
//! Exists for numbers without building the laboratory.
//!
//! # Invariants
//! Within a round both cases of all stores take turns.

use everybuddy_papers::emulation::function::Function;
use everybuddy_papers::emulation::manager::{Case, Heap};
use everybuddy_papers::emulation::program::ITERATIONS;
use everybuddy_papers::emulation::runs::{self, StoreRun};
use everybuddy_papers::emulation::store::StoreKind;

const SEEDS: u32 = 10;

fn plan(store: StoreKind, case: Case, seed: u32) -> StoreRun {
    StoreRun {
        heap: Heap::PAPER,
        case,
        store,
        seed,
        iterations: ITERATIONS,
    }
}

fn main() -> Result<(), String> {
    let mut arguments = std::env::args().skip(1);
    let rounds = match arguments.next() {
        Some(text) => text
            .parse()
            .map_err(|_| format!("rounds `{text}` is not a number"))?,
        None => 3,
    };
    let mut stores = arguments
        .map(|name| name.parse())
        .collect::<Result<Vec<StoreKind>, String>>()?;
    if stores.is_empty() {
        stores = vec![StoreKind::QueueTail, StoreKind::Tree, StoreKind::Bitmap];
    }
    let mut times = vec![[const { Vec::new() }; 2]; stores.len()];
    for _ in 0..rounds {
        for (store, times) in stores.iter().zip(&mut times) {
            for (case, times) in Case::ALL.into_iter().zip(times) {
                let timed = runs::time(plan(*store, case, 1))?;
                times.push(timed.sampled.time.as_secs_f64());
            }
        }
    }
    for (store, times) in stores.iter().zip(&times) {
        let mut steps = [const { Vec::new() }; 2];
        let seeds = if store.is_walked() { 1 } else { SEEDS };
        for (case, steps) in Case::ALL.into_iter().zip(&mut steps) {
            let (mut merges, mut splits) = (Vec::new(), Vec::new());
            for seed in 1..=seeds {
                let counted = runs::steps(plan(*store, case, seed))?;
                merges.push(counted.work.calls.of(Function::Merge) as f64);
                splits.push(counted.work.splits as f64);
                steps.push(counted.steps.sum() as f64 / f64::from(ITERATIONS));
            }
            let number = case.number();
            println!("{store}, case {number}: merges {}", range(&merges));
            println!("{store}, case {number}: splits {}", range(&splits));
        }
        for (what, [one, two]) in [("s", times), ("steps", &steps)] {
            let ratios: Vec<f64> = two.iter().zip(one).map(|(two, one)| two / one).collect();
            let (one, two, ratio) = (range(one), range(two), range(&ratios));
            println!("{store}, {what}: {one} and {two}; case 2 / case 1 {ratio}");
        }
    }
    Ok(())
}

/// Formats the mean, the minimum and the maximum.
fn range(values: &[f64]) -> String {
    let mean = values.iter().sum::<f64>() / values.len().max(1) as f64;
    let least = values.iter().copied().fold(f64::INFINITY, f64::min);
    let most = values.iter().copied().fold(0.0, f64::max);
    format!("{mean:.3} ({least:.3} to {most:.3})")
}
