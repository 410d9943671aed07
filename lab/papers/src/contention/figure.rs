//! The contention rate of threads, by their work.
//!
//! # Purpose
//!
//! Results are compared with figure 12 of \[Spring\], and with what a zone layer does by itself.
//!
//! # Invariants
//!
//! Both panels have the same work in the same positions. The vertical axis is logarithmic, so zeros are omitted.

use crate::shared::chart::{self, Axis, Panel, Series, Shape};
use crate::shared::experiment::Experiment;
use crate::shared::figure::{Drawing, sources, systems};
use everybuddy_measure::rows::Row;

/// The distance between the points of consecutive systems.
const APART: f64 = 0.12;

/// Draws the figure.
pub(crate) fn draw(experiment: &Experiment, rows: &[Row]) -> Drawing {
    let works = sources(rows.iter());
    let panels = [
        ("contention_rate", "of all requests and frees"),
        (
            "contention_rate_core",
            "of those that visited the core layer",
        ),
    ];
    let panels = panels.map(|(metric, title)| panel(rows, &works, metric, title));
    let note = format!(
        "{}. Medians of 5 rounds, bars from least to most; no point: none waited.",
        experiment.source
    );
    chart::drawing(experiment, panels.into(), note)
}

fn panel(rows: &[Row], works: &[String], metric: &str, title: &str) -> Panel {
    let names = systems(rows.iter());
    let middle = (names.len() as f64 - 1.0) / 2.0;
    let series = names.iter().enumerate().map(|(kind, name)| {
        let mut series = Series {
            name: name.clone(),
            points: Vec::new(),
            intervals: Vec::new(),
            labels: Vec::new(),
            shape: Shape::Points,
            kind,
        };
        for (at, work) in works.iter().enumerate() {
            let number = |statistic: &str| {
                let own = rows.iter().filter(|row| {
                    row.source == *work && row.metric == metric && row.operation == "all"
                });
                let mut own = own.filter(|row| row.name() == *name);
                let found = own.find(|row| row.statistic == statistic)?;
                (found.value > 0.0).then(|| (found.value * 100.0).log10())
            };
            let Some(value) = number("p50") else { continue };
            let place = at as f64 + 1.0 + (kind as f64 - middle) * APART;
            series.points.push((place, value));
            let least = number("min").unwrap_or(value);
            series
                .intervals
                .push((least, number("max").unwrap_or(value)));
        }
        series
    });
    let series: Vec<Series> = series.collect();
    let ends = series.iter().flat_map(|own| &own.intervals);
    let ends = ends.flat_map(|(least, most)| [*least, *most]);
    let numbered = works.iter().zip(1..);
    let legend: Vec<String> = numbered.map(|(name, at)| format!("{at} {name}")).collect();
    Panel {
        title: title.to_string(),
        y: Axis {
            label: "had to wait (%)".to_string(),
            range: chart::around(ends),
            ticks: 8,
            base: Some(10.0),
            write: Box::new(chart::power),
        },
        x: Axis {
            label: legend.join(" · "),
            range: (0.4, works.len() as f64 + 0.6),
            ticks: works.len(),
            base: None,
            write: Box::new(chart::plain),
        },
        series,
        shade: None,
    }
}
