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

/// The system whose memory is divided beforehand.
const LEARNS: &str = "serewa";

/// Draws the figure.
pub(crate) fn draw(experiment: &Experiment, rows: &[Row]) -> Drawing {
    let own = || {
        rows.iter().filter(|row| {
            row.experiment == experiment.name
                && row.metric == "broken_blocks"
                && row.statistic == "rate"
        })
    };
    // The trace, the number of requests, and whose statistics memory is divided by.
    let split = |row: &Row| {
        let (trace, rest) = row.source.split_once(':')?;
        let (requests, by) = match rest.split_once(" by ") {
            Some((requests, by)) => (requests, format!(" by {by}")),
            None => (rest, String::new()),
        };
        Some((trace.to_string(), requests.parse::<f64>().ok()?, by))
    };
    let mut traces: Vec<String> = Vec::new();
    for (trace, ..) in own().filter_map(split) {
        if !traces.contains(&trace) {
            traces.push(trace);
        }
    }
    // A line has the same colour in every panel.
    let mut kinds: Vec<String> = Vec::new();
    for row in own() {
        let by = split(row).map(|own| own.2).unwrap_or_default();
        let name = match row.name() {
            name if name == LEARNS => name + &by,
            name => name,
        };
        if !kinds.contains(&name) {
            kinds.push(name);
        }
    }
    let panel = |trace: &String| {
        // The others do not depend on statistics.
        let names: Vec<String> = systems(own());
        let mut lines: Vec<(String, String)> = names
            .iter()
            .map(|name| (name.clone(), String::new()))
            .collect();
        for (of, _, by) in own().filter(|row| row.name() == LEARNS).filter_map(split) {
            let line = (LEARNS.to_string(), by);
            if of == *trace && !lines.contains(&line) {
                lines.push(line);
            }
        }
        let series = lines.into_iter().map(|(name, by)| {
            let points = own().filter(|row| row.name() == name).filter_map(|row| {
                let (of, requests, own) = split(row)?;
                (of == *trace && own == by).then(|| (requests.log2(), row.value * 100.0))
            });
            let name = format!("{name}{by}");
            let kind = kinds.iter().position(|known| *known == name).unwrap_or(0);
            Series {
                points: points.collect(),
                intervals: Vec::new(),
                labels: Vec::new(),
                shape: Shape::Line,
                name,
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
                write: Box::new(|power| {
                    if power.fract().abs() < 1e-9 {
                        format!("{:.0}", power.exp2())
                    } else {
                        String::new()
                    }
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
