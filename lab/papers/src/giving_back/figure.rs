//! What a guest gives back, what that takes, and what it accesses again, by the order and by the delay.
//!
//! Each choice is a trade: a smaller order gives back more and takes more reports; a shorter delay gives back more, and
//! more is faulted again.
//!
//! # Invariants
//! Each system has the same place at each order and each delay.

use crate::shared::prelude::*;

/// The order and the delay of the panels over the other one: the defaults of Linux.
const ORDER: &str = "9";
const DELAY: &str = "2000ms";

/// What a panel shows: the metric, its name in the title and on the axis, and the factor of its unit.
type Shown = (&'static str, &'static str, &'static str, f64);

/// Draws the figure.
pub(crate) fn draw(experiment: &Experiment, rows: &[Row]) -> Drawing {
    let panel = |guest, is_of_orders, (metric, what, label, unit): Shown| {
        let fixed = if is_of_orders { " at 2 s" } else { ", 2 MiB" };
        let title = format!("{guest}{fixed}: {what}");
        let range = Range {
            guest,
            title,
            is_of_orders,
        };
        range.panel(experiment, rows, (metric, label, unit))
    };
    let given = ("given_share", "given back", "% of the best", 100.0);
    let reports = ("report_calls", "reports", "thousands", 0.001);
    let faults = ("faulted_again", "faulted again", "GiB", 1.0);
    let over_order = ["burst", "dbench_tar"].into_iter();
    let over_order = over_order.flat_map(|guest| [(guest, true, given), (guest, true, reports)]);
    let over_delay = ["burst", "churn", "dbench_tar"].into_iter();
    let over_delay = over_delay.flat_map(|guest| [(guest, false, given), (guest, false, faults)]);
    let panels = over_order.chain(over_delay);
    let panels = panels.map(|(guest, is_of_orders, shown)| panel(guest, is_of_orders, shown));
    chart::drawing(experiment, panels, ". Bars: 95 % over the seeds.")
}

/// What a panel has on its horizontal axis: the orders of a guest at one delay, or its delays with one order.
struct Range<'a> {
    guest: &'a str,
    title: String,
    is_of_orders: bool,
}

impl Range<'_> {
    fn panel(
        self,
        experiment: &Experiment,
        rows: &[Row],
        (metric, label, unit): (&str, &str, f64),
    ) -> Panel {
        let own = Chosen::new(rows, |row| {
            row.experiment == experiment.name && row.metric == metric
        });
        let sources = own.sources();
        let names = distinct(sources.iter().filter_map(|source| self.name(source)));
        let series = side_by_side(&experiment.systems, &names, 0.12, |system, name| {
            let source = if self.is_of_orders {
                format!("{}:{name}/{DELAY}", self.guest)
            } else {
                format!("{}:{ORDER}/{name}", self.guest)
            };
            own.mean(system, &source, |value| value * unit)
        });
        let what = if self.is_of_orders {
            "smallest order that is reported"
        } else {
            "delay"
        };
        let range = chart::from_zero(chart::tops(&series));
        let x = Axis::of_names(what, names);
        Panel::new(self.title, x, Axis::plain(label, range, 6), series)
    }

    /// Returns the place of a source on the axis, if it is one of this panel.
    fn name(&self, source: &str) -> Option<String> {
        let (order, delay) = source
            .strip_prefix(self.guest)?
            .strip_prefix(':')?
            .split_once('/')?;
        let (name, other, fixed) = if self.is_of_orders {
            (order, delay, DELAY)
        } else {
            (delay, order, ORDER)
        };
        (other == fixed).then(|| name.to_string())
    }
}
