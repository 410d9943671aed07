//! Waits for the zone's lock that a kernel reported, next to the simulated waits of each system.
//!
//! The terminal and the page show the same table, so both take it from here.
//!
//! # Invariants
//! The first line is recorded; the others are simulated on the same number of CPUs. Otherwise there is no table.

use everybuddy_measure::rows::Row;
use everybuddy_measure::size;
use everybuddy_simulate::{Plan, Traced};
use everybuddy_trace::LockWaits;

use super::table::{Column, plain};
use super::values::{largest, mean, value_at};

/// The name of the line of recorded waits.
pub const RECORDED: &str = "recorded";

/// The table of recorded and simulated waits.
#[derive(Debug)]
pub struct Waits {
    /// The heading, with the name of the trace.
    pub title: String,
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
        // A system that stopped scaling on fewer CPUs may not have been simulated on these.
        let key = ("contended_wait", "rate", "all");
        let is_there =
            |system: &&String| value_at(traced.name(), system, cpus, rows, key, mean).is_some();
        let present: Vec<&String> = systems.iter().filter(is_there).collect();
        let column = |(metric, statistic, head, factor, own): WaitsColumn| {
            let join = if statistic == "max" { largest } else { mean };
            let key = (metric, statistic, "all");
            let simulated = present
                .iter()
                .map(|system| value_at(traced.name(), system, cpus, rows, key, join));
            let values = std::iter::once(own).chain(simulated);
            let text = |value: Option<f64>| match value.map(|value| value * factor) {
                None => String::new(),
                Some(value) if factor == 1.0 => size::count(value.round() as u64),
                Some(value) => format!("{value:.3}"),
            };
            // Recorded values are not compared for the best system.
            plain(metric, head, values.map(text).collect())
        };
        let simulated = present.iter().map(|system| (*system).clone());
        let names = std::iter::once(RECORDED.to_string()).chain(simulated);
        Some(Ok(Waits {
            title: format!(
                "{}: waits for locks on {}, recorded and simulated",
                traced.name(),
                size::cpus(u64::from(cpus))
            ),
            cpus,
            per_1000_calls: recorded.per_call() * 1e3,
            names: names.collect(),
            columns: kinds(recorded).map(column).to_vec(),
            note: note(plan, recorded, present.len() < systems.len()),
        }))
    }
}

/// A column: metric, statistic, heading, the factor of its unit, and the recorded number.
type WaitsColumn = (
    &'static str,
    &'static str,
    [&'static str; 2],
    f64,
    Option<f64>,
);

fn kinds(recorded: &LockWaits) -> [WaitsColumn; 5] {
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

fn note(plan: &Plan, recorded: &LockWaits, are_some_missing: bool) -> String {
    let sources: Vec<&str> = recorded
        .sources
        .iter()
        .map(|source| source.name())
        .collect();
    let missing = if are_some_missing {
        " Systems that were not simulated on as many CPUs are left out."
    } else {
        ""
    };
    format!(
        "`{RECORDED}`: the kernel's waits for the lock of a zone, from {}. The other lines are simulated, with all \
         locks of a system. A simulated CPU makes its next call after {} cycles, regardless of the times in the \
         trace, so the waits depend on --think. Recording and a hypervisor lengthen recorded waits.{missing}",
        sources.join(" and "),
        plan.think,
    )
}
