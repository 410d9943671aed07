//! The share of failed requests over the size of the arena, in the fitted arena, and in the source.
//!
//! # Purpose
//!
//! One number had to be fitted: the curves show the results for other values.
//!
//! # Invariants
//!
//! Zeros have no point, since the axis is logarithmic.

use crate::shared::chart::{self, Axis, Panel, Series, Shape};
use crate::shared::experiment::Experiment;
use crate::shared::figure::{Drawing, sources, systems};
use everybuddy_measure::rows::Row;

/// Draws the figure.
pub(crate) fn draw(experiment: &Experiment, rows: &[Row]) -> Drawing {
    let own = || {
        rows.iter()
            .filter(|row| row.metric == "blocking_probability")
    };
    let curves = || own().filter(|row| row.source == "arena");
    let names = systems(curves());
    let mut series: Vec<Series> = Vec::new();
    for (kind, name) in names.iter().enumerate() {
        let of = curves().filter(|row| row.name() == *name && row.value > 0.0);
        let points = of.filter_map(|row| Some((kibibytes(row)?, row.value.log10())));
        series.push(plain(name.clone(), points.collect(), Shape::Line, kind));
    }
    let fitted = rows
        .iter()
        .find(|row| row.metric == "arena")
        .map(|row| row.value / 1024.0);
    let mut panels = vec![panel(
        "M/M/m, over the arena",
        series,
        Axis {
            label: "arena (KiB)".to_string(),
            range: (55.5, 66.5),
            ticks: 12,
            base: None,
            write: Box::new(chart::plain),
        },
    )];
    if let (Some(panel), Some(fitted)) = (panels.first_mut(), fitted) {
        panel.shade = Some((fitted - 0.05, fitted + 0.05, "fitted".to_string()));
    }
    let judged = own().filter(|row| row.statistic == "mean" && row.experiment == experiment.name);
    let traffic = sources(judged);
    let mut series: Vec<Series> = Vec::new();
    for (kind, name) in names.iter().enumerate() {
        for (expected, word) in [(false, ""), (true, ", the source")] {
            let shift = (kind as f64 - 1.5) * 0.16 + if expected { 0.06 } else { 0.0 };
            let (mut points, mut intervals) = (Vec::new(), Vec::new());
            for (place, source) in traffic.iter().enumerate() {
                let find = |statistic: &str| {
                    own().find(|row| {
                        row.experiment == experiment.name
                            && row.source == *source
                            && row.name() == *name
                            && row.statistic == statistic
                    })
                };
                let Some(row) = find("mean") else { continue };
                let value = if expected {
                    row.expected
                } else {
                    Some(row.value)
                };
                let Some(value) = value.filter(|value| *value > 0.0) else {
                    continue;
                };
                let half = find("ci95").map_or(0.0, |row| row.value);
                let half = if expected { 0.0 } else { half.min(value * 0.9) };
                points.push((place as f64 + shift, value.log10()));
                intervals.push(((value - half).log10(), (value + half).log10()));
            }
            series.push(Series {
                intervals,
                ..plain(
                    format!("{name}{word}"),
                    points,
                    Shape::Points,
                    if expected { kind + names.len() } else { kind },
                )
            });
        }
    }
    series.retain(|series| !series.points.is_empty());
    panels.push(panel(
        "in the arena that was fitted",
        series,
        Axis {
            label: "traffic".to_string(),
            range: (-0.5, traffic.len() as f64 - 0.5),
            ticks: traffic.len() + 1,
            base: None,
            write: chart::names(traffic.clone()),
        },
    ));
    let note = format!(
        "{}. Nothing is refused under D/D/m. Bars: 95 % over ten seeds.",
        experiment.source
    );
    chart::drawing(experiment, panels, note)
}

fn plain(name: String, points: Vec<(f64, f64)>, shape: Shape, kind: usize) -> Series {
    Series {
        name,
        points,
        intervals: Vec::new(),
        labels: Vec::new(),
        shape,
        kind,
    }
}

fn panel(title: &str, series: Vec<Series>, x: Axis) -> Panel {
    let values = series.iter().flat_map(|own| &own.points);
    let range = chart::around(values.map(|point| point.1));
    Panel {
        title: title.to_string(),
        x,
        y: Axis {
            label: "share refused".to_string(),
            range,
            ticks: 6,
            base: Some(10.0),
            write: Box::new(chart::power),
        },
        series,
        shade: None,
    }
}

/// The bytes after the `@`, in KiB.
fn kibibytes(row: &Row) -> Option<f64> {
    let (_, bytes) = row.experiment.split_once('@')?;
    let bytes: f64 = bytes.parse().ok()?;
    Some(bytes / 1024.0)
}
