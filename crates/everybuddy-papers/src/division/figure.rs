//! The number of requests that split a larger block, over the number of requests.
//!
//! # Purpose
//!
//! The figure shows what dividing memory beforehand saves at the start of a program, and how long that lasts.
//!
//! # Invariants
//!
//! One panel per trace; a system that did not reach a number of requests has no point there.

use crate::shared::chart::{self, Axis, Panel, Series, Shape};
use crate::shared::experiment::Experiment;
use crate::shared::figure::{Drawing, systems};
use everybuddy_measure::rows::Row;

/// Draws the figure.
pub(crate) fn draw(experiment: &Experiment, rows: &[Row]) -> Drawing {
    let own = || {
        rows.iter().filter(|row| {
            row.experiment == experiment.name
                && row.metric == "broken_blocks"
                && row.statistic == "rate"
        })
    };
    let split = |row: &Row| {
        let (trace, requests) = row.source.split_once(':')?;
        Some((trace.to_string(), requests.parse::<f64>().ok()?))
    };
    let mut traces: Vec<String> = Vec::new();
    for (trace, _) in own().filter_map(split) {
        if !traces.contains(&trace) {
            traces.push(trace);
        }
    }
    let panel = |trace: &String| {
        let series = systems(own()).into_iter().enumerate().map(|(kind, name)| {
            let points = own().filter(|row| row.name() == name).filter_map(|row| {
                let (of, requests) = split(row)?;
                (of == *trace).then(|| (requests.log2(), row.value * 100.0))
            });
            Series {
                points: points.collect(),
                intervals: Vec::new(),
                labels: Vec::new(),
                shape: Shape::Line,
                name: name.clone(),
                kind,
            }
        });
        let series: Vec<Series> = series.collect();
        let points = || series.iter().flat_map(|own| &own.points);
        Panel {
            title: trace.clone(),
            x: Axis {
                label: "requests so far".to_string(),
                range: chart::around(points().map(|point| point.0)),
                ticks: 10,
                base: Some(2.0),
                write: Box::new(|power| match power.fract().abs() < 1e-9 {
                    true => format!("{:.0}", power.exp2()),
                    false => String::new(),
                }),
            },
            y: Axis {
                label: "of these broke a block (%)".to_string(),
                range: chart::from_zero(points().map(|point| point.1)),
                ticks: 7,
                base: None,
                write: Box::new(chart::plain),
            },
            series,
            shade: None,
        }
    };
    let panels = traces.iter().map(panel).collect();
    chart::drawing(
        experiment,
        panels,
        format!("{}. Counted once.", experiment.source),
    )
}
