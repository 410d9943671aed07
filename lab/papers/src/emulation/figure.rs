//! \[Serewa\]'s emulation program: the ratio of case 2 to case 1, and the steps per call, by store.
//!
//! # Purpose
//!
//! The figure shows in which stores the source's gain remains, and why.
//!
//! # Invariants
//!
//! Every store has its place on the horizontal axis.

use crate::shared::chart::{self, Axis, Drawing, Panel, Series, Shape};
use crate::shared::experiment::Experiment;
use crate::shared::figure::{sources, systems};
use everybuddy_measure::rows::Row;

/// The source of the ratio of case 2 to case 1.
const OVER: &str = "case 2 / case 1";

/// Draws the figure.
pub(crate) fn draw(experiment: &Experiment, rows: &[Row]) -> Drawing {
    let stores = systems(rows.iter());
    let find = |system: &str, source: &str, metric: &str, statistic: &str| {
        rows.iter().find(|row| {
            row.experiment == experiment.name
                && row.system == system
                && row.source == source
                && row.operation == "all"
                && row.metric == metric
                && row.statistic == statistic
        })
    };
    let series = |name: &str, kind: usize, shift: f64, source: &str, metric: &str, log: bool| {
        let (mut points, mut intervals) = (Vec::new(), Vec::new());
        for (place, store) in stores.iter().enumerate() {
            let Some(row) = find(store, source, metric, "mean") else {
                continue;
            };
            let half = find(store, source, metric, "ci95").map_or(0.0, |row| row.value);
            let scale = |value: f64| if log { value.max(1.0).log10() } else { value };
            points.push((place as f64 + shift, scale(row.value)));
            intervals.push((scale(row.value - half), scale(row.value + half)));
        }
        Series {
            name: name.to_string(),
            points,
            intervals,
            labels: Vec::new(),
            shape: Shape::Points,
            kind,
        }
    };
    let axis = || Axis::of_names("store", stores.clone());
    let mut ratios = vec![
        series("time", 0, -0.1, OVER, "time_ratio", false),
        series("steps", 1, 0.1, OVER, "steps_ratio", false),
    ];
    let printed = stores.first().and_then(|store| {
        let row = find(store, OVER, "time_ratio", "mean")?;
        row.expected
    });
    ratios.extend(printed.map(|value| Series {
        name: "the source".to_string(),
        points: vec![(0.0, value)],
        intervals: vec![(value, value)],
        labels: Vec::new(),
        shape: Shape::Points,
        kind: 2,
    }));
    let walked: Vec<Series> = sources(rows.iter())
        .iter()
        .filter(|source| *source != OVER)
        .enumerate()
        .map(|(at, case)| series(case, at + 3, at as f64 * 0.2 - 0.1, case, "steps", true))
        .collect();
    let values = |series: &[Series]| -> Vec<f64> {
        let points = series.iter().flat_map(|own| &own.points);
        points.map(|point| point.1).collect()
    };
    let panels = [
        Panel {
            title: "case 2 (merges first) over case 1 (splits first)".to_string(),
            x: axis(),
            y: Axis {
                label: "ratio".to_string(),
                range: chart::from_zero(values(&ratios).into_iter().chain([1.0])),
                ticks: 7,
                base: None,
                write: Box::new(chart::plain),
            },
            series: ratios,
            shade: None,
        },
        Panel {
            title: "steps of an iteration of the program".to_string(),
            x: axis(),
            y: Axis {
                label: "reads and writes of the store".to_string(),
                range: chart::from_zero(values(&walked).into_iter()),
                ticks: 6,
                base: Some(10.0),
                write: Box::new(chart::power),
            },
            series: walked,
            shade: None,
        },
    ];
    let note = format!("{}. Bars: 95 % over seeds, or rounds.", experiment.source);
    chart::drawing(experiment, panels.into(), note)
}
