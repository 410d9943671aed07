//! Times and free blocks over the size of a buddy space.
//!
//! # Purpose
//!
//! Both sides of the choice are visible together.
//!
//! # Invariants
//!
//! The horizontal axis is the same in all panels, a step per doubling.

use crate::shared::chart::{self, Axis, Panel, Series, Shape};
use crate::shared::experiment::Experiment;
use crate::shared::figure::Drawing;
use everybuddy_measure::rows::Row;

/// The contents of a panel.
struct View {
    title: &'static str,
    source: &'static str,
    metric: &'static str,
    statistic: &'static str,
    label: &'static str,
}

const VIEWS: [View; 4] = [
    View {
        title: "random replacement, half full",
        source: "steady:50",
        metric: "latency",
        statistic: "p50",
        label: "allocation and release (ns)",
    },
    View {
        title: "10 million random operations",
        source: "churn:order0",
        metric: "latency",
        statistic: "p50",
        label: "an operation (ns)",
    },
    View {
        title: "traces one after the other",
        source: "sequence",
        metric: "free_blocks",
        statistic: "mean",
        label: "free blocks of 4 MiB, mean",
    },
    View {
        title: "all traces together",
        source: "at-once",
        metric: "free_blocks",
        statistic: "mean",
        label: "free blocks of 4 MiB, mean",
    },
];

/// Draws the figure.
pub(crate) fn draw(experiment: &Experiment, rows: &[Row]) -> Drawing {
    let panel = |view: &View| {
        let own: Vec<&Row> = rows
            .iter()
            .filter(|row| row.experiment == experiment.name && row.source == view.source)
            .filter(|row| row.metric == view.metric && row.statistic == view.statistic)
            .collect();
        let mut names: Vec<&str> = Vec::new();
        for row in &own {
            if !names.contains(&row.system.as_str()) {
                names.push(&row.system);
            }
        }
        let series = names.iter().enumerate().map(|(kind, name)| {
            let own: Vec<&&Row> = own.iter().filter(|row| row.system == *name).collect();
            let end = |row: &Row, statistic| {
                let mut all = rows.iter().filter(|other| other.name() == row.name());
                let is_end = |other: &&Row| {
                    other.experiment == row.experiment
                        && other.source == row.source
                        && other.metric == row.metric
                        && other.statistic == statistic
                };
                all.find(is_end).map_or(row.value, |other| other.value)
            };
            // The minimum and maximum of free blocks are over time: they are not an interval of the mean.
            let intervals = own.iter().filter(|row| row.metric == "latency");
            let intervals = intervals.map(|row| (end(row, "min"), end(row, "max")));
            Series {
                name: name.to_string(),
                points: own
                    .iter()
                    .filter_map(|row| Some((size(row)?.log2(), row.value)))
                    .collect(),
                intervals: intervals.collect(),
                labels: Vec::new(),
                shape: Shape::Interval,
                kind,
            }
        });
        let series: Vec<Series> = series.collect();
        let values = series
            .iter()
            .flat_map(|own| &own.points)
            .map(|point| point.1);
        let ends = series
            .iter()
            .flat_map(|own| &own.intervals)
            .map(|ends| ends.1);
        let range = chart::from_zero(values.chain(ends));
        Panel {
            title: view.title.to_string(),
            x: Axis {
                label: "size of a space (MiB)".to_string(),
                range: (1.8, 6.2),
                ticks: 5,
                base: Some(2.0),
                write: Box::new(|position| {
                    if position.fract().abs() < 1e-9 {
                        format!("{:.0}", position.exp2())
                    } else {
                        String::new()
                    }
                }),
            },
            y: Axis {
                label: view.label.to_string(),
                range,
                ticks: 6,
                base: None,
                write: Box::new(chart::plain),
            },
            series,
            shade: None,
        }
    };
    let panels: Vec<Panel> = VIEWS.iter().map(panel).collect();
    let note = format!(
        "{}. Times: medians of rounds on one thread, bars from least to most.",
        experiment.source
    );
    chart::drawing(experiment, panels, note)
}

/// The size of a row's space, in MiB.
fn size(row: &Row) -> Option<f64> {
    let mut options = row.options.split('+');
    let size = options.find_map(|option| option.strip_prefix("space="))?;
    let size: everybuddy_measure::size::Size = size.parse().ok()?;
    Some(size.frames as f64 / 256.0)
}
