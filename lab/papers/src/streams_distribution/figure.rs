//! The distribution of the operations of single calls, and of the coalescings of single frees.
//!
//! A mean hides the effect of delayed coalescing: most calls become cheaper, and some become more expensive.
//!
//! # Invariants
//! The vertical axis is the share of calls that take at least the given number, on a logarithmic scale, because the
//! rare calls matter.

use crate::shared::prelude::*;

/// The traffic of the source's figure.
const SOURCE: &str = "M/M/m";

/// Draws the figure.
pub(crate) fn draw(experiment: &Experiment, rows: &[Row]) -> Drawing {
    let density = |operation: &str, title: &str| density(experiment, rows, operation, title);
    let shares = |source: &str, operation: &str, metric: &str, title: &str| {
        let own = Chosen::new(rows, |row| {
            row.source == source && row.operation == operation && row.metric == metric
        });
        let mut series = own
            .with("rate")
            .curves(Shape::Interval, |row| Some((position(row)?, row.value)));
        // Shares become those of at least as many.
        for own in &mut series {
            let shares: Vec<f64> = own.points.iter().map(|share| share.1).collect();
            for (at, point) in own.points.iter_mut().enumerate() {
                point.1 = shares[at..].iter().sum::<f64>().log10() + 2.0;
            }
        }
        let most = chart::from_zero(chart::widths(&series)).1;
        let label = match metric {
            "operations" => "operations on lists and map, at least",
            _ => "coalescings, at least",
        };
        panel(title, (label, most), "share of the calls (%)", series)
    };
    let (list, delays) = ("operations", "coalescings");
    let batches = "coalescings of a release, batches";
    let panels = [
        density("allocate", "density of times of allocations, M/M/m"),
        density("free", "density of times of releases, M/M/m"),
        shares(SOURCE, "allocate", list, "allocations, M/M/m"),
        shares(SOURCE, "free", list, "releases, M/M/m"),
        shares(SOURCE, "free", delays, "coalescings of a release, M/M/m"),
        shares("geometric-4", "free", delays, batches),
    ];
    chart::drawing(experiment, panels, "; there in microseconds.")
}

/// Draws the shares of calls by time, as the source does.
fn density(experiment: &Experiment, rows: &[Row], operation: &str, title: &str) -> Panel {
    let own = Chosen::new(rows, |row| {
        row.source == SOURCE
            && row.operation == operation
            && row.metric == "latency"
            && row.experiment != experiment.name
    });
    let own = own.with("count");
    let series = own.curves(Shape::Line, |row| {
        let of_system = own.rows().filter(|other| other.name() == row.name());
        let all: f64 = of_system.map(|row| row.value).sum();
        Some((position(row)?, (row.value / all).log10() + 2.0))
    });
    let most = chart::from_zero(chart::widths(&series)).1.min(400.0);
    panel(
        title,
        ("nanoseconds", most),
        "share of the calls per bin (%)",
        series,
    )
}

fn panel(title: &str, (label, most): (&str, f64), shares: &str, series: Vec<Series>) -> Panel {
    let (least, _) = chart::around(chart::heights(&series));
    let x = Axis::plain(label, (0.0, most), 10);
    let y = Axis::log10(shares, (least.min(1.0), 2.1), 8);
    Panel::new(title, x, y, series)
}
