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

use crate::shared::chart::{self, Axis, Panel, Series, Shape};
use crate::shared::experiment::Experiment;
use crate::shared::figure::{Drawing, sources, systems};
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
        let names = systems(own());
        let middle = (names.len() as f64 - 1.0) / 2.0;
        let series = names.iter().enumerate().map(|(kind, name)| {
            let of = own().filter(|row| row.name() == *name);
            let shift = (kind as f64 - middle) * 0.07;
            let points = of.filter_map(|row| {
                let at = places.iter().position(|place| *place == row.source)?;
                Some((at as f64 + shift, row.value * unit))
            });
            Series {
                name: name.clone(),
                points: points.collect(),
                intervals: Vec::new(),
                labels: Vec::new(),
                shape: Shape::Points,
                kind,
            }
        });
        let series: Vec<Series> = series.collect();
        let values = series.iter().flat_map(|own| &own.points);
        Panel {
            title: title.to_string(),
            x: Axis {
                label: "load: share of memory that is asked for".to_string(),
                range: (-0.5, places.len() as f64 - 0.5),
                ticks: places.len() + 1,
                base: None,
                write: chart::names(places.iter().map(|source| place(source)).collect()),
            },
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
