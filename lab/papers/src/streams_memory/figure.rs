//! The memory consumption of managers over load, and relative to the standard buddy.
//!
//! # Purpose
//!
//! The additional memory of delayed coalescing is visible only next to the memory of the blocks themselves.
//!
//! # Invariants
//!
//! `held` is below every manager.

use crate::shared::chart::{self, Axis, Panel, Series, Shape};
use crate::shared::experiment::Experiment;
use crate::shared::figure::{Drawing, systems};
use everybuddy_measure::rows::Row;

/// Draws the figure.
pub(crate) fn draw(experiment: &Experiment, rows: &[Row]) -> Drawing {
    let names = systems(rows.iter().filter(|row| row.metric == "peak_memory"));
    let loads: Vec<f64> = rows.iter().filter_map(users).collect();
    let panel = |metric: &str, title: &str, label: &str, scale: f64, lines: bool| {
        let mut series = Vec::new();
        for (kind, name) in names.iter().enumerate() {
            if metric == "peak_memory_ratio" && name == "held" {
                continue;
            }
            let of = |statistic: &'static str| {
                rows.iter().filter(move |row| {
                    row.experiment == experiment.name
                        && row.metric == metric
                        && row.statistic == statistic
                        && row.name() == *name
                })
            };
            let (mut points, mut intervals) = (Vec::new(), Vec::new());
            for row in of("mean") {
                let Some(users) = users(row) else { continue };
                let half = of("ci95").find(|other| other.source == row.source);
                let half = half.map_or(0.0, |row| row.value) * scale;
                let shift = if lines {
                    0.0
                } else {
                    (kind as f64 - 2.5) * 0.02
                };
                points.push((users + shift, row.value * scale));
                intervals.push((row.value * scale - half, row.value * scale + half));
            }
            series.push(Series {
                name: name.clone(),
                points,
                intervals,
                labels: Vec::new(),
                shape: if lines { Shape::Line } else { Shape::Points },
                kind,
            });
        }
        let ends = series.iter().flat_map(|own| &own.intervals);
        let range = if lines {
            chart::from_zero(ends.map(|end| end.1))
        } else {
            chart::around(ends.flat_map(|end| [end.0, end.1]))
        };
        Panel {
            title: title.to_string(),
            x: Axis {
                label: "users".to_string(),
                range: (0.0, 0.25 + loads.iter().copied().fold(0.0, f64::max)),
                ticks: 7,
                base: None,
                write: Box::new(chart::plain),
            },
            y: Axis {
                label: label.to_string(),
                range,
                ticks: 7,
                base: None,
                write: Box::new(chart::plain),
            },
            series,
            shade: None,
        }
    };
    let panels = [
        panel("peak_memory", "memory taken", "KiB", 1.0 / 1024.0, true),
        panel(
            "peak_memory_ratio",
            "over the standard buddy's",
            "ratio",
            1.0,
            false,
        ),
    ];
    let note = format!("{}. Bars: 95 % over ten seeds.", experiment.source);
    chart::drawing(experiment, panels.into(), note)
}

/// Returns the load of a row, from the name of its source: `3-users`.
fn users(row: &Row) -> Option<f64> {
    row.source.split_once("-user")?.0.parse().ok()
}
