//! The memory consumption of managers over load, and relative to the standard buddy.
//!
//! The additional memory of delayed coalescing is visible only next to the memory of the blocks themselves.
//!
//! # Invariants
//! `held` is below every manager.

use crate::shared::prelude::*;

/// Draws the figure.
pub(crate) fn draw(experiment: &Experiment, rows: &[Row]) -> Drawing {
    let names = Chosen::new(rows, |row| row.metric == "peak_memory").systems();
    let most = rows
        .iter()
        .filter_map(|row| users(&row.source))
        .fold(0.0, f64::max);
    let panel = |metric: &str, title: &str, label: &str, scale: f64, lines: bool| {
        let own = Chosen::new(rows, |row| {
            row.experiment == experiment.name && row.metric == metric
        });
        let (shape, apart) = if lines {
            (Shape::Line, 0.0)
        } else {
            (Shape::Points, 0.02)
        };
        let series = names.iter().enumerate().map(|(kind, name)| {
            let of = Chosen::new(own.with("mean").rows(), |row| row.name() == *name);
            let bars = of.rows().filter_map(|row| {
                let bar = own.mean(name, &row.source, |value| value * scale)?;
                Some((users(&row.source)? + (kind as f64 - 2.5) * apart, bar))
            });
            Series::of_bars(name, kind, shape, bars)
        });
        // What is held has no ratio.
        let series: Vec<Series> = series.filter(|own| lines || own.name != "held").collect();
        let range = if lines {
            chart::from_zero(chart::tops(&series))
        } else {
            chart::around(chart::spans(&series))
        };
        let x = Axis::plain("users", (0.0, 0.25 + most), 7);
        Panel::new(title, x, Axis::plain(label, range, 7), series)
    };
    let (ratio, over) = ("peak_memory_ratio", "over the standard buddy's");
    let panels = [
        panel("peak_memory", "memory taken", "KiB", 1.0 / 1024.0, true),
        panel(ratio, over, "ratio", 1.0, false),
    ];
    chart::drawing(experiment, panels, ". Bars: 95 % over ten seeds.")
}

/// Returns the load, from the name of its source: `3-users`.
fn users(source: &str) -> Option<f64> {
    source.split_once("-user")?.0.parse().ok()
}
