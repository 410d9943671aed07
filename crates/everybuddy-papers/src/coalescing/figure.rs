//! Splits and coalescings on traces, and free blocks of 2 MiB, by policy.
//!
//! # Purpose
//!
//! Splits and coalescings show the savings of delayed coalescing; free blocks show its cost.
//!
//! # Invariants
//!
//! Every trace has its position on the horizontal axis.

use crate::shared::chart::{self, Axis, Panel, Series, Shape};
use crate::shared::experiment::Experiment;
use crate::shared::figure::{Drawing, sources, systems};
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
        let middle = (names.len() as f64 - 1.0) / 2.0;
        let series: Vec<Series> = names
            .iter()
            .enumerate()
            .map(|(kind, name)| {
                let place = |row: &Row| places.iter().position(|source| *source == row.source);
                let of = own(metric, order).filter(|row| row.name() == *name);
                let shift = (kind as f64 - middle) * 0.1;
                let points = of.filter_map(|row| Some((place(row)? as f64 + shift, row.value)));
                Series {
                    name: name.clone(),
                    points: points.collect(),
                    intervals: Vec::new(),
                    labels: Vec::new(),
                    shape: Shape::Points,
                    kind,
                }
            })
            .collect();
        let values = series.iter().flat_map(|own| &own.points);
        Panel {
            title: format!("{title}: {}", places.join(", ")),
            x: Axis {
                label: "trace, in this order".to_string(),
                range: (-0.5, places.len() as f64 - 0.5),
                ticks: places.len() + 1,
                base: None,
                write: Box::new(|position| {
                    match position.fract().abs() < 1e-9 && position >= 0.0 {
                        true => format!("{:.0}", position + 1.0),
                        false => String::new(),
                    }
                }),
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
