//! The cost of a single frame over the fill level of memory, and over the order of the free blocks.
//!
//! The figure shows whether an allocator that searches slows down when little is left to be found, and what a split
//! costs that nothing avoids.
//!
//! # Invariants
//! Each point is the median of the rounds, its bar their minimum and maximum.

use crate::shared::prelude::*;

/// Draws the figure.
pub(crate) fn draw(experiment: &Experiment, rows: &[Row]) -> Drawing {
    let own = Chosen::new(rows, |row| {
        row.experiment == experiment.name && row.metric == "latency" && row.operation == "pair"
    });
    let panels = [
        ("fill:", "memory held at random (%)", (0.0, 100.0)),
        ("split:", "order of all free blocks", (-0.5, 9.5)),
    ];
    let panels = panels.map(|(workload, label, range)| panel(&own, workload, label, range));
    let note = ". Medians of 5 rounds, bars from least to most.";
    chart::drawing(experiment, panels, note)
}

fn panel(rows: &Chosen<'_>, workload: &str, label: &str, range: (f64, f64)) -> Panel {
    let level = |source: &str| source.strip_prefix(workload)?.parse::<f64>().ok();
    let own = Chosen::new(rows.rows(), |row| level(&row.source).is_some());
    let series = own.systems().into_iter().enumerate().map(|(kind, name)| {
        let bars = own.sources().into_iter().filter_map(|source| {
            let (value, ends) = own.bar((&name, &source), ROUNDS, |nanos| nanos)?;
            // A run of one round has none.
            let ends = ends.filter(|_| own.row(&name, &source, "min").is_some());
            Some((level(&source)?, (value, ends)))
        });
        Series::of_bars(&name, kind, Shape::Interval, bars)
    });
    let series: Vec<Series> = series.collect();
    let y = chart::from_zero(chart::tops(&series));
    let x = Axis::plain(label, range, 11);
    Panel::new(
        "",
        x,
        Axis::plain("allocation and release (ns)", y, 8),
        series,
    )
}
