//! What a guest gives back, what that takes, and what it accesses again, by the order and by the delay.
//!
//! # Purpose
//!
//! Each choice is a trade: a smaller order gives back more and takes more reports; a shorter delay gives back more, and
//! more is faulted again.
//!
//! # Invariants
//!
//! Each system has the same place at each order and each delay.

use crate::shared::prelude::*;

/// The order and the delay of the panels over the other one: the defaults of Linux.
const ORDER: &str = "9";
const DELAY: &str = "2000ms";

/// Draws the figure.
pub(crate) fn draw(experiment: &Experiment, rows: &[Row]) -> Drawing {
    let all = ["burst", "churn", "dbench_tar"];
    let over_order = [all[0], all[2]].into_iter().flat_map(|guest| {
        let panel = |metric, what, label, unit| {
            let title = format!("{guest} at 2 s: {what}");
            let range = Range {
                guest,
                title,
                is_of_orders: true,
            };
            range.panel(experiment, rows, (metric, label, unit))
        };
        [
            panel("given_share", "given back", "% of the best", 100.0),
            panel("report_calls", "reports", "thousands", 0.001),
        ]
    });
    let over_delay = all.into_iter().flat_map(|guest| {
        let panel = |metric, what, label, unit| {
            let title = format!("{guest}, 2 MiB: {what}");
            let range = Range {
                guest,
                title,
                is_of_orders: false,
            };
            range.panel(experiment, rows, (metric, label, unit))
        };
        [
            panel("given_share", "given back", "% of the best", 100.0),
            panel("faulted_again", "faulted again", "GiB", 1.0),
        ]
    });
    let panels = over_order.chain(over_delay);
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
