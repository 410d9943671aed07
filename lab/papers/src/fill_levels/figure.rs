//! The cost of a single frame over the fill level of memory, and over the order of the free blocks.
//!
//! # Purpose
//!
//! The figure shows whether an allocator that searches slows down when little is left to be found, and what a split
//! costs that nothing avoids.
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
    let own: Vec<&Row> = rows
        .iter()
        .filter(|row| row.experiment == experiment.name && row.metric == "latency")
        .filter(|row| row.operation == "pair")
        .collect();
    let panels = [
        ("fill:", "memory held at random (%)", (0.0, 100.0)),
        ("split:", "order of all free blocks", (-0.5, 9.5)),
    ];
    let panels = panels.map(|(workload, label, range)| panel(&own, workload, label, range));
    let note = format!(
        "{}. Medians of 5 rounds, bars from least to most.",
        experiment.source
    );
    chart::drawing(experiment, panels.into(), note)
}

fn panel(rows: &[&Row], workload: &str, label: &str, range: (f64, f64)) -> Panel {
    let level = |row: &Row| row.source.strip_prefix(workload)?.parse::<f64>().ok();
    let own = || rows.iter().copied().filter(|row| level(row).is_some());
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
    let points = series.iter().flat_map(|own| &own.points);
    let ends = series.iter().flat_map(|own| &own.intervals);
    let y = chart::from_zero(points.map(|p| p.1).chain(ends.map(|ends| ends.1)));
    Panel {
        title: String::new(),
        x: Axis {
            label: label.to_string(),
            range,
            ticks: 11,
            base: None,
            write: Box::new(chart::plain),
        },
        y: Axis {
            label: "allocation and release (ns)".to_string(),
            range: y,
            ticks: 8,
            base: None,
            write: Box::new(chart::plain),
        },
        series,
        shade: None,
    }
}
