//! The cost of a single frame over the fill level of memory.
//!
//! # Purpose
//!
//! The figure shows whether an allocator that searches slows down when little is left to be found.
//!
//! # Invariants
//!
//! Each point is the median of the rounds, its bar their minimum and maximum.

use crate::shared::chart::{self, Axis, Panel, Series, Shape};
use crate::shared::experiment::Experiment;
use crate::shared::figure::{Drawing, systems};
use everybuddy_measure::rows::Row;

/// Draws the figure.
pub(crate) fn draw(experiment: &Experiment, rows: &[Row]) -> Drawing {
    let level = |row: &Row| {
        let (_, percent) = row.source.split_once(':')?;
        percent.parse::<f64>().ok()
    };
    let own = || {
        rows.iter()
            .filter(|row| row.experiment == experiment.name && row.metric == "latency")
    };
    let series = systems(own()).into_iter().enumerate().map(|(kind, name)| {
        let of = |statistic: &'static str| {
            let name = name.clone();
            own().filter(move |row| row.name() == name && row.statistic == statistic)
        };
        Series {
            points: of("p50")
                .filter_map(|row| Some((level(row)?, row.value)))
                .collect(),
            intervals: of("min")
                .map(|row| row.value)
                .zip(of("max").map(|row| row.value))
                .collect(),
            labels: Vec::new(),
            shape: Shape::Interval,
            name: name.clone(),
            kind,
        }
    });
    let series: Vec<Series> = series.collect();
    let medians = series
        .iter()
        .flat_map(|own| &own.points)
        .map(|point| point.1);
    let ends = series
        .iter()
        .flat_map(|own| &own.intervals)
        .map(|ends| ends.1);
    let panel = Panel {
        title: String::new(),
        x: Axis {
            label: "memory held (%)".to_string(),
            range: (0.0, 100.0),
            ticks: 11,
            base: None,
            write: Box::new(chart::plain),
        },
        y: Axis {
            label: "allocation and release (ns)".to_string(),
            range: chart::from_zero(medians.chain(ends)),
            ticks: 8,
            base: None,
            write: Box::new(chart::plain),
        },
        series,
        shade: None,
    };
    let note = format!(
        "{}. Medians of 5 rounds, bars from least to most.",
        experiment.source
    );
    chart::drawing(experiment, vec![panel], note)
}
