//! Free 4 MiB blocks over requests, with a panel per combination of traces.
//!
//! # Purpose
//!
//! Results are compared with figure 13 of \[iBuddy\].
//!
//! # Invariants
//!
//! Shows every sample, those taken while all is freed included.

use crate::shared::chart::{self, Axis, Panel, Series, Shape};
use crate::shared::experiment::Experiment;
use crate::shared::figure::{Drawing, sources, systems};
use everybuddy_measure::rows::Row;
use everybuddy_measure::size::frames;

/// Draws the figure.
pub(crate) fn draw(experiment: &Experiment, rows: &[Row]) -> Drawing {
    let order = experiment.parameters.get("order");
    let order = order.and_then(toml::Value::as_integer).unwrap_or(10);
    let label = format!("free blocks of {}", frames(1 << order.clamp(0, 63)));
    let sources = sources(rows.iter());
    let panels = sources.iter().map(|source| panel(rows, source, &label));
    let panels: Vec<Panel> = panels.collect();
    let note = format!("{}. Replayed on this machine; counts.", experiment.source);
    chart::drawing(experiment, panels, note)
}

fn panel(rows: &[Row], source: &str, label: &str) -> Panel {
    let own = || rows.iter().filter(|row| row.source == source);
    let calls = own().find(|row| row.metric == "calls");
    let thousands = calls.map_or(1.0, |row| row.value / 1000.0);
    let series = systems(own()).into_iter().enumerate().map(|(kind, name)| {
        let samples = own().filter(|row| row.name() == name && row.metric == "free_blocks");
        let point = |row: &Row| {
            let (_, position) = row.experiment.split_once('@')?;
            let position: f64 = position.parse().ok()?;
            Some((position * thousands, row.value))
        };
        Series {
            points: samples.filter_map(point).collect(),
            name,
            intervals: Vec::new(),
            labels: Vec::new(),
            shape: Shape::Line,
            kind,
        }
    });
    let series: Vec<Series> = series.collect();
    let values = series
        .iter()
        .flat_map(|own| &own.points)
        .map(|point| point.1);
    Panel {
        title: title(source),
        x: Axis {
            label: "requests and releases (thousands)".to_string(),
            range: (0.0, thousands),
            ticks: 10,
            base: None,
            write: Box::new(chart::plain),
        },
        y: Axis {
            label: label.to_string(),
            range: chart::from_zero(values),
            ticks: 8,
            base: None,
            write: Box::new(chart::plain),
        },
        series,
        shade: None,
    }
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
