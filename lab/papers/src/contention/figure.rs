//! The contention rate of threads, by their work.
//!
//! Results are compared with figure 12 of \[Spring\], and with what a zone layer does by itself.
//!
//! # Invariants
//! Both panels have the same work in the same positions. The vertical axis is logarithmic, so zeros are omitted.

use crate::shared::prelude::*;

/// The distance between the points of consecutive systems.
const APART: f64 = 0.12;

/// Draws the figure.
pub(crate) fn draw(experiment: &Experiment, rows: &[Row]) -> Drawing {
    let core = "of those that visited the core layer";
    let panels = [
        panel(rows, "contention_rate", "of all requests and frees"),
        panel(rows, "contention_rate_core", core),
    ];
    let note = ". Medians of 5 rounds, bars from least to most; no point: none waited.";
    chart::drawing(experiment, panels, note)
}

fn panel(rows: &[Row], metric: &str, title: &str) -> Panel {
    let (works, names) = (sources(rows.iter()), systems(rows.iter()));
    let own = Chosen::new(rows, |row| {
        row.metric == metric && row.operation == "all" && row.value > 0.0
    });
    let mut series = side_by_side(&names, &works, APART, |name, work| {
        own.bar((name, work), ROUNDS, |rate| (rate * 100.0).log10())
    });
    // The works are numbered from 1 on.
    let points = series.iter_mut().flat_map(|own| &mut own.points);
    points.for_each(|point| point.0 += 1.0);
    let numbered = works.iter().zip(1..);
    let legend: Vec<String> = numbered.map(|(name, at)| format!("{at} {name}")).collect();
    let range = chart::around(chart::spans(&series));
    let x = Axis::from_one(legend.join(" · "), works.len());
    Panel::new(title, x, Axis::log10("had to wait (%)", range, 8), series)
}
