//! Operations on lists: single frames by trace, and blocks of each order.
//!
//! # Purpose
//!
//! The first panel is the paper's gain, the second its price.
//!
//! # Invariants
//!
//! Both panels show means per call. The first has requests and frees, the second requests from free memory.

use crate::shared::chart::{self, Axis, Panel, Series, Shape};
use crate::shared::experiment::Experiment;
use crate::shared::figure::{Drawing, sources};
use crate::shared::method::DIRECTIONS;
use everybuddy_measure::rows::Row;

/// The systems of the figure: the two structures.
const SYSTEMS: [&str; 2] = ["bs", "is"];

/// Draws the figure.
pub(crate) fn draw(experiment: &Experiment, rows: &[Row]) -> Drawing {
    let counts = || {
        rows.iter()
            .filter(|row| row.metric == "list_operations" && row.statistic == "mean")
            .filter(|row| SYSTEMS.contains(&row.name().as_str()))
    };
    let is_free_memory = |row: &&Row| row.source == "free-memory";
    let single = || counts().filter(|row| !is_free_memory(row) && row.order == Some(0));
    let blocks = || {
        counts()
            .filter(is_free_memory)
            .filter(|row| row.operation == "allocate")
    };
    let panels = vec![traces(single), orders(blocks)];
    let note = format!("{}. Means per call; counted.", experiment.source);
    chart::drawing(experiment, panels, note)
}

/// The panel of single frames by trace.
fn traces<'r, I: Iterator<Item = &'r Row>>(rows: impl Fn() -> I) -> Panel {
    let names = sources(rows());
    let mut series = Vec::new();
    for system in SYSTEMS {
        for operation in DIRECTIONS {
            let own = rows().filter(|row| row.name() == system && row.operation == operation);
            let place = |row: &Row| names.iter().position(|name| *name == row.source);
            series.push(Series {
                name: format!("{system}, {operation}"),
                points: own
                    .filter_map(|row| Some((place(row)? as f64, row.value)))
                    .collect(),
                intervals: Vec::new(),
                labels: Vec::new(),
                shape: Shape::Points,
                kind: series.len(),
            });
        }
    }
    Panel {
        title: "a single frame, on traces".to_string(),
        x: Axis {
            label: "trace".to_string(),
            range: (-0.5, names.len() as f64 - 0.5),
            ticks: names.len(),
            base: None,
            write: chart::names(names),
        },
        y: Axis {
            label: "list operations per call".to_string(),
            range: chart::from_zero(series.iter().flat_map(|own| &own.points).map(|p| p.1)),
            ticks: 8,
            base: None,
            write: Box::new(chart::plain),
        },
        series,
        shade: None,
    }
}

/// The panel of blocks by their order.
fn orders<'r, I: Iterator<Item = &'r Row>>(rows: impl Fn() -> I) -> Panel {
    let series = SYSTEMS.iter().enumerate().map(|(at, system)| {
        let own = rows().filter(|row| row.name() == *system);
        Series {
            name: format!("{system}, allocate"),
            points: own
                .filter_map(|row| Some((f64::from(row.order?), row.value.max(1.0).log10())))
                .collect(),
            intervals: Vec::new(),
            labels: Vec::new(),
            shape: Shape::Interval,
            kind: 2 * at,
        }
    });
    let series: Vec<Series> = series.collect();
    let most = rows().filter_map(|row| row.order).max().unwrap_or(1);
    Panel {
        title: "a block, from memory that is all free".to_string(),
        x: Axis {
            label: "order of the block".to_string(),
            range: (-0.3, f64::from(most) + 0.3),
            ticks: usize::from(most) + 1,
            base: None,
            write: Box::new(|at| {
                if at.fract().abs() < 1e-9 {
                    chart::plain(at)
                } else {
                    String::new()
                }
            }),
        },
        y: Axis {
            label: "list operations per call".to_string(),
            range: chart::from_zero(series.iter().flat_map(|own| &own.points).map(|p| p.1)),
            ticks: 8,
            base: Some(10.0),
            write: Box::new(chart::power),
        },
        series,
        shade: None,
    }
}
