//! The time of callers, the time of callers and services together, and free 4 MiB blocks, by system, on traces.
//!
//! # Purpose
//!
//! The figure compares the work that callers save with its cost elsewhere.
//!
//! # Invariants
//!
//! Every trace has its position on the horizontal axis, with the systems side by side.

use crate::shared::chart::{self, Axis, Panel};
use crate::shared::experiment::Experiment;
use crate::shared::figure::{Drawing, side_by_side, sources, systems};
use everybuddy_measure::rows::Row;

/// The contents of a panel.
struct Shown {
    metric: &'static str,
    operation: &'static str,
    /// The statistics of a point and of the ends of its bar.
    statistics: [&'static str; 3],
    order: Option<u8>,
    title: &'static str,
    label: &'static str,
    /// Whether the vertical axis is labelled with powers of ten.
    is_power: bool,
}

/// Draws the figure.
pub(crate) fn draw(experiment: &Experiment, rows: &[Row]) -> Drawing {
    let rounds = |operation, title| Shown {
        metric: "latency_over_bs",
        operation,
        statistics: ["p50", "min", "max"],
        order: None,
        title,
        label: "ratio",
        is_power: true,
    };
    let panels = [
        rounds("allocate", "what a request waits for, over bs"),
        rounds("free", "what a release waits for, over bs"),
        Shown {
            metric: "total_work",
            operation: "all",
            statistics: ["mean", "mean", "mean"],
            order: None,
            title: "work of caller and services for a call",
            label: "ns",
            is_power: true,
        },
        Shown {
            metric: "free_blocks",
            operation: "all",
            statistics: ["mean", "min", "mean"],
            order: Some(10),
            title: "free blocks of 4 MiB, and the least",
            label: "blocks",
            is_power: false,
        },
    ];
    let panels = panels.iter().map(|shown| panel(experiment, rows, shown));
    let note = format!(
        "{}. Bars: least and most of the rounds; of free blocks, the least over time.",
        experiment.source
    );
    chart::drawing(experiment, panels.collect(), note)
}

fn panel(experiment: &Experiment, rows: &[Row], shown: &Shown) -> Panel {
    let own = |statistic: &'static str| {
        rows.iter().filter(move |row| {
            row.experiment == experiment.name
                && row.metric == shown.metric
                && row.operation == shown.operation
                && row.order == shown.order
                && row.statistic == statistic
        })
    };
    let scale = |value: f64| {
        if shown.is_power {
            value.max(1e-3).log10()
        } else {
            value
        }
    };
    let [middle, least, most] = shown.statistics;
    let (places, names) = (sources(own(middle)), systems(own(middle)));
    let series = side_by_side(&names, &places, 0.1, |name, source| {
        let find = |statistic| {
            let row = own(statistic).find(|row| row.source == source && row.name() == name)?;
            Some(scale(row.value))
        };
        let value = find(middle)?;
        let ends = [least, most].map(|end| find(end).unwrap_or(value));
        Some((value, Some(ends.into())))
    });
    let ends = series.iter().flat_map(|own| &own.intervals);
    let range = if shown.is_power {
        // Whole powers, so that each has a tick mark.

        let (least, most) = chart::around(ends.flat_map(|end| [end.0, end.1]));
        (least.floor(), most.ceil())
    } else {
        chart::from_zero(ends.map(|end| end.1))
    };
    Panel {
        title: format!("{}: {}", shown.title, places.join(", ")),
        x: Axis::of_numbers("trace, in this order", places.len()),
        y: Axis {
            label: shown.label.to_string(),
            range,
            ticks: 6,
            base: shown.is_power.then_some(10.0),
            write: Box::new(if shown.is_power {
                chart::power
            } else {
                chart::plain
            }),
        },
        series,
        shade: None,
    }
}
