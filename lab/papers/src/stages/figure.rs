//! Fragmentation and the number of domains over time, while programs start, run, end, and leave.
//!
//! Results are compared with figure 13 of \[Spring\].
//!
//! # Invariants
//! Shows every sample; both panels have the same time axis.

use crate::shared::prelude::*;

/// Draws the figure.
pub(crate) fn draw(experiment: &Experiment, rows: &[Row]) -> Drawing {
    let rate = "share of free frames outside blocks of 4 MiB";
    let domains = "parts of free memory, of systems that change their number";
    let percent = "fragmentation rate (%)";
    let panels = [
        panel(rows, "fragmentation_rate", rate, 100.0, percent),
        panel(rows, "domains", domains, 1.0, "domains"),
    ];
    chart::drawing(experiment, panels, ". Simulated, 25 CPUs; the first seed.")
}

fn panel(rows: &[Row], metric: &str, title: &str, factor: f64, label: &str) -> Panel {
    let own = Chosen::new(rows, |row| row.metric == metric);
    // In percent of the time.
    let at = |row: &Row| Some(position(row)? * 100.0);
    let mut series = own.curves(Shape::Line, |row| Some((at(row)?, row.value * factor)));
    series.retain(|own| {
        let changes = own.points.windows(2).any(|pair| pair[0].1 != pair[1].1);
        metric != "domains" || changes
    });
    // The range in which the programs have ended and their memory is freed.
    let ending = || {
        own.rows()
            .filter(|row| row.source == "c-end")
            .filter_map(at)
    };
    let (from, to) = (
        ending().fold(f64::INFINITY, f64::min),
        ending().fold(0.0, f64::max),
    );
    let range = chart::from_zero(chart::heights(&series));
    let x = Axis::plain("time (% of the run)", (0.0, 100.0), 10);
    Panel {
        shade: (from < to).then(|| (from, to, "programs end".to_string())),
        ..Panel::new(title, x, Axis::plain(label, range, 8), series)
    }
}
