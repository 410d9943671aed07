//! Waits for the zone's lock that a kernel reported, next to the simulated waits of each system.
//!
//! # Purpose
//!
//! The terminal and the page show the same table, so both take it from here.
//!
//! # Invariants
//!
//! The first line is recorded, and all others are simulated: on as many CPUs as were recorded, or there is no table.

use everybuddy_measure::rows::Row;
use everybuddy_measure::size;
use everybuddy_simulate::{Plan, Traced};
use everybuddy_trace::LockWaits;

use super::table::{Better, Column};

/// The name of the line of recorded waits.
pub const RECORDED: &str = "recorded";

/// The table of recorded and simulated waits.
#[derive(Debug)]
pub struct Waits {
    /// The number of CPUs.
    pub cpus: u16,
    /// The recorded waits per 1,000 calls.
    pub per_1000_calls: f64,
    /// The names of the lines: [`RECORDED`], then the systems.
    pub names: Vec<String>,
    /// The columns.
    pub columns: Vec<Column>,
    /// A paragraph about what was recorded and what is simulated, with names in backquotes.
    pub note: String,
}

impl Waits {
    /// Compares the recorded waits of a trace with the simulated ones. Returns `None` if the trace has none, and a
    /// remark for readers if nothing was simulated on as many CPUs.
    pub fn of(
        plan: &Plan,
        traced: &Traced,
        systems: &[String],
        rows: &[Row],
    ) -> Option<Result<Waits, String>> {
        let recorded = traced.recorded()?;
        let is_same = |own: &u16| u32::from(*own) == recorded.cpus;
        let Some(cpus) = plan.cpus.iter().copied().find(is_same) else {
            return Some(Err(format!(
                "The trace contains waits for the zone's lock, of {0} CPUs. To compare them, add {0} to --cpus.",
                recorded.cpus
            )));
        };
        let column = |(metric, statistic, head, factor, own): Kind| {
            let join = if statistic == "max" { largest } else { mean };
            let key = (metric, statistic, "all");
            let simulated = systems
                .iter()
                .map(|system| value_at(traced.name(), system, cpus, rows, key, join));
            let values = std::iter::once(own).chain(simulated);
            let text = |value: Option<f64>| match value.map(|value| value * factor) {
                None => String::new(),
                Some(value) if factor == 1.0 => size::count(value.round() as u64),
                Some(value) => format!("{value:.3}"),
            };
            // What was recorded takes no part in a contest of systems.
            plain(metric, head, values.map(text).collect())
        };
        let names = std::iter::once(RECORDED.to_string()).chain(systems.iter().cloned());
        Some(Ok(Waits {
            cpus,
            per_1000_calls: recorded.per_call() * 1e3,
            names: names.collect(),
            columns: kinds(recorded).map(column).to_vec(),
            note: note(plan, recorded),
        }))
    }
}

/// A column: metric, statistic, heading, the factor of its unit, and the recorded number.
type Kind = (
    &'static str,
    &'static str,
    [&'static str; 2],
    f64,
    Option<f64>,
);

fn kinds(recorded: &LockWaits) -> [Kind; 5] {
    let own = &recorded.wait_ns;
    let time = |value: u64| (own.count > 0).then_some(value as f64);
    let (per_call, share) = (Some(recorded.per_call()), Some(recorded.share()));
    let wait = "contended_wait";
    [
        (wait, "rate", ["waits per", "1,000 calls"], 1e3, per_call),
        ("wait_share", "value", ["time", "waiting %"], 100.0, share),
        (wait, "p50", ["median", "ns"], 1.0, time(own.p50)),
        (wait, "p99", ["p99", "ns"], 1.0, time(own.p99)),
        (wait, "max", ["maximum", "ns"], 1.0, time(own.max)),
    ]
}

fn note(plan: &Plan, recorded: &LockWaits) -> String {
    let sources: Vec<&str> = recorded
        .sources
        .iter()
        .map(|source| source.name())
        .collect();
    format!(
        "`{RECORDED}`: the kernel's waits for the lock of a zone, from {}. The other lines are simulated, with all \
         locks of a system. A simulated CPU makes its next call after {} cycles, whatever the times of the trace: the \
         waits depend on --think. Recording and a hypervisor lengthen recorded waits.",
        sources.join(" and "),
        plan.think,
    )
}

/// Returns a number of a system on a number of CPUs: its values with all seeds, joined.
pub(super) fn value_at(
    load: &str,
    system: &str,
    cpus: u16,
    rows: &[Row],
    key: (&str, &str, &str),
    join: impl Fn(&[f64]) -> f64,
) -> Option<f64> {
    let is_one = |row: &&Row| {
        (row.metric, row.statistic, row.operation) == key
            && (row.cpus, row.source.as_str()) == (cpus, load)
            && row.name() == system
    };
    let values: Vec<f64> = rows.iter().filter(is_one).map(|row| row.value).collect();
    (!values.is_empty()).then(|| join(&values))
}

pub(super) fn mean(values: &[f64]) -> f64 {
    values.iter().sum::<f64>() / values.len() as f64
}

pub(super) fn largest(values: &[f64]) -> f64 {
    values.iter().copied().fold(0.0, f64::max)
}

/// A column of words, none of which is the best.
pub(super) fn plain(metric: &'static str, head: [&'static str; 2], texts: Vec<String>) -> Column {
    Column {
        metric,
        legend: "".into(),
        head: head.map(Into::into),
        better: Better::Neither,
        values: vec![None; texts.len()],
        texts,
    }
}
