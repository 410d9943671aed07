//! The time of a caller for a pair relative to the standard buddy, over the order, with a panel per load.
//!
//! The figure shows where the lines cross: left of it a queue to another thread pays, right of it it does not.
//!
//! # Invariants
//! All panels have the same axes, and bs is the line at 1.

use crate::shared::prelude::*;
use std::collections::BTreeSet;

/// The statistics of rounds: the median, and the ends of its interval.
const ROUNDS: [&str; 3] = ["p50", "min", "max"];

/// Draws the figure.
pub(crate) fn draw(experiment: &Experiment, rows: &[Row]) -> Drawing {
    let own = Chosen::new(rows, |row| {
        row.experiment == experiment.name
            && row.metric == "latency_over_bs"
            && row.operation == "pair"
            && row.value > 0.0
    });
    let middle = own.with("p50");
    let orders: BTreeSet<u8> = middle.rows().filter_map(|row| row.order).collect();
    let ends = own
        .rows()
        .filter(|row| ROUNDS[1..].contains(&row.statistic));
    let ends = ends.map(|row| row.value.log2());
    let range = chart::around(ends.chain([-1.0, 1.0]));
    let panels = middle.sources().into_iter().map(|load| {
        let series = middle
            .systems()
            .into_iter()
            .enumerate()
            .map(|(kind, name)| {
                let bars = orders.iter().enumerate().filter_map(|(place, order)| {
                    let own = Chosen::new(own.rows(), |row| row.order == Some(*order));
                    let bar = own.bar((&name, &load), ROUNDS, f64::log2)?;
                    Some((place as f64, bar))
                });
                Series::of_bars(&name, kind, Shape::Interval, bars)
            });
        let series = series.collect();
        let names = orders.iter().map(u8::to_string).collect();
        let x = Axis {
            range: (-0.2, orders.len() as f64 - 0.8),
            ..Axis::of_names("order", names)
        };
        Panel::new(load, x, Axis::log2("pair / pair of bs", range, 7), series)
    });
    let note = ". Medians of rounds, with their least and most.";
    chart::drawing(experiment, panels, note)
}
