//! The time of a call by system, with a panel per trace and number of threads.
//!
//! # Purpose
//!
//! From one system to the next, one component or one property of the lock changes.
//!
//! # Invariants
//!
//! All panels have the same systems in the same positions. Bars are from the fastest round to the slowest.

use crate::shared::chart::{self, Axis, Panel, Series, Shape};
use crate::shared::experiment::Experiment;
use crate::shared::figure::{Drawing, sources, systems};
use everybuddy_measure::rows::Row;

/// Draws the figure.
pub(crate) fn draw(experiment: &Experiment, rows: &[Row]) -> Drawing {
    let own = || {
        rows.iter().filter(|row| {
            row.experiment == experiment.name && row.metric == "latency" && row.operation == "all"
        })
    };
    let names = systems(own());
    let panel = |source: &String| {
        let series = names.iter().enumerate().filter_map(|(kind, name)| {
            let find = |statistic: &str| {
                let mut here = own().filter(|row| row.source == *source && row.name() == *name);
                here.find(|row| row.statistic == statistic)
                    .map(|row| row.value)
            };
            let middle = find("p50")?;
            Some(Series {
                name: name.clone(),
                points: vec![(kind as f64 + 1.0, middle)],
                intervals: vec![(find("min").unwrap_or(middle), find("max").unwrap_or(middle))],
                labels: Vec::new(),
                shape: Shape::Points,
                kind,
            })
        });
        let series: Vec<Series> = series.collect();
        let ends = series
            .iter()
            .flat_map(|own| &own.intervals)
            .map(|ends| ends.1);
        let title = match source.split_once(':') {
            Some((trace, threads)) => format!("{trace}, {threads} threads"),
            None => format!("{source}, 1 thread"),
        };
        Panel {
            title,
            x: Axis {
                label: "system, in the order of the legend".to_string(),
                range: (0.4, names.len() as f64 + 0.6),
                ticks: names.len(),
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
                label: "time of a call (ns)".to_string(),
                range: chart::from_zero(ends),
                ticks: 8,
                base: None,
                write: Box::new(chart::plain),
            },
            series,
            shade: None,
        }
    };
    let panels = sources(own()).iter().map(panel).collect();
    let note = format!(
        "{}. Medians of the rounds, bars from least to most.",
        experiment.source
    );
    chart::drawing(experiment, panels, note)
}
