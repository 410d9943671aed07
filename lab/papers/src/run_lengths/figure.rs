//! The share of a trace's requests in runs of at least a given length.
//!
//! # Purpose
//!
//! A mean hides the distribution of runs: the benefit of a buffer depends on the runs that contain most requests, not
//! on the number of short runs.
//!
//! # Invariants
//!
//! Every curve starts with all requests at length one, and decreases.

use crate::shared::chart::{self, Axis, Panel, Series, Shape};
use crate::shared::experiment::Experiment;
use crate::shared::figure::{Drawing, sources};
use crate::shared::method::DIRECTIONS;
use everybuddy_measure::rows::Row;

/// Draws the figure.
pub(crate) fn draw(experiment: &Experiment, rows: &[Row]) -> Drawing {
    let own = || {
        let own = rows.iter().filter(|row| row.system == "region");
        own.filter(|row| row.statistic == "rate")
    };
    let longest = own().filter_map(bound).fold(1.0, f64::max);
    let panel = |operation: &str, title: &str| {
        let series = sources(own()).into_iter().enumerate();
        let series = series.map(|(kind, name)| {
            let of = own().filter(|row| row.source == name && row.operation == operation);
            let mut points: Vec<(f64, f64)> = of
                .filter_map(|row| Some((bound(row)?, row.value * 100.0)))
                .collect();
            // No request is in a longer run than the longest.
            points.extend(points.last().map(|last| (last.0 + 1.0, 0.0)));
            Series {
                name,
                points,
                intervals: Vec::new(),
                labels: Vec::new(),
                shape: Shape::Interval,
                kind,
            }
        });
        Panel {
            title: title.to_string(),
            x: Axis {
                label: "requests of a run, at least".to_string(),
                range: (0.0, longest + 1.2),
                ticks: 20,
                base: Some(2.0),
                write: Box::new(|position| {
                    if position.fract().abs() < 1e-9 {
                        everybuddy_measure::size::count(position.exp2() as u64)
                    } else {
                        String::new()
                    }
                }),
            },
            y: Axis {
                label: "share of the requests (%)".to_string(),
                range: (0.0, 104.0),
                ticks: 6,
                base: None,
                write: Box::new(chart::plain),
            },
            series: series.collect(),
            shade: None,
        }
    };
    let titles = ["allocations, by address region", "frees, by address region"];
    let panels: Vec<Panel> = DIRECTIONS
        .iter()
        .zip(titles)
        .map(|(operation, title)| panel(operation, title))
        .collect();
    let note = format!(
        "{}; there as means. Counted from traces.",
        experiment.source
    );
    chart::drawing(experiment, panels, note)
}

/// The length after the `@`, as a power of two.
fn bound(row: &Row) -> Option<f64> {
    let (_, bound) = row.experiment.split_once('@')?;
    let bound: f64 = bound.parse().ok()?;
    Some(bound.log2())
}
