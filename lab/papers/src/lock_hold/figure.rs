//! The wait and hold times of locks, as points with intervals over the rounds.
//!
//! # Purpose
//!
//! Shows at a glance whether a difference is significant.
//!
//! # Invariants
//!
//! Both panels have the same systems in the same positions.

use crate::shared::chart::{self, Axis, Panel, Series, Shape};
use crate::shared::experiment::Experiment;
use crate::shared::figure::{Drawing, systems};
use everybuddy_measure::rows::Row;

/// Draws the figure.
pub(crate) fn draw(experiment: &Experiment, rows: &[Row]) -> Drawing {
    let names = systems(rows.iter());
    let panel = |metric: &'static str, title: &str| {
        let of = |name: &str| -> Vec<f64> {
            let own = rows
                .iter()
                .filter(|row| row.name() == name && row.metric == metric);
            own.filter(|row| row.statistic == "mean" && row.experiment != experiment.name)
                .map(|row| row.value)
                .collect()
        };
        let middle = |name: &str| {
            let mut own = rows
                .iter()
                .filter(|row| row.name() == name && row.metric == metric);
            own.find(|row| row.statistic == "mean" && row.experiment == experiment.name)
        };
        let series = names.iter().enumerate().filter_map(|(kind, name)| {
            let rounds = of(name);
            let least = rounds.iter().copied().fold(f64::INFINITY, f64::min);
            let most = rounds.iter().copied().fold(0.0, f64::max);
            Some(Series {
                name: name.clone(),
                points: vec![(kind as f64 + 1.0, middle(name)?.value)],
                intervals: vec![(least, most)],
                labels: Vec::new(),
                shape: Shape::Interval,
                kind,
            })
        });
        let series: Vec<Series> = series.collect();
        let ends = series
            .iter()
            .flat_map(|own| &own.intervals)
            .map(|ends| ends.1);
        Panel {
            title: title.to_string(),
            y: Axis {
                label: "mean of an acquisition (ns)".to_string(),
                range: chart::from_zero(ends),
                ticks: 8,
                base: None,
                write: Box::new(chart::plain),
            },
            x: Axis {
                label: "system, in the order of the legend".to_string(),
                range: (0.4, names.len() as f64 + 0.6),
                ticks: names.len(),
                base: None,
                write: Box::new(chart::plain),
            },
            series,
            shade: None,
        }
    };
    let panels = [
        panel("lock_wait", "waiting for a lock"),
        panel("lock_hold", "holding it"),
    ];
    let note = format!(
        "{}. Medians of 5 rounds, bars from least to most.",
        experiment.source
    );
    chart::drawing(experiment, panels.into(), note)
}
