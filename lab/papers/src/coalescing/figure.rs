//! Splits and coalescings on traces, and free blocks of 2 MiB, by policy.
//!
//! # Purpose
//!
//! Splits and coalescings show the savings of delayed coalescing; free blocks show its cost.
//!
//! # Invariants
//!
//! Every trace has its position on the horizontal axis.

use crate::shared::chart::{self, Axis, Panel};
use crate::shared::experiment::Experiment;
use crate::shared::figure::{Drawing, side_by_side, sources, systems};
use everybuddy_measure::rows::Row;

/// Draws the figure.
pub(crate) fn draw(experiment: &Experiment, rows: &[Row]) -> Drawing {
    let own = |metric: &'static str, order: Option<u8>| {
        rows.iter().filter(move |row| {
            row.metric == metric && row.order == order && row.statistic == "mean"
        })
    };
    let panel = |metric: &'static str, order: Option<u8>, title: &str, label: &str| {
        let places = sources(own(metric, order));
        let names = systems(own(metric, order));
        let series = side_by_side(&names, &places, 0.1, |name, source| {
            let row = own(metric, order).find(|row| row.name() == name && row.source == source)?;
            Some((row.value, None))
        });
        let values = series.iter().flat_map(|own| &own.points);
        Panel {
            title: format!("{title}: {}", places.join(", ")),
            x: Axis::of_numbers("trace, in this order", places.len()),
            y: Axis {
                label: label.to_string(),
                range: chart::from_zero(values.map(|point| point.1)),
                ticks: 7,
                base: None,
                write: Box::new(chart::plain),
            },
            series,
            shade: None,
        }
    };
    let panels = [
        panel(
            "splits_and_coalescings",
            None,
            "splits and coalescings",
            "of a call",
        ),
        panel("free_blocks", Some(9), "free blocks of 2 MiB", "blocks"),
    ];
    let note = format!("{}. Counted.", experiment.source);
    chart::drawing(experiment, panels.into(), note)
}
