//! The distribution of the operations of single calls, and of the coalescings of single frees.
//!
//! # Purpose
//!
//! A mean hides the effect of delayed coalescing: most calls become cheaper, and some become more expensive.
//!
//! # Invariants
//!
//! The vertical axis is the share of calls that take at least the given number, on a logarithmic scale, because the
//! rare calls matter.

use crate::shared::chart::{self, Axis, Panel, Series, Shape};
use crate::shared::experiment::Experiment;
use crate::shared::figure::{Drawing, systems};
use everybuddy_measure::rows::Row;

/// The traffic of the source's figure.
const SOURCE: &str = "M/M/m";

/// Draws the figure.
pub(crate) fn draw(experiment: &Experiment, rows: &[Row]) -> Drawing {
    let panel = |source: &str, operation: &str, metric: &str, title: &str, label: &str| {
        let own = || {
            rows.iter().filter(move |row| {
                row.source == source
                    && row.operation == operation
                    && row.metric == metric
                    && row.statistic == "rate"
            })
        };
        let series = systems(own()).into_iter().enumerate().map(|(kind, name)| {
            let of = own().filter(|row| row.name() == name);
            let shares: Vec<(f64, f64)> = of
                .filter_map(|row| Some((number(row)?, row.value)))
                .collect();
            let at_least = |from: usize| shares[from..].iter().map(|share| share.1).sum::<f64>();
            let points = (0..shares.len()).map(|at| (shares[at].0, at_least(at).log10() + 2.0));
            Series {
                name,
                points: points.collect(),
                intervals: Vec::new(),
                labels: Vec::new(),
                shape: Shape::Interval,
                kind,
            }
        });
        let series: Vec<Series> = series.collect();
        let points = || series.iter().flat_map(|own| own.points.iter().copied());
        let (least, _) = chart::around(points().map(|point| point.1));
        let (_, most) = chart::from_zero(points().map(|point| point.0));
        Panel {
            title: title.to_string(),
            x: Axis {
                label: format!("{label}, at least"),
                range: (0.0, most),
                ticks: 10,
                base: None,
                write: Box::new(chart::plain),
            },
            y: Axis {
                label: "share of the calls (%)".to_string(),
                range: (least.min(1.0), 2.1),
                ticks: 8,
                base: Some(10.0),
                write: Box::new(chart::power),
            },
            series,
            shade: None,
        }
    };
    let (list, delays) = ("operations", "coalescings");
    let density = |operation: &str, title: &str| density(experiment, rows, operation, title);
    let panels = [
        density("allocate", "density of times of allocations, M/M/m"),
        density("free", "density of times of releases, M/M/m"),
        panel(
            SOURCE,
            "allocate",
            list,
            "allocations, M/M/m",
            "operations on lists and map",
        ),
        panel(
            SOURCE,
            "free",
            list,
            "releases, M/M/m",
            "operations on lists and map",
        ),
        panel(
            SOURCE,
            "free",
            delays,
            "coalescings of a release, M/M/m",
            "coalescings",
        ),
        panel(
            "geometric-4",
            "free",
            delays,
            "coalescings of a release, batches",
            "coalescings",
        ),
    ];
    let note = format!("{}; there in microseconds.", experiment.source);
    chart::drawing(experiment, panels.into(), note)
}

/// Draws the shares of calls by time, as the source does.
fn density(experiment: &Experiment, rows: &[Row], operation: &str, title: &str) -> Panel {
    let own = || {
        rows.iter().filter(move |row| {
            row.source == SOURCE
                && row.operation == operation
                && row.metric == "latency"
                && row.statistic == "count"
                && row.experiment != experiment.name
        })
    };
    let series: Vec<Series> = systems(own())
        .into_iter()
        .enumerate()
        .map(|(kind, name)| {
            let of = || own().filter(|row| row.name() == name);
            let all: f64 = of().map(|row| row.value).sum();
            let share = |row: &Row| Some((number(row)?, (row.value / all).log10() + 2.0));
            Series {
                name: name.clone(),
                points: of().filter_map(share).collect(),
                intervals: Vec::new(),
                labels: Vec::new(),
                shape: Shape::Line,
                kind,
            }
        })
        .collect();
    let points = || series.iter().flat_map(|own| own.points.iter().copied());
    let (least, _) = chart::around(points().map(|point| point.1));
    let (_, most) = chart::from_zero(points().map(|point| point.0));
    Panel {
        title: title.to_string(),
        x: Axis {
            label: "nanoseconds".to_string(),
            range: (0.0, most.min(400.0)),
            ticks: 10,
            base: None,
            write: Box::new(chart::plain),
        },
        y: Axis {
            label: "share of the calls per bin (%)".to_string(),
            range: (least.min(1.0), 2.1),
            ticks: 8,
            base: Some(10.0),
            write: Box::new(chart::power),
        },
        series,
        shade: None,
    }
}

/// The number after the `@`.
fn number(row: &Row) -> Option<f64> {
    row.experiment.split_once('@')?.1.parse().ok()
}
