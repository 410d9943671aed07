//! What a guest gives back, and what it accesses again, by the delay and the order.
//!
//! # Purpose
//!
//! The two are a trade: a point is good only if the upper panel is high and the lower one is low.
//!
//! # Invariants
//!
//! Each order has the same place at each delay. One system is drawn, the first of `drawn`.

use crate::shared::prelude::*;

/// Draws the figure.
pub(crate) fn draw(experiment: &Experiment, rows: &[Row]) -> Drawing {
    let system = experiment.drawn.first().cloned().unwrap_or_default();
    let own = |metric: &'static str| {
        let name = &experiment.name;
        Chosen::new(rows, move |row| {
            row.experiment == *name && row.metric == metric
        })
    };
    let of_source = own("given_share").sources();
    let parts = || of_source.iter().filter_map(|source| parts(source));
    let orders = distinct(parts().map(|(_, order, _)| format!("order {order}")));
    let delays = distinct(parts().map(|(_, _, delay)| delay.to_string()));
    let panel = |guest: &str, metric: &'static str, title: String, label: &str, unit: f64| {
        let own = own(metric);
        let series = side_by_side(&orders, &delays, 0.1, |order, delay| {
            let order = order.trim_start_matches("order ");
            own.mean(&system, &format!("{guest}:{order}/{delay}"), |value| {
                value * unit
            })
        });
        let x = Axis::of_names("delay", delays.clone());
        let range = chart::from_zero(chart::tops(&series));
        Panel::new(title, x, Axis::plain(label, range, 6), series)
    };
    let panels = ["churn", "burst"].into_iter().flat_map(|guest| {
        [
            panel(
                guest,
                "given_share",
                format!("{guest}: given back"),
                "% of the best",
                100.0,
            ),
            panel(
                guest,
                "faulted_again",
                format!("{guest}: faulted again"),
                "GiB",
                1.0,
            ),
        ]
    });
    let note = format!(". System: {system}. Bars: 95 % over the seeds.");
    chart::drawing(experiment, panels, &note)
}

/// Returns the guest, the order and the delay of a source; `None` if it reports nothing.
fn parts(source: &str) -> Option<(&str, &str, &str)> {
    let (guest, setting) = source.split_once(':')?;
    let (order, delay) = setting.split_once('/')?;
    Some((guest, order, delay))
}
