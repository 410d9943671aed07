//! Splits and coalescings on traces, and free blocks of 2 MiB, by policy.
//!
//! Splits and coalescings show the savings of delayed coalescing; free blocks show its cost.
//!
//! # Invariants
//! Every trace has its position on the horizontal axis.

use crate::shared::prelude::*;

/// Draws the figure.
pub(crate) fn draw(experiment: &Experiment, rows: &[Row]) -> Drawing {
    let panel = |metric: &str, order: Option<u8>, title: &str, label: &str| {
        let own = Chosen::new(rows, |row| row.metric == metric && row.order == order);
        let own = own.with("mean");
        let places = own.sources();
        let series = side_by_side(&own.systems(), &places, 0.1, |name, source| {
            Some((own.row(name, source, "mean")?.value, None))
        });
        let title = format!("{title}: {}", places.join(", "));
        let x = Axis::of_numbers("trace, in this order", places.len());
        let range = chart::from_zero(chart::heights(&series));
        Panel::new(title, x, Axis::plain(label, range, 7), series)
    };
    let moved = "splits_and_coalescings";
    let panels = [
        panel(moved, None, "splits and coalescings", "of a call"),
        panel("free_blocks", Some(9), "free blocks of 2 MiB", "blocks"),
    ];
    chart::drawing(experiment, panels, ". Counted.")
}
