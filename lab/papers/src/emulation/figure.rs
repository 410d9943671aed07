//! \[Serewa\]'s emulation program: the ratio of case 2 to case 1, and the steps per call, by store.
//!
//! The figure shows in which stores the source's gain remains, and why.
//!
//! # Invariants
//! Every store has its place on the horizontal axis.

use crate::shared::prelude::*;

/// The source of the ratio of case 2 to case 1.
const OVER: &str = "case 2 / case 1";

/// Draws the figure.
pub(crate) fn draw(experiment: &Experiment, rows: &[Row]) -> Drawing {
    let stores = systems(rows.iter());
    let own = |metric: &str| {
        Chosen::new(rows, |row| {
            row.experiment == experiment.name && row.operation == "all" && row.metric == metric
        })
    };
    let series = |name: &str, kind: usize, shift: f64, source: &str, metric: &str| {
        let scale = |value: f64| match metric {
            "steps" => value.max(1.0).log10(),
            _ => value,
        };
        let own = own(metric);
        let bars = stores.iter().enumerate().filter_map(|(place, store)| {
            Some((place as f64 + shift, own.mean(store, source, scale)?))
        });
        Series::of_bars(name, kind, Shape::Points, bars)
    };
    let mut ratios = vec![
        series("time", 0, -0.1, OVER, "time_ratio"),
        series("steps", 1, 0.1, OVER, "steps_ratio"),
    ];
    let first = stores.first();
    let printed = first.and_then(|store| own("time_ratio").row(store, OVER, "mean")?.expected);
    ratios.extend(printed.map(|value| {
        let bar = (0.0, (value, Some((value, value))));
        Series::of_bars("the source", 2, Shape::Points, [bar])
    }));
    let mut cases = sources(rows.iter());
    cases.retain(|name| name != OVER);
    let walked = cases.iter().enumerate().map(|(at, case)| {
        let shift = at as f64 * 0.2 - 0.1;
        series(case, at + 3, shift, case, "steps")
    });
    let walked: Vec<Series> = walked.collect();
    let ratio = chart::from_zero(chart::heights(&ratios).chain([1.0]));
    let steps = chart::from_zero(chart::heights(&walked));
    let panel = |title: &str, y, series| {
        Panel::new(title, Axis::of_names("store", stores.clone()), y, series)
    };
    let (over, of_one) = (
        "case 2 (merges first) over case 1 (splits first)",
        "steps of an iteration of the program",
    );
    let y = Axis::log10("reads and writes of the store", steps, 6);
    let panels = [
        panel(over, Axis::plain("ratio", ratio, 7), ratios),
        panel(of_one, y, walked),
    ];
    chart::drawing(experiment, panels, ". Bars: 95 % over seeds, or rounds.")
}
