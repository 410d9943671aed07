//! The wait and hold times of locks, as points with intervals over the rounds.
//!
//! Shows at a glance whether a difference is significant.
//!
//! # Invariants
//! Both panels have the same systems in the same positions.

use crate::shared::prelude::*;

/// Draws the figure.
pub(crate) fn draw(experiment: &Experiment, rows: &[Row]) -> Drawing {
    let names = systems(rows.iter());
    let panel = |metric: &str, title: &str| {
        let series = names.iter().enumerate().filter_map(|(kind, name)| {
            let own = Chosen::new(rows, |row| row.metric == metric && row.name() == *name);
            let own = own.with("mean");
            let is_middle = |row: &&Row| row.experiment == experiment.name;
            let rounds = || {
                own.rows()
                    .filter(|row| !is_middle(row))
                    .map(|row| row.value)
            };
            let least = rounds().fold(f64::INFINITY, f64::min);
            let most = rounds().fold(0.0, f64::max);
            let bar = (own.rows().find(is_middle)?.value, Some((least, most)));
            let bars = [(kind as f64 + 1.0, bar)];
            Some(Series::of_bars(name, kind, Shape::Interval, bars))
        });
        let series: Vec<Series> = series.collect();
        let range = chart::from_zero(chart::tops(&series));
        let y = Axis::plain("mean of an acquisition (ns)", range, 8);
        Panel::new(
            title,
            Axis::from_one("system, in the order of the legend", names.len()),
            y,
            series,
        )
    };
    let panels = [
        panel("lock_wait", "waiting for a lock"),
        panel("lock_hold", "holding it"),
    ];
    let note = ". Medians of 5 rounds, bars from least to most.";
    chart::drawing(experiment, panels, note)
}
