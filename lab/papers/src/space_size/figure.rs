//! Times and free blocks over the size of a buddy space.
//!
//! Both sides of the choice are visible together.
//!
//! # Invariants
//! The horizontal axis is the same in all panels, a step per doubling.

use crate::shared::prelude::*;

/// The contents of the panels: title, source, metric, statistic, label.
const VIEWS: [[&str; 5]; 4] = [
    [
        "random replacement, half full",
        "steady:50",
        "latency",
        "p50",
        "allocation and release (ns)",
    ],
    [
        "10 million random operations",
        "churn:order0",
        "latency",
        "p50",
        "an operation (ns)",
    ],
    [
        "traces one after the other",
        "sequence",
        "free_blocks",
        "mean",
        "free blocks of 4 MiB, mean",
    ],
    [
        "all traces together",
        "at-once",
        "free_blocks",
        "mean",
        "free blocks of 4 MiB, mean",
    ],
];

/// Draws the figure.
pub(crate) fn draw(experiment: &Experiment, rows: &[Row]) -> Drawing {
    let panels = VIEWS.map(|[title, source, metric, statistic, label]| {
        let own = Chosen::new(rows, |row| {
            row.experiment == experiment.name && row.source == source && row.metric == metric
        });
        let middle = own.with(statistic);
        let names = distinct(middle.rows().map(|row| &row.system));
        let series = names.into_iter().enumerate().map(|(kind, name)| {
            let of_name = middle.rows().filter(|row| row.system == *name);
            let bars = of_name.filter_map(|row| {
                let (value, ends) =
                    own.bar((&row.name(), source), [statistic, "min", "max"], |own| own)?;
                // The minimum and maximum of free blocks are over time: they are not an interval of the mean.
                let ends = ends.filter(|_| metric == "latency");
                Some((size(row)?.log2(), (value, ends)))
            });
            Series::of_bars(name, kind, Shape::Interval, bars)
        });
        let series: Vec<Series> = series.collect();
        let range = chart::from_zero(chart::tops(&series));
        let x = Axis::log2("size of a space (MiB)", (1.8, 6.2), 5);
        Panel::new(title, x, Axis::plain(label, range, 6), series)
    });
    let note = ". Times: medians of rounds on one thread, bars from least to most.";
    chart::drawing(experiment, panels, note)
}

/// The size of a row's space, in MiB.
fn size(row: &Row) -> Option<f64> {
    let mut options = row.options.split('+');
    let size = options.find_map(|option| option.strip_prefix("space="))?;
    let size: everybuddy_measure::size::Size = size.parse().ok()?;
    Some(size.frames as f64 / 256.0)
}
