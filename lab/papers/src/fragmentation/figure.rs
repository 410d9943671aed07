//! Free 4 MiB blocks over requests, with a panel per combination of traces.
//!
//! Results are compared with figure 13 of \[iBuddy\].
//!
//! # Invariants
//! Shows every sample, those taken while all is freed included.

use crate::shared::prelude::*;
use everybuddy_measure::size::frames;

/// Draws the figure.
pub(crate) fn draw(experiment: &Experiment, rows: &[Row]) -> Drawing {
    let order = experiment.parameters.get("order");
    let order = order.and_then(toml::Value::as_integer).unwrap_or(10);
    let label = format!("free blocks of {}", frames(1 << order.clamp(0, 63)));
    let sources = sources(rows.iter());
    let panels = sources.iter().map(|source| panel(rows, source, &label));
    chart::drawing(experiment, panels, ". Replayed on this machine; counts.")
}

fn panel(rows: &[Row], source: &str, label: &str) -> Panel {
    let own = Chosen::new(rows, |row| row.source == source);
    let calls = own.rows().find(|row| row.metric == "calls");
    let thousands = calls.map_or(1.0, |row| row.value / 1000.0);
    let series = own.curves(Shape::Line, |row| {
        let position = position(row).filter(|_| row.metric == "free_blocks")?;
        Some((position * thousands, row.value))
    });
    let range = chart::from_zero(chart::heights(&series));
    let x = Axis::plain("requests and releases (thousands)", (0.0, thousands), 10);
    Panel::new(title(source), x, Axis::plain(label, range, 8), series)
}

/// Describes a combination of traces: `sequence`, `GROUP:at-once`, or a group of one trace.
fn title(source: &str) -> String {
    let (group, how) = match source.split_once(':') {
        Some((group, how)) => (format!("{group}: "), how),
        None => (String::new(), source),
    };
    match how {
        "sequence" => format!("{group}traces one after the other"),
        "at-once" => format!("{group}all traces together, each on its own CPUs"),
        one => one.to_string(),
    }
}
