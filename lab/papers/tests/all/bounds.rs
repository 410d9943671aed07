//! Known deviations, against the committed results: the page of claims says which bounds are loose.

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

/// What committed rows say of the bounds of known deviations.
#[derive(Default)]
pub(crate) struct Bounds {
    /// How many known deviations there are.
    pub(crate) known: usize,
    /// How many of them the rows decide.
    pub(crate) judged: usize,
    /// The bounds that are more than twice as far off as what was measured, each with its claim.
    pub(crate) loose: Vec<String>,
}

impl Bounds {
    /// Returns those of all experiments and benchmarks.
    pub(crate) fn committed() -> Bounds {
        let mut bounds = Bounds::default();
        bounds.add_experiments();
        bounds.add_benchmarks();
        bounds
    }

    fn add(&mut self, name: &str, claim: &Claim, judge: impl Fn(&Claim) -> State) {
        self.known += 1;
        self.judged += usize::from(judge(claim) != State::Inconclusive);
        for bound in claim.loose_bounds(judge) {
            let text = format!("`{name}`, `{bound}`: {}", claim.text);
            self.loose.push(text);
        }
    }

    fn add_experiments(&mut self) {
        let runs = EXPERIMENTS.map(committed);
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
                self.add(&own.name, claim, judge);
            }
        }
    }

    fn add_benchmarks(&mut self) {
        let runs = BENCHMARKS.map(committed);
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
            self.add(bench::EXPERIMENT, &claim, judge);
        }
    }
}

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
