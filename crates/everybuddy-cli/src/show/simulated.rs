//! The tables of `everybuddy simulate`.
//!
//! # Purpose
//!
//! One table for each workload: how many calls a system makes with each number of CPUs, and where and why it stops.
//!
//! # Invariants
//!
//! Every table says that its numbers are simulated.

use everybuddy_measure::rows::Row;
use everybuddy_measure::size;
use everybuddy_simulate::{Plan, Scaling};

use super::output::Style;
use super::table::{self, Better, Column};

/// Returns all tables, with a line about the machine.
pub fn text(plan: &Plan, scalings: &[Scaling], rows: &[Row], style: &Style) -> String {
    let mut out = String::new();
    for load in &plan.loads {
        let own: Vec<&Scaling> = scalings
            .iter()
            .filter(|scaling| scaling.load == load.name())
            .collect();
        let names: Vec<String> = own.iter().map(|scaling| scaling.system.clone()).collect();
        out += &style.bold(load.name());
        out += ": calls per microsecond of all CPUs, simulated\n\n";
        out += &table::text(&names, &columns(&own, rows), 0..names.len(), style);
        out += "\n";
    }
    let hardware = &plan.hardware;
    out += &style.wrapped(
        "",
        0,
        &format!(
            "Simulated: machine {}, {} CPUs at {} MHz; {} of memory; {} cycles between two calls; {}. `scales to`: \
             the number of CPUs beyond which twice as many bring less than 1.2 times the calls. `most time with \
             memory`: the part of the metadata on which calls spend most of their time with memory, on the largest \
             number of CPUs, and its share.",
            plan.machine,
            hardware.cpus(),
            hardware.mhz,
            size::frames(u64::from(plan.frames)),
            plan.think,
            match plan.seeds.len() {
                1 => "one seed".to_string(),
                seeds => format!("means of {seeds} seeds"),
            },
        ),
    );
    out
}

fn columns(scalings: &[&Scaling], rows: &[Row]) -> Vec<Column> {
    let mut columns = Vec::new();
    let counts = scalings
        .first()
        .map_or(&[][..], |scaling| &scaling.rates[..]);
    for (index, (cpus, _)) in counts.iter().enumerate() {
        let values: Vec<Option<f64>> = scalings
            .iter()
            .map(|scaling| scaling.rates.get(index).map(|(_, rate)| rate / 1e6))
            .collect();
        let texts = values
            .iter()
            .map(|value| value.map_or(String::new(), |value| format!("{value:.2}")));
        columns.push(Column {
            metric: "throughput",
            legend: "".into(),
            head: [
                cpus.to_string().into(),
                if *cpus == 1 { "CPU" } else { "CPUs" }.into(),
            ],
            better: Better::Higher,
            texts: texts.collect(),
            values,
        });
    }
    let p99 = |scaling: &&Scaling| {
        let of = |row: &&Row| {
            row.source == scaling.load
                && row.name() == scaling.system
                && row.metric == "latency"
                && row.statistic == "p99"
                && row.operation == "allocate"
                && scaling
                    .rates
                    .last()
                    .is_some_and(|(cpus, _)| *cpus == row.cpus)
        };
        rows.iter().filter(of).map(|row| row.value).reduce(f64::max)
    };
    let values: Vec<Option<f64>> = scalings.iter().map(p99).collect();
    columns.push(Column {
        metric: "latency",
        legend: "".into(),
        head: ["p99".into(), "ns".into()],
        better: Better::Lower,
        texts: values
            .iter()
            .map(|value| value.map_or(String::new(), |value| size::count(value.round() as u64)))
            .collect(),
        values,
    });
    let most = counts.last().map_or(0, |(cpus, _)| *cpus);
    let limits = scalings.iter().map(|scaling| match scaling.limit {
        Some(limit) => limit.to_string(),
        None => format!("> {most}"),
    });
    columns.push(plain("scaling_limit", ["scales", "to"], limits.collect()));
    let reasons = scalings.iter().map(|scaling| match &scaling.hottest {
        Some((what, share)) => format!("{what}, {:.0}%", share * 100.0),
        None => String::new(),
    });
    columns.push(plain(
        "memory_time_share",
        ["most time", "with memory"],
        reasons.collect(),
    ));
    columns
}

/// A column of words, none of which is the best.
fn plain(metric: &'static str, head: [&'static str; 2], texts: Vec<String>) -> Column {
    Column {
        metric,
        legend: "".into(),
        head: head.map(Into::into),
        better: Better::Neither,
        values: vec![None; texts.len()],
        texts,
    }
}
