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
    let curves = || rows.iter().filter(|row| row.source == "arena");
    let names = systems(curves());
    let mut series: Vec<Series> = Vec::new();
    for (kind, name) in names.iter().enumerate() {
        let of = curves().filter(|row| row.name() == *name && row.value > 0.0);
        let points = of.filter_map(|row| Some((kibibytes(row)?, row.value.log10())));
        series.push(plain(name.clone(), points.collect(), Shape::Line, kind));
    }
    let mut panels = vec![panel(
        "M/M/m, over the arena",
        "share refused",
        series,
        Axis {
            label: "arena (KiB)".to_string(),
            range: (55.5, 66.5),
            ticks: 12,
            base: None,
            write: Box::new(chart::plain),
        },
    )];
    let fitted = rows.iter().filter(|row| row.metric == "arena");
    let fitted: Vec<(String, f64)> = fitted
        .map(|row| (row.source.clone(), row.value / 1024.0))
        .collect();
    if let (Some(panel), Some((name, fitted))) = (panels.first_mut(), fitted.first()) {
        panel.shade = Some((fitted - 0.05, fitted + 0.05, name.clone()));
    }
    for (arena, (name, kib)) in fitted.iter().enumerate() {
        let title = format!("{kib} KiB, {name}");
        panels.push(judged(experiment, rows, &names, (arena, &title)));
    }
    let note = format!(
        "{}. Nothing is refused under D/D/m. Bars: nine of ten runs.",
        experiment.source
    );
    chart::drawing(experiment, panels, note)
}

/// Draws the numbers of refused requests in an arena, with those of the source.
fn judged(
    experiment: &Experiment,
    rows: &[Row],
    names: &[String],
    (arena, title): (usize, &str),
) -> Panel {
    let suffix = match arena {
        0 => String::new(),
        _ => format!(", arena {}", arena + 1),
    };
    let own = || {
        let own = rows.iter();
        own.filter(|row| row.metric == "refusals" && row.experiment == experiment.name)
    };
    // The runs of another length are a reading of their own.
    let is_here = |source: &String| {
        let name = source.strip_suffix(&suffix).unwrap_or(source);
        source.ends_with(&suffix) && !name.contains([',', ' '])
    };
    let means = own().filter(|row| row.statistic == "mean" && row.value > 0.0);
    let traffic: Vec<String> = sources(means).into_iter().filter(is_here).collect();
    let mut series: Vec<Series> = Vec::new();
    for (kind, name) in names.iter().enumerate() {
        for (expected, word) in [(false, ""), (true, ", the source")] {
            let shift = (kind as f64 - 1.5) * 0.16 + if expected { 0.06 } else { 0.0 };
            let (mut points, mut intervals) = (Vec::new(), Vec::new());
            for (place, source) in traffic.iter().enumerate() {
                let find = |statistic: &str| {
                    own().find(|row| {
                        row.source == *source && row.name() == *name && row.statistic == statistic
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
                let end = |statistic| {
                    if expected {
                        value
                    } else {
                        // The axis is logarithmic.
                        find(statistic).map_or(value, |row| row.value.max(0.5))
                    }
                };
                points.push((place as f64 + shift, value.log10()));
                intervals.push((end("p5").log10(), end("p95").log10()));
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
    let labels: Vec<String> = traffic
        .iter()
        .map(|name| name.strip_suffix(&suffix).unwrap_or(name).to_string())
        .collect();
    panel(
        title,
        "refused of 74,000",
        series,
        Axis::of_names("traffic", labels),
    )
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

fn panel(title: &str, label: &str, series: Vec<Series>, x: Axis) -> Panel {
    let points = series.iter().flat_map(|own| &own.points);
    let ends = series.iter().flat_map(|own| &own.intervals);
    let ends = ends.flat_map(|interval| [interval.0, interval.1]);
    let range = chart::around(points.map(|point| point.1).chain(ends));
    Panel {
        title: title.to_string(),
        x,
        y: Axis {
            label: label.to_string(),
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
