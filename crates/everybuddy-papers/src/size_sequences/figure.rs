//! Fragmentation inside of blocks, between them, and in total, for each mix of requests.
//!
//! # Purpose
//!
//! The three panels show what a system gains inside of blocks next to what it loses between them.
//!
//! # Invariants
//!
//! Every system has the same place in each panel.

use crate::shared::chart::{self, Axis, Panel, Series, Shape};
use crate::shared::experiment::Experiment;
use crate::shared::figure::{Drawing, sources, systems};
use everybuddy_measure::rows::Row;

/// Draws the figure.
pub(crate) fn draw(experiment: &Experiment, rows: &[Row]) -> Drawing {
    let own = |metric: &'static str, statistic: &'static str| {
        rows.iter().filter(move |row| {
            row.experiment == experiment.name && row.metric == metric && row.statistic == statistic
        })
    };
    let places = sources(own("total_fragmentation", "mean"));
    let names = systems(own("total_fragmentation", "mean"));
    let middle = (names.len() as f64 - 1.0) / 2.0;
    // The unit: internal fragmentation is a ratio, the others are shares.
    let panel = |metric: &'static str, title: &str, label: &str, unit: f64| {
        let series = names.iter().enumerate().map(|(kind, name)| {
            let (mut points, mut intervals) = (Vec::new(), Vec::new());
            for row in own(metric, "mean").filter(|row| row.name() == *name) {
                let Some(at) = places.iter().position(|place| *place == row.source) else {
                    continue;
                };
                let half = own(metric, "ci95")
                    .find(|other| other.name() == *name && other.source == row.source)
                    .map_or(0.0, |other| other.value);
                points.push((at as f64 + (kind as f64 - middle) * 0.1, row.value * unit));
                intervals.push(((row.value - half) * unit, (row.value + half) * unit));
            }
            Series {
                name: name.clone(),
                points,
                intervals,
                labels: Vec::new(),
                shape: Shape::Points,
                kind,
            }
        });
        let series: Vec<Series> = series.collect();
        let ends = series.iter().flat_map(|own| &own.intervals);
        Panel {
            title: title.to_string(),
            x: Axis {
                label: "sizes of requests".to_string(),
                range: (-0.5, places.len() as f64 - 0.5),
                ticks: places.len() + 1,
                base: None,
                write: chart::names(
                    places
                        .iter()
                        .map(|source| source.replace(" uniform-lifetimes", ", u.l."))
                        .collect(),
                ),
            },
            y: Axis {
                label: label.to_string(),
                range: chart::around(ends.flat_map(|end| [end.0, end.1])),
                ticks: 7,
                base: None,
                write: Box::new(chart::plain),
            },
            series,
            shade: None,
        }
    };
    let panels = vec![
        panel(
            "internal_fragmentation",
            "inside of blocks",
            "units held over units asked for",
            1.0,
        ),
        panel(
            "external_fragmentation",
            "between blocks: free when a request is refused",
            "% of memory",
            100.0,
        ),
        panel(
            "total_fragmentation",
            "in total: without live data when a request is refused",
            "% of memory",
            100.0,
        ),
    ];
    let note = format!(
        "{}. Counted. Bars: 95 % over the seeds. u.l.: uniform lifetimes.",
        experiment.source
    );
    chart::drawing(experiment, panels, note)
}
