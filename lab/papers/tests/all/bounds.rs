//! Known deviations, against the committed results.

use std::path::Path;

use everybuddy_measure::claim::{Claim, State, bench};
use everybuddy_measure::rows::Row;
use everybuddy_metrics::{OPERATIONS, find};
use everybuddy_papers::{Experiment, all_experiments, list};
use everybuddy_text::packed;
use serde_json::Value;

/// The rows of experiments: the main runs, the predicted costs of 1989, and a machine whose lines move more slowly.
pub(crate) const EXPERIMENTS: [&str; 3] = [
    "papers/reproduce",
    "papers/1989.jsonl.gz",
    "papers/break-even-xeon.jsonl.gz",
];
/// The files of benchmarks.
const BENCHMARKS: [&str; 1] = ["bench-zen4/bench.jsonl.gz"];

/// Returns the committed rows of a file or a folder below `results`.
pub(crate) fn committed(file: &str) -> Vec<Row> {
    let results = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../results");
    let text = packed::read(&results.join(file)).unwrap();
    text.lines().filter_map(row).collect()
}

/// Reads a row. Returns `None` for a metric or a statistic that no longer exists.
fn row(line: &str) -> Option<Row> {
    let values: Value = serde_json::from_str(line).unwrap();
    let text = |name: &str| values[name].as_str().unwrap_or_default();
    let metric = find(text("metric"))?;
    let mut statistics = metric.statistics.iter().copied();
    // An experiment has operations of its own. The test keeps their names until it ends.
    let own = || -> &'static str { text("operation").to_string().leak() };
    let operation = OPERATIONS.iter().find(|own| own.0 == text("operation"));
    let operation = operation.map_or_else(own, |own| own.0);
    Some(Row {
        experiment: text("experiment").to_string(),
        source: text("source").to_string(),
        system: text("system").to_string(),
        options: text("options").to_string(),
        cpus: values["cpus"].as_u64()? as u16,
        operation,
        order: values["order"].as_u64().map(|order| order as u8),
        metric: metric.name,
        statistic: statistics.find(|own| *own == text("statistic"))?,
        value: values["value"].as_f64()?,
        expected: values["expected"].as_f64(),
        ..Row::default()
    })
}

/// Joins the states of a claim in several runs. The worst one decides; a run without the claim's rows says nothing.
fn worst(states: impl Iterator<Item = State>) -> State {
    let known = states.filter(|state| *state != State::Inconclusive);
    known.max().unwrap_or(State::Inconclusive)
}

#[test]
fn no_known_deviation_may_become_twice_as_large_unnoticed() {
    let runs = EXPERIMENTS.map(committed);
    let (mut loose, mut judged) = (Vec::new(), 0);
    for own in all_experiments().unwrap() {
        let is_own = |row: &&Row| row.experiment.split('@').next() == Some(&own.name);
        let runs = runs
            .each_ref()
            .map(|rows| rows.iter().filter(is_own).cloned().collect::<Vec<Row>>());
        let own = list::run_of(own, false, &runs[0]).unwrap();
        let judge = |claim: &Claim| {
            let only = Experiment {
                claims: vec![claim.clone()],
                ..own.clone()
            };
            let state = |rows: &Vec<Row>| list::judge_earlier(&only, rows).unwrap()[0].state;
            worst(runs.iter().map(state))
        };
        for claim in own.claims.iter().filter(|claim| claim.differs.is_some()) {
            judged += usize::from(judge(claim) != State::Inconclusive);
            for bound in claim.loose_bounds(judge) {
                loose.push(format!("{}: {bound}: {}", own.name, claim.text));
            }
        }
    }
    // Most known deviations have rows: files keep the metrics that documents show.
    assert!(judged > 60, "{judged} known deviations are judged");
    let loose = loose.join("\n");
    assert!(
        loose.is_empty(),
        "set these to at most twice what was measured:\n{loose}"
    );
}

#[test]
fn no_known_deviation_of_benchmarks_may_become_twice_as_large_unnoticed() {
    let runs = BENCHMARKS.map(committed);
    let (mut loose, mut judged) = (Vec::new(), 0);
    let claims = bench::claims().unwrap().into_iter();
    for claim in claims.filter(|claim| claim.differs.is_some()) {
        let is_own = |row: &&Row| {
            (row.metric, row.statistic) == (claim.metric.as_str(), claim.statistic.as_str())
        };
        let runs = runs
            .each_ref()
            .map(|rows| rows.iter().filter(is_own).cloned().collect::<Vec<Row>>());
        // Files keep medians, and not the rounds within which ratios are formed.
        let judge = |claim: &Claim| {
            let claim = Claim {
                paired: false,
                ..claim.clone()
            };
            let state = |rows: &Vec<Row>| claim.judge(bench::EXPERIMENT, rows).state;
            worst(runs.iter().map(state))
        };
        judged += usize::from(judge(&claim) != State::Inconclusive);
        for bound in claim.loose_bounds(judge) {
            loose.push(format!("{bound}: {}", claim.text));
        }
    }
    assert!(judged > 10, "{judged} known deviations are judged");
    let loose = loose.join("\n");
    assert!(
        loose.is_empty(),
        "set these to at most twice what was measured:\n{loose}"
    );
}
