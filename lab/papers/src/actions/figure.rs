//! The time of callers, the time of callers and services together, and free 4 MiB blocks, by system, on traces.
//!
//! The figure compares the work that callers save with its cost elsewhere.
//!
//! # Invariants
//! Every trace has its position on the horizontal axis, with the systems side by side.

use crate::shared::prelude::*;

/// The contents of a panel.
struct Shown {
    metric: &'static str,
    operation: &'static str,
    /// The statistics of a point and of the ends of its bar.
    statistics: [&'static str; 3],
    order: Option<u8>,
    title: &'static str,
    label: &'static str,
}

impl Shown {
    const fn rounds(operation: &'static str, title: &'static str) -> Shown {
        Shown {
            metric: "latency_over_bs",
            operation,
            statistics: ROUNDS,
            order: None,
            title,
            label: "ratio",
        }
    }
}

const SHOWN: [Shown; 4] = [
    Shown::rounds("allocate", "what a request waits for, over bs"),
    Shown::rounds("free", "what a release waits for, over bs"),
    Shown {
        metric: "total_work",
        operation: "all",
        statistics: ["mean"; 3],
        order: None,
        title: "work of caller and services for a call",
        label: "ns",
    },
    Shown {
        metric: "free_blocks",
        operation: "all",
        statistics: ["mean", "min", "mean"],
        order: Some(10),
        title: "free blocks of 4 MiB, and the least",
        label: "blocks",
    },
];

/// Draws the figure.
pub(crate) fn draw(experiment: &Experiment, rows: &[Row]) -> Drawing {
    let panels = SHOWN.iter().map(|shown| panel(experiment, rows, shown));
    let note = ". Bars: least and most of the rounds; of free blocks, the least over time.";
    chart::drawing(experiment, panels, note)
}

fn panel(experiment: &Experiment, rows: &[Row], shown: &Shown) -> Panel {
    let own = Chosen::new(rows, |row| {
        row.experiment == experiment.name
            && row.metric == shown.metric
            && row.operation == shown.operation
            && row.order == shown.order
    });
    let middle = own.with(shown.statistics[0]);
    let (places, is_power) = (middle.sources(), shown.order.is_none());
    let scale = |value: f64| {
        if is_power {
            value.max(1e-3).log10()
        } else {
            value
        }
    };
    let series = side_by_side(&middle.systems(), &places, 0.1, |name, source| {
        own.bar((name, source), shown.statistics, scale)
    });
    let y = if is_power {
        // Whole powers, so that each has a tick mark.
        let (least, most) = chart::around(chart::spans(&series));
        Axis::log10(shown.label, (least.floor(), most.ceil()), 6)
    } else {
        Axis::plain(shown.label, chart::from_zero(chart::tops(&series)), 6)
    };
    let title = format!("{}: {}", shown.title, places.join(", "));
    let x = Axis::of_numbers("trace, in this order", places.len());
    Panel::new(title, x, y, series)
}
