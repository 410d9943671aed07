//! `everybuddy metrics`: the definitions of metrics.
//!
//! Users look up names, units and definitions in the program itself, which reads them from
//! [`everybuddy_metrics::METRICS`].
//!
//! # Invariants
//! Every metric is listed.

use clap::Args;
use everybuddy_measure::Error;
use everybuddy_measure::choice::unknown;
use everybuddy_metrics::{Group, METRICS, Metric, find};
use serde_json::json;

use crate::show::output::{self, Style};

/// List the metrics: names, units, definitions.
#[derive(Debug, Args)]
#[command(after_help = include_str!("help/metrics.txt"))]
pub(super) struct Arguments {
    /// Describe these metrics in full
    #[arg(value_name = "NAME")]
    names: Vec<String>,

    /// Print JSON lines
    #[arg(long)]
    json: bool,
}

/// Runs the command.
pub(super) fn run(arguments: Arguments) -> Result<(), Error> {
    let chosen = if arguments.names.is_empty() {
        METRICS.iter().collect()
    } else {
        let named = arguments.names.iter().map(|name| one(name));
        named.collect::<Result<Vec<_>, _>>()?
    };
    let style = Style::of_output(false);
    output::text(&match (arguments.json, arguments.names.is_empty()) {
        (true, _) => chosen.into_iter().map(line).collect(),
        (false, true) => list(&style),
        (false, false) => chosen
            .into_iter()
            .map(|metric| full(metric, &style))
            .collect(),
    })
}

fn one(name: &str) -> Result<&'static Metric, Error> {
    find(name).ok_or_else(|| {
        let names: Vec<&str> = METRICS.iter().map(|metric| metric.name).collect();
        Error::usage(unknown("metric", name, &names))
    })
}

/// Renders the list: a line per metric, with as many words of its definition as fit.
fn list(style: &Style) -> String {
    let mut out = String::new();
    for group in Group::ALL {
        out += &format!("{}\n", style.bold(group.name()));
        for metric in METRICS.iter().filter(|metric| metric.group == group) {
            let first = metric.definition.split(". ").next().unwrap_or_default();
            let head = format!("  {:<25} {:<7}", metric.name, metric.unit);
            out += &style.wrapped(&head, 36, first.trim_end_matches('.'));
        }
        out.push('\n');
    }
    out + "`everybuddy metrics NAME` shows one in full; docs/metrics.md describes how they are measured.\n"
}

/// Renders the full description of a metric.
fn full(metric: &Metric, style: &Style) -> String {
    let mut out = style.bold(metric.name) + "\n";
    out += &style.wrapped("", 2, &metric.definition);
    let better = match metric.better.name() {
        "" => "neither (descriptive)",
        name => name,
    };
    for (head, text) in [
        ("  formula", metric.formula),
        ("  unit", metric.unit),
        ("  better", better),
        ("  statistics", &metric.statistics.join(", ")),
    ] {
        if !text.is_empty() {
            out += &style.wrapped(head, 14, text);
        }
    }
    out
}

fn line(metric: &Metric) -> String {
    let object = json!({
        "name": metric.name,
        "group": metric.group.name(),
        "unit": metric.unit("value"),
        "better": metric.better.name(),
        "statistics": metric.statistics,
        "formula": metric.formula,
        "definition": metric.definition,
    });
    format!("{object}\n")
}
