//! The share of a trace's requests in runs of at least a given length.
//!
//! A mean hides the distribution of runs: the benefit of a buffer depends on the runs that contain most requests, not
//! on the number of short runs.
//!
//! # Invariants
//! Every curve starts with all requests at length one, and decreases.

use crate::shared::prelude::*;

/// Draws the figure.
pub(crate) fn draw(experiment: &Experiment, rows: &[Row]) -> Drawing {
    let own = Chosen::new(rows, |row| row.system == "region").with("rate");
    let bound = |row: &Row| Some(position(row)?.log2());
    let longest = own.rows().filter_map(bound).fold(1.0, f64::max);
    let panel = |operation: &str, title: &str| {
        let series = own.sources().into_iter().enumerate().map(|(kind, name)| {
            let of = own
                .rows()
                .filter(|row| row.source == name && row.operation == operation);
            let points = of.filter_map(|row| Some((bound(row)?, row.value * 100.0)));
            let mut points: Vec<(f64, f64)> = points.collect();
            // No request is in a longer run than the longest.
            points.extend(points.last().map(|last| (last.0 + 1.0, 0.0)));
            Series::new(name.clone(), kind, Shape::Interval, points)
        });
        let x = Axis::counts("requests of a run, at least", (0.0, longest + 1.2), 20);
        let y = Axis::plain("share of the requests (%)", (0.0, 104.0), 6);
        Panel::new(
            format!("{title}, by address region"),
            x,
            y,
            series.collect(),
        )
    };
    let panels = DIRECTIONS.iter().zip(["allocations", "frees"]);
    let panels = panels.map(|(operation, title)| panel(operation, title));
    chart::drawing(experiment, panels, "; there as means. Counted from traces.")
}
