//! The share of single frames by trace, and the share of them that a list serves.
//!
//! Results are compared with figures 2 and 3 of \[iBuddy\].
//!
//! # Invariants
//! Shares are per cent. A workload has no share of single frames that tells anything: it asks for nothing else.

use crate::shared::chart::{Axis, Panel, Shape, drawing};
use crate::shared::prelude::*;

/// Draws the figure.
pub(crate) fn draw(experiment: &Experiment, rows: &[Row]) -> Drawing {
    let single = Chosen::new(rows, |row| {
        row.metric == "single_frames" && !experiment.workloads.contains(&row.source)
    });
    let served = Chosen::new(rows, |row| row.metric == "service_ratio");
    let (of_requests, of_calls) = ("of the requests (%)", "of the calls for single frames (%)");
    let panels = [
        panel(&single, "requests for a single frame", of_requests, 2),
        panel(&served, "served by the CPU's list", of_calls, 0),
    ];
    drawing(experiment, panels, ". Counted.")
}

fn panel(rows: &Chosen<'_>, title: &str, label: &str, first: usize) -> Panel {
    let names = rows.sources();
    let mut series = rows.curves(Shape::Points, |row| {
        let place = names.iter().position(|known| *known == row.source)?;
        Some((place as f64, 100.0 * row.value))
    });
    series.iter_mut().for_each(|own| own.kind += first);
    let least = rows.rows().map(|row| 100.0 * row.value).fold(0.0, f64::min);
    let x = Axis::of_sources("trace or workload", names);
    Panel::new(
        title,
        x,
        Axis::plain(label, (least * 1.08, 105.0), 8),
        series,
    )
}
