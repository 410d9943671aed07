//! Ways to measure an experiment: one file each, from an experiment to rows.
//!
//! Exists so that tables, figures and claims look at the rows that are exported, and at nothing else. To
//! add a method: one file, one line in [`METHODS`].
//!
//! | file | what it measures |
//! |------|------------------|
//! | `fragmentation` | free 4 MiB blocks while several traces are replayed |
//! | `workloads` | times on synthetic workloads |
//! | `spaces` | both, for a sweep over sizes of spaces |
//! | `bulk` | frames that a refill and a drain move |
//! | `locks` | how long locks are waited for, and held |
//! | `distribution` | times of single allocations |
//! | `stages` | fragmentation while programs start, run and end on simulated CPUs; `programs` says what they do |
//! | `lengths` | how many requests follow each other in the same way |
//! | `contention` | how often threads wait for each other |
//! | `prediction` | what a list predicted of runs, against how long they were |
//! | `buffers` | what lists of different sizes miss, and what they have left |
//! | `coalescing` | how often blocks of traces are split and coalesced, and what that does to free memory |
//! | `odd_sizes` | what rounding up costs, and what exact service costs |
//! | `division` | blocks that the first requests break, by how memory was divided |
//! | `actions` | what callers wait for, and what is left to others, when dividing and linking are services |
//! | `break_even` | the same over the number of splits that are saved |
//! | `emulation` | calls, steps and times of Serewa's program, by what keeps its free blocks |
//! | `streams` | message buffers: what coalescing policies cost, refuse and take |
//!
//! All but `stages` run on this machine. `repeats` says how often each measures.
//!
//! Invariant: every row bears its experiment's name, alone or before an `@`.

mod actions;
mod break_even;
mod buffers;
mod bulk;
mod coalescing;
mod contention;
mod distribution;
mod division;
mod emulation;
mod fragmentation;
mod lengths;
mod locks;
mod odd_sizes;
mod prediction;
mod programs;
mod repeats;
mod spaces;
mod stages;
mod streams;
mod workloads;

pub use break_even::{LOADS, ORDERS};
pub use distribution::{BANDS, BIN, bin};
pub use emulation::{CASES, OVER, STORES};
pub use fragmentation::{AT_ONCE, SEQUENCE};
pub use lengths::REGION;
pub use repeats::Repeats;

pub use stages::STAGES;
pub use streams::TRAFFIC;
pub use streams::blocking::ARENA;
pub use streams::costs::PAIR;
pub use streams::memory::HELD;

use everybuddy::SystemSpec;
use everybuddy_trace::{Leniency, Resolved, resolve};

use crate::Error;
use crate::choice;
use crate::experiment::Experiment;
use crate::export::{Row, rounded};
use crate::library;
use crate::run::bench::Plan;
use crate::run::clock::Timer;
use crate::run::host::Arena;
use crate::run::memory::Memory;
use crate::run::merge;
use crate::run::outcome::{least, median};
use crate::run::script::Script;

/// A way to measure.
pub struct Method {
    /// The name in an experiment's file.
    pub name: &'static str,
    /// How often it measures.
    pub repeats: Repeats,
    /// How many steps it takes, for the progress bar.
    pub steps: fn(&Experiment) -> u64,
    /// Measures.
    pub run: fn(&Experiment, &Conditions, &mut Bench<'_>) -> Result<Vec<Row>, Error>,
}

/// All methods.
pub const METHODS: &[Method] = &[
    Method {
        name: "fragmentation",
        repeats: Repeats::Counted,
        steps: fragmentation::steps,
        run: fragmentation::run,
    },
    Method {
        name: "workloads",
        repeats: Repeats::Rounds(Plan::ROUNDS),
        steps: workloads::steps,
        run: workloads::run,
    },
    Method {
        name: "spaces",
        repeats: Repeats::RoundsAndCounted(Plan::ROUNDS),
        steps: spaces::steps,
        run: spaces::run,
    },
    Method {
        name: "bulk",
        repeats: Repeats::Counted,
        steps: bulk::steps,
        run: bulk::run,
    },
    Method {
        name: "locks",
        repeats: Repeats::Rounds(locks::ROUNDS),
        steps: locks::steps,
        run: locks::run,
    },
    Method {
        name: "distribution",
        repeats: Repeats::Calls(distribution::ROUNDS as u32),
        steps: distribution::steps,
        run: distribution::run,
    },
    Method {
        name: "lengths",
        repeats: Repeats::Counted,
        steps: lengths::steps,
        run: lengths::run,
    },
    Method {
        name: "contention",
        repeats: Repeats::Rounds(contention::ROUNDS as u32),
        steps: contention::steps,
        run: contention::run,
    },
    Method {
        name: "prediction",
        repeats: Repeats::Counted,
        steps: prediction::steps,
        run: prediction::run,
    },
    Method {
        name: "buffers",
        repeats: Repeats::Counted,
        steps: buffers::steps,
        run: buffers::run,
    },
    Method {
        name: "stages",
        repeats: Repeats::Simulated,
        steps: stages::steps,
        run: stages::run,
    },
    Method {
        name: "coalescing",
        repeats: Repeats::Counted,
        steps: coalescing::steps,
        run: coalescing::run,
    },
    Method {
        name: "odd-sizes",
        repeats: Repeats::Counted,
        steps: odd_sizes::steps,
        run: odd_sizes::run,
    },
    Method {
        name: "division",
        repeats: Repeats::Counted,
        steps: division::steps,
        run: division::run,
    },
    Method {
        name: "actions",
        repeats: Repeats::RoundsAndCounted(actions::ROUNDS),
        steps: actions::steps,
        run: actions::run,
    },
    Method {
        name: "break-even",
        repeats: Repeats::Rounds(break_even::ROUNDS as u32),
        steps: break_even::steps,
        run: break_even::run,
    },
    Method {
        name: "emulation",
        repeats: Repeats::Seeds(emulation::SEEDS),
        steps: emulation::steps,
        run: emulation::run,
    },
    Method {
        name: "streams-costs",
        repeats: Repeats::Seeds(streams::SEEDS as u32),
        steps: streams::costs::steps,
        run: streams::costs::run,
    },
    Method {
        name: "streams-blocking",
        repeats: Repeats::Seeds(streams::SEEDS as u32),
        steps: streams::blocking::steps,
        run: streams::blocking::run,
    },
    Method {
        name: "streams-distribution",
        repeats: Repeats::Seeds(streams::SEEDS as u32),
        steps: streams::distribution::steps,
        run: streams::distribution::run,
    },
    Method {
        name: "streams-memory",
        repeats: Repeats::Seeds(streams::SEEDS as u32),
        steps: streams::memory::steps,
        run: streams::memory::run,
    },
];

/// The directions, as rows name them.
pub const DIRECTIONS: [&str; 2] = ["allocate", "free"];

/// The system that others are compared with.
pub const BASE: &str = "bs";

/// The source of rows about the mean over all sources.
pub const MEAN: &str = "mean";

/// What the command line says about a run.
#[derive(Clone, Copy, Debug)]
pub struct Conditions {
    /// What random choices come from.
    pub seed: u64,
    /// Everything is so many times shorter: to try out, not to measure.
    pub shrink: u32,
}

/// What all methods use.
pub struct Bench<'b> {
    /// The timer.
    pub timer: &'b Timer,
    /// Memory for metadata.
    pub arena: &'b mut Arena,
    /// Is told what was done after each step.
    pub step: &'b mut dyn FnMut(&str),
}

/// Reads the traces of an experiment, with their names.
fn traces(
    experiment: &Experiment,
    conditions: &Conditions,
) -> Result<Vec<(String, Resolved)>, Error> {
    let read = |name: &String| {
        let (trace, _) = library::read(name, Leniency::Strict)?;
        let resolved = resolve(&trace)?;
        Ok((trace.name, merge::cut(resolved, conditions.shrink)))
    };
    experiment.traces().iter().map(read).collect()
}

/// Chooses the memory of a replay: as the experiment says.
fn memory(experiment: &Experiment, script: &Script) -> Result<Memory, Error> {
    let frames = experiment.frames().map_err(Error::usage)?;
    Memory::new(script, frames, None)
}

/// What the rows of a system on a source have in common.
fn common(
    experiment: &Experiment,
    conditions: &Conditions,
    source: &str,
    spec: &SystemSpec,
    cpus: u16,
) -> Row {
    Row {
        experiment: experiment.name.clone(),
        source: source.to_string(),
        system: spec.name().to_string(),
        options: choice::options(spec),
        platform: experiment.platform.clone(),
        cpus,
        seed: conditions.seed,
        operation: "all",
        ..Row::default()
    }
}

/// Makes rows of something that each round has: its median, least and most.
fn rounds(common: &Row, metric: &'static str, values: &[f64], unit: &'static str) -> Vec<Row> {
    let mut rows = Vec::new();
    let values: Vec<f64> = values.iter().copied().filter(|v| v.is_finite()).collect();
    if values.is_empty() {
        return rows;
    }
    let most = values.iter().copied().max_by(f64::total_cmp);
    rows.push(row(common, metric, "p50", median(values.clone()), unit));
    let least = least(values.iter().copied());
    rows.extend(least.map(|value| row(common, metric, "min", value, unit)));
    rows.extend(most.map(|value| row(common, metric, "max", value, unit)));
    rows
}

/// Makes a row with a number.
fn row(
    common: &Row,
    metric: &'static str,
    statistic: &'static str,
    value: f64,
    unit: &'static str,
) -> Row {
    Row {
        metric,
        statistic,
        value: rounded(value),
        unit,
        ..common.clone()
    }
}
