//! The cost of rounding up, and the cost of exact service: frames in use, failed requests, unusable memory.
//!
//! # Purpose
//!
//! Each of the two ways to serve a request of an odd size has a cost. A mean shows neither how it grows with the fill
//! level nor whether systems differ.
//!
//! # Invariants
//!
//! Rounded and exact service of one system are next to each other; every source has its place.

use crate::shared::chart::{self, Axis, Panel};
use crate::shared::experiment::Experiment;
use crate::shared::figure::{Drawing, side_by_side, sources, systems};
use everybuddy_measure::rows::Row;

/// The mix in the figure, as it begins the names of sources.
const MIX: &str = "uniform ";

/// Formats a load.
fn place(source: &str) -> String {
    let load = source.replace(MIX, "") + " %";
    load.replace(" parts %", " %, parts")
}

/// Returns the sources in the figure, in the order of the rows.
fn places(rows: &[Row]) -> Vec<String> {
    let loads = rows
        .iter()
        .filter(|row| row.metric == "internal_fragmentation");
    let mut places = sources(loads);
    places.retain(|source| source.starts_with(MIX));
    places
}

/// Draws the figure.
pub(crate) fn draw(experiment: &Experiment, rows: &[Row]) -> Drawing {
    let places = places(rows);
    let panel = |metric: &'static str, order: Option<u8>, title: &str, label: &str, unit: f64| {
        let own = || {
            rows.iter()
                .filter(move |row| row.metric == metric && row.order == order)
        };
        let series = side_by_side(&systems(own()), &places, 0.07, |name, source| {
            let row = own().find(|row| row.name() == name && row.source == source)?;
            Some((row.value * unit, None))
        });
        let values = series.iter().flat_map(|own| &own.points);
        Panel {
            title: title.to_string(),
            x: Axis::of_names(
                "load: share of memory that is asked for",
                places.iter().map(|source| place(source)).collect(),
            ),
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
    let panels = vec![
        panel(
            "internal_fragmentation",
            None,
            "internal fragmentation, uniform mix",
            "frames held over frames asked for",
            1.0,
        ),
        panel(
            "blocking_probability",
            None,
            "refused requests, uniform mix",
            "%",
            100.0,
        ),
        panel(
            "unusable_index",
            Some(9),
            "free memory that is unusable for 2 MiB, uniform mix",
            "%",
            100.0,
        ),
    ];
    let note = format!("{}. Counted.", experiment.source);
    chart::drawing(experiment, panels, note)
}
