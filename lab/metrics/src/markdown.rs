//! The lists of docs/metrics.md.
//!
//! docs/metrics.md describes how numbers are measured in prose, and what they are in lists. The lists are generated:
//! `cargo run -p xtask -- docs` writes them between two marks, and `tidy` reports when they are out of date.
//!
//! # Invariants
//! Every metric, statistic and operation is listed once.

use std::fmt::Write;

use crate::{Group, METRICS, Metric, OPERATIONS, STATISTICS};

/// Returns the lists: statistics, operations, and the metrics of each group.
pub fn markdown() -> String {
    let mut text = String::from("| statistic | meaning |\n|---|---|\n");
    let words = |text: &mut String, all: &[(&str, &str)]| {
        for (name, meaning) in all {
            let _ = writeln!(text, "| `{name}` | {meaning} |");
        }
    };
    words(&mut text, STATISTICS);
    text += "\n| operation | meaning |\n|---|---|\n";
    words(&mut text, OPERATIONS);
    for group in Group::ALL {
        let _ = write!(
            text,
            "\n### {}\n\n| metric | statistics | unit | better | definition |\n|---|---|---|---|---|\n",
            group.name()
        );
        for metric in METRICS.iter().filter(|metric| metric.group == group) {
            text += &line(metric);
        }
    }
    text
}

/// The line of a metric.
fn line(metric: &Metric) -> String {
    let statistics: Vec<String> = metric
        .statistics
        .iter()
        .map(|own| format!("`{own}`"))
        .collect();
    let formula = match metric.formula {
        "" => String::new(),
        formula => format!(" `{}`.", formula.replace('|', "\\|")),
    };
    format!(
        "| `{}` | {} | {} | {} | {}{formula} |\n",
        metric.name,
        statistics.join(", "),
        metric.unit,
        metric.better.name(),
        metric.definition,
    )
}
