//! The time of a call by system, with a panel per trace and number of threads.
//!
//! From one system to the next, one component or one property of the lock changes.
//!
//! # Invariants
//! All panels have the same systems in the same positions. Bars are from the fastest round to the slowest.

use crate::shared::prelude::*;

/// Draws the figure.
pub(crate) fn draw(experiment: &Experiment, rows: &[Row]) -> Drawing {
    let own = Chosen::new(rows, |row| {
        row.experiment == experiment.name && row.metric == "latency" && row.operation == "all"
    });
    let names = own.systems();
    let panel = |source: String| {
        let series = names.iter().enumerate().filter_map(|(kind, name)| {
            let bar = own.bar((name, &source), ROUNDS, |nanos| nanos)?;
            let bars = [(kind as f64 + 1.0, bar)];
            Some(Series::of_bars(name, kind, Shape::Points, bars))
        });
        let series: Vec<Series> = series.collect();
        let title = match source.split_once(':') {
            Some((trace, threads)) => format!("{trace}, {threads} threads"),
            None => format!("{source}, 1 thread"),
        };
        let x = Axis::from_one("system, in the order of the legend", names.len());
        let range = chart::from_zero(chart::tops(&series));
        Panel::new(
            title,
            x,
            Axis::plain("time of a call (ns)", range, 8),
            series,
        )
    };
    let panels = own.sources().into_iter().map(panel);
    let note = ". Medians of the rounds, bars from least to most.";
    chart::drawing(experiment, panels, note)
}
