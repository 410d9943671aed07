//! The results of a benchmark as tidy rows.
//!
//! The numbers of a benchmark get the names of their metrics here. `docs/metrics.md` defines each name.
//!
//! # Invariants
//! An unsupported workload has no row; a workload whose requests mostly fail has no time.

use everybuddy_workload::{Part, Variant};

use super::cold::{self, Between, ColdPlan, ColdResults};
use super::contender_spec::START_FRAMES;
use super::outcome::extremes;
use super::start::Start;
use super::{Cell, ContenderSpec, Results, Verdict};
use crate::replay::outcome::median;
use crate::rows::{Row, rounded};

/// The name of the experiment.
const EXPERIMENT: &str = "bench";
/// The source of rows about start-up times.
pub const START: &str = "start";
/// The metric of a cache line's way to another CPU and back.
pub const ROUND_TRIP: &str = "line_round_trip";

fn common(contender: &ContenderSpec, source: &str, threads: u16, seed: u64) -> Row {
    let (system, options) = contender.parts();
    Row {
        experiment: EXPERIMENT.to_string(),
        source: source.to_string(),
        system,
        options,
        cpus: threads,
        seed,
        operation: "all",
        ..Row::default()
    }
}

/// Converts all results to rows.
pub fn of(results: &Results) -> Vec<Row> {
    let mut rows = Vec::new();
    for ((variant, threads), cells) in results.columns.iter().zip(&results.cells) {
        for (contender, cell) in results.contenders().iter().zip(cells) {
            let common = common(contender, variant.name, *threads, results.plan.seed);
            cell_rows(cell, &common, (variant, results), &mut rows);
        }
    }
    rows
}

fn cell_rows(
    cell: &Cell,
    common: &Row,
    (variant, results): (&Variant, &Results),
    rows: &mut Vec<Row>,
) {
    let mut push = |operation, order, metric, statistic, value: f64| {
        rows.push(Row {
            operation,
            order,
            metric,
            statistic,
            value: rounded(value),
            ..common.clone()
        });
    };
    for (part, _) in &cell.parts {
        let operation = operation(*part);
        let rounds = cell.rounds(*part);
        let Some((least, most)) = extremes(rounds) else {
            continue;
        };
        let middle = median(rounds.to_vec());
        for (statistic, value) in [("p50", middle), ("min", least), ("max", most)] {
            push(operation, None, "latency", statistic, value);
        }
        let cpu = median(cell.cpu(*part).to_vec());
        if variant.touches && cpu.is_finite() {
            push(operation, None, "cpu_time", "p50", cpu);
        }
        let rate = f64::from(common.cpus) * cell.operations * 1e9 / middle;
        push(operation, None, "throughput", "rate", rate);
    }
    if cell.parts.is_empty() {
        return;
    }
    for (order, metric, statistic, value) in cell.refusals.entries() {
        push("allocate", order, metric, statistic, value);
    }
    for (order, blocks) in &cell.large_blocks {
        let blocks = median(blocks.clone());
        push("all", Some(*order), "free_blocks", "value", blocks);
    }
    if !cell.spread.is_empty() {
        let spread = median(cell.spread.clone());
        push("all", Some(9), "owner_spread", "value", spread);
    }
    if let Some((least, most)) = extremes(&cell.round_trips) {
        let middle = median(cell.round_trips.clone());
        for (statistic, value) in [("p50", middle), ("min", least), ("max", most)] {
            push("all", None, ROUND_TRIP, statistic, value);
        }
    }
    if let Some(bytes) = cell.metadata_bytes {
        let value = bytes as f64 / results.plan.memory.frames as f64;
        push("all", None, "metadata_bytes_per_frame", "value", value);
    }
    if let Some(machine) = results.machine.filter(|_| cell.metadata_bytes.is_some()) {
        let frames = machine.frames as f64;
        push("all", None, "machine_frames", "value", frames);
    }
    let (counted, dropped) = (cell.counted as f64, cell.dropped as f64);
    push("all", None, "sections", "count", counted);
    push("all", None, "sections_dropped", "count", dropped);
    let disturbed = f64::from(u8::from(cell.is_disturbed));
    push("all", None, "rounds_disturbed", "count", disturbed);
    // Each round has its own row: ratios of contenders are formed within a round.
    let mut push_rounds = |operation, metric, values: &[f64]| {
        for (round, value) in values.iter().enumerate().filter(|own| own.1.is_finite()) {
            rows.push(Row {
                experiment: format!("{EXPERIMENT}@{round}"),
                operation,
                metric,
                statistic: "value",
                value: rounded(*value),
                ..common.clone()
            });
        }
    };
    for (part, _) in &cell.parts {
        push_rounds(operation(*part), "latency", cell.rounds(*part));
        if variant.touches {
            push_rounds(operation(*part), "cpu_time", cell.cpu(*part));
        }
    }
    push_rounds("all", ROUND_TRIP, &cell.round_trips);
}

fn operation(part: Part) -> &'static str {
    match part {
        Part::Pair => "pair",
        Part::Allocate => "allocate",
        Part::Free => "free",
        Part::Operation => "all",
    }
}

/// Converts the times of single calls to rows.
pub fn of_cold(plan: &ColdPlan, results: &ColdResults) -> Vec<Row> {
    let mut rows = Vec::new();
    for (contender, cells) in plan.contenders.iter().zip(&results.cells) {
        for (between, [allocate, free]) in Between::ALL.iter().zip(cells) {
            let source = format!("{}:{}", cold::WORKLOAD, between.name());
            let common = Row {
                experiment: format!("{EXPERIMENT}+cold"),
                ..common(contender, &source, 1, plan.seed)
            };
            for (operation, own) in [("allocate", allocate), ("free", free)] {
                let values = [
                    ("p50", own.p50),
                    ("mean", own.mean),
                    ("p99", own.p99),
                    ("count", own.calls as f64),
                ];
                rows.extend(values.map(|(statistic, value)| Row {
                    operation,
                    metric: "latency",
                    statistic,
                    value: rounded(value),
                    ..common.clone()
                }));
            }
        }
    }
    rows
}

/// Converts start-up times to rows.
pub fn of_starts(starts: &[Start], seed: u64) -> Vec<Row> {
    let of = |start: &Start| {
        let common = common(&start.contender, START, 1, seed);
        let metadata = common.clone();
        let row = move |statistic, value| Row {
            metric: "start_time",
            statistic,
            value: rounded(value * 1e6),
            ..common.clone()
        };
        let (least, most) = extremes(&start.millis).unwrap_or_default();
        let middle = median(start.millis.clone());
        let mut rows = vec![row("p50", middle), row("min", least), row("max", most)];
        rows.extend(start.metadata_bytes.map(|bytes| Row {
            metric: "metadata_bytes_per_frame",
            statistic: "value",
            value: rounded(bytes as f64 / f64::from(START_FRAMES)),
            ..metadata
        }));
        rows
    };
    starts.iter().flat_map(of).collect()
}

/// Converts the counts of a check to rows.
pub fn of_check(verdicts: &[Verdict], seed: u64) -> Vec<Row> {
    let of = |verdict: &Verdict| {
        let common = common(&verdict.contender, verdict.variant, verdict.threads, seed);
        let row = move |metric, count: u64| Row {
            metric,
            statistic: "count",
            value: count as f64,
            ..common.clone()
        };
        let faults = verdict.faults;
        verdict
            .checked
            .map(|checked| [row("blocks_checked", checked), row("blocks_wrong", faults)])
    };
    verdicts.iter().filter_map(of).flatten().collect()
}

/// Converts the instruction count of one contender to a row.
pub fn of_instructions(contender: &ContenderSpec, source: &str, count: f64) -> Row {
    Row {
        metric: "instructions",
        statistic: "mean",
        value: rounded(count),
        ..common(contender, source, 1, 1)
    }
}
