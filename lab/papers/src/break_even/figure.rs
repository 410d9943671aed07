//! The time of a caller for a pair relative to the standard buddy, over the order, with a panel per load.
//!
//! # Purpose
//!
//! The figure shows where the lines cross: left of it a queue to another thread pays, right of it it does not.
//!
//! # Invariants
//!
//! All panels have the same axes, and bs is the line at 1.

use crate::shared::chart::{self, Axis, Drawing, Panel, Series, Shape};
use crate::shared::experiment::Experiment;
use crate::shared::figure::{sources, systems};
use everybuddy_measure::rows::Row;
use std::collections::BTreeSet;

/// Formats a power of two.
fn ratio(position: f64) -> String {
    if position.fract().abs() < 1e-9 {
        format!("{}", 2f64.powf(position))
    } else {
        String::new()
    }
}

/// Draws the figure.
pub(crate) fn draw(experiment: &Experiment, rows: &[Row]) -> Drawing {
    let own = |statistic: &'static str| {
        rows.iter().filter(move |row| {
            row.experiment == experiment.name
                && row.metric == "latency_over_bs"
                && row.operation == "pair"
                && row.statistic == statistic
                && row.value > 0.0
        })
    };
    let names = systems(own("p50"));
    let orders: BTreeSet<u8> = own("p50").filter_map(|row| row.order).collect();
    let ends = own("min").chain(own("max")).map(|row| row.value.log2());
    let (least, most) = chart::around(ends.chain([-1.0, 1.0]));
    let panels = sources(own("p50")).into_iter().map(|load| {
        let series = names.iter().enumerate().map(|(kind, name)| {
            let (mut points, mut intervals) = (Vec::new(), Vec::new());
            for (place, order) in orders.iter().enumerate() {
                let find = |statistic| {
                    let row = own(statistic).find(|row| {
                        row.source == load && row.order == Some(*order) && row.name() == *name
                    })?;
                    Some(row.value.log2())
                };
                let Some(value) = find("p50") else { continue };
                points.push((place as f64, value));
                intervals.push((find("min").unwrap_or(value), find("max").unwrap_or(value)));
            }
            Series {
                name: name.clone(),
                points,
                intervals,
                labels: Vec::new(),
                shape: Shape::Interval,
                kind,
            }
        });
        Panel {
            title: load.clone(),
            x: Axis {
                label: "order".to_string(),
                range: (-0.2, orders.len() as f64 - 0.8),
                ticks: orders.len() + 1,
                base: None,
                write: chart::names(orders.iter().map(u8::to_string).collect()),
            },
            y: Axis {
                label: "pair / pair of bs".to_string(),
                range: (least, most),
                ticks: 7,
                base: Some(2.0),
                write: Box::new(ratio),
            },
            series: series.collect(),
            shade: None,
        }
    });
    let panels = panels.collect();
    let note = format!(
        "{}. Medians of rounds, with their least and most.",
        experiment.source
    );
    chart::drawing(experiment, panels, note)
}
